"""Gaussian integrals of g(z) = erf(z/√2), in closed form.

With D_a = 1 + C_aa (Saad & Solla 1995):

    ⟨g_a g_b⟩   = (2/π) asin(C_ab / √(D_a D_b))
    ⟨g'_a g'_b⟩ = (2/π) / √(D_a D_b − C_ab²)
    ⟨g''_a g_c⟩ = −(C_ac / D_a) ⟨g'_a g'_c⟩

g'_a g'_b is a Gaussian weight in (u_a, u_b). It turns the fourth-order average into ⟨g'_a g'_b⟩ times ⟨g_c g_d⟩ under
the covariance C̃ = C − C_{·,ab} (1 + C_{ab,ab})⁻¹ C_{ab,·}: one downdate of C per pair (a, b) serves all (c, d).
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.numerics.arcsin import arcsin, inverse_root
from learndyn.numerics.pairs import chunked, pairs, symmetric

CHUNK, FEWEST = 32_768, 16
"""A pass of the loop over pairs takes `CHUNK` arcsines, so that the temporaries stay in cache, but at least `FEWEST`
pairs."""


class ErfIntegrals(eqx.Module):
    """The averages of erf activations; see the module's text."""

    def products(self, C: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """⟨g_a g_b⟩."""
        h = inverse_root(1 + jnp.diagonal(C))
        return 2 / np.pi * arcsin(C * h[:, None] * h)

    def slopes(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g'_a g'_b⟩ for the first `rows` fields a."""
        D = 1 + jnp.diagonal(C)
        return 2 / np.pi * inverse_root(D[:rows, None] * D - C[:rows] ** 2)

    def curvatures(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g''_a g_c⟩ for the first `rows` fields a."""
        return -C[:rows] / (1 + jnp.diagonal(C))[:rows, None] * self.slopes(C, rows)

    def fourth(self, C: Float[Array, "n n"], a: int, b: int, c: int, d: int) -> Float[Array, ""]:
        """⟨g'_a g'_b g_c g_d⟩."""
        sines = _tilted_sines(C, np.array([a]), np.array([b]))[0]
        slope = self.slopes(C, C.shape[0])[a, b]
        return slope * 2 / np.pi * arcsin(sines[c, d])

    def square(self, C: Float[Array, "n n"], s: Float[Array, " n"], K: int) -> Float[Array, "K K"]:
        """Σ_cd s_c s_d ⟨g'_i g'_k g_c g_d⟩ for the first K fields i, k."""

        def total(
            i: Int[Array, " p"] | Int[np.ndarray, " p"], k: Int[Array, " p"] | Int[np.ndarray, " p"]
        ) -> Float[Array, " p"]:
            return jnp.sum(arcsin(_tilted_sines(C, i, k)) * s[:, None], axis=1) @ s

        sums = chunked(total, pairs(K), max(FEWEST, CHUNK // C.shape[0] ** 2))
        return 2 / np.pi * symmetric(sums, K) * self.slopes(C, K)[:, :K]


def _tilted_sines(
    C: Float[Array, "n n"],
    a: Int[Array, " p"] | Int[np.ndarray, " p"],
    b: Int[Array, " p"] | Int[np.ndarray, " p"],
) -> Float[Array, "p n n"]:
    """C̃_cd / √((1 + C̃_cc)(1 + C̃_dd)) for each of the pairs (a, b).

    C̃ = C − p pᵀ − q qᵀ, with p and q from the Cholesky factor of 1 + C_{ab,ab}.
    """
    D = 1 + jnp.diagonal(C)
    C_a, C_b, C_ab = C[a], C[b], C[a, b]
    determinant = D[a] * D[b] - C_ab**2
    p = C_a * inverse_root(D[a])[:, None]
    q = (C_b * D[a][:, None] - C_a * C_ab[:, None]) * inverse_root(determinant * D[a])[:, None]
    h = inverse_root(D - p * p - q * q)
    p, q = p * h, q * h
    return (
        C * (h[:, :, None] * h[:, None, :])
        - p[:, :, None] * p[:, None, :]
        - q[:, :, None] * q[:, None, :]
    )
