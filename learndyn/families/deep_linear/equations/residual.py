"""The row recursion of a residual network, h^{ℓ+1} = h^ℓ + β (W^ℓ/√N) h^ℓ.

The fields of all layers are correlated. Seen from layer ℓ, however, everything above it is one linear causal device
g^ℓ = K^ℓ h^ℓ + ζ^ℓ, and everything below it is another, h^ℓ = M^ℓ g^ℓ + κ^ℓ, with independent noises
ζ^ℓ ~ N(0, Γ^ℓ) and κ^ℓ ~ N(0, Σ^ℓ). So every layer is again the pair of `feedforward`, with S_u = Σ^ℓ and
S_r = Γ^ℓ. A block

    h^{ℓ+1} = h^ℓ + βu + βA g^{ℓ+1},    g^ℓ = g^{ℓ+1} + βr + βB h^ℓ,    u ~ N(0, C_h^ℓ),  r ~ N(0, C_g^{ℓ+1}),
    A = β H_r^ℓ + γ_0 β κ∘C_h^ℓ,    B = β G_u^{ℓ+1} + γ_0 β κ∘C_g^{ℓ+1},

carries the devices from one layer to the next, and does so by two more such pairs:

- *up*, the block with everything above it, h^ℓ held fixed: M = βA, K = K^{ℓ+1}, S_u = β²C_h^ℓ, S_r = Γ^{ℓ+1}. Then
  K^ℓ = G_u + βB and Γ^ℓ = C_g + β²C_g^{ℓ+1} with the G_u and C_g of this pair;
- *down*, the block with everything below it, g^{ℓ+1} held fixed: M = M^ℓ, K = βB, S_u = Σ^ℓ, S_r = β²C_g^{ℓ+1}. Then
  M^{ℓ+1} = H_r + βA and Σ^{ℓ+1} = C_h + β²C_h^ℓ.

The last layer sees the readout above it, the first one the input below it, as in `feedforward`. Increments,
weight decay, several outputs and input modes enter as there. Cost: three pairs for each block
instead of one, O((3L + K) T³).
"""

from typing import NamedTuple

import numpy as np

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    CG,
    CH,
    GU,
    HR,
    K,
    M,
    RecursionConstants,
    RecursionRows,
    backward,
    decayed_row,
    forward,
    input_backward,
    input_forward,
    learnt_row,
    mix,
    readout_row,
    revealed_row,
)
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.numerics.lower import in_place, inlined


class ResidualBlocks(NamedTuple):
    """The residual blocks ℓ = 1 … L − 1: the pairs *up* and *down*, and the kernels βA and βB."""

    up: np.ndarray
    down: np.ndarray
    A: np.ndarray
    B: np.ndarray


def empty_blocks(rows: RecursionRows) -> ResidualBlocks:
    """Zeros for the blocks between the layers of `rows`."""
    n, blocks = rows.C_Delta.shape[0], len(rows.kernels) - 2
    pairs, kernels = (blocks, 6, n, n), (blocks, n, n)
    return ResidualBlocks(np.zeros(pairs), np.zeros(pairs), np.zeros(kernels), np.zeros(kernels))


def memory(numbers: LimitNumbers, steps: int) -> float:
    """Bytes that `empty_blocks` takes for steps 0 … `steps`."""
    n = (steps + 1) * numbers.outputs
    return 8.0 * n * n * 14 * (numbers.depth - 1)


@inlined
def _backward_half(
    i: int,
    rows: RecursionRows,
    blocks: ResidualBlocks,
    const: RecursionConstants,
    square: float,
    work: np.ndarray,
):
    """Row i of all backward functions, from the readout to the input; `square` is β²."""
    L, modes = len(const.rho) - 1, len(const.lam)
    k, sr, noise = work[scratch.BACK_KERNEL], work[scratch.BACK_NOISE], work[scratch.BRANCH_NOISE]
    readout_row(i, const.outputs, const.b, const.kappa, k, sr)
    for ell in range(L, 0, -1):
        if ell < L:
            above, block = rows.pairs[modes + ell], ell - 1
            up, down, B = blocks.up[block], blocks.down[block], blocks.B[block]
            learnt_row(i, above, const, square, B[i], work[scratch.FULL])
            backward(i, k, sr, up, rows.kernels[ell + 1, K], 1.0, work)
            mix(above[CG], i, const.outputs, const.a, const.b, square, noise)
            backward(i, B[i], noise, down, B, 1.0, work)
            for j in range(i + 1):
                k[j] = up[GU, i, j] + B[i, j]
                sr[j] = up[CG, i, j] + noise[j]
        K_matrix = rows.kernels[ell, K]
        for j in range(i + 1):
            K_matrix[i, j] = k[j]
        backward(i, k, sr, rows.pairs[modes + ell - 1], K_matrix, 1.0, work)
    input_backward(i, rows, const, k, sr, work)


@inlined
def _forward_half(
    i: int,
    rows: RecursionRows,
    blocks: ResidualBlocks,
    const: RecursionConstants,
    square: float,
    work: np.ndarray,
):
    """Row i of all forward functions, from the data to the last layer; `square` is β²."""
    L, modes = len(const.rho) - 1, len(const.lam)
    sigma, noise = work[scratch.FORTH_NOISE], work[scratch.BRANCH_NOISE]
    input_forward(i, rows, const, sigma, work)
    for ell in range(1, L):
        layer, block = rows.pairs[modes + ell - 1], ell - 1
        up, down, A = blocks.up[block], blocks.down[block], blocks.A[block]
        revealed_row(i, layer[HR, i], layer[CH, i], const, const.b, 1.0, A[i])
        for j in range(i + 1):
            A[i, j] *= square
        decayed_row(i, const.outputs, layer[CH, i], const.d, square, noise)
        forward(i, noise, up, A, work)
        forward(i, sigma, down, rows.kernels[ell, M], work)
        m = rows.kernels[ell + 1, M, i]
        for j in range(i + 1):
            m[j] = down[HR, i, j] + A[i, j]
            sigma[j] = down[CH, i, j] + noise[j]
        forward(i, sigma, rows.pairs[modes + ell], rows.kernels[ell + 1, M], work)


def advance_residual(
    first: int,
    last: int,
    rows: RecursionRows,
    blocks: ResidualBlocks,
    const: RecursionConstants,
    beta: float,
) -> None:
    """Compute the rows of steps `first` … `last` − 1 in place, with the branch scale β."""
    work = scratch.empty(rows.C_Delta.shape[0])
    _advance_residual(first, last, rows, blocks, const, beta, work)


@in_place
def _advance_residual(
    first: int,
    last: int,
    rows: RecursionRows,
    blocks: ResidualBlocks,
    const: RecursionConstants,
    beta: float,
    work: np.ndarray,
):
    """`advance_residual`, with an array for temporary rows."""
    for i in range(first * const.outputs, last * const.outputs):
        _backward_half(i, rows, blocks, const, beta * beta, work)
        _forward_half(i, rows, blocks, const, beta * beta, work)
