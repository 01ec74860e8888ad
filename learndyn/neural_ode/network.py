"""The neural ODE, its teacher, and their finite definition."""

import math

import numpy as np

from learndyn.activations import Activation, Polynomial, as_activation
from learndyn.data import Dataset, Population, Stream
from learndyn.errors import ProblemError
from learndyn.network import Network
from learndyn.neural_ode.fields import RandomField, as_field
from learndyn.part import choice, number, optional, part, traced, whole
from learndyn.part import field as checked


def _as_confinement(value):
    """A number stands for a constant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Polynomial(np.array([value]))
    return as_activation(value)


class NeuralODE(Network):
    """A student flow that learns the control of a teacher flow from where it starts and where it ends.

    States have dimension d → ∞, controls d_θ = σd (`control_ratio` σ). Teacher and student move in the same frozen
    Gaussian `field` r with ⟨r_i(x, θ) r_j(x', θ')⟩ = δ_ij G(x·x'/d, θ·θ'/d_θ); the student knows it, but not the
    control θ* of the teacher, |θ*|² = d_θ. From a start x_0 = y_0 = z with |z|² = d, N_s = `steps` Euler steps
    h = T_s/N_s of the student's `time` T_s (and N_t = `teacher_time`/h of the teacher) give

        x_{n+1} = (1 − hμ̂(|x_n|²/d)) x_n + h r(x_n, θ*) + √(2h τ_t) ζ,
        y_{n+1} = (1 − hμ̂(|y_n|²/d)) y_n + h r(y_n, θ) + √(2h τ_s) ζ,    loss = |y_{N_s} − x_{N_t}|²/2,

    with the `confinement` μ̂ and Langevin temperatures τ_s = 1/β_s (`noise`) and τ_t = 1/β_t (`teacher_noise`). The
    adjoint starts at p_{N_s} = y_{N_s} − x_{N_t} and runs back, with temperature τ_p = 1/β_π (`adjoint_noise`),

        p_n = (1 − hμ̂) p_{n+1} + h ∇_y⟨p_{n+1}, r(y_n, θ)⟩ [− 2h μ̂'(|y_n|²/d) y_n ⟨p_{n+1}, y_n⟩/d] + √(2h τ_p) ζ.

    The term in brackets is there with `adjoint = "true"`, which makes p the gradient of the loss; the paper's
    adjoint, "truncated", lacks it. A step of training, on B trajectories with rate η and decay λ, is

        θ ← (1 − ηλ) θ − (η/B) Σ_b h Σ_{n<N_s} ∇_θ⟨p_{n+1}, r(y_n, θ)⟩.

    The loss is not divided by d: η = O(1), and a few trajectories with d numbers each determine σd controls. The
    control starts with norm |θ|²/d_θ = `initial_norm` and overlap θ·θ*/d_θ = `initial_overlap`.

    A `Stream` gives fresh starts at every step, or, `chained`, goes on from where the teacher's trajectory ended. A
    `Dataset` of `examples` trajectories, teacher's noise included, is reused: all at every step, or `batch` of them
    in turn.
    """

    field: RandomField = checked(part(RandomField, convert=as_field))
    control_ratio: float = checked(number(above=0))
    time: float = checked(number(above=0))
    steps: int = checked(whole(1))
    confinement: Activation = checked(part(Activation, convert=_as_confinement), default="linear")
    noise: float = checked(number(minimum=0), default=0.0)
    adjoint: str = checked(choice("true", "truncated"), default="true")
    initial_overlap: float = checked(number(), default=0.0)
    initial_norm: float = checked(number(minimum=0), default=1.0)
    teacher_time: float | None = checked(optional(number(above=0)), default=None)
    teacher_noise: float = checked(number(minimum=0), default=0.0)
    adjoint_noise: float = checked(number(minimum=0), default=0.0)

    @property
    def step(self):
        """h: the Euler step."""
        return self.time / self.steps

    @property
    def teacher_steps(self) -> int:
        """N_t: Euler steps of the teacher."""
        if self.teacher_time is None:
            return self.steps
        return round(float(self.teacher_time) * self.steps / float(self.time))

    def validate(self):
        m, Q = self.initial_overlap, self.initial_norm
        if not (traced(m) or traced(Q)) and m * m > Q * (1 + 1e-12):
            allowed = f"must be at most √initial_norm = {math.sqrt(Q):g} in size: the teacher's control has norm 1"
            raise ProblemError("NeuralODE.initial_overlap", m, allowed)
        if self.teacher_time is None:
            return
        if traced(self.teacher_time) or traced(self.time):
            allowed = (
                "must be a plain number where teacher_time is given: it sets the number of steps"
            )
            raise ProblemError("NeuralODE.time", "traced", allowed)
        count = self.teacher_time * self.steps / self.time
        if round(count) < 1 or abs(count - round(count)) > 1e-9 * count:
            h = self.time / self.steps
            allowed = (
                f"must be a whole number of steps h = time/steps = {h:g}; it is {count:g} of them"
            )
            raise ProblemError("NeuralODE.teacher_time", self.teacher_time, allowed)

    def check(self, data, training):
        if not isinstance(data, Stream | Population | Dataset):
            return
        if isinstance(data, Population):
            allowed = "a NeuralODE has no theory of infinitely many trajectories; use a Stream with a large batch"
            raise ProblemError("data", "population", allowed)
        self._check_data(data)
        if training.steps is None:
            allowed = "a NeuralODE is trained for a number of `steps` (epochs)"
            raise ProblemError("training.time", training.time, allowed)
        for name, usual in (
            ("momentum", 0.0),
            ("noise", 0.0),
            ("readout_learning_rate", None),
            ("loss", "mean"),
            ("criterion", "squared"),
        ):
            if getattr(training, name) != usual:
                allowed = f"must be left at {usual!r}: the theory of NeuralODE has no such term"
                raise ProblemError(f"training.{name}", getattr(training, name), allowed)

    def _check_data(self, data) -> None:
        for name in ("teacher", "spectrum", "batch_ratio", "ratio"):
            if getattr(data, name, None) is not None:
                allowed = "must be left out: the teacher of a NeuralODE is a flow in the same field"
                if name.endswith("ratio"):
                    count = "batch" if name == "batch_ratio" else "examples"
                    allowed = f"give {count} instead: the number of trajectories does not grow with the dimension"
                raise ProblemError(f"data.{name}", getattr(data, name), allowed)
        if data.noise:
            allowed = "must be 0; noise of the teacher's trajectories is network.teacher_noise"
            raise ProblemError("data.noise", data.noise, allowed)

    def correlated(self, data) -> bool:
        """Whether training steps are correlated: then the theory needs all pairs of steps, not two numbers a step."""
        if isinstance(data, Dataset):
            return True
        return data.chained or self.field.without_state
