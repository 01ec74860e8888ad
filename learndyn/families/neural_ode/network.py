"""The neural ODE, its teacher, and their finite definition."""

import math
from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.families.neural_ode.fields import RandomField, as_field
from learndyn.families.neural_ode.units import Shape, start_of
from learndyn.problem.activations import Activation, Polynomial, as_activation
from learndyn.problem.data import Dataset, Population, Stream, semidefinite
from learndyn.problem.network import Network
from learndyn.problem.part import array, boolean, choice, number, optional, part, traced, whole
from learndyn.problem.part import field as checked


def _as_confinement(value):
    """A number stands for a constant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Polynomial(np.array([value]))
    return as_activation(value)


def _number_or_matrix(minimum=None):
    """A number of at least `minimum`, or a matrix."""

    def check(value, name):
        if np.ndim(value) == 0:
            return number(minimum=minimum)(value, name)
        return array(2)(value, name)

    return check


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
    in turn. `observations` of either say which times and components the loss sees (`Observations`): the adjoint then
    also starts, and jumps, by wε(y_n − x_n') at an observed step n.

    **More than one control**, and more than one state:

    - Neurons: the drift of the student is Σ_i (a_i/h_s) r_i(y, θ_i) with its `amplitudes` a_i, h_s of them, and that
      of the teacher Σ_j (a*_j/h_t) r_j(x, θ*_j) with `teacher_amplitudes` a*_j. With `own_fields` neuron j of both has
      a field of its own, independent of the others; else all use the same. `train_amplitudes` trains the a_i by
      a ← a − (η_a/d) ∂loss/∂a, where η_a is the training's `readout_learning_rate`, or η; decay is not for them.
    - Windows: time is cut into `windows` equal pieces, each with controls (and amplitudes) of its own, and the
      teacher's into `teacher_windows`, as many unless given.
    - Delay: with a field of two states, the second is the state a time `delay` ago (before the start, the start).
    - Stack: `driven` is the field of a second system, of the same dimension, whose second state is that of the first
      one: x² moves in r₂(x², x¹, θ₂). The student is given both starts; the loss is that of the second system, and
      `driver_loss` times that of the first.

    Neurons, windows and systems make several *units*, controls with an amplitude each (`units.py` says
    in which order). `initial_norm` and `initial_overlap` may then be matrices over units, student's × student's and
    student's × teacher's; one number is the norm of every unit, and the overlap of units of the same neuron, system and
    time, the others being orthogonal. `teacher_overlaps` are θ*_v·θ*_v'/d_θ, the unit matrix unless given.
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
    teacher_time: float | None = checked(optional(number(above=0)), default=None)
    teacher_noise: float = checked(number(minimum=0), default=0.0)
    adjoint_noise: float = checked(number(minimum=0), default=0.0)
    amplitudes: Any = checked(optional(array(1)), default=None)
    teacher_amplitudes: Any = checked(optional(array(1)), default=None)
    own_fields: bool = checked(boolean, default=True)
    train_amplitudes: bool = checked(boolean, default=False)
    windows: int = checked(whole(1), default=1)
    teacher_windows: int | None = checked(optional(whole(1)), default=None)
    delay: float | None = checked(optional(number(minimum=0)), default=None)
    driven: RandomField | None = checked(
        optional(part(RandomField, convert=as_field)), default=None
    )
    driver_loss: float = checked(number(minimum=0), default=0.0)
    teacher_overlaps: Any = checked(optional(array(2)), default=None)

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

    @property
    def neurons(self) -> int:
        """h_s: neurons of the student."""
        return 1 if self.amplitudes is None else len(self.amplitudes)

    @property
    def teacher_neurons(self) -> int:
        """h_t: neurons of the teacher."""
        return 1 if self.teacher_amplitudes is None else len(self.teacher_amplitudes)

    @property
    def count_of_teacher_windows(self) -> int:
        """Windows of the teacher."""
        return self.windows if self.teacher_windows is None else self.teacher_windows

    @property
    def delay_steps(self) -> int:
        """Δ: the delay in Euler steps."""
        return 0 if self.delay is None else round(float(self.delay) / float(self.step))

    @property
    def shape(self) -> Shape:
        """All counts."""
        return Shape(
            systems=1 if self.driven is None else 2,
            neurons=self.neurons,
            teacher_neurons=self.teacher_neurons,
            own_fields=self.own_fields,
            windows=self.windows,
            teacher_windows=self.count_of_teacher_windows,
            steps=self.steps,
            teacher_steps=self.teacher_steps,
            delay=None if self.delay is None else self.delay_steps,
        )

    @property
    def one_unit(self) -> bool:
        """Whether student and teacher have one control each, without amplitudes: overlaps are then numbers."""
        several = self.amplitudes is not None or self.teacher_amplitudes is not None
        several = several or self.driven is not None or self.train_amplitudes
        return not several and self.windows == self.count_of_teacher_windows == 1

    def validate(self):
        self._check_fields()
        if self.teacher_time is not None:
            self._on_grid("teacher_time", self.teacher_time, 1)
        if self.delay is not None:
            self._on_grid("delay", self.delay, 0)
        for name, count, steps in (
            ("windows", self.windows, self.steps),
            ("teacher_windows", self.count_of_teacher_windows, self.teacher_steps),
        ):
            if steps % count:
                allowed = f"must divide the number of Euler steps in the flow, {steps}"
                raise ProblemError(f"NeuralODE.{name}", count, allowed)
        self._check_overlaps()

    def _check_fields(self) -> None:
        if self.field.two_states != (self.delay is not None):
            given = self.field if self.delay is None else self.delay
            name = "field" if self.delay is None else "delay"
            allowed = "a field of two states (s is the second) goes with a delay, and a delay with such a field"
            raise ProblemError(f"NeuralODE.{name}", given, allowed)
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

    def _on_grid(self, name: str, value, fewest: int) -> None:
        """Refuse a time that is not a whole number of Euler steps."""
        if traced(value) or traced(self.time):
            allowed = f"must be a plain number where {name} is given: it sets the number of steps"
            raise ProblemError("NeuralODE.time", "traced", allowed)
        count = value * self.steps / self.time
        if round(count) < fewest or abs(count - round(count)) > 1e-9 * count:
            h = self.time / self.steps
            allowed = (
                f"must be a whole number of steps h = time/steps = {h:g}; it is {count:g} of them"
            )
            raise ProblemError(f"NeuralODE.{name}", value, allowed)

    def _check_overlaps(self) -> None:
        m, Q = self.initial_overlap, self.initial_norm
        if traced(m) or traced(Q) or traced(self.teacher_overlaps):
            return
        start = start_of(self)
        U, V = len(start.a), len(start.teacher_a)
        for name, matrix, shape in (
            ("initial_norm", start.Q, (U, U)),
            ("initial_overlap", start.M, (U, V)),
            ("teacher_overlaps", start.T, (V, V)),
        ):
            if np.shape(matrix) != shape:
                allowed = f"must have the shape {shape}: the student has {U} units, the teacher {V}"
                raise ProblemError(f"NeuralODE.{name}", np.asarray(matrix).tolist(), allowed)
        if self.one_unit and self.teacher_overlaps is None:
            if start.M[0, 0] ** 2 > start.Q[0, 0] * (1 + 1e-12):
                allowed = f"must be at most √initial_norm = {math.sqrt(start.Q[0, 0]):g} in size"
                allowed = f"{allowed}: the teacher's control has norm 1"
                raise ProblemError("NeuralODE.initial_overlap", m, allowed)
            return
        semidefinite("NeuralODE.initial_norm", start.Q)
        semidefinite("NeuralODE.teacher_overlaps", start.T)
        semidefinite(
            "the overlaps of all units, NeuralODE.initial_norm, initial_overlap and teacher_overlaps",
            np.block([[start.Q, start.M], [start.M.T, start.T]]),
        )

    def observed(self, data) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the observed steps (sets × N_s + 1), and the teacher's step for each of the student's."""
        N, N_t = self.steps, self.teacher_steps
        seen = None if data is None else data.observations
        if seen is None:
            return np.eye(N + 1)[-1:], np.full(N + 1, N_t)
        weights, paired = np.zeros((len(seen.times), N + 1)), np.zeros(N + 1, dtype=int)
        for row, times in zip(weights, seen.times, strict=True):
            for t in times:
                n = float(t) / float(self.step)
                n_t = n * N_t / N
                if round(n) > N or max(abs(n - round(n)), abs(n_t - round(n_t))) > 1e-9 * n:
                    allowed = (
                        f"must be whole numbers of Euler steps {float(self.step):g} of student and teacher, at most "
                        f"{float(self.time):g}"
                    )
                    raise ProblemError("data.observations.times", t, allowed)
                row[round(n)], paired[round(n)] = 1.0, round(n_t)
        return weights, paired

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
        if training.readout_learning_rate is not None and not self.train_amplitudes:
            allowed = (
                "must be left out where the amplitudes are not trained (network.train_amplitudes)"
            )
            raise ProblemError(
                "training.readout_learning_rate", training.readout_learning_rate, allowed
            )
        for name, usual in (
            ("momentum", 0.0),
            ("noise", 0.0),
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
        self.observed(data)

    def correlated(self, data) -> bool:
        """Whether training steps are correlated: then the theory needs all pairs of steps, not two numbers a step."""
        if isinstance(data, Dataset):
            return True
        driven = self.driven is not None and self.driven.without_state
        return data.chained or self.field.without_state or driven
