"""The row recursion of infinite depth: residual blocks of β² = β_0²/L as L → ∞, along the layer time τ = ℓ/L in [0, 1].

The devices of `residual`, g = K h + ζ with ζ ~ N(0, Γ) for everything above τ and h = M g + κ with κ ~ N(0, Σ) for
everything below, become functions of τ. To first order in β² its pairs *up* and *down* are

    −K' = β_0² (B + K A K),    −Γ' = β_0² (D_g + K D_h Kᵀ + K A Γ + Γ Aᵀ Kᵀ),
     M' = β_0² (A + M B M),     Σ' = β_0² (D_h + M D_g Mᵀ + M B Σ + Σ Bᵀ Mᵀ),

    A = d(t) H_r E + γ_0 (κ∘C_h) Γ_0,    B = d(t) G_u d(s) + κ∘C_g,    D_h = d(t) C_h d(s),    D_g = mix(C̃_g),

where H_r, G_u, C_h and C̃_g are those of the pair of `feedforward` with S_u = Σ and S_r = Γ at the same τ. E, mix and
the Γ_0 of the increments (called Γ there) are as in `feedforward`. K and Γ start at τ = 1 from the readout; M and Σ
start at τ = 0 from the input, which sees C_g and G_u at τ = 0.

All functions of τ are stored at Gauss–Lobatto nodes; each node is a layer of `RecursionRows`. Row t of K and Γ follows
from earlier rows, and then row t of M and Σ (`layer_time_sweeps`).
"""

from typing import NamedTuple

import numpy as np

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    CG,
    CH,
    HR,
    K,
    M,
    RecursionConstants,
    RecursionRows,
    backward,
    decayed_row,
    forward,
    learnt_row,
    mix,
    revealed_row,
)
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.numerics.lower import (
    LOWER,
    both_sides_of_lower,
    inner,
    row_times,
    symmetric_times_column,
    times_column,
)


class NodeFunctions(NamedTuple):
    """Functions at the nodes of τ, beside those in `RecursionRows`. Symmetric functions fill their lower triangle."""

    A: np.ndarray
    B: np.ndarray
    D_h: np.ndarray
    D_g: np.ndarray
    Sigma: np.ndarray
    Gamma: np.ndarray


def empty_nodes(rows: RecursionRows) -> NodeFunctions:
    """Zeros for the functions at the nodes, which are the layers of `rows`."""
    n, nodes = rows.C_Delta.shape[0], len(rows.kernels) - 1
    return NodeFunctions(*(np.zeros((nodes, n, n)) for _ in NodeFunctions._fields))


def memory(numbers: LimitNumbers, steps: int) -> float:
    """Bytes that `empty_nodes` takes for steps 0 … `steps`."""
    n = (steps + 1) * numbers.outputs
    return 8.0 * n * n * len(NodeFunctions._fields) * numbers.depth


@inner
def above(
    i: int,
    node: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    lane: np.ndarray,
    work: np.ndarray,
):
    """f(y) − y for row i of K and Γ at a node; also updates the node's pair, B and D_g."""
    pair, K_matrix = rows.pairs[len(const.lam) + node], rows.kernels[node + 1, K]
    k, sr, k_rate, sr_rate = lane[0, node], lane[1, node], lane[2, node], lane[3, node]
    B, D_g = nodes.B[node], nodes.D_g[node]
    backward(i, k, sr, pair, K_matrix, 1.0, work)
    learnt_row(i, pair, const, 1.0, B[i], work[scratch.FULL])
    mix(pair[CG], i, const.outputs, const.a, const.b, 1.0, D_g[i])
    kA, z, Ag = work[scratch.SECOND_PRODUCT], work[scratch.FIELD], work[scratch.IMAGE]
    Kz, unused = work[scratch.PRODUCT], work[scratch.UNUSED]
    both_sides_of_lower(k, nodes.A[node], sr, i, kA, Ag)
    row_times(kA, K_matrix, i, LOWER, k_rate)
    symmetric_times_column(nodes.D_h[node], k, i, z, unused)
    symmetric_times_column(nodes.Gamma[node], kA, i, sr_rate, unused)
    diagonal = D_g[i, i] - sr[i]
    for j in range(i):
        diagonal += k[j] * (z[j] + 2.0 * Ag[j])
        z[j] += Ag[j]
    times_column(K_matrix, z, i, LOWER, Kz)
    for j in range(i):
        k_rate[j] += B[i, j] - k[j]
        sr_rate[j] += D_g[i, j] + Kz[j] - sr[j]
    k_rate[i], sr_rate[i] = 0.0, diagonal


@inner
def below(
    i: int,
    node: int,
    rows: RecursionRows,
    nodes: NodeFunctions,
    const: RecursionConstants,
    lane: np.ndarray,
    work: np.ndarray,
):
    """f(y) − y for row i of M and Σ at a node; also updates the node's pair, A and D_h."""
    pair, M_matrix = rows.pairs[len(const.lam) + node], rows.kernels[node + 1, M]
    m, su, m_rate, su_rate = lane[0, node], lane[1, node], lane[2, node], lane[3, node]
    A, D_h, e = nodes.A[node], nodes.D_h[node], i + 1
    for j in range(e):
        M_matrix[i, j] = m[j]
    forward(i, su, pair, M_matrix, work)
    revealed_row(i, pair[HR, i], pair[CH, i], const, const.b, 1.0, A[i])
    decayed_row(i, const.outputs, pair[CH, i], const.d, 1.0, D_h[i])
    mB, z, Bs = work[scratch.SECOND_PRODUCT], work[scratch.FIELD], work[scratch.IMAGE]
    Mz, unused = work[scratch.PRODUCT], work[scratch.UNUSED]
    both_sides_of_lower(m, nodes.B[node], su, e, mB, Bs)
    row_times(mB, M_matrix, i, LOWER, m_rate)
    symmetric_times_column(nodes.D_g[node], m, e, z, unused)
    symmetric_times_column(nodes.Sigma[node], mB, i, su_rate, unused)
    diagonal = D_h[i, i] - su[i]
    for j in range(e):
        diagonal += m[j] * (z[j] + 2.0 * Bs[j])
        z[j] += Bs[j]
    times_column(M_matrix, z, i, LOWER, Mz)
    for j in range(i):
        m_rate[j] += A[i, j] - m[j]
        su_rate[j] += D_h[i, j] + Mz[j] - su[j]
    m_rate[i], su_rate[i] = A[i, i] - m[i], diagonal
