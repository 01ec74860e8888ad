"""The derivative of losses with respect to a training rule: the adjoint of the row recursion, run backwards.

The recursion only ever appends to its matrices, so the finished matrices are all that the adjoint needs. Every step of
`feedforward` is bilinear; its adjoint is written here in the reverse order, with a bar (`_bar`) for the derivative of
the result with respect to a quantity: y = xA gives x̄ += A ȳ and Ā += x ⊗ ȳ. The cost is about three times that of
the recursion.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.families.deep_linear.equations import scratch
from learndyn.families.deep_linear.equations.feedforward import (
    CG,
    CH,
    GU,
    HR,
    HU,
    F,
    K,
    M,
    RecursionConstants,
    RecursionRows,
    mix,
    totals,
)
from learndyn.families.deep_linear.limit_numbers import DATASET, STREAM
from learndyn.numerics.lower import (
    LOWER,
    add_outer,
    add_outer_to_lower,
    add_outer_to_symmetric,
    add_outers_to_lower,
    both_sides_of_lower,
    in_place,
    inlined,
    inner,
    row_times,
    symmetric_times_column,
    times_column,
    unpacked,
)


class RuleDerivatives(NamedTuple):
    """Derivatives of the result with respect to κ and d, and to a, b and b_input, which are functions of d."""

    kappa: np.ndarray
    d: np.ndarray
    a: np.ndarray
    b: np.ndarray
    b_input: np.ndarray


@inner
def _mix_bar(
    out_bar: np.ndarray,
    C: np.ndarray,
    C_bar: np.ndarray,
    i: int,
    const: RecursionConstants,
    a: np.ndarray,
    b: np.ndarray,
    factor: float,
    a_bar: np.ndarray,
    b_bar: np.ndarray,
):
    """Adjoint of `mix`."""
    Nc = const.outputs
    zero_i, t = i % Nc, i // Nc
    a_i, b_i = a[t], b[t]
    for j in range(i + 1):
        zero_j, s = j % Nc, j // Nc
        high, low = max(zero_i, zero_j), min(zero_i, zero_j)
        y = factor * out_bar[j]
        C_bar[high, low] += y * b_i * b[s]
        b_bar[t] += y * b[s] * C[high, low]
        b_bar[s] += y * b_i * C[high, low]
        if s > 0:
            C_bar[j, zero_i] += y * b_i * a[s]
            b_bar[t] += y * a[s] * C[j, zero_i]
            a_bar[s] += y * b_i * C[j, zero_i]
        if i >= Nc:
            C_bar[i, zero_j] += y * a_i * b[s]
            a_bar[t] += y * b[s] * C[i, zero_j]
            b_bar[s] += y * a_i * C[i, zero_j]
            if s > 0:
                C_bar[i, j] += y * a_i * a[s]
                a_bar[t] += y * a[s] * C[i, j]
                a_bar[s] += y * a_i * C[i, j]


@inner
def _times_mixing_bar(
    m_bar: np.ndarray,
    row: np.ndarray,
    row_bar: np.ndarray,
    i: int,
    const: RecursionConstants,
    a: np.ndarray,
    b: np.ndarray,
    factor: float,
    a_bar: np.ndarray,
    b_bar: np.ndarray,
):
    """Adjoint of `_times_mixing`; returns the derivative with respect to `factor`."""
    Nc = const.outputs
    factor_bar = 0.0
    for j in range(i + 1):
        s, zero = j // Nc, j % Nc
        y = b[s] * m_bar[zero]
        b_bar[s] += factor * row[j] * m_bar[zero]
        if s > 0:
            y += a[s] * m_bar[j]
            a_bar[s] += factor * row[j] * m_bar[j]
        row_bar[j] += factor * y
        factor_bar += row[j] * y
    return factor_bar


@inner
def _backward_bar(
    i: int,
    k: np.ndarray,
    sr: np.ndarray,
    pair: np.ndarray,
    pair_bar: np.ndarray,
    K_matrix: np.ndarray,
    K_bar: np.ndarray,
    K_scale: float,
    k_bar: np.ndarray,
    sr_bar: np.ndarray,
    work: np.ndarray,
):
    """Adjoint of `feedforward.backward`: adds to k̄ and s̄_r."""
    c, P = pair_bar[CG, i], work[scratch.IMAGE]
    P_bar, f_bar = work[scratch.IMAGE_BAR], work[scratch.FIELD_BAR]
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    times_column(pair[HR], sr, i, LOWER, P)
    for s in range(i):
        f = pair[F, s, i]
        k_bar[s] += c[i] * (P[s] + f)
        P_bar[s] = c[i] * k[s]
        f_bar[s] = c[i] * k[s] + pair_bar[F, s, i]
        sr_bar[s] += c[s]
    sr_bar[i] += c[i]
    times_column(pair[F], c, i, i, x)
    row_times(c, K_matrix, i, LOWER, y)
    for s in range(i):
        # k F contributes to earlier columns of F̄ only, so f̄ is complete.
        k_bar[s] += x[s]
        P_bar[s] += K_scale * y[s] + f_bar[s]
        y[s] = K_scale * c[s]
    add_outer_to_lower(K_bar, y, P, i)
    add_outer(pair_bar[F], k, c, i, i)
    symmetric_times_column(pair[CH], f_bar, i, x, y)
    for s in range(i):
        k_bar[s] += x[s]
    add_outer_to_symmetric(pair_bar[CH], f_bar, k, i)
    row_times(P_bar, pair[HR], i, LOWER, x)
    times_column(pair[HU], pair_bar[GU, i], i, LOWER, y)
    for s in range(i):
        sr_bar[s] += x[s]
        k_bar[s] += y[s]
    add_outer_to_lower(pair_bar[HR], P_bar, sr, i)
    add_outer_to_lower(pair_bar[HU], k, pair_bar[GU, i], i)


@inner
def _forward_bar(
    i: int,
    su: np.ndarray,
    su_bar: np.ndarray,
    pair: np.ndarray,
    pair_bar: np.ndarray,
    M_matrix: np.ndarray,
    M_bar: np.ndarray,
    work: np.ndarray,
):
    """Adjoint of `feedforward.forward`: adds to s̄_u and to M̄, whose row i is then m̄."""
    e, m = i + 1, M_matrix[i]
    c, F_bar, Hu_bar, Hr_bar = pair_bar[CH, i], pair_bar[F, i], pair_bar[HU, i], pair_bar[HR, i]
    q, q_bar, m_bar = work[scratch.IMAGE], work[scratch.IMAGE_BAR], work[scratch.KERNEL_BAR]
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    times_column(pair[GU], su, e, LOWER, q)
    row_times(c, pair[F], e, e, m_bar)
    add_outer(pair_bar[F], c, m, e, e)
    symmetric_times_column(pair[CG], F_bar, e, x, y)
    add_outer_to_symmetric(pair_bar[CG], F_bar, m, e)
    both_sides_of_lower(c, M_matrix, Hr_bar, e, q_bar, y)
    for s in range(e):
        su_bar[s] += c[s]
        m_bar[s] += x[s]
        q_bar[s] += F_bar[s]
        Hu_bar[s] += y[s]
    add_outers_to_lower(M_bar, pair[HU, i], Hr_bar, c, q, e)
    both_sides_of_lower(q_bar, pair[GU], Hu_bar, e, x, y)
    add_outers_to_lower(pair_bar[GU], m, Hu_bar, q_bar, su, e)
    for s in range(e):
        su_bar[s] += x[s]
        M_bar[i, s] += m_bar[s] + y[s]


@inner
def _forward_identity_bar(i: int, su_bar: np.ndarray, pair_bar: np.ndarray):
    """Adjoint of `feedforward.forward_identity`."""
    for s in range(i):
        pair_bar[GU, i, s] += pair_bar[HU, i, s] + pair_bar[HR, i, s]
        pair_bar[CG, i, s] += pair_bar[F, i, s]
        su_bar[s] += pair_bar[CH, i, s]
        pair_bar[F, s, i] += pair_bar[CH, i, s]
    pair_bar[CG, i, i] += pair_bar[F, i, i] + pair_bar[CH, i, i]
    su_bar[i] += pair_bar[CH, i, i]


@inner
def _add_to_modes(bar: RecursionRows, which: int, i: int, powers: np.ndarray, row_bar: np.ndarray):
    """Adjoint of `feedforward.totals`."""
    for k in range(len(powers)):
        for j in range(i + 1):
            bar.pairs[k, which, i, j] += powers[k] * row_bar[j]


@inner
def _data_row_bar(
    i: int,
    rows: RecursionRows,
    bar: RecursionRows,
    const: RecursionConstants,
    su_bar: np.ndarray,
    work: np.ndarray,
):
    """Adjoint of `feedforward._data_row`."""
    Nc, e = const.outputs, i + 1
    source_bar = work[scratch.SOURCE_BAR]
    if const.data != DATASET:
        block = (i // Nc) * Nc
        for j in range(e):
            source_bar[j] = (
                const.inverse_data * su_bar[j] if const.data == STREAM and j >= block else 0.0
            )
        _add_to_modes(bar, CG, i, const.omega, source_bar)
        return
    R, R_bar = rows.kernels[0, M], bar.kernels[0, M]
    C, c = rows.C_Delta, bar.C_Delta[i]
    rv, rv_bar, source = (
        work[scratch.FEEDBACK],
        work[scratch.FEEDBACK_BAR],
        work[scratch.ERROR_SOURCE],
    )
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    totals(rows.pairs, GU, i, const.omega, rv)
    totals(rows.pairs, CG, i, const.omega, source)
    for j in range(i % Nc, e, Nc):
        source[j] += const.noise_square
    for j in range(e):
        rv[j] *= const.inverse_data
        c[j] += const.inverse_data * su_bar[j]
    for j in range(i):
        rv_bar[j] = c[i] * C[i, j]
        c[j] += c[i] * rv[j]
    rv_bar[i] = 0.0
    symmetric_times_column(C, c, i, x, y)
    add_outer_to_symmetric(bar.C_Delta, c, rv, i)
    row_times(c, R, e, LOWER, source_bar)
    add_outer_to_lower(R_bar, c, source, e)
    times_column(R, R_bar[i], i, LOWER, y)
    add_outer_to_lower(R_bar, rv, R_bar[i], i)
    for j in range(i):
        rv_bar[j] = const.inverse_data * (rv_bar[j] + x[j] + y[j])
    _add_to_modes(bar, GU, i, const.omega, rv_bar)
    _add_to_modes(bar, CG, i, const.omega, source_bar)


@unpacked
def _revealed_row_bar(
    i: int,
    ell: int,
    m_bar: np.ndarray,
    const: RecursionConstants,
    rule: RuleDerivatives,
    work: np.ndarray,
) -> None:
    """Adjoint of `feedforward.revealed_row` for layer ℓ: adds to H̄_r and C̄_h of the layer below."""
    Nc = const.outputs
    t = i // Nc
    H, H_bar = work[scratch.H_TOTAL], work[scratch.H_TOTAL_BAR]
    C, C_bar = work[scratch.C_TOTAL], work[scratch.C_TOTAL_BAR]
    if ell == 1:
        f = -const.inverse_width * const.d[t]
        f_bar = _times_mixing_bar(
            m_bar, H, H_bar, i, const, const.a, const.b_input, f, rule.a, rule.b_input
        )
        rule.d[t] -= const.inverse_width * f_bar
    else:
        rule.d[t] += _times_mixing_bar(
            m_bar, H, H_bar, i, const, const.a, const.b, const.d[t], rule.a, rule.b
        )
    for j in range(t * Nc):
        s = j // Nc
        y = m_bar[j % Nc]
        if s > 0:
            y += const.gamma * m_bar[j]
        C_bar[j] += const.gamma * const.kappa[t, s] * y
        rule.kappa[t, s] += const.gamma * C[j] * y


@unpacked
def _hidden_forward_bar(
    i: int,
    ell: int,
    rows: RecursionRows,
    bar: RecursionRows,
    const: RecursionConstants,
    rule: RuleDerivatives,
    work: np.ndarray,
) -> None:
    """Adjoint of the forward row of layer ℓ; the input modes are the layer below layer 1."""
    Nc, modes = const.outputs, len(const.lam)
    t, e = i // Nc, i + 1
    su, su_bar = work[scratch.FORTH_NOISE], work[scratch.FORTH_NOISE_BAR]
    H, H_bar = work[scratch.H_TOTAL], work[scratch.H_TOTAL_BAR]
    C, C_bar = work[scratch.C_TOTAL], work[scratch.C_TOTAL_BAR]
    if ell == 1:
        totals(rows.pairs, HR, i, const.power, H)
        totals(rows.pairs, CH, i, const.power, C)
    else:
        for j in range(e):
            H[j] = rows.pairs[modes + ell - 2, HR, i, j]
            C[j] = rows.pairs[modes + ell - 2, CH, i, j]
    for j in range(e):
        su[j] = const.d[t] * const.d[j // Nc] * C[j]
        su_bar[j] = 0.0
        H_bar[j] = 0.0
        C_bar[j] = 0.0
    pair, pair_bar = rows.pairs[modes + ell - 1], bar.pairs[modes + ell - 1]
    _forward_bar(i, su, su_bar, pair, pair_bar, rows.kernels[ell, M], bar.kernels[ell, M], work)
    _revealed_row_bar(i, ell, bar.kernels[ell, M, i], const, rule, work)
    for j in range(e):
        s = j // Nc
        C_bar[j] += const.d[t] * const.d[s] * su_bar[j]
        rule.d[t] += const.d[s] * C[j] * su_bar[j]
        rule.d[s] += const.d[t] * C[j] * su_bar[j]
    if ell == 1:
        _add_to_modes(bar, HR, i, const.power, H_bar)
        _add_to_modes(bar, CH, i, const.power, C_bar)
    else:
        for j in range(e):
            bar.pairs[modes + ell - 2, HR, i, j] += H_bar[j]
            bar.pairs[modes + ell - 2, CH, i, j] += C_bar[j]


@inlined
def _forward_half_bar(
    i: int,
    rows: RecursionRows,
    bar: RecursionRows,
    const: RecursionConstants,
    rule: RuleDerivatives,
    work: np.ndarray,
) -> None:
    """Adjoint of `feedforward._forward_half`: from the last layer back to the data."""
    for ell in range(len(const.rho) - 1, 0, -1):
        _hidden_forward_bar(i, ell, rows, bar, const, rule, work)
    su, su_bar = work[scratch.FORTH_NOISE], work[scratch.FORTH_NOISE_BAR]
    for j in range(i + 1):
        su_bar[j] = 0.0
        su[j] = const.inverse_data * rows.C_Delta[i, j]
    R, R_bar = rows.kernels[0, M], bar.kernels[0, M]
    for mode in range(len(const.lam)):
        if const.data == DATASET:
            _forward_bar(i, su, su_bar, rows.pairs[mode], bar.pairs[mode], R, R_bar, work)
        else:
            _forward_identity_bar(i, su_bar, bar.pairs[mode])
    _data_row_bar(i, rows, bar, const, su_bar, work)


@unpacked
def _modes_backward_bar(
    i: int, rows: RecursionRows, bar: RecursionRows, const: RecursionConstants, work: np.ndarray
) -> None:
    """Adjoint of the backward rows of all input modes: adds to k̄ and s̄_r."""
    Nc, e = const.outputs, i + 1
    k, k_bar = work[scratch.BACK_KERNEL], work[scratch.BACK_KERNEL_BAR]
    sr, sr_bar = work[scratch.BACK_NOISE], work[scratch.BACK_NOISE_BAR]
    k_mode, kb = work[scratch.MODE_KERNEL], work[scratch.MODE_KERNEL_BAR]
    sr_mode, sb = work[scratch.MODE_NOISE], work[scratch.MODE_NOISE_BAR]
    K_matrix, K_bar = rows.kernels[0, K], bar.kernels[0, K]
    for mode in range(len(const.lam)):
        lam = const.lam[mode]
        for j in range(e):
            k_mode[j] = lam * k[j]
            sr_mode[j] = lam * (sr[j] + const.gram[mode, i % Nc, j % Nc])
            kb[j] = 0.0
            sb[j] = 0.0
        pair, pair_bar = rows.pairs[mode], bar.pairs[mode]
        _backward_bar(i, k_mode, sr_mode, pair, pair_bar, K_matrix, K_bar, lam, kb, sb, work)
        for j in range(e):
            k_bar[j] += lam * kb[j]
            sr_bar[j] += lam * sb[j]


@unpacked
def _readout_row_bar(
    i: int,
    k_bar: np.ndarray,
    sr_bar: np.ndarray,
    const: RecursionConstants,
    rule: RuleDerivatives,
) -> None:
    """Adjoint of `feedforward.readout_row`."""
    Nc = const.outputs
    t = i // Nc
    for j in range(i % Nc, i + 1, Nc):
        s = j // Nc
        rule.b[t] += const.b[s] * sr_bar[j]
        rule.b[s] += const.b[t] * sr_bar[j]
        if j < t * Nc:
            rule.kappa[t, s] += k_bar[j]


@unpacked
def _learnt_row_bar(
    i: int,
    above: np.ndarray,
    above_bar: np.ndarray,
    factor: float,
    k_bar: np.ndarray,
    const: RecursionConstants,
    rule: RuleDerivatives,
    unused: np.ndarray,
    work: np.ndarray,
) -> None:
    """Adjoint of `feedforward.learnt_row`: adds to the derivatives of the pair above."""
    Nc = const.outputs
    t = i // Nc
    full, full_bar = work[scratch.FULL], work[scratch.FULL_BAR]
    increments, ones = const.increments, const.ones
    mix(above[CG], i, Nc, increments, ones, 1.0, full)
    for j in range(i + 1):
        full_bar[j] = 0.0
    for j in range(t * Nc):
        s = j // Nc
        y = factor * k_bar[j]
        above_bar[GU, i, j] += y * const.d[t] * const.d[s]
        rule.d[t] += y * const.d[s] * above[GU, i, j]
        rule.d[s] += y * const.d[t] * above[GU, i, j]
        rule.kappa[t, s] += y * full[j]
        full_bar[j] = y * const.kappa[t, s]
    _mix_bar(full_bar, above[CG], above_bar[CG], i, const, increments, ones, 1.0, unused, unused)


@inlined
def _backward_half_bar(
    i: int,
    rows: RecursionRows,
    bar: RecursionRows,
    const: RecursionConstants,
    rule: RuleDerivatives,
    work: np.ndarray,
) -> None:
    """Adjoint of `feedforward._backward_half`: from the input back to the readout."""
    Nc, L, modes = const.outputs, len(const.rho) - 1, len(const.lam)
    t, e = i // Nc, i + 1
    k, k_bar = work[scratch.BACK_KERNEL], work[scratch.BACK_KERNEL_BAR]
    sr, sr_bar = work[scratch.BACK_NOISE], work[scratch.BACK_NOISE_BAR]
    unused = work[scratch.UNUSED]
    for ell in range(L + 1):
        K_matrix, K_bar = rows.kernels[ell, K], bar.kernels[ell, K]
        for j in range(e):
            k[j] = K_matrix[i, j]
            k_bar[j] = 0.0
            sr_bar[j] = 0.0
        # The readout has nothing above it; the names then stand for the last layer, and are not used.
        upper = modes + min(ell, L - 1)
        above, above_bar = rows.pairs[upper], bar.pairs[upper]
        b, b_bar = (const.b, rule.b) if ell > 0 else (const.b_input, rule.b_input)
        noise_factor = const.rho[ell] if ell > 0 else const.rho[0] * const.inverse_width
        if ell == L:
            for j in range(e):
                sr[j] = const.b[t] * const.b[j // Nc] if j % Nc == i % Nc else 0.0
        else:
            mix(above[CG], i, Nc, const.a, b, noise_factor, sr)
        if ell > 0:
            pair, pair_bar = rows.pairs[modes + ell - 1], bar.pairs[modes + ell - 1]
            _backward_bar(i, k, sr, pair, pair_bar, K_matrix, K_bar, 1.0, k_bar, sr_bar, work)
        else:
            _modes_backward_bar(i, rows, bar, const, work)
        for j in range(t * Nc):
            k_bar[j] += K_bar[i, j]
        if ell == L:
            _readout_row_bar(i, k_bar, sr_bar, const, rule)
        else:
            factor = const.rho[ell] if ell > 0 else -const.rho[0]
            _learnt_row_bar(i, above, above_bar, factor, k_bar, const, rule, unused, work)
            _mix_bar(
                sr_bar, above[CG], above_bar[CG], i, const, const.a, b, noise_factor, rule.a, b_bar
            )


@in_place
def _retreat(
    rows: RecursionRows,
    bar: RecursionRows,
    const: RecursionConstants,
    rule: RuleDerivatives,
    work: np.ndarray,
) -> None:
    """Run the adjoint from the last row back to the first."""
    for i in range(rows.C_Delta.shape[0] - 1, -1, -1):
        _forward_half_bar(i, rows, bar, const, rule, work)
        _backward_half_bar(i, rows, bar, const, rule, work)


def derivative(
    rows: RecursionRows,
    const: RecursionConstants,
    test_bar: Float[np.ndarray, " steps"],
    train_bar: Float[np.ndarray, " steps"],
) -> tuple[Float[np.ndarray, "steps steps"], Float[np.ndarray, " steps"]]:
    """Derivatives with respect to κ and d of Σ_t (test_bar(t)·test loss(t) + train_bar(t)·train loss(t)).

    `rows` must be complete for all steps of `test_bar`.
    """
    bar = RecursionRows(*(np.zeros_like(array) for array in rows))
    diagonal = np.arange(rows.C_Delta.shape[0])
    test, train = (
        np.repeat(np.asarray(x, dtype=float), const.outputs) for x in (test_bar, train_bar)
    )
    if const.data == DATASET:
        bar.C_Delta[diagonal, diagonal] = train
    else:
        test = test + train
    for mode, omega in enumerate(const.omega):
        bar.pairs[mode, CG, diagonal, diagonal] = omega * test
    rule = RuleDerivatives(np.zeros_like(const.kappa), *(np.zeros_like(const.d) for _ in range(4)))
    _retreat(rows, bar, const, rule, scratch.empty(len(diagonal), scratch.ROWS_WITH_BARS))
    after_start = np.arange(len(const.d)) > 0
    d_bar = (
        rule.d
        + np.where(after_start, rule.a + rule.b / const.gamma, 0.0)
        + rule.b_input / const.gamma
    )
    return rule.kappa, d_bar
