"""A triangular factor of a covariance matrix that may be singular."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from learndyn.numerics.arcsin import safe_inverse_root


def psd_factor(C: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Lower-triangular L with L Lᵀ = C, for any symmetric positive semidefinite C.

    Column by column, from the Schur complement S: L_ij = S_ij/√S_jj. Where the pivot S_jj vanishes to rounding
    (S_jj ≤ n·eps·C_jj) the column is zero, and so is its derivative. The cut-off is below
    `covariance.NEGLIGIBLE`, because the pivot may be a loss: with a larger cut-off, a student λ and a teacher ρ with
    ⟨(λ − ρ)²⟩ = 1e-13 would have no loss.
    """
    n = C.shape[0]
    row = jnp.arange(n)
    smallest = n * jnp.finfo(C.dtype).eps * jnp.diagonal(C)

    def column(S: Float[Array, "n n"], j: Int[Array, ""]):
        pivot = S[j, j]
        significant = pivot > smallest[j]
        scale = safe_inverse_root(jnp.where(significant, pivot, 0.0))
        L_j = jnp.where(row >= j, S[:, j] * scale, 0.0)
        return S - jnp.outer(L_j, L_j), L_j

    _, columns = lax.scan(column, C, row)
    return columns.T
