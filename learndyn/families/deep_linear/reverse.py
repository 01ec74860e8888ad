"""The derivative of losses with respect to a training rule: the row recursion, run backwards.

The matrices of the recursion are only ever appended to, so the finished ones are all that is needed. Every step of
`rows` is bilinear; its adjoint is written here in the reverse order, with a bar (`_bar`) for the derivative of the
result with respect to a quantity: y = xA gives x̄ += A ȳ and Ā += x ⊗ ȳ. The cost is about three times that of the
recursion.
"""

from typing import NamedTuple

import numpy as np

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
    Rows,
    Weights,
    mix,
    totals,
)
from learndyn.families.deep_linear.setting import DATASET, STREAM
from learndyn.numerics.lower import (
    add_outer,
    add_outer_to_lower,
    add_outer_to_symmetric,
    add_outers_to_lower,
    both_sides_of_lower,
    compiled,
    full_times_column,
    lower_times_column,
    row_times_full,
    row_times_lower,
    symmetric_times_column,
)


class RuleBar(NamedTuple):
    """Derivatives with respect to κ, d and to a, b, b_input, which are functions of d."""

    kappa: np.ndarray
    d: np.ndarray
    a: np.ndarray
    b: np.ndarray
    b_input: np.ndarray


@compiled
def _mix_bar(out_bar, C, C_bar, i, w, a, b, factor, a_bar, b_bar):
    """Adjoint of `mix`."""
    Nc = w.outputs
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


@compiled
def _times_mixing_bar(m_bar, row, row_bar, i, w, a, b, factor, a_bar, b_bar):
    """Adjoint of `_times_mixing`; returns the derivative with respect to `factor`."""
    Nc = w.outputs
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


@compiled
def _backward_bar(i, k, sr, pair, pair_bar, K_matrix, K_bar, K_scale, k_bar, sr_bar, work):
    """Adjoint of `rows.backward`: adds to k̄ and s̄_r."""
    c, P = pair_bar[CG, i], work[scratch.IMAGE]
    P_bar, f_bar = work[scratch.IMAGE_BAR], work[scratch.FIELD_BAR]
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    lower_times_column(pair[HR], sr, i, P)
    for s in range(i):
        f = pair[F, s, i]
        k_bar[s] += c[i] * (P[s] + f)
        P_bar[s] = c[i] * k[s]
        f_bar[s] = c[i] * k[s] + pair_bar[F, s, i]
        sr_bar[s] += c[s]
    sr_bar[i] += c[i]
    full_times_column(pair[F], c, i, i, x)
    row_times_lower(c, K_matrix, i, y)
    for s in range(i):
        # What k F adds to column i of F̄ is for earlier columns only, so f̄ is complete.
        k_bar[s] += x[s]
        P_bar[s] += K_scale * y[s] + f_bar[s]
        y[s] = K_scale * c[s]
    add_outer_to_lower(K_bar, y, P, i)
    add_outer(pair_bar[F], k, c, i, i)
    symmetric_times_column(pair[CH], f_bar, i, x, y)
    for s in range(i):
        k_bar[s] += x[s]
    add_outer_to_symmetric(pair_bar[CH], f_bar, k, i)
    row_times_lower(P_bar, pair[HR], i, x)
    lower_times_column(pair[HU], pair_bar[GU, i], i, y)
    for s in range(i):
        sr_bar[s] += x[s]
        k_bar[s] += y[s]
    add_outer_to_lower(pair_bar[HR], P_bar, sr, i)
    add_outer_to_lower(pair_bar[HU], k, pair_bar[GU, i], i)


@compiled
def _forward_bar(i, su, su_bar, pair, pair_bar, M_matrix, M_bar, work):
    """Adjoint of `rows.forward`: adds to s̄_u and to M̄, whose row i is then m̄."""
    e, m = i + 1, M_matrix[i]
    c, F_bar, Hu_bar, Hr_bar = pair_bar[CH, i], pair_bar[F, i], pair_bar[HU, i], pair_bar[HR, i]
    q, q_bar, m_bar = work[scratch.IMAGE], work[scratch.IMAGE_BAR], work[scratch.KERNEL_BAR]
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    lower_times_column(pair[GU], su, e, q)
    row_times_full(c, pair[F], e, e, m_bar)
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


