"""The probability that two of four Gaussian variables are positive, given that the other two are zero.

It is ¼ + asin(ρ)/2π with the partial correlation ρ_cd|ab = −A_cd/√(A_cc A_dd), A = adj R. Averages over
an orthant are sums of such probabilities, and are regular where R is singular; the single terms are
not, and depend on how the singular matrix is approached. So all of them must belong to the
same set of four vectors whose scalar products are R, to rounding. These are the rows of a Cholesky
factor L with complete pivoting, in which pivots that vanish to rounding are replaced by a tiny
number. With T the cofactors of L, A = T Tᵀ, and the angle between two rows of T is exact to rounding
however short they are.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from learndyn.numerics.arcsin import angle

PAIRS = tuple(itertools.combinations(range(4), 2))
"""The order of the six correlations of four variables: 01, 02, 03, 12, 13, 23."""

_OTHERS = np.array([[x for x in range(4) if x not in pair] for pair in PAIRS]).T
_REST = np.array([[x for x in range(4) if x != i] for i in range(4)])
_SIGN = (-1.0) ** np.add.outer(np.arange(4), np.arange(4))[..., None]

TINY = 1e-13
"""The square root that replaces a vanishing pivot. It changes results by this order."""


def tolerance(dtype: np.dtype) -> float:
    """1−|r|, and pivots of correlation matrices, below this are zero to rounding."""
    return 4 * float(jnp.finfo(dtype).eps)


def correlation_table(r: Float[Array, "m p"], size: int) -> Float[Array, "size size p"]:
    """The full matrix from its upper triangle, listed as by `itertools.combinations`."""
    where = np.full((size, size), len(r))
    a, b = np.triu_indices(size, 1)
    where[a, b] = where[b, a] = np.arange(len(a))
    return jnp.concatenate([r, jnp.ones_like(r[:1])])[where]


def pair_orthants(r: Float[Array, "6 p"]) -> Float[Array, "6 p"]:
    """For each of `PAIRS`: the probability that the other two are positive if the pair is zero."""
    T, _ = cofactors(r)
    T_c, T_d = T[_OTHERS]
    k, l = np.triu_indices(4, 1)
    area = T_c[:, k] * T_d[:, l] - T_c[:, l] * T_d[:, k]
    return 0.25 - angle(jnp.sum(T_c * T_d, axis=1), jnp.sum(area**2, axis=1)) / (2 * np.pi)


def cofactors(r: Float[Array, "6 p"]) -> tuple[Float[Array, "4 4 p"], Float[Array, " p"]]:
    """T with T Tᵀ = adj R, and det R. Their derivatives are given as 0 where R is singular."""
    L, root, singular = _vectors(correlation_table(r, 4))
    L = jnp.where(singular, jax.lax.stop_gradient(L), L)
    minor = L[_REST[:, None, :, None], _REST[None, :, None, :]]
    (a, b, c), (d, e, f), (g, h, i) = jnp.moveaxis(minor, (2, 3), (0, 1))
    T = _SIGN * (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g))
    # The compiler may evaluate an expression again, with other roundings, wherever it is used. The
    # operand of a matrix product it evaluates once, so that all pairs see the same vectors.
    T = (np.eye(16, dtype=L.dtype) @ T.reshape(16, -1)).reshape(T.shape)
    return T, root * root


def _vectors(
    S: Float[Array, "4 4 p"],
) -> tuple[Float[Array, "4 4 p"], Float[Array, " p"], Bool[Array, " p"]]:
    """Four vectors (rows) with scalar products S, √det S, and whether S is singular to rounding."""
    columns, left, volume = [], jnp.ones_like(S[0]), jnp.ones_like(S[0, 0])
    singular = volume < 0
    for _ in range(4):
        diagonal = S[np.arange(4), np.arange(4)]
        largest = jnp.argmax(jnp.where(left > 0, diagonal, -1.0), axis=0)
        chosen = (np.arange(4)[:, None] == largest).astype(S.dtype)
        pivot = jnp.sum(chosen * diagonal, axis=0)
        positive = pivot > tolerance(S.dtype)
        singular = ~positive
        root = jnp.sqrt(jnp.where(positive, pivot, 1.0))
        column = jnp.where(positive, jnp.sum(chosen * S, axis=1) * left / root, TINY * chosen)
        S = S - column[:, None] * column
        left = left * (1 - chosen)
        volume = volume * jnp.where(positive, root, TINY)
        columns.append(column)
    return jnp.stack(columns, axis=1), volume, singular
