"""Online learning of two-layer networks: the order-parameter equations.

Finite network: see `TwoLayer`. Limit: N → ∞ at fixed K, M, B, η, η_v, with time t = steps/N. The fields
u = (λ, ρ) are Gaussian with covariance C = [[Q, R], [Rᵀ, T]] at any N, so the overlaps obey closed equations. With
s = (v, −v*), ε = Σ_c s_c g(u_c) = −Δ (without label noise) and decay κ,

    dR_in/dt = −η v_i ⟨g'(u_i) u_n ε⟩ − ηκ R_in
    dQ_ik/dt = −η [v_i ⟨g'(u_i) u_k ε⟩ + v_k ⟨g'(u_k) u_i ε⟩]
               + (η²/B) v_i v_k [⟨g'(u_i) g'(u_k) ε²⟩ + σ² ⟨g'(u_i) g'(u_k)⟩] − 2ηκ Q_ik
    dv_i/dt  = −η_v ⟨g(u_i) ε⟩ − η_vκ v_i
    test loss = ½⟨ε²⟩, against clean labels (add σ²/2 for noisy ones).

On a `Population` (gradient flow) the η² term is absent. Exact as N → ∞; the averages are closed forms for erf, relu and
polynomials, quadrature with a stated error otherwise. Cost of one right-hand side: O(K²(K+M)²).

Saad & Solla, Phys. Rev. E 52, 4225 (1995); Riegler & Biehl, J. Phys. A 28, L507 (1995); Goldt, Advani, Saxe, Krzakala &
Zdeborová, NeurIPS 2019; Carrasco-Davis & Grant, ICLR blog posts 2025 (a primer).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from learndyn.families.two_layer.student_teacher import (
    OrderParameters,
    StudentTeacher,
    initial_overlaps,
    student_teacher_arrays,
)
from learndyn.numerics.gaussian import error_moments
from learndyn.numerics.precision import leaves_as_arrays
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule, as_schedule
from learndyn.problem.supplies import Population

TASK = (
    "training.learning_rate",
    "training.readout_learning_rate",
    "training.weight_decay",
    "training.time",
    "data.noise",
    "data.task.activation",
    "data.task.readout",
)
"""Fields that may change during training. Not the teacher's T: overlaps with other teacher units are unknown."""


class Equations(StudentTeacher):
    """The equations of motion, with rates η, η_v, decay κ and batch B; no number is compiled in, as all are arrays."""

    eta: Schedule
    eta_v: Schedule
    decay: Float[Array, ""]
    batch: Float[Array, ""]
    train_readout: bool = eqx.field(static=True)
    flow: bool = eqx.field(static=True)
    """Gradient flow: no η² term."""

    def velocity(
        self, t: Float[Array, ""] | float, y: OrderParameters, rule: GaussianRule | None
    ) -> OrderParameters:
        """The right-hand side (dQ, dR, dv)/dt at time t and state y; `rule` averages where no closed form exists."""
        Q, R, v = y
        K = v.shape[0]
        eta = self.eta(t)
        s = jnp.concatenate([v, -self.v_star])
        average = error_moments(
            self.student, self.teacher, self.covariance(y), s, K, rule, second_order=not self.flow
        )
        pull = v[:, None] * average.force
        dR = -eta * (pull[:, K:] + self.decay * R)
        dQ = -eta * (pull[:, :K] + pull[:, :K].T + 2 * self.decay * Q)
        if not self.flow:
            variance = average.square + self.noise**2 * average.slope
            dQ = dQ + eta**2 / self.batch * jnp.outer(v, v) * variance
        dv = jnp.zeros_like(v)
        if self.train_readout:
            dv = -self.eta_v(t) * (average.readout + self.decay * v)
        return OrderParameters(dQ, dR, dv)


def equations(problem: Problem) -> tuple[Equations, OrderParameters]:
    """The equations of a problem and their initial state."""
    data, training = problem.data, problem.training
    readout_rate = training.readout_learning_rate
    arrays = leaves_as_arrays(
        {
            "eta": as_schedule(training.learning_rate),
            "eta_v": as_schedule(training.learning_rate if readout_rate is None else readout_rate),
            "decay": training.weight_decay,
            "batch": float(getattr(data, "batch", None) or 1),
        }
    )
    system = Equations(
        **student_teacher_arrays(problem),
        **arrays,
        train_readout=problem.network.train_readout,
        flow=isinstance(data, Population),
    )
    return system, initial_overlaps(problem)