@compiled
def _forward_identity_bar(i, su_bar, pair_bar):
    """Adjoint of `rows.forward_identity`."""
    for s in range(i):
        pair_bar[GU, i, s] += pair_bar[HU, i, s] + pair_bar[HR, i, s]
        pair_bar[CG, i, s] += pair_bar[F, i, s]
        su_bar[s] += pair_bar[CH, i, s]
        pair_bar[F, s, i] += pair_bar[CH, i, s]
    pair_bar[CG, i, i] += pair_bar[F, i, i] + pair_bar[CH, i, i]
    su_bar[i] += pair_bar[CH, i, i]


@compiled
def _add_to_modes(bar, which, i, powers, row_bar):
    """Adjoint of `rows.totals`."""
    for k in range(len(powers)):
        for j in range(i + 1):
            bar.pairs[k, which, i, j] += powers[k] * row_bar[j]


@compiled
def _data_row_bar(i, rows, bar, w, su_bar, work):
    """Adjoint of `rows._data_row`."""
    Nc, e = w.outputs, i + 1
    source_bar = work[scratch.SOURCE_BAR]
    if w.data != DATASET:
        block = (i // Nc) * Nc
        for j in range(e):
            source_bar[j] = w.inverse_data * su_bar[j] if w.data == STREAM and j >= block else 0.0
        _add_to_modes(bar, CG, i, w.omega, source_bar)
        return
    R, R_bar = rows.kernels[0, M], bar.kernels[0, M]
    C, c = rows.C_Delta, bar.C_Delta[i]
    rv, rv_bar, source = (
        work[scratch.FEEDBACK],
        work[scratch.FEEDBACK_BAR],
        work[scratch.ERROR_SOURCE],
    )
    x, y = work[scratch.PRODUCT], work[scratch.SECOND_PRODUCT]
    totals(rows, GU, i, w.omega, rv)
    totals(rows, CG, i, w.omega, source)
    for j in range(i % Nc, e, Nc):
        source[j] += w.noise_square
    for j in range(e):
        rv[j] *= w.inverse_data
        c[j] += w.inverse_data * su_bar[j]
    for j in range(i):
        rv_bar[j] = c[i] * C[i, j]
        c[j] += c[i] * rv[j]
    rv_bar[i] = 0.0
    symmetric_times_column(C, c, i, x, y)
    add_outer_to_symmetric(bar.C_Delta, c, rv, i)
    row_times_lower(c, R, e, source_bar)
    add_outer_to_lower(R_bar, c, source, e)
    lower_times_column(R, R_bar[i], i, y)
    add_outer_to_lower(R_bar, rv, R_bar[i], i)
    for j in range(i):
        rv_bar[j] = w.inverse_data * (rv_bar[j] + x[j] + y[j])
    _add_to_modes(bar, GU, i, w.omega, rv_bar)
    _add_to_modes(bar, CG, i, w.omega, source_bar)


@compiled
def _forward_half_bar(i, rows, bar, w, rule, work):
    """Adjoint of `rows._forward_half`."""
    Nc, L, modes = w.outputs, len(w.rho) - 1, len(w.lam)
    t, e = i // Nc, i + 1
    power = w.omega * w.lam
    su, su_bar = work[scratch.FORTH_NOISE], work[scratch.FORTH_NOISE_BAR]
    H, H_bar = work[scratch.H_TOTAL], work[scratch.H_TOTAL_BAR]
    C, C_bar = work[scratch.C_TOTAL], work[scratch.C_TOTAL_BAR]
    for ell in range(L, 0, -1):
        if ell == 1:
            totals(rows, HR, i, power, H)
            totals(rows, CH, i, power, C)
        else:
            H[:e] = rows.pairs[modes + ell - 2, HR, i, :e]
            C[:e] = rows.pairs[modes + ell - 2, CH, i, :e]
        for j in range(e):
            su[j] = w.d[t] * w.d[j // Nc] * C[j]
            su_bar[j] = 0.0
            H_bar[j] = 0.0
            C_bar[j] = 0.0
        pair, pair_bar = rows.pairs[modes + ell - 1], bar.pairs[modes + ell - 1]
        _forward_bar(i, su, su_bar, pair, pair_bar, rows.kernels[ell, M], bar.kernels[ell, M], work)
        m_bar = bar.kernels[ell, M, i]
        if ell == 1:
            f = -w.inverse_width * w.d[t]
            f_bar = _times_mixing_bar(
                m_bar, H, H_bar, i, w, w.a, w.b_input, f, rule.a, rule.b_input
            )
            rule.d[t] -= w.inverse_width * f_bar
        else:
            rule.d[t] += _times_mixing_bar(m_bar, H, H_bar, i, w, w.a, w.b, w.d[t], rule.a, rule.b)
        for j in range(t * Nc):
            s = j // Nc
            y = m_bar[j % Nc]
            if s > 0:
                y += w.gamma * m_bar[j]
            C_bar[j] += w.gamma * w.kappa[t, s] * y
            rule.kappa[t, s] += w.gamma * C[j] * y
        for j in range(e):
            s = j // Nc
            C_bar[j] += w.d[t] * w.d[s] * su_bar[j]
            rule.d[t] += w.d[s] * C[j] * su_bar[j]
            rule.d[s] += w.d[t] * C[j] * su_bar[j]
        if ell == 1:
            _add_to_modes(bar, HR, i, power, H_bar)
            _add_to_modes(bar, CH, i, power, C_bar)
        else:
            for j in range(e):
                bar.pairs[modes + ell - 2, HR, i, j] += H_bar[j]
                bar.pairs[modes + ell - 2, CH, i, j] += C_bar[j]
    for j in range(e):
        su_bar[j] = 0.0
        su[j] = w.inverse_data * rows.C_Delta[i, j]
    for mode in range(modes):
        if w.data == DATASET:
            _forward_bar(
                i,
                su,
                su_bar,
                rows.pairs[mode],
                bar.pairs[mode],
                rows.kernels[0, M],
                bar.kernels[0, M],
                work,
            )
        else:
            _forward_identity_bar(i, su_bar, bar.pairs[mode])
    _data_row_bar(i, rows, bar, w, su_bar, work)


@compiled
def _backward_half_bar(i, rows, bar, w, rule, work):
    """Adjoint of `rows._backward_half`."""
    Nc, L, modes = w.outputs, len(w.rho) - 1, len(w.lam)
    t = i // Nc
    past, e = t * Nc, i + 1
    k, k_bar = work[scratch.BACK_KERNEL], work[scratch.BACK_KERNEL_BAR]
    sr, sr_bar = work[scratch.BACK_NOISE], work[scratch.BACK_NOISE_BAR]
    k_mode, kb = work[scratch.MODE_KERNEL], work[scratch.MODE_KERNEL_BAR]
    sr_mode, sb = work[scratch.MODE_NOISE], work[scratch.MODE_NOISE_BAR]
    full, full_bar = work[scratch.FULL], work[scratch.FULL_BAR]
    ones = np.ones(t + 1)
    increments, unused = w.gamma * ones, np.zeros(t + 1)
    for ell in range(L + 1):
        K_matrix, K_bar = rows.kernels[ell, K], bar.kernels[ell, K]
        for j in range(e):
            k[j] = K_matrix[i, j]
            k_bar[j] = 0.0
            sr_bar[j] = 0.0
        if ell == L:
            for j in range(e):
                sr[j] = w.b[t] * w.b[j // Nc] if j % Nc == i % Nc else 0.0
        else:
            above, above_bar = rows.pairs[modes + ell], bar.pairs[modes + ell]
            b, b_bar = (w.b, rule.b) if ell > 0 else (w.b_input, rule.b_input)
            factor = w.rho[ell] if ell > 0 else w.rho[0] * w.inverse_width
            mix(above[CG], i, w, w.a, b, factor, sr)
        if ell > 0:
            pair, pair_bar = rows.pairs[modes + ell - 1], bar.pairs[modes + ell - 1]
            _backward_bar(i, k, sr, pair, pair_bar, K_matrix, K_bar, 1.0, k_bar, sr_bar, work)
        else:
            for mode in range(modes):
                lam = w.lam[mode]
                for j in range(e):
                    k_mode[j] = lam * k[j]
                    sr_mode[j] = lam * (sr[j] + w.gram[mode, i % Nc, j % Nc])
                    kb[j] = 0.0
                    sb[j] = 0.0
                pair, pair_bar = rows.pairs[mode], bar.pairs[mode]
                _backward_bar(
                    i, k_mode, sr_mode, pair, pair_bar, K_matrix, K_bar, lam, kb, sb, work
                )
                for j in range(e):
                    k_bar[j] += lam * kb[j]
                    sr_bar[j] += lam * sb[j]
        for j in range(past):
            k_bar[j] += K_bar[i, j]
        if ell == L:
            for j in range(i % Nc, e, Nc):
                s = j // Nc
                rule.b[t] += w.b[s] * sr_bar[j]
                rule.b[s] += w.b[t] * sr_bar[j]
                if j < past:
                    rule.kappa[t, s] += k_bar[j]
            continue
        sign = w.rho[ell] if ell > 0 else -w.rho[0]
        mix(above[CG], i, w, increments, ones, 1.0, full)
        for j in range(e):
            full_bar[j] = 0.0
        for j in range(past):
            s = j // Nc
            y = sign * k_bar[j]
            above_bar[GU, i, j] += y * w.d[t] * w.d[s]
            rule.d[t] += y * w.d[s] * above[GU, i, j]
            rule.d[s] += y * w.d[t] * above[GU, i, j]
            rule.kappa[t, s] += y * full[j]
            full_bar[j] = y * w.kappa[t, s]
        _mix_bar(full_bar, above[CG], above_bar[CG], i, w, increments, ones, 1.0, unused, unused)
        _mix_bar(sr_bar, above[CG], above_bar[CG], i, w, w.a, b, factor, rule.a, b_bar)


@compiled
def _retreat(rows, bar, w, rule):
    n = rows.C_Delta.shape[0]
    work = np.zeros((scratch.ROWS_WITH_BARS, n))
    for i in range(n - 1, -1, -1):
        _forward_half_bar(i, rows, bar, w, rule, work)
        _backward_half_bar(i, rows, bar, w, rule, work)


def derivative(rows: Rows, w: Weights, test_bar, train_bar):
    """Derivatives with respect to κ and d of Σ_t (test_bar(t)·test loss(t) + train_bar(t)·train loss(t)).

    `rows` must be complete for all steps of `test_bar`.
    """
    bar = Rows(*(np.zeros_like(array) for array in rows))
    each = np.arange(rows.C_Delta.shape[0])
    test, train = (np.repeat(np.asarray(x, dtype=float), w.outputs) for x in (test_bar, train_bar))
    if w.data == DATASET:
        bar.C_Delta[each, each] = train
    else:
        test = test + train
    for mode, omega in enumerate(w.omega):
        bar.pairs[mode, CG, each, each] = omega * test
    rule = RuleBar(np.zeros_like(w.kappa), *(np.zeros_like(w.d) for _ in range(4)))
    _retreat(rows, bar, w, rule)
    after_start = np.arange(len(w.d)) > 0
    d_bar = rule.d + np.where(after_start, rule.a + rule.b / w.gamma, 0.0) + rule.b_input / w.gamma
    return rule.kappa, d_bar
