"""Sums over the units of two flows, between two times: Σ_ij α_i(n) α_j(n') δ_{f_i f_j} F(C(n, n'), θ_i·θ_j/d_θ).

i and j are the neurons of the two flows, with the units u = `index[i, n]` and v = `index[j, n']` that they have at
these times, α_i(n) = a_u/h, and fields f; F is the covariance G of the field, or a derivative of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from learndyn.families.neural_ode.units import Units


class Pair(NamedTuple):
    """Two neurons that share a field: `left` is α_i, `right` α_j and `overlap` θ_i·θ_j/d_θ, at all pairs of times.

    Without windows all of them are numbers. `u` and `v` are the numbers of the units (at each time), and `share` is
    1/h of the first flow, so that α_i = a_u · `share`.
    """

    left: Array
    right: Array
    overlap: Array
    u: np.ndarray
    v: np.ndarray
    share: float

    @property
    def windows(self) -> bool:
        """Whether units change with time."""
        return self.u.ndim > 0

    def at(self, n) -> tuple[Array, Array]:
        """α_i α_j and the overlap for the time n of the first flow and all of the second."""
        if not self.windows:
            return self.left * self.right, self.overlap
        return self.left[n, 0] * self.right[0], self.overlap[n]


class Kernel(NamedTuple):
    """All pairs of two flows."""

    pairs: tuple[Pair, ...]

    def row(self, F: Callable, n, q, s=None):
        """The sum for the time n and all times of the second flow: q = C(n, ·), and s that of second states."""
        total = 0.0
        for pair in self.pairs:
            weight, overlap = pair.at(n)
            total = total + weight * F(q, overlap, s)
        return total if self.pairs else jnp.zeros_like(q)

    def whole(self, F: Callable, q, s=None):
        """The sum for all pairs of times."""
        return sum(self.terms(F, q, s), start=jnp.zeros_like(q))

    def terms(self, F: Callable, q, s=None, left: bool = True) -> list[Array]:
        """The terms of the sum, pair by pair; with 1/h in the place of α_i = a_u/h if `left` is False."""
        return [
            (pair.left if left else pair.share) * pair.right * F(q, pair.overlap, s)
            for pair in self.pairs
        ]

    def to_units(self, R, terms: list[Array], shape: tuple[int, int]):
        """Σ_nn' R(n, n') term(n, n') over the times at which units u and v act, as a matrix over units."""
        total = jnp.zeros(shape)
        for pair, term in zip(self.pairs, terms, strict=True):
            if pair.windows:
                left, right = np.eye(shape[0])[pair.u], np.eye(shape[1])[pair.v]
                total = total + left.T @ (R * term) @ right
            else:
                total = total.at[int(pair.u), int(pair.v)].add(jnp.sum(R * term))
        return total


def kernel_of(left: Units, right: Units, a_left, a_right, overlaps) -> Kernel:
    """The kernel of two flows, with the amplitudes of all units and the overlaps between them."""
    changing = any(np.any(units.index != units.index[:, :1]) for units in (left, right))
    pairs = []
    for i, field in enumerate(left.labels):
        for j, other in enumerate(right.labels):
            if field != other:
                continue
            u, v = left.index[i], right.index[j]
            if not changing:
                u, v = u[0], v[0]
            alpha, beta = a_left[u] / left.neurons, a_right[v] / right.neurons
            if changing:
                alpha, beta, overlap = alpha[:, None], beta[None], overlaps[np.ix_(u, v)]
            else:
                overlap = overlaps[u, v]
            pairs.append(Pair(alpha, beta, overlap, u, v, 1 / left.neurons))
    return Kernel(tuple(pairs))
