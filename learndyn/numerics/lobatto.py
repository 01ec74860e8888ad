"""Functions on the unit interval from their values at Gauss–Lobatto nodes: integrals and interpolation.

The nodes are the ends of the interval and the extrema of a Legendre polynomial. A function is the polynomial through
its values there; an analytic one is met to an accuracy that is exponential in the number of nodes, and its integral
over the whole interval with twice the exponent.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre


class Lobatto(NamedTuple):
    """Nodes 0 = τ_1 < … < τ_n = 1, and the matrix Q of integrals: ∫_0^τ_m f = Σ_j Q(m, j) f(τ_j)."""

    nodes: np.ndarray
    integrals: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """The matrix that takes values at the nodes to values at `points`."""
        basis = legendre.legvander(2 * self.nodes - 1, len(self.nodes) - 1)
        return np.linalg.solve(basis.T, legendre.legvander(2 * points - 1, len(self.nodes) - 1).T).T


@cache
def lobatto(count: int) -> Lobatto:
    """The rule with `count` nodes, at least two."""
    highest = legendre.Legendre.basis(count - 1)
    x = np.concatenate([[-1.0], np.sort(highest.deriv().roots().real), [1.0]])
    x = (x - x[::-1]) / 2
    # ∫_{−1}^x P_k = (P_{k+1}(x) − P_{k−1}(x)) / (2k + 1)
    P = legendre.legvander(x, count)
    k = np.arange(1, count)
    primitives = np.column_stack([x + 1, (P[:, 2:] - P[:, :-2]) / (2 * k + 1)])
    integrals = np.linalg.solve(P[:, :count].T, primitives.T).T / 2
    integrals[0] = 0.0
    return Lobatto((x + 1) / 2, integrals)
