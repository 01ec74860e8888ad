"""Sums over long rows in float64, also of single-precision rows."""

import numpy as np

CHUNK = 1024
"""Entries that are summed in single precision before they join the sum in double precision."""

FEW, LARGE = 16, 2**20
"""Up to so many rows, with arrays of so many numbers or more, compiled sums are faster than those of BLAS."""


def sums(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ_i x_ki y_li for all rows k and l."""
    if x.dtype != np.float32 or y.dtype != np.float32:
        return x @ y.T
    total = np.zeros((len(x), len(y)))
    if len(x) <= FEW and y.size >= LARGE and len(y) >= 4:
        # Not at the top: only large programs wait for numba.
        from learndyn.numerics.skinny import add_sums

        add_sums(np.ascontiguousarray(x), np.ascontiguousarray(y), total)
        return total
    for start in range(0, x.shape[1], CHUNK):
        part = slice(start, start + CHUNK)
        total += x[:, part] @ y[:, part].T
    return total


def squares(x: np.ndarray) -> np.ndarray:
    """Σ_i x_ki² for all rows k."""
    if x.dtype != np.float32:
        return np.einsum("ki,ki->k", x, x)
    whole = x.shape[1] - x.shape[1] % CHUNK
    chunks, end = x[:, :whole].reshape(len(x), -1, CHUNK), x[:, whole:]
    total = np.einsum("kci,kci->kc", chunks, chunks).sum(axis=1, dtype=np.float64)
    return total + np.einsum("ki,ki->k", end, end)


def combined(coefficients: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Σ_l c_kl rows_l, in the precision of the rows."""
    return coefficients.astype(rows.dtype, copy=False) @ rows
