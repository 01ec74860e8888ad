"""Rules for long trainings: a few nodes in a panel of training time stand for all of its steps.

Between the nodes 0 < c_1 < … < c_s = 1 of a panel of length h the force F on a weight is the polynomial through its
values there, so that W(c_i) = W(0) + Σ_j a_ij F(c_j). Gradient flow integrates the polynomial (Radau IIA, of order
2s − 1 at the end of a panel, stable for any h); gradient descent sums it over the steps of the panel,

    a_ij = Σ_{m=0}^{q_i − 1} ℓ_j(m),     q_i = h c_i,

a polynomial in q_i, so that nodes need not be whole numbers. They are the Gauss nodes of the weight h − m on the steps
m, and h itself: for long panels those of Radau.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre


class PanelRule(NamedTuple):
    """The nodes of a panel as parts of it, and the sums or integrals a of the interpolating polynomials up to them."""

    nodes: Float[np.ndarray, " s"]
    sums: Float[np.ndarray, "s s"]

    def interpolate(self, parts: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k s+1"]:
        """The matrix from values at the beginning and at the nodes of a panel to values at `parts` of it."""
        known = np.concatenate([[0.0], self.nodes])
        powers = np.arange(len(known))
        return np.linalg.solve((known[:, None] ** powers).T, (parts[:, None] ** powers).T).T


@lru_cache
def radau(count: int) -> PanelRule:
    """Integrals over a panel of length one."""
    difference = np.zeros(count + 1)
    difference[count], difference[count - 1] = 1.0, -1.0
    nodes = (np.sort(legendre.legroots(difference).real) + 1) / 2
    nodes[-1] = 1.0
    powers = np.arange(1, count + 1)
    values, integrals = nodes[:, None] ** (powers - 1), nodes[:, None] ** powers / powers
    return PanelRule(nodes, np.linalg.solve(values.T, integrals.T).T)


@lru_cache(maxsize=1024)
def summed(count: int, steps: int) -> PanelRule:
    """Sums over a panel of this many steps, at least as many as nodes; divided by the number of steps."""
    nodes = np.append(_hahn_nodes(count - 1, steps), float(steps))
    # Falling factorials m(m − 1)…(m − k + 1) sum to those of the next degree.
    falling = [np.ones(count)]
    for k in range(count):
        falling.append(falling[-1] * (nodes - k) / steps)
    values = np.stack(falling[:count], axis=1)
    sums = np.stack([falling[k + 1] / (k + 1) for k in range(count)], axis=1)
    return PanelRule(nodes / steps, np.linalg.solve(values.T, sums.T).T)


def _hahn_nodes(count: int, steps: int) -> Float[np.ndarray, " count"]:
    """The Gauss nodes of the weight steps − m on m = 0 … steps − 1: roots of a Hahn polynomial (α = 0, β = 1)."""
    n, N = np.arange(count, dtype=float), steps - 1.0
    A = (n + 2) * (n + 1) * (N - n) / ((2 * n + 2) * (2 * n + 3))
    C = n * (n + 2 + N) * (n + 1) / (np.maximum(2 * n + 1, 1) * (2 * n + 2))
    off = np.sqrt(A[:-1] * C[1:])
    return np.linalg.eigvalsh(np.diag(A + C) + np.diag(off, 1) + np.diag(off, -1))
