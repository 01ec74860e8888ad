"""Error overlaps ⟨v_a·v_b⟩ of two networks that share the data only, or the initial weights only.

Networks a and b follow the same law, so their response functions and kernels M, K are those of a single network; only
the correlations between a and b differ from those within a network. With nothing shared the overlap is the bias. An
ensemble of E networks has the error C_v/E + (1 − 1/E) C_v^ab.
"""

import numpy as np

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    CG,
    CH,
    GU,
    K,
    M,
    RecursionConstants,
    RecursionRows,
    backward,
    errors_row,
    forward,
    forward_identity,
    mix,
    totals,
)
from learndyn.families.deep_linear.limit_numbers import DATASET, STREAM
from learndyn.numerics.lower import (
    LOWER,
    in_place,
    inlined,
    symmetric_times_column,
    times_column,
)


def same_data(rows: RecursionRows, const: RecursionConstants, bias: np.ndarray) -> np.ndarray:
    """C_v^ab = bias + Σ_k ω_k G_u^k C_u^ab G_u^kᵀ, where C_u^ab follows from C_v^ab as C_u from C_v."""
    C_v, C_u = np.zeros(bias.shape), np.zeros(bias.shape)
    _same_data(rows, const, bias, C_v, C_u, scratch.empty(len(bias)))
    return C_v


@in_place
def _same_data(
    rows: RecursionRows,
    const: RecursionConstants,
    bias: np.ndarray,
    C_v: np.ndarray,
    C_u: np.ndarray,
    work: np.ndarray,
):
    """Fill `C_v` and `C_u` row by row."""
    n, Nc = bias.shape[0], const.outputs
    noise_of_v, image, unused = work[scratch.FIELD], work[scratch.IMAGE], work[scratch.UNUSED]
    source, rv = work[scratch.ERROR_SOURCE], work[scratch.FEEDBACK]
    for i in range(n):
        for j in range(i + 1):
            C_v[i, j] = bias[i, j]
        for k in range(len(const.lam)):
            G_u = rows.pairs[k, GU]
            symmetric_times_column(C_u, G_u[i], i, noise_of_v, unused)
            times_column(G_u, noise_of_v, i, LOWER, image)
            for j in range(i):
                C_v[i, j] += const.omega[k] * image[j]
                C_v[i, i] += const.omega[k] * G_u[i, j] * noise_of_v[j]
        for j in range(i + 1):
            source[j] = const.inverse_data * C_v[i, j]
            if j % Nc == i % Nc:
                source[j] += const.inverse_data * const.noise_square
        if const.data == DATASET:
            totals(rows.pairs, GU, i, const.omega, rv)
            for j in range(i + 1):
                rv[j] *= const.inverse_data
            errors_row(i, source, rv, rows.kernels[0, M], C_u, work)
        elif const.data == STREAM:
            for j in range((i // Nc) * Nc, i + 1):
                C_u[i, j] = source[j]


@inlined
def _same_weights_row(
    i: int, pairs: np.ndarray, rows: RecursionRows, const: RecursionConstants, work: np.ndarray
):
    """Row i of the correlations between networks a and b, into `pairs`; the kernels are those of a single network."""
    Nc, L, modes = const.outputs, len(const.rho) - 1, len(const.lam)
    t = i // Nc
    sr, su, below = work[scratch.BACK_NOISE], work[scratch.FORTH_NOISE], work[scratch.C_TOTAL]
    k_mode, sr_mode = work[scratch.MODE_KERNEL], work[scratch.MODE_NOISE]
    for ell in range(L, -1, -1):
        K_matrix = rows.kernels[ell, K]
        if ell == L:
            for j in range(i + 1):
                sr[j] = const.b[t] * const.b[j // Nc] if j % Nc == i % Nc else 0.0
        else:
            factor = const.rho[ell] if ell > 0 else const.rho[0] * const.inverse_width
            b = const.b if ell > 0 else const.b_input
            mix(pairs[modes + ell, CG], i, Nc, const.a, b, factor, sr)
        if ell > 0:
            backward(i, K_matrix[i], sr, pairs[modes + ell - 1], K_matrix, 1.0, work)
    for mode in range(modes):
        lam = const.lam[mode]
        for j in range(i + 1):
            k_mode[j] = lam * rows.kernels[0, K, i, j]
            sr_mode[j] = lam * (sr[j] + const.gram[mode, i % Nc, j % Nc])
            su[j] = 0.0
        backward(i, k_mode, sr_mode, pairs[mode], rows.kernels[0, K], lam, work)
        if const.data == DATASET:
            forward(i, su, pairs[mode], rows.kernels[0, M], work)
        else:
            forward_identity(i, su, pairs[mode])
    for ell in range(1, L + 1):
        for j in range(i + 1):
            below[j] = 0.0
            if ell > 1:
                below[j] = pairs[modes + ell - 2, CH, i, j]
        if ell == 1:
            for mode in range(modes):
                for j in range(i + 1):
                    below[j] += const.omega[mode] * const.lam[mode] * pairs[mode, CH, i, j]
        for j in range(i + 1):
            su[j] = const.d[t] * const.d[j // Nc] * below[j]
        forward(i, su, pairs[modes + ell - 1], rows.kernels[ell, M], work)


@in_place
def _same_weights(
    pairs: np.ndarray, rows: RecursionRows, const: RecursionConstants, work: np.ndarray
):
    """Fill `pairs` row by row."""
    for i in range(pairs.shape[-1]):
        _same_weights_row(i, pairs, rows, const, work)


def same_weights(rows: RecursionRows, const: RecursionConstants, n: int) -> np.ndarray:
    """C_v^ab (lower triangle) of networks with the same initial weights and independent data, for n composite steps."""
    pairs = np.zeros((*rows.pairs.shape[:2], n, n))
    _same_weights(pairs, rows, const, scratch.empty(n))
    return np.einsum("k,kij->ij", const.omega, pairs[: len(const.lam), CG])
