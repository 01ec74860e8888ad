"""One training step of a neural ODE in the limit, as a function of amplitudes and overlaps.

With fresh starts and G(0, ·) = 0 the trajectories of different training steps are independent, and a step is a
function of the amplitudes and of the overlaps Q = θ_u·θ_u'/d_θ and M = θ_u·θ*_v/d_θ of the units: a sweep forward
(`trajectories.py`), one backward (`adjoint.py`), and sums over both that move the units. It costs O(N³).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float, Int

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
    """One system in one training step: teacher x, student y and adjoint p."""

    x: Trajectory
    y: Trajectory
    C_yx: Float[Array, "N_s+1 N_t+1"]
    p: AdjointCorrelations


class SecondStates(NamedTuple):
    """Correlations of the second states of a field, between the student's times and with the teacher's."""

    own: Float[Array, "N_s N_s"]
    other: Float[Array, "N_s N_t"]


class Epoch(NamedTuple):
    """One training step: its course in each system, its losses per component, and what moves the units.

    - `courses`: one for each system
    - `loss`: the loss of all observations, without masks
    - `visible_loss`: the loss of the step's own observations, with their masks
    - `K`, `V`, `N`, `pull`: the matrices that move the units; see `epoch`
    """

    courses: tuple[Course, ...]
    loss: Float[Array, ""]
    visible_loss: Float[Array, ""]
    K: Float[Array, "units units"]
    V: Float[Array, "units teacher_units"]
    N: Float[Array, "units units"]
    pull: Float[Array, " units"]


def epoch(
    flow: FlowNumbers,
    x: tuple[Trajectory, ...],
    state: Overlaps,
    index: int | Int[Array, ""] = 0,
) -> Epoch:
    """Training step number `index` in a state, with the teacher's trajectories `x`.

    The controls move by θ ← (1 − ηλ − ηK) θ + ηVθ* + ηξ, ⟨ξξ⟩ = N/B, and the amplitudes by a ← a − η_a pull, with

        K = (h²/σ) Σ R_py(n+1, n'+1) ∂_2G(C_yy(n, n'), Q),    V = −(h²/σ) Σ R_px(n+1, n'+1) ∂_2G(C_yx(n, n'), m),
        N = (h²/σ) Σ C_pp(n+1, n'+1) ∂_2G(C_yy(n, n'), Q),    pull = h² Σ {R_py G(C_yy, Q) + R_px G(C_yx, m)},

    each summed over the times n, n' in the windows of its two units, with their amplitudes; `pull` leaves out the
    amplitude of the unit itself.
    """
    N, N_t = flow.steps, flow.teacher_steps
    units = systems(flow.shape)
    students: list[Trajectory] = []
    mixed: list[Float[Array, "N_s+1 N_t+1"]] = []
    kernels = [
        (
            kernel_of(field, system.student, system.student, state.a, state.a, state.Q),
            kernel_of(field, system.student, system.teacher, state.a, flow.teacher_a, state.M),
        )
        for field, system in zip(flow.fields, units, strict=True)
    ]
    for s, (own, other) in enumerate(kernels):
        students.append(trajectory(flow, own, flow.noise, N, students[-1].C if s else None))
        mixed.append(cross_correlation(flow, other, students[s], x[s], mixed[-1] if s else None))
    # The second state of a system's field is its own at an earlier time, or that of its driver.
    second = [_delayed_states(flow, students[0].C, mixed[0])]
    if len(units) > 1:
        second.append(SecondStates(students[0].C[:N, :N], mixed[0][:N, :N_t]))
    observed = (
        flow.observed[index % len(flow.observed)] if len(flow.observed) > 1 else flow.observed[0]
    )
    courses: list[Course] = []
    driven = None
    for s in reversed(range(len(units))):
        slopes = _slopes(flow, kernels[s], students[s].C[:N, :N], mixed[s][:N, :N_t], second[s])
        weights = flow.shares[s] * observed
        p = backward(flow, students[s], x[s], mixed[s], slopes, weights, driven)
        courses.insert(0, Course(x[s], students[s], mixed[s], p))
        if s and slopes.second is not None:
            own_second, other_second = slopes.second
            driven = DrivenTerms(
                p.R_py[1:, 1:] * own_second,
                p.R_px[1:, 1:] * other_second,
                p.C_pp[1:, 1:] * own_second,
            )
    loss, visible_loss = _losses(flow, courses, observed)
    K, V, noise, pull = _moves(flow, courses, kernels, second)
    return Epoch(tuple(courses), loss, visible_loss, K, V, noise, pull)


def _delayed_states(
    flow: FlowNumbers, C: Float[Array, "N_s+1 N_s+1"], C_yx: Float[Array, "N_s+1 N_t+1"]
) -> SecondStates | None:
    """Correlations of the delayed states; None without a delay."""
    if flow.shape.delay is None:
        return None
    back, back_t = earlier(flow, flow.steps), earlier(flow, flow.teacher_steps)
    return SecondStates(C[back][:, back], C_yx[back][:, back_t])


def _slopes(
    flow: FlowNumbers,
    kernels: tuple[Kernel, Kernel],
    C: Float[Array, "N_s N_s"],
    C_yx: Float[Array, "N_s N_t"],
    second: SecondStates | None,
) -> CovarianceSlopes:
    """The slopes of the covariance at the correlations of one system."""
    own, other = kernels
    if second is None:
        return CovarianceSlopes(flow.h**2 * own.of_state(C), flow.h**2 * other.of_state(C_yx))
    return CovarianceSlopes(
        flow.h**2 * own.of_state(C, second.own),
        flow.h**2 * other.of_state(C_yx, second.other),
        (
            flow.h**2 * own.of_second_state(C, second.own),
            flow.h**2 * other.of_second_state(C_yx, second.other),
        ),
    )


def _losses(
    flow: FlowNumbers, courses: list[Course], observed: Float[Array, " N_s+1"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The loss of all observations without masks, and that of this step's observations with masks."""
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
    second: list[SecondStates | None],
) -> tuple[Array, Array, Array, Array]:
    """K, V, N and `pull`; units of different systems do not act on each other."""
    N, N_t = flow.steps, flow.teacher_steps
    K, V, noise, pull = [], [], [], []
    for course, (own, other), states in zip(courses, kernels, second, strict=True):
        s, s_yx = (None, None) if states is None else states
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
