"""One training step of a neural ODE in the limit, as a function of a few numbers.

With fresh starts and G(0, ·) = 0 the trajectories of different training steps are independent, and all of a step is a
function of the amplitudes and of the overlaps Q = θ_u·θ_u'/d_θ and M = θ_u·θ*_v/d_θ of the units: a sweep forward
(`trajectories.py`), one backward (`adjoint.py`), and sums over both that move the units. It costs O(N³).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import block_diag

from learndyn.families.neural_ode.limit.adjoint import (
    AdjointCorrelations,
    CovarianceSlopes,
    DrivenTerms,
    backward,
    error_at,
    errors,
)
from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers, Overlaps
from learndyn.families.neural_ode.limit.kernel import Kernel, kernel_of
from learndyn.families.neural_ode.limit.trajectories import (
    Trajectory,
    cross_correlation,
    earlier,
    trajectory,
)
from learndyn.families.neural_ode.units import systems


class Course(NamedTuple):
    """One system in one training step."""

    x: Trajectory
    y: Trajectory
    C_yx: Array
    p: AdjointCorrelations


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


def epoch(flow: FlowNumbers, x: tuple[Trajectory, ...], state: Overlaps, index=0) -> Epoch:
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
            kernel_of(field, system.student, system.student, state.a, state.a, state.Q),
            kernel_of(field, system.student, system.teacher, state.a, flow.teacher_a, state.M),
        )
        for field, system in zip(flow.fields, made, strict=True)
    ]
    for s, (own, other) in enumerate(kernels):
        students.append(trajectory(flow, own, flow.noise, N, students[-1].C if s else None))
        mixed.append(cross_correlation(flow, other, students[s], x[s], mixed[-1] if s else None))
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
        own, other = kernels[s]
        at_own = students[s].C[:N, :N], second[s][0]
        at_other = mixed[s][:N, :N_t], second[s][1]
        two_states = second[s][0] is not None
        slopes = CovarianceSlopes(
            own=flow.h**2 * own.of_state(*at_own),
            other=flow.h**2 * other.of_state(*at_other),
            own_second=flow.h**2 * own.of_second_state(*at_own) if two_states else None,
            other_second=flow.h**2 * other.of_second_state(*at_other) if two_states else None,
        )
        weights = flow.shares[s] * observed
        p = backward(flow, students[s], x[s], mixed[s], slopes, weights, driven)
        courses.insert(0, Course(x[s], students[s], mixed[s], p))
        if s:
            driven = DrivenTerms(
                p.R_py[1:, 1:] * slopes.own_second,
                p.R_px[1:, 1:] * slopes.other_second,
                p.C_pp[1:, 1:] * slopes.own_second,
            )
    K, V, noise, pull = _moves(flow, courses, kernels, second)
    return Epoch(tuple(courses), *_losses(flow, courses, observed), K, V, noise, pull)


def _second(flow: FlowNumbers, C, C_yx) -> tuple:
    """Correlations of the delayed states, or none."""
    if flow.shape.delay is None:
        return None, None
    back, back_t = earlier(flow, flow.steps), earlier(flow, flow.teacher_steps)
    return C[back][:, back], C_yx[back][:, back_t]


def _losses(flow: FlowNumbers, courses: list[Course], observed) -> tuple[Array, Array]:
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


def _moves(
    flow: FlowNumbers,
    courses: list[Course],
    kernels: list[tuple[Kernel, Kernel]],
    second: list[tuple[Array | None, Array | None]],
) -> tuple[Array, Array, Array, Array]:
    """K, V, N and pull; units of different systems do not act on each other."""
    N, N_t = flow.steps, flow.teacher_steps
    K, V, noise, pull = [], [], [], []
    for course, (own, other), (s, s_yx) in zip(courses, kernels, second, strict=True):
        C, C_yx = course.y.C[:N, :N], course.C_yx[:N, :N_t]
        R_py, R_px, C_pp = (x[1:, 1:] for x in (course.p.R_py, course.p.R_px, course.p.C_pp))
        K_and_noise = own.of_controls(jnp.stack([R_py, C_pp]), C, s)
        K.append(K_and_noise[0])
        noise.append(K_and_noise[1])
        V.append(-other.of_controls(R_px, C_yx, s_yx))
        if flow.train_amplitudes:
            pull.append(own.of_amplitudes(R_py, C, s) + other.of_amplitudes(R_px, C_yx, s_yx))
        else:
            pull.append(jnp.zeros(len(K[-1])))
    scale = flow.h**2 / flow.sigma
    K, V, noise = (scale * block_diag(*blocks) for blocks in (K, V, noise))
    return K, V, noise, flow.h**2 * jnp.concatenate(pull)
