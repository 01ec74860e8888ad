"""The row recursion: correlation and response functions of a deep linear network, row by row in training time.

Every layer ℓ = 1 … L, and every input mode k, is a pair of Gaussian fields over training time,

    h = u + M g,    g = r + K h,    u ~ N(0, S_u),  r ~ N(0, S_r),

with M lower triangular and K strictly so. Its functions are H_u = ∂h/∂u, H_r = ∂h/∂r, G_u = ∂g/∂u, C_h = ⟨hh⟩, C_g =
⟨gg⟩ and F = ⟨hg⟩; row t of each follows from the rows before it (`backward`, then `forward`), by the identities

    ⟨h(s) g(t)⟩ = ⟨h(s) r(t)⟩ + Σ_t' C_h(s, t') K(t, t'),    ⟨h(t) g(s)⟩ = ⟨u(t) g(s)⟩ + Σ_t' M(t, t') C_g(t', s).

**Increments.** Backward fields are stored as g̃(0) = g(0), g̃(t) = (g(t) − g(0))/γ_0, that is g = Γ g̃: all numbers
then stay of order one in the lazy limit γ_0 → 0, where g(t) − g(0) = O(γ_0) and differences of C_g would lose their
digits. In these variables, with d(t) the decay of an undriven weight, `a` = (0, d(1), d(2), …), `b` = (1, (d(1) −
1)/γ_0, …), and `mix(C)(t, s) = a_t a_s C(t, s) + a_t b_s C(t, 0) + b_t a_s C(0, s) + b_t b_s C(0, 0)`:

    layer ℓ:   K = ρ_ℓ (d(t) G_u^{ℓ+1} d(s) + κ∘C_g^{ℓ+1}),    S_r = ρ_ℓ mix(C̃_g^{ℓ+1}),    S_u = d(t) C_h^{ℓ−1} d(s),
               M = d(t) H_r^{ℓ−1} E + γ_0 (κ∘C_h^{ℓ−1}) Γ,     with E the matrix of mix: E(s, s) = a_s, E(s, 0) = b_s;
    layer L:   K = κ,  S_r(t, s) = b_t b_s  (the readout);
    layer 1:   H_r^0 E → −(1/ν_L) Σ_k ω_k λ_k H_r^k E_0;
    mode k:    K = −λ_k A,  A = ρ_0 (d(t) G_u^1 d(s) + κ∘C_g^1),  S_r = λ_k (⟨w*w*⟩_k + (ρ_0/ν_L) mix_0(C̃_g^1)),
               M = R_Δ,  S_u = C_u;  its fields are h^0_k/√λ_k and √λ_k v_k,

where E_0 and mix_0 have b = (d − 1)/γ_0 if centred and d/γ_0 if not (1/γ_0 at t = 0 if not centred). The data close
the system: C_v = Σ_k ω_k C_g^k, R_vu = Σ_k ω_k G_u^k, and R_Δ, C_u as in `_data_row`.

Several outputs c make time a composite index i = (t, c), of which "0" is (0, c). Cost: 11 products of a row or column
with a triangle for each pair and row, O((L + K) T³) in all, and 8 (L + K) T² numbers. Bordelon & Pehlevan 2025, with
the corrections listed in `docs/corrections.md`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.limit_numbers import DATASET, STREAM, LimitNumbers
from learndyn.numerics.lower import (
    LOWER,
    both_sides_of_lower,
    in_place,
    inlined,
    inner,
    nonliteral,
    row_times,
    symmetric_times_column,
    times_column,
    unpacked,
)

HU, HR, GU, CH, CG, F = map(nonliteral, range(6))
"""Positions of H_u, H_r, G_u, C_h, C̃_g and F in a pair."""
M, K = range(2)
"""Positions of M and K in the kernels of a layer."""


class RecursionRows(NamedTuple):
    """The functions of the recursion as far as they are computed; n = (T + 1) × outputs composite times.

    - `pairs[p]`: H_u, H_r, G_u, C_h, C̃_g and F of the input modes (p < modes), and then of the hidden layers
    - `kernels[ℓ]`: M and K of layer ℓ; for ℓ = 0 those of all input modes, R_Δ and −A
    - `C_Delta`: C_Δ
    """

    pairs: Float[np.ndarray, "pairs 6 n n"]
    kernels: Float[np.ndarray, "layers 2 n n"]
    C_Delta: Float[np.ndarray, "n n"]


class RecursionConstants(NamedTuple):
    """The constants of the recursion, those of the training rule included, for compiled code.

    - `kappa`: κ(t, s), the impulse response of a weight at step t to its force at step s
    - `d`: d(t), the decay of an undriven weight
    - `a`, `b`: the weights of mix in the hidden layers
    - `b_input`: b of mix_0, between the input and layer 1
    - `gamma`: γ_0
    - `rho`: ρ_0 … ρ_L
    - `inverse_width`: 1/ν_L
    - `data`: `DATASET`, `STREAM` or `POPULATION`
    - `inverse_data`: 1/α, 1/α_B or 0
    - `noise_square`: σ²
    - `lam`, `omega`, `power`, `gram`: λ_k, ω_k, ω_k λ_k and ⟨w*w*⟩_k of the input modes
    - `outputs`: the number of outputs
    - `increments`, `ones`: γ_0 and 1 at every step, the weights a and b with which mix(C̃_g) = C_g
    """

    kappa: np.ndarray
    d: np.ndarray
    a: np.ndarray
    b: np.ndarray
    b_input: np.ndarray
    gamma: float
    rho: np.ndarray
    inverse_width: float
    data: int
    inverse_data: float
    noise_square: float
    lam: np.ndarray
    omega: np.ndarray
    power: np.ndarray
    gram: np.ndarray
    outputs: int
    increments: np.ndarray
    ones: np.ndarray


def empty_rows(numbers: LimitNumbers, steps: int) -> RecursionRows:
    """Zeros for the functions of steps 0 … `steps`."""
    n, L, modes = (steps + 1) * numbers.outputs, numbers.depth, len(numbers.lam)
    return RecursionRows(
        np.zeros((modes + L, 6, n, n)), np.zeros((L + 1, 2, n, n)), np.zeros((n, n))
    )


def memory(numbers: LimitNumbers, steps: int) -> float:
    """Bytes that `empty_rows` takes."""
    n, L, modes = (steps + 1) * numbers.outputs, numbers.depth, len(numbers.lam)
    return 8.0 * n * n * (6 * (modes + L) + 2 * (L + 1) + 1)


def recursion_constants(
    numbers: LimitNumbers, kappa: ArrayLike, d: ArrayLike
) -> RecursionConstants:
    """The constants of the recursion for the impulse response κ and the undriven weight d of a training rule."""
    # Arrays that come through JAX are read-only, and numba would compile everything again for such.
    kappa, d = (np.require(array, float, ["C", "W"]) for array in (kappa, d))
    lost = np.where(d == 1.0, 0.0, (d - 1.0) / numbers.gamma)
    offset = 0.0 if numbers.centered else 1.0 / numbers.gamma
    return RecursionConstants(
        kappa=kappa,
        d=d,
        a=np.concatenate([[0.0], d[1:]]),
        b=np.concatenate([[1.0], lost[1:]]),
        b_input=lost + offset,
        gamma=numbers.gamma,
        rho=numbers.rho,
        inverse_width=numbers.inverse_width,
        data=numbers.data,
        inverse_data=numbers.inverse_data,
        noise_square=numbers.noise**2,
        lam=numbers.lam,
        omega=numbers.omega,
        power=numbers.omega * numbers.lam,
        gram=np.ascontiguousarray(numbers.gram),
        outputs=numbers.outputs,
        increments=np.full(len(d), numbers.gamma),
        ones=np.ones(len(d)),
    )


def errors(rows: RecursionRows, const: RecursionConstants, first: int, last: int) -> np.ndarray:
    """Σ_c C_v(t, t) for the steps `first` … `last` − 1."""
    each = np.diagonal(rows.pairs[: len(const.lam), CG], axis1=1, axis2=2)
    with np.errstate(over="ignore", invalid="ignore"):
        total = const.omega @ each[:, first * const.outputs : last * const.outputs]
        return total.reshape(last - first, const.outputs).sum(axis=1)


@unpacked
def _step(j: int, Nc: int):
    """t of the composite index j = (t, c); a division only where there is more than one output."""
    return j if Nc == 1 else j // Nc


@unpacked
def _zero(j: int, Nc: int):
    """The composite index (0, c) of j = (t, c)."""
    return 0 if Nc == 1 else j % Nc


@inner
def mix(
    C: np.ndarray,
    i: int,
    Nc: int,
    a: np.ndarray,
    b: np.ndarray,
    factor: float,
    out: np.ndarray,
):
    """out[j] = factor · mix(C)(i, j) for j ≤ i, with the weights a, b of every step."""
    zero_i = i % Nc
    a_i, b_i = a[i // Nc], b[i // Nc]
    for j in range(i + 1):
        zero_j, s = _zero(j, Nc), _step(j, Nc)
        value = b_i * b[s] * (C[zero_i, zero_j] if zero_i > zero_j else C[zero_j, zero_i])
        if s > 0:
            value += b_i * a[s] * C[j, zero_i]
        if i >= Nc:
            value += a_i * b[s] * C[i, zero_j]
            if s > 0:
                value += a_i * a[s] * C[i, j]
        out[j] = factor * value


@inner
def _times_mixing(
    row: np.ndarray,
    i: int,
    Nc: int,
    a: np.ndarray,
    b: np.ndarray,
    factor: float,
    out: np.ndarray,
):
    """out = factor · row E: out[j] = a_j row[j] for steps after 0, out[(0, c)] = Σ_s b_s row[(s, c)]."""
    for j in range(i + 1):
        s = _step(j, Nc)
        out[j] = factor * a[s] * row[j] if s > 0 else 0.0
        out[_zero(j, Nc)] += factor * b[s] * row[j]


@inner
def _add_learning(
    C_row: np.ndarray, i: int, Nc: int, gamma: float, kappa: np.ndarray, m: np.ndarray
):
    """m += γ_0 (κ∘C) Γ in row i, from row i of C."""
    t = i // Nc
    for j in range(t * Nc):
        s = _step(j, Nc)
        value = gamma * kappa[t, s] * C_row[j]
        m[_zero(j, Nc)] += value
        if s > 0:
            m[j] += gamma * value


@inner
def backward(
    i: int,
    k: np.ndarray,
    sr: np.ndarray,
    pair: np.ndarray,
    K_matrix: np.ndarray,
    K_scale: float,
    work: np.ndarray,
):
    """Row i of G_u, C_g and column i of F, from row i of K (`k`) and of S_r (`sr`)."""
    P, f = work[scratch.IMAGE], work[scratch.FIELD]
    KP, kF = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    row_times(k, pair[HU], i, LOWER, pair[GU, i])
    times_column(pair[HR], sr, i, LOWER, P)
    symmetric_times_column(pair[CH], k, i, f, KP)
    times_column(K_matrix, P, i, LOWER, KP)
    row_times(k, pair[F], i, i, kF)
    diagonal = sr[i]
    for s in range(i):
        f[s] += P[s]
        pair[F, s, i] = f[s]
        pair[CG, i, s] = sr[s] + K_scale * KP[s] + kF[s]
        diagonal += k[s] * (P[s] + f[s])
    pair[CG, i, i] = diagonal


@inner
def forward(i: int, su: np.ndarray, pair: np.ndarray, M_matrix: np.ndarray, work: np.ndarray):
    """Row i of H_u, H_r, F and C_h, from row i of M and of S_u (`su`)."""
    e, m = i + 1, M_matrix[i]
    q, w, Fm = work[scratch.IMAGE], work[scratch.FIELD], work[scratch.PRODUCT]
    both_sides_of_lower(m, pair[GU], su, e, pair[HU, i], q)
    pair[HU, i, i] += 1.0
    both_sides_of_lower(pair[HU, i], M_matrix, q, e, pair[HR, i], w)
    symmetric_times_column(pair[CG], m, e, pair[F, i], Fm)
    diagonal = su[i] + w[i]
    for s in range(e):
        pair[F, i, s] += q[s]
        diagonal += m[s] * pair[F, i, s]
    times_column(pair[F], m, i, e, Fm)
    for s in range(i):
        pair[CH, i, s] = su[s] + w[s] + Fm[s]
    pair[CH, i, i] = diagonal


@inner
def forward_identity(i: int, su: np.ndarray, pair: np.ndarray):
    """`forward` where M = 1 and u is not correlated in time: fresh examples, or the population."""
    for s in range(i):
        pair[HU, i, s] = pair[GU, i, s]
        pair[HR, i, s] = pair[GU, i, s]
        pair[F, i, s] = pair[CG, i, s]
        pair[CH, i, s] = su[s] + pair[F, s, i]
    pair[HU, i, i] = 1.0
    pair[HR, i, i] = 1.0
    pair[F, i, i] = pair[CG, i, i]
    pair[CH, i, i] = su[i] + pair[CG, i, i]


@inner
def totals(pairs: np.ndarray, which: int, i: int, powers: np.ndarray, out: np.ndarray):
    """out[j] = Σ_k powers[k] (function `which` of mode k)[i, j]."""
    for j in range(i + 1):
        out[j] = 0.0
    for k in range(len(powers)):
        for j in range(i + 1):
            out[j] += powers[k] * pairs[k, which, i, j]


@inlined
def errors_row(
    i: int,
    source: np.ndarray,
    rv: np.ndarray,
    R_Delta: np.ndarray,
    C_Delta: np.ndarray,
    work: np.ndarray,
):
    """Row i of C_Δ = R_Δ (source) R_Δᵀ, with `rv` row i of R_vu/α."""
    y, rvC, unused = work[scratch.FIELD], work[scratch.PRODUCT], work[scratch.UNUSED]
    times_column(R_Delta, source, i + 1, LOWER, y)
    symmetric_times_column(C_Delta, rv, i, rvC, unused)
    diagonal = y[i]
    for j in range(i):
        C_Delta[i, j] = y[j] + rvC[j]
        diagonal += rv[j] * C_Delta[i, j]
    C_Delta[i, i] = diagonal


@inlined
def _data_row(
    i: int, rows: RecursionRows, const: RecursionConstants, su: np.ndarray, work: np.ndarray
):
    """Row i of R_Δ (into M of the modes) and of C_u (into `su`).

    A reused dataset: R_Δ = (1 − R_vu/α)⁻¹, C_Δ = R_Δ (C_v + σ²) R_Δᵀ, C_u = C_Δ/α. Fresh examples: R_Δ = 1 and
    C_u(t, t') = δ_tt' (C_v + σ²)/α_B. The population: R_Δ = 1, C_u = 0.
    """
    Nc = const.outputs
    R_Delta, C_Delta = rows.kernels[0, M], rows.C_Delta
    source = work[scratch.ERROR_SOURCE]
    totals(rows.pairs, CG, i, const.omega, source)
    for j in range(i % Nc, i + 1, Nc):
        source[j] += const.noise_square
    R_Delta[i, i] = 1.0
    if const.data != DATASET:
        block = (i // Nc) * Nc
        for j in range(i + 1):
            su[j] = const.inverse_data * source[j] if const.data == STREAM and j >= block else 0.0
        return
    rv = work[scratch.FEEDBACK]
    totals(rows.pairs, GU, i, const.omega, rv)
    for j in range(i + 1):
        rv[j] *= const.inverse_data
    row_times(rv, R_Delta, i, LOWER, R_Delta[i])
    errors_row(i, source, rv, R_Delta, C_Delta, work)
    for j in range(i + 1):
        su[j] = const.inverse_data * C_Delta[i, j]


@inner
def readout_row(i: int, Nc: int, b: np.ndarray, kappa: np.ndarray, k: np.ndarray, sr: np.ndarray):
    """Row i of K and S_r of the last layer: those of the readout."""
    t, c = i // Nc, i % Nc
    for j in range(i + 1):
        k[j], sr[j] = 0.0, 0.0
    for s in range(t):
        k[s * Nc + c] = kappa[t, s]
    for s in range(t + 1):
        sr[s * Nc + c] = b[t] * b[s]


@inner
def _learnt_row(
    i: int,
    Nc: int,
    G_row: np.ndarray,
    C_row: np.ndarray,
    d: np.ndarray,
    kappa: np.ndarray,
    factor: float,
    k: np.ndarray,
):
    """k = factor · (d(t) G_u d(s) + κ∘C_g) in row i, from row i of G_u and of C_g."""
    t = i // Nc
    for j in range(i + 1):
        k[j] = 0.0
    for j in range(t * Nc):
        s = _step(j, Nc)
        k[j] = factor * (d[t] * d[s] * G_row[j] + kappa[t, s] * C_row[j])


@inlined
def learnt_row(
    i: int,
    above: np.ndarray,
    const: RecursionConstants,
    factor: float,
    k: np.ndarray,
    full: np.ndarray,
):
    """k = factor · (d(t) G_u d(s) + κ∘C_g) of the layer `above`, in row i."""
    mix(above[CG], i, const.outputs, const.increments, const.ones, 1.0, full)
    _learnt_row(i, const.outputs, above[GU, i], full, const.d, const.kappa, factor, k)


@inlined
def revealed_row(
    i: int,
    H_row: np.ndarray,
    C_row: np.ndarray,
    const: RecursionConstants,
    b: np.ndarray,
    factor: float,
    m: np.ndarray,
):
    """m = d(t) factor · H_r E + γ_0 (κ∘C_h) Γ in row i, from row i of H_r and of C_h."""
    _times_mixing(H_row, i, const.outputs, const.a, b, factor * const.d[i // const.outputs], m)
    _add_learning(C_row, i, const.outputs, const.gamma, const.kappa, m)


@inner
def decayed_row(i: int, Nc: int, C_row: np.ndarray, d: np.ndarray, factor: float, su: np.ndarray):
    """su = factor · d(t) C_h d(s) in row i."""
    t = i // Nc
    for j in range(i + 1):
        su[j] = factor * d[t] * d[_step(j, Nc)] * C_row[j]


@inlined
def input_backward(
    i: int,
    rows: RecursionRows,
    const: RecursionConstants,
    k: np.ndarray,
    sr: np.ndarray,
    work: np.ndarray,
):
    """The backward row of every input mode, below layer 1."""
    Nc, modes = const.outputs, len(const.lam)
    above = rows.pairs[modes]
    learnt_row(i, above, const, -const.rho[0], k, work[scratch.FULL])
    mix(above[CG], i, Nc, const.a, const.b_input, const.rho[0] * const.inverse_width, sr)
    for j in range(i + 1):
        rows.kernels[0, K, i, j] = k[j]
    k_mode, sr_mode = work[scratch.MODE_KERNEL], work[scratch.MODE_NOISE]
    for mode in range(modes):
        lam = const.lam[mode]
        for j in range(i + 1):
            k_mode[j] = lam * k[j]
            sr_mode[j] = lam * (sr[j] + const.gram[mode, i % Nc, _zero(j, Nc)])
        backward(i, k_mode, sr_mode, rows.pairs[mode], rows.kernels[0, K], lam, work)


@inlined
def input_forward(
    i: int, rows: RecursionRows, const: RecursionConstants, su: np.ndarray, work: np.ndarray
):
    """The forward row of every input mode; then row i of M and S_u of layer 1, and its forward row."""
    modes = len(const.lam)
    _data_row(i, rows, const, su, work)
    for mode in range(modes):
        if const.data == DATASET:
            forward(i, su, rows.pairs[mode], rows.kernels[0, M], work)
        else:
            forward_identity(i, su, rows.pairs[mode])
    H_row, C_row = work[scratch.H_TOTAL], work[scratch.C_TOTAL]
    totals(rows.pairs, HR, i, const.power, H_row)
    totals(rows.pairs, CH, i, const.power, C_row)
    revealed_row(i, H_row, C_row, const, const.b_input, -const.inverse_width, rows.kernels[1, M, i])
    decayed_row(i, const.outputs, C_row, const.d, 1.0, su)
    forward(i, su, rows.pairs[modes], rows.kernels[1, M], work)


# Each of these stands at one place of `advance_with`, and is put there before anything is compiled.
_backward_here = inlined(backward.py_func)
_forward_here = inlined(forward.py_func)
_forward_identity_here = inlined(forward_identity.py_func)
_readout_row_here = inlined(readout_row.py_func)
_learnt_row_here = inlined(_learnt_row.py_func)
_decayed_row_here = inlined(decayed_row.py_func)
_times_mixing_here = inlined(_times_mixing.py_func)
_add_learning_here = inlined(_add_learning.py_func)


def advance(first: int, last: int, rows: RecursionRows, const: RecursionConstants) -> None:
    """Compute the rows of steps `first` … `last` − 1 in place."""
    advance_with(first, last, rows, const, scratch.empty(rows.C_Delta.shape[0]))


@in_place
def advance_with(
    first: int, last: int, rows: RecursionRows, const: RecursionConstants, work: np.ndarray
):
    """`advance`, with an array for temporary rows: for each i first the readout down to the input, then up again.

    Layer 0 stands for the input modes. All layers share one loop, so that each step is compiled at one place.
    """
    Nc, L, modes = const.outputs, len(const.rho) - 1, len(const.lam)
    k, k_pair = work[scratch.BACK_KERNEL], work[scratch.MODE_KERNEL]
    sr, sr_pair = work[scratch.BACK_NOISE], work[scratch.MODE_NOISE]
    full, su = work[scratch.FULL], work[scratch.FORTH_NOISE]
    H_row, C_row = work[scratch.H_TOTAL], work[scratch.C_TOTAL]
    a, d, kappa = const.a, const.d, const.kappa
    for i in range(first * Nc, last * Nc):
        for ell in range(L, -1, -1):
            if ell == L:
                _readout_row_here(i, Nc, const.b, kappa, k, sr)
            else:
                above, rho = rows.pairs[modes + ell], const.rho[ell]
                mix(above[CG], i, Nc, const.increments, const.ones, 1.0, full)
                _learnt_row_here(i, Nc, above[GU, i], full, d, kappa, rho if ell else -rho, k)
                factor = rho if ell else rho * const.inverse_width
                mix(above[CG], i, Nc, a, const.b if ell else const.b_input, factor, sr)
            K_matrix = rows.kernels[ell, K]
            for j in range(i + 1):
                K_matrix[i, j] = k[j]
            first_pair = modes + ell - 1 if ell else 0
            for pair in range(first_pair, first_pair + 1 if ell else modes):
                lam = 1.0 if ell else const.lam[pair]
                for j in range(i + 1):
                    k_pair[j] = lam * k[j]
                    target = 0.0 if ell else const.gram[pair, i % Nc, _zero(j, Nc)]
                    sr_pair[j] = lam * (sr[j] + target)
                _backward_here(i, k_pair, sr_pair, rows.pairs[pair], K_matrix, lam, work)
        for ell in range(L + 1):
            first_pair, M_matrix = modes + ell - 1 if ell else 0, rows.kernels[ell, M]
            if ell == 0:
                _data_row(i, rows, const, su, work)
            else:
                factor, b = d[i // Nc], const.b
                if ell == 1:
                    totals(rows.pairs, HR, i, const.power, H_row)
                    totals(rows.pairs, CH, i, const.power, C_row)
                    factor, b = -const.inverse_width * factor, const.b_input
                else:
                    for j in range(i + 1):
                        H_row[j] = rows.pairs[first_pair - 1, HR, i, j]
                        C_row[j] = rows.pairs[first_pair - 1, CH, i, j]
                _times_mixing_here(H_row, i, Nc, a, b, factor, M_matrix[i])
                _add_learning_here(C_row, i, Nc, const.gamma, kappa, M_matrix[i])
                _decayed_row_here(i, Nc, C_row, d, 1.0, su)
            for pair in range(first_pair, first_pair + 1 if ell else modes):
                if ell or const.data == DATASET:
                    _forward_here(i, su, rows.pairs[pair], M_matrix, work)
                else:
                    _forward_identity_here(i, su, rows.pairs[pair])
