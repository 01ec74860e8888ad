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

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers
from learndyn.families.neural_ode.limit.trajectories import Trajectory, earlier


class AdjointCorrelations(NamedTuple):
    """Correlations and responses of the adjoint: row n is p_n; columns are p, y or x."""

    C_pp: Float[Array, "N_s+1 N_s+1"]
    C_py: Float[Array, "N_s+1 N_s+1"]
    C_px: Float[Array, "N_s+1 N_t+1"]
    R_py: Float[Array, "N_s+1 N_s+1"]
    R_px: Float[Array, "N_s+1 N_t+1"]


class DrivenTerms(NamedTuple):
    """What a driven system adds to the adjoint of its driver: weights w^y and w^x, and the covariance of noise."""

    y: Float[Array, "N_s N_s"]
    x: Float[Array, "N_s N_t"]
    noise: Float[Array, "N_s N_s"]


class CovarianceSlopes(NamedTuple):
    """The slopes of the covariance, between the student's times (`own`) and with the teacher's (`other`).

    - `own`: h²∂_1G(C_yy, Q)
    - `other`: h²∂_1G(C_yx, m)
    - `second`: h²∂_sG of both, None if the field has one state
    """

    own: Float[Array, "N_s N_s"]
    other: Float[Array, "N_s N_t"]
    second: tuple[Float[Array, "N_s N_s"], Float[Array, "N_s N_t"]] | None = None


def backward(
    flow: FlowNumbers,
    y: Trajectory,
    x: Trajectory,
    C_yx: Float[Array, "N_s+1 N_t+1"],
    slopes: CovarianceSlopes,
    weights: Float[Array, " N_s+1"],
    driven: DrivenTerms | None,
) -> AdjointCorrelations:
    """The correlations and responses of the adjoint.

    `weights` are those of the observations, and `driven` is what the system that this one drives adds, if any.
    """
    h, N, N_t = flow.h, flow.steps, flow.teacher_steps
    paired = jnp.asarray(flow.paired)
    jumps = flow.visible * weights
    masks = _mask_noise(flow, weights, errors(y, x, C_yx, paired)) if flow.monitored else None
    last_row = _last_row(flow, y, x, C_yx, jumps[N], 0.0 if masks is None else masks[N, N])
    delayed = flow.shape.delay is not None
    back, back_t = (np.eye(steps)[earlier(flow, steps)] for steps in (N, N_t))

    def row(later: AdjointCorrelations, n: Int[Array, ""]) -> tuple[AdjointCorrelations, None]:
        """Add row n to all correlations and responses."""
        C_pp, C_py, C_px, R_py, R_px = later
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
        if delayed and slopes.second is not None:
            own_second, other_second = slopes.second
            uses = jnp.asarray(back)[:, n]
            w_y = w_y + (uses @ (R_py[1:, 1:] * own_second)) @ back
            w_x = w_x + (uses @ (R_px[1:, 1:] * other_second)) @ back_t
            noise = noise + (uses @ (C_pp[1:, 1:] * own_second)) @ back
        R_py = R_py.at[n].set(a * R_py[n + 1] + w_y @ y.R[:N])
        R_px = R_px.at[n].set(a * R_px[n + 1] + w_x @ x.R[:N_t])
        C_py = C_py.at[n].set(a * C_py[n + 1] + w_y @ y.C[:N] + C_yx[:, :N_t] @ w_x)
        C_px = C_px.at[n].set(a * C_px[n + 1] + w_y @ C_yx[:N] + w_x @ x.C[:N_t])
        sources = C_py[:, :N] @ w_y + C_px[:, :N_t] @ w_x + noise @ y.R[:N]
        if masks is not None:
            sources = sources + masks[n] @ y.R
        new = jnp.where(jnp.arange(N + 1) > n, a * C_pp[n + 1] + sources, 0.0)
        new = new.at[n].set(a * new[n + 1] + sources[n] + 2 * h * flow.adjoint_noise)
        return AdjointCorrelations(
            C_pp.at[n].set(new).at[:, n].set(new), C_py, C_px, R_py, R_px
        ), None

    adjoint, _ = jax.lax.scan(row, last_row, jnp.arange(N - 1, -1, -1))
    return adjoint


def _mask_noise(
    flow: FlowNumbers,
    weights: Float[Array, " N_s+1"],
    errors: Float[Array, "N_s+1 N_s+1"],
) -> Float[Array, "N_s+1 N_s+1"]:
    """ρ(1 − ρ) w_n w_k ⟨(y_n − x_n')(y_k − x_k')⟩; zero for n ≠ k if every observation has a mask of its own."""
    noise = flow.visible * (1 - flow.visible) * jnp.outer(weights, weights) * errors
    return noise if flow.one_mask else jnp.diag(jnp.diagonal(noise))


def _last_row(
    flow: FlowNumbers,
    y: Trajectory,
    x: Trajectory,
    C_yx: Float[Array, "N_s+1 N_t+1"],
    jump: Float[Array, ""],
    mask_noise: float | Float[Array, ""],
) -> AdjointCorrelations:
    """The arrays with row N_s, of p_N = ρw(y_N − x_N') + noise of the mask; all other rows are zero."""
    N, N_t = flow.steps, flow.teacher_steps
    empty = AdjointCorrelations(
        *(jnp.zeros((N + 1, width)) for width in (N + 1, N + 1, N_t + 1, N + 1, N_t + 1))
    )
    variance = jump**2 * error_at(y, x, C_yx, N, N_t) + mask_noise
    end = AdjointCorrelations(
        C_pp=jnp.zeros(N + 1).at[N].set(variance),
        C_py=jump * (y.C[N] - C_yx[:, N_t]),
        C_px=jump * (C_yx[N] - x.C[N_t]),
        R_py=jump * y.R[N],
        R_px=-jump * x.R[N_t],
    )
    return jax.tree.map(lambda rows, last: rows.at[N].set(last), empty, end)


def errors(
    y: Trajectory,
    x: Trajectory,
    C_yx: Float[Array, "N_s+1 N_t+1"],
    paired: Int[Array, " N_s+1"],
) -> Float[Array, "N_s+1 N_s+1"]:
    """⟨(y_n − x_n')(y_k − x_k')⟩; n' is `paired` with n."""
    mixed = C_yx[:, paired]
    return y.C - mixed - mixed.T + x.C[paired][:, paired]


def error_at(
    y: Trajectory, x: Trajectory, C_yx: Float[Array, "N_s+1 N_t+1"], n: int, n_t: int
) -> Float[Array, ""]:
    """⟨(y_n − x_n')²⟩."""
    return y.C[n, n] + x.C[n_t, n_t] - 2 * C_yx[n, n_t]
