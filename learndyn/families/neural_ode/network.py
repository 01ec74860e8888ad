"""The neural ODE and its finite definition."""

import sys
from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.families.neural_ode.fields import RandomField, as_field
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.problem.activations import Activation, Polynomial, as_activation
from learndyn.problem.checks import array, boolean, choice, is_list, number, optional, whole
from learndyn.problem.kinds import part
from learndyn.problem.network import Network
from learndyn.problem.part import Check, traced
from learndyn.problem.part import field as checked
from learndyn.problem.supplies import Supply
from learndyn.problem.tasks import TeacherFlow


def _as_confinement(value: Any) -> Activation:
    """A number stands for a constant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Polynomial(np.array([value]))
    return as_activation(value)


def _number_or_matrix(minimum: float | None = None) -> Check:
    """A number of at least `minimum`, or a matrix."""

    def check(value: Any, name: str) -> float | np.ndarray:
        return (array(2) if is_list(value) else number(minimum=minimum))(value, name)

    return check


class NeuralODE(Network):
    """A student flow that learns the control of a teacher flow from where it starts and where it ends.

    States have dimension d → ∞, controls d_θ = σd. Teacher (`TeacherFlow`) and student move in the same frozen Gaussian
    field r with ⟨r_i(x, θ) r_j(x', θ')⟩ = δ_ij G(x·x'/d, θ·θ'/d_θ); the student knows it, but not the control θ* of the
    teacher, |θ*|² = d_θ. From a start x_0 = y_0 = z with |z|² = d, N_s Euler steps h = T_s/N_s of the student, and
    N_t = T_t/h of the teacher, give

        x_{n+1} = (1 − hμ̂(|x_n|²/d)) x_n + h r(x_n, θ*) + √(2h τ_t) ζ,
        y_{n+1} = (1 − hμ̂(|y_n|²/d)) y_n + h r(y_n, θ) + √(2h τ_s) ζ,    loss = |y_{N_s} − x_{N_t}|²/2.

    The adjoint starts at p_{N_s} = y_{N_s} − x_{N_t} and runs back,

        p_n = (1 − hμ̂) p_{n+1} + h ∇_y⟨p_{n+1}, r(y_n, θ)⟩ [− 2h μ̂'(|y_n|²/d) y_n ⟨p_{n+1}, y_n⟩/d] + √(2h τ_p) ζ.

    The term in brackets makes p the gradient of the loss. A step of training, on B trajectories with rate η and decay
    λ, is

        θ ← (1 − ηλ) θ − (η/B) Σ_b h Σ_{n<N_s} ∇_θ⟨p_{n+1}, r(y_n, θ)⟩.

    The loss is not divided by d: η = O(1), and a few trajectories with d numbers each determine σd controls.

    - `field` (G): covariance of the random field; a matrix of coefficients, a formula, or a `RandomField`.
    - `control_ratio` (σ = d_θ/d): controls per dimension of the state.
    - `time` (T_s): how long the student flows.
    - `steps` (N_s): Euler steps of the student.
    - `confinement` (μ̂): function of |x|²/d, or a number. μ̂(q) = q unless given.
    - `noise` (τ_s = 1/β_s): temperature of the student's Langevin noise. 0 unless given.
    - `adjoint`: "true" (unless given) has the term in brackets; "truncated", the paper's adjoint, lacks it.
    - `initial_overlap` (θ·θ*/d_θ): a number, or a matrix over units. 0 unless given.
    - `initial_norm` (|θ|²/d_θ): a number, or a matrix over units. 1 unless given.
    - `adjoint_noise` (τ_p = 1/β_π): temperature of the adjoint's noise. 0 unless given.
    - `amplitudes` (a_i): one for each of the student's neurons; the drift is Σ_i (a_i/h_s) r_i(y, θ_i), h_s of them.
      One neuron of amplitude 1 unless given.
    - `own_fields`: whether neuron j of student and teacher has a field of its own, independent of the others (true
      unless given), or all neurons use the same.
    - `train_amplitudes`: whether the amplitudes are trained, by a ← a − (η_a/d) ∂loss/∂a without decay; η_a is the
      training's `readout_learning_rate`, or η. False unless given.
    - `windows`: pieces of equal length that time is cut into, each with controls and amplitudes of its own. 1 unless
      given.
    - `delay`: with a field of two states, the second is the state this long ago (before the start, the start).
    - `driven` (G_2): the field of a second system, of the same dimension, whose second state is that of the first:
      x² moves in r_2(x², x¹, θ_2). The student is given both starts; the loss is that of the second system, and
      `driver_loss` times that of the first.
    - `driver_loss`: weight of the first system's loss. 0 unless given.

    A `Stream` gives fresh starts at every step, or goes on from where the teacher ended (`TeacherFlow.chained`). A
    `Dataset` of `examples` trajectories, teacher's noise included, is reused: all at every step, or `batch` of them in
    turn. Observed at step n with weight w and mask ε (`Observations`), the adjoint jumps there by wε(y_n − x_n').

    Neurons, windows and systems make several *units*, controls with an amplitude each; `units.py` says in which order.
    One number for `initial_norm` is the norm of every unit; one number for `initial_overlap` is the overlap of units of
    the same neuron, system and time, and the others are orthogonal.
    """

    field: RandomField = checked(part(RandomField, convert=as_field))
    control_ratio: float = checked(number(above=0))
    time: float = checked(number(above=0))
    steps: int = checked(whole(1))
    confinement: Activation = checked(part(Activation, convert=_as_confinement), default="linear")
    noise: float = checked(number(minimum=0), default=0.0)
    adjoint: str = checked(choice("true", "truncated"), default="true")
    initial_overlap: Any = checked(_number_or_matrix(), default=0.0)
    initial_norm: Any = checked(_number_or_matrix(minimum=0), default=1.0)
    adjoint_noise: float = checked(number(minimum=0), default=0.0)
    amplitudes: Any = checked(optional(array(1)), default=None)
    own_fields: bool = checked(boolean, default=True)
    train_amplitudes: bool = checked(boolean, default=False)
    windows: int = checked(whole(1), default=1)
    delay: float | None = checked(optional(number(minimum=0)), default=None)
    driven: RandomField | None = checked(
        optional(part(RandomField, convert=as_field)), default=None
    )
    driver_loss: float = checked(number(minimum=0), default=0.0)

    @property
    def step(self) -> float:
        """h: the Euler step."""
        return self.time / self.steps

    @property
    def neurons(self) -> int:
        """h_s: neurons of the student."""
        return 1 if self.amplitudes is None else len(self.amplitudes)

    @property
    def delay_steps(self) -> int:
        """Δ: the delay in Euler steps."""
        return 0 if self.delay is None else round(float(self.delay) / float(self.step))

    def validate(self) -> None:
        self._check_fields()
        if not traced(self.time) and self.step < sys.float_info.min:
            allowed = f"is too small for {self.steps} steps in double precision"
            raise ProblemError("NeuralODE.time", self.time, allowed)
        if self.delay is not None:
            self.on_grid("NeuralODE.delay", self.delay, 0)
        if self.steps % self.windows:
            allowed = f"must divide the number of Euler steps of the flow, {self.steps}"
            raise ProblemError("NeuralODE.windows", self.windows, allowed)

    def check(self, data: Supply) -> None:
        if isinstance(data.task, TeacherFlow):
            FlowPair(self, data.task).check()

    def _check_fields(self) -> None:
        if self.field.two_states != (self.delay is not None):
            value = self.field if self.delay is None else self.delay
            name = "field" if self.delay is None else "delay"
            allowed = "a field of two states (s is the second) goes with a delay, and a delay with such a field"
            raise ProblemError(f"NeuralODE.{name}", value, allowed)
        if self.driven is None:
            if self.driver_loss:
                allowed = "must be 0 where no second system is driven"
                raise ProblemError("NeuralODE.driver_loss", self.driver_loss, allowed)
            return
        if not self.driven.two_states:
            allowed = "must have a second state, s, which is that of the first system"
            raise ProblemError("NeuralODE.driven", self.driven, allowed)
        if self.delay is not None:
            allowed = "must be left out where a second system is driven: there is no theory of both"
            raise ProblemError("NeuralODE.delay", self.delay, allowed)

    def on_grid(self, name: str, value: float, fewest: int) -> None:
        """Refuse a time that is not a whole number of Euler steps."""
        if traced(value) or traced(self.time):
            allowed = f"must be a plain number where {name} is given: it sets the number of steps"
            raise ProblemError("NeuralODE.time", "traced", allowed)
        count = value * self.steps / self.time
        if count > 2**53 or round(count) < fewest or abs(count - round(count)) > 1e-9 * count:
            h = self.time / self.steps
            allowed = (
                f"must be a whole number of steps h = time/steps = {h:g}; it is {count:g} of them"
            )
            raise ProblemError(name, value, allowed)
