"""Orthant probabilities P(u_0 > 0, u_1 > 0, …) of up to four Gaussian variables.

In terms of their correlations r,

    P_2 = ¼ + asin(r)/2π,    P_3 = ⅛ + Σ asin(r)/4π.

P_4 is not elementary. Its slope is (Plackett 1954)

    ∂P_4/∂r_ij = [¼ + asin(r_kl|ij)/2π] / (2π√(1−r_ij²)),

with r_kl|ij the partial correlation of the other two. The path tR + (1−t)1 leads from independent
variables, P_4 = 1/16, to the given R. On it, with v = 1−t,

    det (tR + v1) = v⁴ + 4v³t + E_2 v²t² + E_3 v t³ + E_4 t⁴,

E_k the sum of the principal minors of order k: no term is negative, so nothing cancels where R is
nearly singular. The integral over t = cos φ is taken with Gauss–Legendre nodes in (2φ/π)^(1/5),
which crowd at t = 1, where nearly dependent variables make the integrand steep. Error: 1e-12 in
general, 1e-10 for nearly collinear variables; exactly collinear ones are exact.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.numerics.arcsin import angle, arcsin, inverse_root, safe_inverse_root
from learndyn.numerics.conditional import PAIRS, cofactors, pair_orthants, tolerance

NODES, GRADING = 48, 5
_x, _w = np.polynomial.legendre.leggauss(NODES)
_s = (_x + 1) / 2
PHI = np.pi / 2 * _s**GRADING
WEIGHT = np.pi / 4 * _w * GRADING * _s ** (GRADING - 1) * np.sin(PHI)


def _row(a: int | np.integer, b: int | np.integer) -> int:
    """The row of the correlation of a and b; 6 is the row of ones."""
    return 6 if a == b else PAIRS.index((min(a, b), max(a, b)))


_OTHERS = np.array([[x for x in range(4) if x not in pair] for pair in PAIRS]).T
# For the pair ab of each row and the other two, c and d: the rows of cd, ac, ad, bc, bd.
_AROUND = np.array(
    [
        [_row(c, d), _row(a, c), _row(a, d), _row(b, c), _row(b, d)]
        for (a, b), (c, d) in zip(PAIRS, _OTHERS.T, strict=True)
    ]
).T
_TRIPLES = np.array([[p for p, pair in enumerate(PAIRS) if i not in pair] for i in range(4)]).T


def snap(r: Float[Array, "..."]) -> Float[Array, "..."]:
    """Correlations within rounding of ±1 become ±1."""
    return jnp.where(1 - jnp.abs(r) <= tolerance(r.dtype), jnp.sign(r), r)


def orthant2(r: Float[Array, "..."]) -> Float[Array, "..."]:
    """P(u_0, u_1 > 0)."""
    return 0.25 + arcsin(r) / (2 * np.pi)


def orthant3(r: Float[Array, "3 ..."]) -> Float[Array, "..."]:
    """P(u_0, u_1, u_2 > 0) for the correlations 01, 02, 12."""
    return 0.125 + jnp.sum(arcsin(r), axis=0) / (4 * np.pi)


@jax.custom_jvp
def orthant4(r: Float[Array, "6 p"]) -> Float[Array, " p"]:
    """P(u_0, …, u_3 > 0) for correlations in the order of `PAIRS`."""
    value = _integral(r)
    triples = orthant3(r[_TRIPLES])
    for row, (_, b) in enumerate(PAIRS):
        # Collinear variables count once, opposite ones are never both positive.
        value = jnp.where(r[row] >= 1, triples[b], jnp.where(r[row] <= -1, 0.0, value))
    return value


@orthant4.defjvp
def _orthant4_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (r,), (dr,) = primals, tangents
    slope = pair_orthants(r) * safe_inverse_root(_rest(r)) / (2 * np.pi)
    return orthant4(r), jnp.sum(slope * dr, axis=0)


def _rest(r: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 − r²."""
    return (1 - r) * (1 + r)


def _integral(r: Float[Array, "6 p"]) -> Float[Array, " p"]:
    """P_4 by the integral along the path of the module's text.

    On it the partial covariance of c and d, times the determinant 1−t²r² of the pair ab, is
    t³N_0 + t²vN_1 + tv²r_cd.
    """
    cd, ac, ad, bc, bd = r[_AROUND]
    T, E_4 = cofactors(r)
    T_c, T_d = T[_OTHERS]
    N_0, N_1 = -jnp.sum(T_c * T_d, axis=1), 2 * cd - ac * ad - bc * bd
    rest = _rest(r)
    E_2, E_3 = jnp.sum(rest, axis=0), jnp.sum(T * T, axis=(0, 1))

    def add(total: Float[Array, "6 p"], node: Float[Array, " 3"]):
        t, v, weight = node
        determinant = v**4 + t * (4 * v**3 + t * (E_2 * v**2 + t * (E_3 * v + t * E_4)))
        pair = t * t * rest + v * (2 * t + v)
        covariance = t * (t * (t * N_0 + v * N_1) + v * v * cd)
        sine = angle(covariance, pair * determinant)
        return total + weight * inverse_root(pair) * sine, None

    # A loop over nodes, not an axis: the coefficients are then evaluated once and stay in cache.
    v = 2 * np.sin(PHI / 2) ** 2
    nodes = jnp.asarray(np.stack([1 - v, v, WEIGHT], axis=1), r.dtype)
    total, _ = jax.lax.scan(add, jnp.zeros_like(r), nodes, unroll=2)
    return 0.0625 + jnp.sum(arcsin(r) / (8 * np.pi) + r * total / (4 * np.pi**2), axis=0)
