"""One training step of a neural ODE in the limit: forward and backward correlations and responses, row by row.

With fresh starts and G(0, ·) = 0 the trajectories of different training steps are independent, and all of a step is a
function of the overlaps Q = |θ|²/d_θ and m = θ·θ*/d_θ. C_uw(n, n') = ⟨u_n w_n'⟩; R_uw(n, n') is the response of u_n to
a source in the equation that produces w_n', so that R_yy(n, n) = 1. With a_n = 1 − hμ̂(C_yy(n, n)),

    C_yy(n+1, n') = a_n C_yy(n, n') + h² Σ_{k<n'} G(C_yy(n, k), Q) R_yy(n', k+1)   (+ 2hτ_s at n' = n+1),
    C_yx(n+1, n') = a_n C_yx(n, n') + h² Σ_{k<n'} G(C_yx(n, k), m) R_xx(n', k+1),

and backwards, with the weights with which p_n sees the trajectories,

    w^y_n' = h² R_py(n+1, n'+1) ∂_1G(C_yy(n, n'), Q)  [− 2hμ̂'(C_yy(n, n)) C_py(n+1, n) δ_nn' for the true gradient],
    w^x_n' = h² R_px(n+1, n'+1) ∂_1G(C_yx(n, n'), m),

    R_py(n, ·) = a_n R_py(n+1, ·) + Σ w^y R_yy,    C_py(n, ·) = a_n C_py(n+1, ·) + Σ w^y C_yy + Σ w^x C_xy,
    R_px(n, ·) = a_n R_px(n+1, ·) + Σ w^x R_xx,    C_px(n, ·) = a_n C_px(n+1, ·) + Σ w^y C_yx + Σ w^x C_xx,
    C_pp(n, n') = a_n C_pp(n+1, n') + Σ w^y C_yp(·, n') + Σ w^x C_xp(·, n')
                  + h² Σ_k C_pp(n+1, k+1) ∂_1G(C_yy(n, k), Q) R_yy(k, n')   (+ 2hτ_p at n' = n).

A row costs O(N²), a training step O(N³).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from learndyn.activations import Activation
from learndyn.neural_ode.fields import RandomField


class Flow(eqx.Module):
    """What teacher and student have in common, and how they differ; numbers are arrays, so none is compiled in."""

    field: RandomField
    confinement: Activation
    h: Float[Array, ""]
    sigma: Float[Array, ""]
    noise: Float[Array, ""]
    teacher_noise: Float[Array, ""]
    adjoint_noise: Float[Array, ""]
    steps: int = eqx.field(static=True)
    teacher_steps: int = eqx.field(static=True)
    true_gradient: bool = eqx.field(static=True)


class Trajectory(NamedTuple):
    """Of one flow: correlations C (N+1 × N+1), responses R, and a_n = 1 − hμ̂ (N)."""

    C: Array
    R: Array
    a: Array


class Backward(NamedTuple):
    """Of the adjoint: row n is p_n; columns are p, y or x."""

    C_pp: Array
    C_py: Array
    C_px: Array
    R_py: Array
    R_px: Array


class Epoch(NamedTuple):
    """One training step: correlations and responses, its loss per component, and what moves the control."""

    y: Trajectory
    C_yx: Array
    p: Backward
    loss: Array
    k: Array
    v: Array
    n: Array


def flow_of(network) -> Flow:
    """The flow of a `NeuralODE`."""

    def leaf(x):
        return jnp.asarray(x, dtype=float)

    return Flow(
        field=jax.tree.map(leaf, network.field),
        confinement=jax.tree.map(leaf, network.confinement),
        h=leaf(network.time / network.steps),
        sigma=leaf(network.control_ratio),
        noise=leaf(network.noise),
        teacher_noise=leaf(network.teacher_noise),
        adjoint_noise=leaf(network.adjoint_noise),
        steps=network.steps,
        teacher_steps=network.teacher_steps,
        true_gradient=network.adjoint == "true",
    )


def trajectory(flow: Flow, norm, noise, steps: int) -> Trajectory:
    """C and R of a flow whose control has the norm `norm` (Q, or 1 for the teacher)."""
    h = flow.h

    def row(carry, n):
        C, R = carry
        here = C[n]
        a = 1 - h * flow.confinement(here[n])
        R = R.at[n + 1].set((a * R[n]).at[n + 1].set(1.0))
        force = jnp.where(jnp.arange(steps) <= n, flow.field(here[:-1], norm), 0.0)
        noisy = h**2 * (R[:, 1:] @ force)
        new = jnp.where(jnp.arange(steps + 1) <= n, a * here + noisy, 0.0)
        new = new.at[n + 1].set(a * new[n] + noisy[n + 1] + 2 * h * noise)
        return (C.at[n + 1].set(new).at[:, n + 1].set(new), R), a

    start = jnp.zeros((steps + 1, steps + 1)).at[0, 0].set(1.0)
    (C, R), a = jax.lax.scan(row, (start, start), jnp.arange(steps))
    return Trajectory(C, R, a)


def teacher_of(flow: Flow) -> Trajectory:
    """The teacher's flow."""
    return trajectory(flow, jnp.ones(()), flow.teacher_noise, flow.teacher_steps)


