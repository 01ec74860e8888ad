"""Teacher and student in the limit: correlations and responses of their trajectories, row by row.

C_uw(n, n') = ⟨u_n w_n'⟩; R_uw(n, n') is the response of u_n to a source in the equation that produces w_n', so that
R_yy(n, n) = 1. Sums over units are in the kernels (`Kernel`), written here for one unit. With a_n = 1 − hμ̂(C_yy(n, n)),

    C_yy(n+1, n') = a_n C_yy(n, n') + h² Σ_{k<n'} G(C_yy(n, k), Q) R_yy(n', k+1)   (+ 2hτ_s at n' = n+1),
    C_yx(n+1, n') = a_n C_yx(n, n') + h² Σ_{k<n'} G(C_yx(n, k), m) R_xx(n', k+1),

and C_xx as C_yy, with the teacher's amplitudes and overlaps. A row costs O(N²).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers
from learndyn.families.neural_ode.limit.kernel import Kernel, kernel_of
from learndyn.families.neural_ode.units import systems


class Trajectory(NamedTuple):
    """Correlations C(n, n') and responses R(n, n') of one flow, and the factors a_n = 1 − hμ̂(C(n, n))."""

    C: Float[Array, "N+1 N+1"]
    R: Float[Array, "N+1 N+1"]
    a: Float[Array, " N"]


def earlier(flow: FlowNumbers, steps: int) -> Int[np.ndarray, " steps"]:
    """The step max(n − Δ, 0) of the delayed state at step n."""
    return np.maximum(np.arange(steps) - (flow.shape.delay or 0), 0)


def trajectory(
    flow: FlowNumbers,
    kernel: Kernel,
    noise: Float[Array, ""],
    steps: int,
    driver: Float[Array, "N+1 N+1"] | None = None,
) -> Trajectory:
    """C and R of a flow with this kernel and temperature; `driver` is C of the system that drives it, if any."""
    h = flow.h
    delayed = jnp.asarray(earlier(flow, steps))

    def row(
        carry: tuple[Float[Array, "N+1 N+1"], Float[Array, "N+1 N+1"]], n: Int[Array, ""]
    ) -> tuple[tuple[Array, Array], Float[Array, ""]]:
        """Add row n + 1 to C and R; a_n."""
        C, R = carry
        here = C[n]
        a = 1 - h * flow.confinement(here[n])
        R = R.at[n + 1].set((a * R[n]).at[n + 1].set(1.0))
        second = None
        if driver is not None:
            second = driver[n, :steps]
        elif flow.shape.delay is not None:
            second = C[delayed[n]][delayed]
        force = jnp.where(jnp.arange(steps) <= n, kernel.row(n, here[:-1], second), 0.0)
        noisy = h**2 * (R[:, 1:] @ force)
        new = jnp.where(jnp.arange(steps + 1) <= n, a * here + noisy, 0.0)
        new = new.at[n + 1].set(a * new[n] + noisy[n + 1] + 2 * h * noise)
        return (C.at[n + 1].set(new).at[:, n + 1].set(new), R), a

    start = jnp.zeros((steps + 1, steps + 1)).at[0, 0].set(1.0)
    (C, R), a = jax.lax.scan(row, (start, start), jnp.arange(steps))
    return Trajectory(C, R, a)


def teacher_of(flow: FlowNumbers) -> tuple[Trajectory, ...]:
    """The teacher's C and R in each system."""
    teachers: list[Trajectory] = []
    for s, system in enumerate(systems(flow.shape)):
        units, a = system.teacher, flow.teacher_a
        kernel = kernel_of(flow.fields[s], units, units, a, a, flow.T)
        driver = teachers[-1].C if teachers else None
        teachers.append(trajectory(flow, kernel, flow.teacher_noise, flow.teacher_steps, driver))
    return tuple(teachers)


def cross_correlation(
    flow: FlowNumbers,
    kernel: Kernel,
    y: Trajectory,
    x: Trajectory,
    driver: Float[Array, "N_s+1 N_t+1"] | None = None,
) -> Float[Array, "N_s+1 N_t+1"]:
    """C_yx of student and teacher; `driver` is C_yx of the system that drives them, if any."""
    back, back_t = (jnp.asarray(earlier(flow, steps)) for steps in (flow.steps, flow.teacher_steps))

    def row(C: Float[Array, "N_s+1 N_t+1"], n: Int[Array, ""]) -> tuple[Array, None]:
        """Add row n + 1 to C_yx."""
        here = C[n]
        second = None
        if driver is not None:
            second = driver[n, :-1]
        elif flow.shape.delay is not None:
            second = C[back[n]][back_t]
        new = y.a[n] * here + flow.h**2 * (x.R[:, 1:] @ kernel.row(n, here[:-1], second))
        return C.at[n + 1].set(new), None

    start = jnp.zeros((flow.steps + 1, flow.teacher_steps + 1)).at[0].set(x.C[0])
    C, _ = jax.lax.scan(row, start, jnp.arange(flow.steps))
    return C
