"""Quadrature rules for averages over independent standard normals.

Up to three dimensions: a product of trapezoidal grids. For a function analytic in a strip the trapezoidal rule against
a Gaussian weight converges exponentially in the number of points per axis, faster than Gauss–Hermite for functions such
as tanh whose poles are near. Replicates are grids with different shifts, in a different order along every axis. Their
mean is far more accurate than each of them, so their spread does not measure its error; compare with a coarser rule
instead.

Above three dimensions: Sobol' points with Owen's scrambling, mapped by the inverse normal distribution, then shifted
and rotated so that their means vanish and their covariance is the identity.

Every rule carries a second rule, a two-dimensional grid, for averages over two fields only.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from learndyn.errors import ProblemError

GRID_DIMENSIONS = 3
"""Rules are grids up to this many dimensions."""
PAIR_POINTS = 40
"""Points per axis of the grid for averages over two fields."""
WIDEST = 9.0
"""The largest half-width of a grid; the normal density has fallen to 1e-18 there."""


class GaussianRule(NamedTuple):
    """Points and weights of a quadrature rule, with a leading axis for replicates unless there is a single one.

    It is a pytree, so that `jax.vmap` over a rule runs over its replicates.
    """

    points: Float[Array, "*replicates S n"] | Float[np.ndarray, "*replicates S n"]
    weights: Float[Array, "*replicates S"] | Float[np.ndarray, "*replicates S"]
    pairs: "GaussianRule | None" = None
    """The rule for averages over two fields only, where a grid is far more accurate."""

    def replicate(self, r: int) -> "GaussianRule":
        """The r-th replicate alone."""
        pairs = None if self.pairs is None else self.pairs.replicate(r)
        return GaussianRule(self.points[r], self.weights[r], pairs)


def gaussian_rule(
    n: int,
    points: int,
    replicates: int,
    seed: int,
    match_moments: bool = True,
    pair_points: int = PAIR_POINTS,
) -> GaussianRule:
    """`replicates` rules of about `points` points each for averages over n independent standard normals.

    Replicates are shifted grids (n ≤ 3; `seed` plays no part) or independent scrambles, whose spread is their error.
    The number of points is rounded to a full grid, or to a power of two. `pair_points` are those per axis of the grid
    for averages over two fields.
    """
    for name, value, least in (("n", n, 1), ("points", points, 4), ("replicates", replicates, 1)):
        if value < least:
            raise ProblemError(f"gaussian_rule.{name}", value, f"must be at least {least}")
    pairs = _grids(2, pair_points, replicates)
    if n <= GRID_DIMENSIONS:
        return _grids(n, max(2, round(points ** (1 / n))), replicates)._replace(pairs=pairs)
    return quasi_random_rule(n, points, replicates, seed, match_moments)._replace(pairs=pairs)


def _grids(n: int, per_axis: int, replicates: int) -> GaussianRule:
    # Balances the tail beyond the grid, exp(−L²/2), with the aliasing error of a function whose poles are at distance
    # 3/2 from the real axis, exp(−2π·(3/2)/h), h = 2L/per_axis.
    end = min((3 * np.pi * per_axis) ** (1 / 3), WIDEST)
    h = 2 * end / per_axis
    # Every axis has all shifts, each axis in its own order: with the same order the replicates would share the aliasing
    # error of functions of a difference of two axes. The orders are fixed, so that a grid is always the same.
    rng = np.random.default_rng(0)
    shifts = np.stack([rng.permutation(replicates) + 0.5 for _ in range(n)], axis=1) / replicates
    all_points, all_weights = [], []
    for shift in shifts:
        x = h * (np.arange(per_axis)[:, None] + shift) - end
        w = np.exp(-0.5 * x * x)
        w /= w.sum(axis=0)
        axes = np.meshgrid(*x.T, indexing="ij")
        all_points.append(np.stack([axis.ravel() for axis in axes], axis=-1))
        all_weights.append(functools.reduce(np.multiply.outer, w.T).ravel())
    return GaussianRule(np.stack(all_points), np.stack(all_weights))


def quasi_random_rule(
    n: int, points: int, replicates: int, seed: int, match_moments: bool = True
) -> GaussianRule:
    """`replicates` independent scrambles of Sobol' points in n dimensions, 2^k of them with 2^k nearest to `points`."""
    # Imported here, because it is slow and rarely needed.
    from scipy.stats import qmc

    if match_moments and points < 4 * n:
        allowed = f"must be at least {4 * n} to match the moments of {n} variables"
        raise ProblemError("points", points, allowed)
    log_points = round(np.log2(points))
    S = 2**log_points
    children = np.random.SeedSequence(seed).spawn(replicates)
    sets = []
    for child in children:
        uniform = qmc.Sobol(n, scramble=True, rng=np.random.default_rng(child)).random_base2(
            log_points
        )
        # Sobol' points may touch 0, where the inverse normal is infinite.
        z = ndtri(np.clip(uniform, 2.0**-53, 1 - 2.0**-53))
        if match_moments:
            z = z - z.mean(axis=0)
            z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / S)).T
        sets.append(z)
    return GaussianRule(np.stack(sets), np.full((replicates, S), 1.0 / S))
