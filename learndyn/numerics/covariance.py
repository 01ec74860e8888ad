"""Square roots of covariance matrices that may be singular."""

import math

import numpy as np

NEGLIGIBLE = 1e-12
"""Variances below this fraction of the largest are taken to be zero up to rounding."""


def covariance_root(C: np.ndarray, *, rank: bool = False) -> np.ndarray:
    """F with F Fᵀ = C: eigenvectors times √eigenvalues, columns that are orthogonal to each other.

    Columns whose eigenvalue is not above `NEGLIGIBLE` times the largest are zero; with `rank` they are left out.
    Several matrices may be given along leading axes, but not with `rank`.
    """
    values, vectors = np.linalg.eigh(C)
    significant = values > NEGLIGIBLE * np.max(values, axis=-1, keepdims=True, initial=0.0)
    F = vectors * np.sqrt(np.where(significant, values, 0.0))[..., None, :]
    return F[:, significant] if rank else F


def whitener(F: np.ndarray) -> np.ndarray:
    """(F⁺)ᵀ = F_ik/Σ_j F_jk², the transposed pseudo-inverse of orthogonal columns; zero columns stay zero.

    For F of `covariance_root` it is a root of the pseudo-inverse of C: x with covariance C is F ξ with ξ = F⁺x, and of
    y with ⟨y xᵀ⟩ = R the part along ξ is R (F⁺)ᵀ ξ.
    """
    square = np.sum(F**2, axis=0)
    return F / np.where(square > 0, square, 1.0)


def lower_root(C: np.ndarray) -> np.ndarray:
    """L with L Lᵀ = C, lower triangular: L_ij = (C_ij − Σ_k<j L_ik L_jk)/L_jj.

    A column is zero if its row adds no dimension: if the part of the variance C_jj that earlier rows do not explain is
    at most `NEGLIGIBLE` times C_jj. Dividing by the root of a rounding error would turn a zero into √ε.
    """
    L = np.zeros_like(C)
    for j in range(len(C)):
        rest = C[j:, j] - L[j:, :j] @ L[j, :j]
        if rest[0] > NEGLIGIBLE * C[j, j]:
            L[j:, j] = rest / math.sqrt(rest[0])
    return L
