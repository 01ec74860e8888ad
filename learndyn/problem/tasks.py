"""What is to be learnt: tasks. A supply (`supplies.py`) says how examples of a task arrive."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from learndyn.errors import ProblemError
from learndyn.problem.activations import Activation, as_activation
from learndyn.problem.checks import (
    array,
    boolean,
    choice,
    number,
    optional,
    room,
    semidefinite,
    whole,
)
from learndyn.problem.kinds import part
from learndyn.problem.part import Part, field, static_field
from learndyn.problem.spectra import Covariance


class Task(Part, abstract=True):
    """Base of the tasks."""


def settle_readout(network: Any, units: int) -> None:
    """Set the readout of a network or teacher to ones unless it was given, with one entry per unit."""
    readout = network.readout
    if readout is None:
        readout = array(1)(np.ones(units), "readout")
    if readout.shape != (units,):
        allowed = f"must have one entry per hidden unit ({units})"
        raise ProblemError(f"{type(network).__name__}.readout", readout.tolist(), allowed)
    object.__setattr__(network, "readout", readout)


Nonlinearity = Activation | str | dict | Callable
"""An activation, its name, its plain data, or a function of one number."""


class Teacher(Task):
    """A fixed two-layer network of M units that labels Gaussian inputs: y = Σ_n v*_n g(ρ_n), ρ_n = w*_n·x/√N.

    - `activation` (g): an activation, or the name of one.
    - `T` (T_nm = w*_n·w*_m/N): the overlaps of its weights, M × M. Nothing else about the weights matters.
    - `readout` (v*): M numbers. Ones unless given.
    """

    constructors = ("orthonormal", "random")

    activation: Activation = field(part(Activation, convert=as_activation))
    T: np.ndarray = field(array(2))
    readout: Any = field(optional(array(1)), default=None)

    def validate(self) -> None:
        if self.T.shape[0] != self.T.shape[1]:
            raise ProblemError("Teacher.T", self.T, f"must be square; it has shape {self.T.shape}")
        semidefinite("Teacher.T", self.T)
        settle_readout(self, self.hidden)

    @property
    def hidden(self) -> int:
        """The number of hidden units (M)."""
        return self.T.shape[0]

    @classmethod
    def orthonormal(
        cls, activation: Nonlinearity, hidden: int, readout: ArrayLike | None = None
    ) -> "Teacher":
        """M units with orthogonal weights of length √N: T = 1."""
        M = whole(1)(hidden, "Teacher.hidden")
        room("Teacher.hidden", M, M, M)
        return cls(activation, np.eye(M), readout)

    @classmethod
    def from_weights(
        cls, activation: Nonlinearity, weights: ArrayLike, readout: ArrayLike | None = None
    ) -> "Teacher":
        """The teacher with these weights, an M×N array."""
        W = array(2)(weights, "Teacher.weights")
        return cls(activation, W @ W.T / W.shape[1], readout)

    @classmethod
    def random(
        cls,
        activation: Nonlinearity,
        hidden: int,
        size: int,
        seed: int = 0,
        readout: ArrayLike | None = None,
    ) -> "Teacher":
        """Weights drawn from N(0, 1) in `size` dimensions (N); T is then close to 1, not equal to it."""
        M = whole(1)(hidden, "Teacher.hidden")
        N = whole(M)(size, "Teacher.size")
        room("Teacher.size", N, M, N)
        weights = np.random.default_rng(whole(0)(seed, "Teacher.seed")).standard_normal((M, N))
        return cls.from_weights(activation, weights, readout)


class LinearMap(Task):
    """A linear function of the inputs, y_c = w*_c·x/√D with w* ~ N(0, 1_D) and x ~ N(0, 1_D) in D → ∞ dimensions.

    With a `spectrum` the inputs are x ~ N(0, Λ) instead, and y_c = w*_c·x with the spectrum's coefficients w*_c; there
    is then no D, and widths, batches and dataset sizes are counts instead of ratios.
    """

    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)


def _times(value: Any, name: str) -> tuple[tuple[float, ...], ...]:
    """A list of times, or a list of such lists, as a tuple of tuples in increasing order."""
    allowed = "must be a list of increasing times above 0, or a list of such lists, used in turn"
    try:
        times = list(value)
        lists = times if all(np.iterable(item) for item in times) else [times]
        checked = tuple(tuple(number(above=0)(t, name) for t in row) for row in lists)
    except (ProblemError, TypeError):
        raise ProblemError(name, value, allowed) from None
    if not checked or not all(checked) or any(list(t) != sorted(set(t)) for t in checked):
        raise ProblemError(name, value, allowed)
    return checked


class Observations(Part):
    """When a trajectory is observed, and how much of it.

    Its loss is Σ_o (w/2) Σ_i ε_io (y_i − x_i)², where o runs over the observation times and i over the components.

    - `times`: times of the student's flow, and the same fractions of the teacher's. Or several lists of times:
      training steps use one list after the other, again and again, and the times missing from a list are masked.
    - `visible` (ρ): the probability that a component is seen, ε = 1. 1 unless given.
    - `mask`: whether ε is drawn for every "observation", or once for the whole "trajectory"; in both cases anew in
      each training step. "observation" unless given.
    - `weight` (w): the weight of every observation. 1 unless given.
    """

    times: Any = static_field(_times)
    visible: float = field(number(above=0, maximum=1), default=1.0)
    mask: str = static_field(choice("observation", "trajectory"), default="observation")
    weight: float = field(number(above=0), default=1.0)

    def to_dict(self) -> dict:
        times = [list(row) for row in self.times]
        plain = super().to_dict()
        assert isinstance(plain, dict)
        return plain | {"times": times[0] if len(times) == 1 else times}


class TeacherFlow(Task):
    """A flow in the same random field as a `NeuralODE` student, with a control θ* that the student does not know.

    - `time` (T_t): how long the teacher flows; a whole number of the student's Euler steps. The student's time unless
      given.
    - `noise` (τ_t = 1/β_t): temperature of the teacher's Langevin noise. 0 unless given.
    - `amplitudes` (a*_j): one for each of the teacher's neurons. One neuron of amplitude 1 unless given.
    - `windows`: pieces of equal length that the teacher's time is cut into, each with controls of its own. As many as
      the student's unless given.
    - `overlaps` (θ*_v·θ*_v'/d_θ): between the teacher's units. The unit matrix unless given.
    - `observations`: which times and components the loss sees. All of the end unless given.
    - `chained`: whether each trajectory starts where the one before it ended. Fresh starts unless given.
    """

    time: float | None = field(optional(number(above=0)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    amplitudes: np.ndarray | None = field(optional(array(1)), default=None)
    windows: int | None = field(optional(whole(1)), default=None)
    overlaps: np.ndarray | None = field(optional(array(2)), default=None)
    observations: Observations | None = field(optional(part(Observations)), default=None)
    chained: bool = field(boolean, default=False)

    @property
    def neurons(self) -> int:
        """h_t: the number of the teacher's neurons."""
        return 1 if self.amplitudes is None else len(self.amplitudes)