def cross_correlation(flow: Flow, y: Trajectory, x: Trajectory, m) -> Array:
    """C_yx (N_s+1 × N_t+1)."""

    def row(here, a):
        new = a * here + flow.h**2 * (x.R[:, 1:] @ flow.field(here[:-1], m))
        return new, new

    _, rows = jax.lax.scan(row, x.C[0], y.a)
    return jnp.concatenate([x.C[:1], rows])


def backward(flow: Flow, y: Trajectory, x: Trajectory, C_yx, Q, m) -> Backward:
    """The adjoint, from its end condition p = y − x."""
    h, N, N_t = flow.h, flow.steps, flow.teacher_steps
    own = h**2 * flow.field.of_state(y.C[:N, :N], Q)
    other = h**2 * flow.field.of_state(C_yx[:N, :N_t], m)
    end = Backward(
        C_pp=y.C[N, N] + x.C[N_t, N_t] - 2 * C_yx[N, N_t],
        C_py=y.C[N] - C_yx[:, N_t],
        C_px=C_yx[N] - x.C[N_t],
        R_py=y.R[N],
        R_px=-x.R[N_t],
    )
    empty = Backward(
        *(jnp.zeros((N + 1, width)) for width in (N + 1, N + 1, N_t + 1, N + 1, N_t + 1))
    )
    known = jax.tree.map(lambda whole, last: whole.at[N].set(last), empty, end)
    known = known._replace(C_pp=empty.C_pp.at[N, N].set(end.C_pp))

    def row(known: Backward, n):
        C_pp, C_py, C_px, R_py, R_px = known
        a = y.a[n]
        w_y = R_py[n + 1, 1:] * own[n]
        if flow.true_gradient:
            slope = flow.confinement.derivative(y.C[n, n])
            w_y = w_y.at[n].add(-2 * h * slope * C_py[n + 1, n])
        w_x = R_px[n + 1, 1:] * other[n]
        R_py = R_py.at[n].set(a * R_py[n + 1] + w_y @ y.R[:N])
        R_px = R_px.at[n].set(a * R_px[n + 1] + w_x @ x.R[:N_t])
        C_py = C_py.at[n].set(a * C_py[n + 1] + w_y @ y.C[:N] + C_yx[:, :N_t] @ w_x)
        C_px = C_px.at[n].set(a * C_px[n + 1] + w_y @ C_yx[:N] + w_x @ x.C[:N_t])
        # Correlations C_pp(n+1, k+1) with k < n are not known yet, and zero in the array.
        noise = (C_pp[n + 1, 1:] * own[n]) @ y.R[:N]
        seen = C_py[:, :N] @ w_y + C_px[:, :N_t] @ w_x + noise
        new = jnp.where(jnp.arange(N + 1) > n, a * C_pp[n + 1] + seen, 0.0)
        new = new.at[n].set(a * new[n + 1] + seen[n] + 2 * h * flow.adjoint_noise)
        return Backward(C_pp.at[n].set(new).at[:, n].set(new), C_py, C_px, R_py, R_px), None

    found, _ = jax.lax.scan(row, known, jnp.arange(N - 1, -1, -1))
    return found


def epoch(flow: Flow, x: Trajectory, Q, m) -> Epoch:
    """The training step at overlaps Q and m, with the teacher's trajectory `x`.

    The control moves by θ ← (1 − η(k + λ)) θ + η v θ* + η ξ, ⟨ξξ⟩ = n/B, with

        k = (h²/σ) Σ R_py(n+1, n'+1) ∂_2G(C_yy(n, n'), Q),    v = −(h²/σ) Σ R_px(n+1, n'+1) ∂_2G(C_yx(n, n'), m),
        n = (h²/σ) Σ C_pp(n+1, n'+1) ∂_2G(C_yy(n, n'), Q).
    """
    N, N_t = flow.steps, flow.teacher_steps
    y = trajectory(flow, Q, flow.noise, N)
    C_yx = cross_correlation(flow, y, x, m)
    p = backward(flow, y, x, C_yx, Q, m)
    scale = flow.h**2 / flow.sigma
    own = scale * flow.field.of_control(y.C[:N, :N], Q)
    other = scale * flow.field.of_control(C_yx[:N, :N_t], m)
    return Epoch(
        y=y,
        C_yx=C_yx,
        p=p,
        loss=p.C_pp[N, N] / 2,
        k=jnp.sum(p.R_py[1:, 1:] * own),
        v=-jnp.sum(p.R_px[1:, 1:] * other),
        n=jnp.sum(p.C_pp[1:, 1:] * own),
    )
