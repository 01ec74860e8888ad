"""One training step of a neural ODE in the limit: forward and backward correlations and responses, row by row.

With fresh starts and G(0, ·) = 0 the trajectories of different training steps are independent, and all of a step is a
function of the amplitudes and of the overlaps Q = θ_u·θ_u'/d_θ and M = θ_u·θ*_v/d_θ of the units. C_uw(n, n') =
⟨u_n w_n'⟩; R_uw(n, n') is the response of u_n to a source in the equation that produces w_n', so that R_yy(n, n) = 1.
Sums over units are in the kernels (`Kernel`), written here for one unit. With a_n = 1 − hμ̂(C_yy(n, n)),

    C_yy(n+1, n') = a_n C_yy(n, n') + h² Σ_{k<n'} G(C_yy(n, k), Q) R_yy(n', k+1)   (+ 2hτ_s at n' = n+1),
    C_yx(n+1, n') = a_n C_yx(n, n') + h² Σ_{k<n'} G(C_yx(n, k), m) R_xx(n', k+1),

and backwards, with the weights with which p_n sees the trajectories,

    w^y_n' = h² R_py(n+1, n'+1) ∂_1G(C_yy(n, n'), Q)  [− 2hμ̂'(C_yy(n, n)) C_py(n+1, n) δ_nn' for the true gradient],
    w^x_n' = h² R_px(n+1, n'+1) ∂_1G(C_yx(n, n'), m),

    R_py(n, ·) = a_n R_py(n+1, ·) + Σ w^y R_yy,    C_py(n, ·) = a_n C_py(n+1, ·) + Σ w^y C_yy + Σ w^x C_xy,
    R_px(n, ·) = a_n R_px(n+1, ·) + Σ w^x R_xx,    C_px(n, ·) = a_n C_px(n+1, ·) + Σ w^y C_yx + Σ w^x C_xx,
    C_pp(n, n') = a_n C_pp(n+1, n') + Σ w^y C_yp(·, n') + Σ w^x C_xp(·, n')
                  + h² Σ_k C_pp(n+1, k+1) ∂_1G(C_yy(n, k), Q) R_yy(k, n')   (+ 2hτ_p at n' = n).

An observation of y_n, of weight w, adds ρw to w^y_n and −ρw to w^x_n', and masks add ρ(1 − ρ) w_n w_k ⟨(y_n − x_n')(y_k
− x_k')⟩ to the noise, h²C_pp∂_1G above. The second state of a field gives weights and noise of the same form to the
adjoint of that state. A row costs O(N²), a training step O(N³).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.activations import Activation
from learndyn.neural_ode.fields import RandomField
from learndyn.neural_ode.kernel import Kernel, kernel_of
from learndyn.neural_ode.units import Shape, Start, start_of, systems


class Flow(eqx.Module):
    """What teacher and student have in common, and how they differ; numbers are arrays, so none is compiled in.

    `fields` has one covariance for each system. `observed` are the weights w of the observations (sets × N_s + 1),
    `visible` is ρ, `paired` the teacher's step for each of the student's, `shares` the weight of each system's loss.
    """

    fields: tuple[RandomField, ...]
    confinement: Activation
    h: Float[Array, ""]
    sigma: Float[Array, ""]
    noise: Float[Array, ""]
    teacher_noise: Float[Array, ""]
    adjoint_noise: Float[Array, ""]
    observed: Float[Array, "sets times"]
    visible: Float[Array, ""]
    shares: Float[Array, " systems"]
    teacher_a: Float[Array, " units"]
    T: Float[Array, "units units"]
    shape: Shape = eqx.field(static=True)
    paired: tuple[int, ...] = eqx.field(static=True)
    monitored: bool = eqx.field(static=True)
    one_mask: bool = eqx.field(static=True)
    true_gradient: bool = eqx.field(static=True)
    train_amplitudes: bool = eqx.field(static=True)

    @property
    def steps(self) -> int:
        """N_s."""
        return self.shape.steps

    @property
    def teacher_steps(self) -> int:
        """N_t."""
        return self.shape.teacher_steps


class Overlaps(NamedTuple):
    """The state of training: amplitudes a (units), overlaps Q (units × units) and M (units × teacher's units)."""

    a: Array
    Q: Array
    M: Array


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


class Seen(NamedTuple):
    """What a row of an adjoint sees besides its own use of the field: weights on y and x, covariance of noise."""

    y: Array
    x: Array
    noise: Array


class Course(NamedTuple):
    """One system in one training step."""

    x: Trajectory
    y: Trajectory
    C_yx: Array
    p: Backward


class Epoch(NamedTuple):
    """One training step: its course in each system, its losses per component, and what moves the units.

    `loss` is that of all observations, unmasked, and `visible_loss` what is seen of those of the step.
    """

    courses: tuple[Course, ...]
    loss: Array
    visible_loss: Array
    K: Array
    V: Array
    N: Array
    pull: Array


def flow_of(network, data=None) -> Flow:
    """The flow of a `NeuralODE`, observed as the data say (at the end, without any)."""

    def leaf(x):
        return jnp.asarray(x, dtype=float)

    start = start_of(network)
    seen = getattr(data, "observations", None)
    observed, paired = network.observed(data)
    fields = (network.field,) if network.driven is None else (network.field, network.driven)
    return Flow(
        fields=jax.tree.map(leaf, fields),
        confinement=jax.tree.map(leaf, network.confinement),
        h=leaf(network.time / network.steps),
        sigma=leaf(network.control_ratio),
        noise=leaf(network.noise),
        teacher_noise=leaf(network.teacher_noise),
        adjoint_noise=leaf(network.adjoint_noise),
        observed=leaf(observed) if seen is None else leaf(observed) * seen.weight,
        visible=leaf(1.0 if seen is None else seen.visible),
        shares=leaf([1.0])
        if len(fields) == 1
        else jnp.stack([leaf(network.driver_loss), leaf(1.0)]),
        teacher_a=leaf(start.teacher_a),
        T=leaf(start.T),
        shape=network.shape,
        paired=tuple(paired.tolist()),
        monitored=seen is not None,
        one_mask=seen is not None and seen.mask == "trajectory",
        true_gradient=network.adjoint == "true",
        train_amplitudes=network.train_amplitudes,
    )


def overlaps_of(start: Start) -> Overlaps:
    """The state in which training starts."""
    return Overlaps(*(jnp.asarray(x, float) for x in (start.a, start.Q, start.M)))


def earlier(flow: Flow, steps: int) -> np.ndarray:
    """The step max(n − Δ, 0) of the delayed state at step n."""
    return np.maximum(np.arange(steps) - (flow.shape.delay or 0), 0)


def trajectory(
    flow: Flow, system: int, kernel: Kernel, noise, steps: int, driver=None
) -> Trajectory:
    """C and R of a flow with a kernel; `driver` is the C of the system that drives it."""
    h, field = flow.h, flow.fields[system]
    delayed = jnp.asarray(earlier(flow, steps))

    def row(carry, n):
        C, R = carry
        here = C[n]
        a = 1 - h * flow.confinement(here[n])
        R = R.at[n + 1].set((a * R[n]).at[n + 1].set(1.0))
        second = None
        if driver is not None:
            second = driver[n, :steps]
        elif flow.shape.delay is not None:
            second = C[delayed[n]][delayed]
        force = jnp.where(jnp.arange(steps) <= n, kernel.row(field, n, here[:-1], second), 0.0)
        noisy = h**2 * (R[:, 1:] @ force)
        new = jnp.where(jnp.arange(steps + 1) <= n, a * here + noisy, 0.0)
        new = new.at[n + 1].set(a * new[n] + noisy[n + 1] + 2 * h * noise)
        return (C.at[n + 1].set(new).at[:, n + 1].set(new), R), a

    start = jnp.zeros((steps + 1, steps + 1)).at[0, 0].set(1.0)
    (C, R), a = jax.lax.scan(row, (start, start), jnp.arange(steps))
    return Trajectory(C, R, a)


def teacher_of(flow: Flow) -> tuple[Trajectory, ...]:
    """The teacher's flow in each system."""
    found: list[Trajectory] = []
    for s, system in enumerate(systems(flow.shape)):
        kernel = kernel_of(system.teacher, system.teacher, flow.teacher_a, flow.teacher_a, flow.T)
        driver = found[-1].C if found else None
        given = (flow.teacher_noise, flow.teacher_steps, driver)
        found.append(trajectory(flow, s, kernel, *given))
    return tuple(found)


def cross_correlation(
    flow: Flow, system: int, kernel: Kernel, y: Trajectory, x: Trajectory, driver=None
) -> Array:
    """C_yx (N_s+1 × N_t+1)."""
    field = flow.fields[system]
    back, back_t = (jnp.asarray(earlier(flow, steps)) for steps in (flow.steps, flow.teacher_steps))

    def row(C, n):
        here = C[n]
        second = None
        if driver is not None:
            second = driver[n, :-1]
        elif flow.shape.delay is not None:
            second = C[back[n]][back_t]
        new = y.a[n] * here + flow.h**2 * (x.R[:, 1:] @ kernel.row(field, n, here[:-1], second))
        return C.at[n + 1].set(new), None

    start = jnp.zeros((flow.steps + 1, flow.teacher_steps + 1)).at[0].set(x.C[0])
    C, _ = jax.lax.scan(row, start, jnp.arange(flow.steps))
    return C


class Slopes(NamedTuple):
    """h²∂_1G of pairs of uses, between the student's (`own`) and with the teacher's (`other`), and h²∂_sG of both."""

    own: Array
    other: Array
    own_second: Array | None
    other_second: Array | None


def backward(
    flow: Flow, y: Trajectory, x: Trajectory, C_yx, slopes: Slopes, weights, driven: Seen | None
) -> Backward:
    """The adjoint; `weights` of the observations (N_s + 1), and what it sees of the system that it drives."""
    h, N, N_t = flow.h, flow.steps, flow.teacher_steps
    paired = jnp.asarray(flow.paired)
    jumps = flow.visible * weights
    # ⟨(y_n − x_n') y⟩ and ⟨(y_n − x_n') x⟩ at the end, and, with masks, between all observed errors.
    empty = Backward(
        *(jnp.zeros((N + 1, width)) for width in (N + 1, N + 1, N_t + 1, N + 1, N_t + 1))
    )
    end = Backward(
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

    def row(known: Backward, n):
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
        return Backward(C_pp.at[n].set(new).at[:, n].set(new), C_py, C_px, R_py, R_px), None

    found, _ = jax.lax.scan(row, known, jnp.arange(N - 1, -1, -1))
    return found


def errors(y: Trajectory, x: Trajectory, C_yx, paired) -> Array:
    """⟨(y_n − x_n')(y_k − x_k')⟩ (N_s+1 × N_s+1)."""
    mixed = C_yx[:, paired]
    return y.C - mixed - mixed.T + x.C[paired][:, paired]


def error_at(y: Trajectory, x: Trajectory, C_yx, n: int, n_t: int) -> Array:
    """⟨(y_n − x_n')²⟩."""
    return y.C[n, n] + x.C[n_t, n_t] - 2 * C_yx[n, n_t]


def epoch(flow: Flow, x: tuple[Trajectory, ...], state: Overlaps, index=0) -> Epoch:
    """Training step number `index` in a state, with the teacher's trajectories `x`.

    The controls move by θ ← (1 − ηλ − ηK) θ + ηVθ* + ηξ, ⟨ξξ⟩ = N/B, and the amplitudes by a ← a − η_a pull, with

        K = (h²/σ) Σ R_py(n+1, n'+1) ∂_2G(C_yy(n, n'), Q),    V = −(h²/σ) Σ R_px(n+1, n'+1) ∂_2G(C_yx(n, n'), m),
        N = (h²/σ) Σ C_pp(n+1, n'+1) ∂_2G(C_yy(n, n'), Q),    pull = h² Σ {R_py G(C_yy, Q) + R_px G(C_yx, m)},

    each summed over the times n, n' in the windows of its two units, with their amplitudes; that of the unit itself is
    left out of the last.
    """
    N, N_t = flow.steps, flow.teacher_steps
    made, students, mixed = systems(flow.shape), [], []
    kernels = [
        (
            kernel_of(system.student, system.student, state.a, state.a, state.Q),
            kernel_of(system.student, system.teacher, state.a, flow.teacher_a, state.M),
        )
        for system in made
    ]
    for s, (own, other) in enumerate(kernels):
        given = (flow.noise, N, students[-1].C if s else None)
        students.append(trajectory(flow, s, own, *given))
        mixed.append(cross_correlation(flow, s, other, students[s], x[s], mixed[-1] if s else None))
    # The second argument of each system's field, between uses: its own earlier states, or those of its driver.
    second: list[tuple] = [_second(flow, students[0].C, mixed[0])]
    if len(made) > 1:
        second.append((students[0].C[:N, :N], mixed[0][:N, :N_t]))
    observed = (
        flow.observed[index % len(flow.observed)] if len(flow.observed) > 1 else flow.observed[0]
    )
    courses: list[Course] = []
    driven = None
    for s in reversed(range(len(made))):
        field, (own, other) = flow.fields[s], kernels[s]
        at = (students[s].C[:N, :N], second[s][0]), (mixed[s][:N, :N_t], second[s][1])
        slopes = Slopes(
            own=flow.h**2 * own.whole(field.of_state, *at[0]),
            other=flow.h**2 * other.whole(field.of_state, *at[1]),
            own_second=None
            if at[0][1] is None
            else flow.h**2 * own.whole(field.of_second_state, *at[0]),
            other_second=None
            if at[0][1] is None
            else flow.h**2 * other.whole(field.of_second_state, *at[1]),
        )
        weights = flow.shares[s] * observed
        p = backward(flow, students[s], x[s], mixed[s], slopes, weights, driven)
        courses.insert(0, Course(x[s], students[s], mixed[s], p))
        if s:
            driven = Seen(
                p.R_py[1:, 1:] * slopes.own_second,
                p.R_px[1:, 1:] * slopes.other_second,
                p.C_pp[1:, 1:] * slopes.own_second,
            )
    K, V, noise, pull = _moves(flow, courses, kernels, second, len(state.a))
    return Epoch(tuple(courses), *_losses(flow, courses, observed), K, V, noise, pull)


def _second(flow: Flow, C, C_yx) -> tuple:
    """Correlations of the delayed states, or none."""
    if flow.shape.delay is None:
        return None, None
    back, back_t = earlier(flow, flow.steps), earlier(flow, flow.teacher_steps)
    return C[back][:, back], C_yx[back][:, back_t]


def _losses(flow: Flow, courses: list[Course], observed) -> tuple[Array, Array]:
    """The loss of all observations, and what is seen of those of this step."""
    if not flow.monitored:
        ends = [error_at(c.y, c.x, c.C_yx, flow.steps, flow.teacher_steps) for c in courses]
        loss = flow.shares @ jnp.stack(ends) / 2
        return loss, loss
    paired = jnp.asarray(flow.paired)
    square = [jnp.diagonal(errors(c.y, c.x, c.C_yx, paired)) for c in courses]
    square = flow.shares @ jnp.stack(square)
    every = jnp.max(flow.observed, axis=0)
    return every @ square / 2, flow.visible * (observed @ square) / 2


def _moves(flow: Flow, courses: list[Course], kernels, second, units: int) -> tuple:
    """K, V, N and pull."""
    N, N_t = flow.steps, flow.teacher_steps
    V_units = len(flow.teacher_a)
    K, noise = jnp.zeros((units, units)), jnp.zeros((units, units))
    V, pull = jnp.zeros((units, V_units)), jnp.zeros(units)
    scale = flow.h**2 / flow.sigma
    for s, (course, (own, other)) in enumerate(zip(courses, kernels, strict=True)):
        field, p = flow.fields[s], course.p
        here, there = course.y.C[:N, :N], course.C_yx[:N, :N_t]
        of_own = own.terms(field.of_control, here, second[s][0])
        of_other = other.terms(field.of_control, there, second[s][1])
        K = K + scale * own.to_units(p.R_py[1:, 1:], of_own, K.shape)
        noise = noise + scale * own.to_units(p.C_pp[1:, 1:], of_own, K.shape)
        V = V - scale * other.to_units(p.R_px[1:, 1:], of_other, V.shape)
        if flow.train_amplitudes:
            for kernel, R, C, more in (
                (own, p.R_py, here, second[s][0]),
                (other, p.R_px, there, second[s][1]),
            ):
                shape = K.shape if kernel is own else V.shape
                forces = kernel.terms(field, C, more, left=False)
                pull = pull + flow.h**2 * jnp.sum(kernel.to_units(R[1:, 1:], forces, shape), axis=1)
    return K, V, noise, pull
