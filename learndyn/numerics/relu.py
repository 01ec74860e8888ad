"""Gaussian integrals of g(z) = max(z, 0), in closed form but for one smooth one-dimensional integral.

With σ² = C_aa, …, and r the correlation of the two fields (Cho & Saul 2009):

    ⟨g_a g_b⟩   = σ_a σ_b [√(1−r²) + r(π/2 + asin r)] / 2π
    ⟨g'_a g'_b⟩ = ¼ + asin(r)/2π
    ⟨g''_a g_c⟩ = (σ_c/σ_a) √(1−r²) / 2π

The fourth-order averages are second moments over an orthant. For the set D of distinct fields among a, b, c, d, in
units of the standard deviations and by partial integration,

    ⟨u_c u_d Π_D Θ⟩ = r_cd P_D + Σ_{q<r∈D} p_qr [m_c m_d (1−ρ) − δ_c δ_d (1+ρ)] / (π√(1−ρ²)),

with ρ = r_qr, m_c = (r_cq + r_cr)/2, δ_c = (r_cq − r_cr)/2, P_D the orthant probability of D and p_qr that of the other
fields given u_q = u_r = 0. The bracket vanishes as fast as 1−ρ² when u_q and u_r become collinear.

g'(0) = 0, so a field of zero variance has no slope. Near collinear fields the averages depend on C through √(1−r²), and
rounding of C shows at the level of 1e-8; exactly collinear fields are exact.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.numerics.arcsin import arcsin, root, safe_inverse_root
from learndyn.numerics.conditional import correlation_table, pair_orthants
from learndyn.numerics.orthant import orthant2, orthant3, orthant4, snap
from learndyn.numerics.pairs import chunked

CHUNK = 2048
"""Sets of fields per pass: small enough for the temporaries to stay in cache."""


class ReluIntegrals(eqx.Module):
    """The averages of relu activations; see the module's text."""

    def products(self, C: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """⟨g_a g_b⟩."""
        sigma, r = correlations(C)
        return sigma[:, None] * sigma * _kappa(r) / (2 * np.pi)

    def slopes(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g'_a g'_b⟩ for the first `rows` fields a."""
        sigma, r = correlations(C)
        alive = (sigma > 0).astype(C.dtype)
        return alive[:rows, None] * alive * orthant2(r[:rows])

    def curvatures(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g''_a g_c⟩ for the first `rows` fields a."""
        sigma, r = correlations(C)
        inverse = safe_inverse_root(jnp.diagonal(C)[:rows])
        return inverse[:, None] * sigma * root((1 - r[:rows]) * (1 + r[:rows])) / (2 * np.pi)

    def fourth(self, C: Float[Array, "n n"], a: int, b: int, c: int, d: int) -> Float[Array, ""]:
        """⟨g'_a g'_b g_c g_d⟩."""
        sigma, r = correlations(C)
        D = sorted({a, b, c, d})
        first, second = (np.array(D)[x] for x in np.triu_indices(len(D), 1))
        value = _second_moments(r[first, second][:, None], len(D))[D.index(c), D.index(d), 0]
        alive = (sigma[a] > 0) & (sigma[b] > 0)
        return jnp.where(alive, sigma[c] * sigma[d] * value, 0.0)

    def square(self, C: Float[Array, "n n"], s: Float[Array, " n"], K: int) -> Float[Array, "K K"]:
        """Σ_cd s_c s_d ⟨g'_i g'_k g_c g_d⟩ for the first K fields i, k: a sum over sets D of one to four fields."""
        sigma, r = correlations(C)
        weight = s * sigma
        total = jnp.diag(0.5 * weight[:K] ** 2)
        for size in (2, 3, 4):
            total = total + _square_from_sets(weight, r, K, size)
        alive = (sigma[:K] > 0).astype(C.dtype)
        return alive[:, None] * alive * total


def correlations(C: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Standard deviations and the correlation matrix; a field of zero variance is uncorrelated with all others."""
    variance = jnp.diagonal(C)
    h = safe_inverse_root(variance)
    r = snap(C * h[:, None] * h)
    return root(variance), jnp.where(np.eye(C.shape[0], dtype=bool), 1.0, r)


@jax.custom_jvp
def _kappa(r: Float[Array, "..."]) -> Float[Array, "..."]:
    """√(1−r²) + r(π/2 + asin r), with slope π/2 + asin r; both are regular at r = ±1."""
    return root((1 - r) * (1 + r)) + r * (np.pi / 2 + arcsin(r))


@_kappa.defjvp
def _kappa_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (r,), (dr,) = primals, tangents
    return _kappa(r), (np.pi / 2 + arcsin(r)) * dr


def _second_moments(r: Float[Array, "m p"], size: int) -> Float[Array, "size size p"]:
    """⟨y_c y_d Π_D Θ(y)⟩ for unit-variance fields y and every c, d in D.

    `r` holds the correlations 01, 02, …, 12, … of the fields in D.
    """
    if size == 1:
        return jnp.full((1, 1, r.shape[-1]), 0.5, r.dtype)
    if size == 2:
        P, p = orthant2(r[0]), jnp.ones_like(r)
    elif size == 3:
        P, p = orthant3(r), jnp.full_like(r, 0.5)
    else:
        P, p = orthant4(r), pair_orthants(r)
    table = correlation_table(r, size)
    first, second = np.triu_indices(size, 1)
    m, delta = (table[:, first] + table[:, second]) / 2, (table[:, first] - table[:, second]) / 2
    weight = p * safe_inverse_root((1 - r) * (1 + r)) / np.pi
    terms = (weight * (1 - r) * m)[:, None] * m - (weight * (1 + r) * delta)[:, None] * delta
    return table * P + jnp.sum(terms, axis=2)


def _square_from_sets(
    weight: Float[Array, " n"], r: Float[Array, "n n"], K: int, size: int
) -> Float[Array, "K K"]:
    """The contribution to `square` of the sets D of `size` fields: the terms with {i, k} ∪ {c, d} = D."""
    # A set of four has no term with i = k, and so needs two students.
    students = 2 if size == 4 else 1
    every = itertools.combinations(range(r.shape[0]), size)
    sets = np.array([D for D in every if D[students - 1] < K]).reshape(-1, size).T
    if not sets.size:
        return jnp.zeros((K, K), r.dtype)
    positions, counts = _splits(size)
    a, b = np.triu_indices(size, 1)

    def terms(*D: Array | np.ndarray) -> Array:
        fields = jnp.stack([jnp.asarray(x) for x in D])
        w = weight[fields]
        moments = w[:, None] * w * _second_moments(r[fields[a], fields[b]], size)
        return jnp.asarray(counts) @ moments.reshape(size * size, -1)

    values = chunked(terms, tuple(sets), CHUNK)
    i, k = sets[positions[:, 0]], sets[positions[:, 1]]
    inside = np.flatnonzero(k < K)
    rows, columns = i.ravel()[inside], k.ravel()[inside]
    half = jnp.zeros((K, K), r.dtype).at[rows, columns].add(values.ravel()[inside])
    return half + half.T - jnp.diag(jnp.diagonal(half))


def _splits(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions (i, k), i ≤ k, in a set D, and for each the entries (c, d) that complete it.

    A completing entry, {i, k} ∪ {c, d} = D, is marked by a one in a flat size×size table.
    """
    positions, counts = [], []
    for i, k in itertools.combinations_with_replacement(range(size), 2):
        table = np.array(
            [[len({i, k, c, d}) == size for d in range(size)] for c in range(size)], dtype=float
        )
        if table.any():
            positions.append((i, k))
            counts.append(table.ravel())
    return np.array(positions), np.array(counts)
