"""The adjoint in the limit: its correlations and responses, row by row from the end.

In the notation of `trajectories.py`, the weights with which p_n sees the trajectories are

    w^y_n' = h² R_py(n+1, n'+1) ∂_1G(C_yy(n, n'), Q)  [− 2hμ̂'(C_yy(n, n)) C_py(n+1, n) δ_nn' for the true gradient],
    w^x_n' = h² R_px(n+1, n'+1) ∂_1G(C_yx(n, n'), m),

    R_py(n, ·) = a_n R_py(n+1, ·) + Σ w^y R_yy,    C_py(n, ·) = a_n C_py(n+1, ·) + Σ w^y C_yy + Σ w^x C_xy,
    R_px(n, ·) = a_n R_px(n+1, ·) + Σ w^x R_xx,    C_px(n, ·) = a_n C_px(n+1, ·) + Σ w^y C_yx + Σ w^x C_xx,
    C_pp(n, n') = a_n C_pp(n+1, n') + Σ w^y C_yp(·, n') + Σ w^x C_xp(·, n')
                  + h² Σ_k C_pp(n+1, k+1) ∂_1G(C_yy(n, k), Q) R_yy(k, n')   (+ 2hτ_p at n' = n).

An observation of y_n, of weight w, adds ρw to w^y_n and −ρw to w^x_n', and masks add ρ(1 − ρ) w_n w_k ⟨(y_n − x_n')(y_k
− x_k')⟩ to the noise, h²C_pp∂_1G above. The second state of a field gives weights and noise of the same form to the
adjoint of that state. A row costs O(N²).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers
from learndyn.families.neural_ode.limit.trajectories import Trajectory, earlier


class AdjointCorrelations(NamedTuple):
    """Of the adjoint: row n is p_n; columns are p, y or x."""

    C_pp: Array
    C_py: Array
    C_px: Array
    R_py: Array
    R_px: Array


class DrivenTerms(NamedTuple):
    """What a row of an adjoint sees besides its own use of the field: weights on y and x, covariance of noise."""

    y: Array
    x: Array
    noise: Array


class CovarianceSlopes(NamedTuple):
    """h²∂_1G of pairs of uses, between the student's (`own`) and with the teacher's (`other`), and h²∂_sG of both."""

    own: Array
    other: Array
    own_second: Any
    other_second: Any


def backward(
    flow: FlowNumbers,
    y: Trajectory,
    x: Trajectory,
    C_yx,
    slopes: CovarianceSlopes,
    weights,
    driven: DrivenTerms | None,
) -> AdjointCorrelations:
    """The adjoint; `weights` of the observations (N_s + 1), and what it sees of the system that it drives."""
    h, N, N_t = flow.h, flow.steps, flow.teacher_steps
    paired = jnp.asarray(flow.paired)
    jumps = flow.visible * weights
    # ⟨(y_n − x_n') y⟩ and ⟨(y_n − x_n') x⟩ at the end, and, with masks, between all observed errors.
    empty = AdjointCorrelations(
        *(jnp.zeros((N + 1, width)) for width in (N + 1, N + 1, N_t + 1, N + 1, N_t + 1))
    )
    end = AdjointCorrelations(
        C_pp=jnp.zeros(N + 1).at[N].set(jumps[N] ** 2 * error_at(y, x, C_yx, N, N_t)),
        C_py=jumps[N] * (y.C[N] - C_yx[:, N_t]),
        C_px=jumps[N] * (C_yx[N] - x.C[N_t]),
        R_py=jumps[N] * y.R[N],
        R_px=-jumps[N] * x.R[N_t],
    )
    masks = None
    if flow.monitored:
        masks = flow.visible * (1 - flow.visible) * jnp.outer(weights, weights)
        masks = masks * errors(y, x, C_yx, paired)
        masks = masks if flow.one_mask else jnp.diag(jnp.diagonal(masks))
        end = end._replace(C_pp=end.C_pp.at[N].add(masks[N, N]))
    known = jax.tree.map(lambda whole, last: whole.at[N].set(last), empty, end)
    delayed = flow.shape.delay is not None
    back, back_t = (np.eye(steps)[earlier(flow, steps)] for steps in (N, N_t))

    def row(known: AdjointCorrelations, n):
        C_pp, C_py, C_px, R_py, R_px = known
        a = y.a[n]
        w_y = R_py[n + 1, 1:] * slopes.own[n]
        w_x = R_px[n + 1, 1:] * slopes.other[n]
        # Correlations C_pp(n+1, k+1) with k < n are not known yet, and zero in the array.
        noise = C_pp[n + 1, 1:] * slopes.own[n]
        if flow.true_gradient:
            slope = flow.confinement.derivative(y.C[n, n])
            w_y = w_y.at[n].add(-2 * h * slope * C_py[n + 1, n])
        if flow.monitored:
            w_y = w_y.at[n].add(jumps[n])
            w_x = w_x.at[paired[n]].add(-jumps[n])
        if driven is not None:
            w_y, w_x, noise = w_y + driven.y[n], w_x + driven.x[n], noise + driven.noise[n]
        if delayed:
            uses = jnp.asarray(back)[:, n]
            w_y = w_y + (uses @ (R_py[1:, 1:] * slopes.own_second)) @ back
            w_x = w_x + (uses @ (R_px[1:, 1:] * slopes.other_second)) @ back_t
            noise = noise + (uses @ (C_pp[1:, 1:] * slopes.own_second)) @ back
        R_py = R_py.at[n].set(a * R_py[n + 1] + w_y @ y.R[:N])
        R_px = R_px.at[n].set(a * R_px[n + 1] + w_x @ x.R[:N_t])
        C_py = C_py.at[n].set(a * C_py[n + 1] + w_y @ y.C[:N] + C_yx[:, :N_t] @ w_x)
        C_px = C_px.at[n].set(a * C_px[n + 1] + w_y @ C_yx[:N] + w_x @ x.C[:N_t])
        seen = C_py[:, :N] @ w_y + C_px[:, :N_t] @ w_x + noise @ y.R[:N]
        if masks is not None:
            seen = seen + masks[n] @ y.R
        new = jnp.where(jnp.arange(N + 1) > n, a * C_pp[n + 1] + seen, 0.0)
        new = new.at[n].set(a * new[n + 1] + seen[n] + 2 * h * flow.adjoint_noise)
        return AdjointCorrelations(
            C_pp.at[n].set(new).at[:, n].set(new), C_py, C_px, R_py, R_px
        ), None

    found, _ = jax.lax.scan(row, known, jnp.arange(N - 1, -1, -1))
    return found


def errors(y: Trajectory, x: Trajectory, C_yx, paired) -> Array:
    """⟨(y_n − x_n')(y_k − x_k')⟩ (N_s+1 × N_s+1)."""
    mixed = C_yx[:, paired]
    return y.C - mixed - mixed.T + x.C[paired][:, paired]


def error_at(y: Trajectory, x: Trajectory, C_yx, n: int, n_t: int) -> Array:
    """⟨(y_n − x_n')²⟩."""
    return y.C[n, n] + x.C[n_t, n_t] - 2 * C_yx[n, n_t]
