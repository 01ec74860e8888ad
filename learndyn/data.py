"""Where the examples come from: data sources and the teachers that label them."""

from typing import Any

import numpy as np

from learndyn.activations import Activation, as_activation
from learndyn.errors import ProblemError
from learndyn.part import Part, array, field, number, optional, part, traced, whole


def semidefinite(name: str, matrix, tolerance: float = 1e-10) -> None:
    """Refuse a matrix that is not symmetric or has a negative eigenvalue (relative to the largest entry)."""
    if traced(matrix):
        return
    scale = max(np.abs(matrix).max(), 1e-300)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=tolerance * scale):
        raise ProblemError(name, matrix.tolist(), "must be a symmetric matrix")
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest < -tolerance * scale:
        allowed = f"must be positive semidefinite; its smallest eigenvalue is {lowest:.3g}"
        raise ProblemError(name, matrix.tolist(), allowed)


def settle_readout(network, units: int) -> None:
    """Set the readout of a network or teacher to ones unless it was given, with one entry per unit."""
    readout = network.readout
    if readout is None:
        readout = array(1)(np.ones(units), "readout")
    if readout.shape != (units,):
        allowed = f"must have one entry per hidden unit ({units})"
        raise ProblemError(f"{type(network).__name__}.readout", readout.tolist(), allowed)
    object.__setattr__(network, "readout", readout)


class Teacher(Part):
    """A fixed two-layer network that labels Gaussian inputs: y = Σ_n v*_n g(ρ_n), ρ_n = w*_n·x/√N.

    Only its overlaps T_nm = w*_n·w*_m/N matter (symbol T, M×M), and its readout v* (ones unless given).
    """

    constructors = ("orthonormal", "random")

    activation: Activation = field(part(Activation, convert=as_activation))
    T: np.ndarray = field(array(2))
    readout: Any = field(optional(array(1)), default=None)

    def validate(self):
        if self.T.shape[0] != self.T.shape[1]:
            raise ProblemError("Teacher.T", self.T, f"must be square; it has shape {self.T.shape}")
        semidefinite("Teacher.T", self.T)
        settle_readout(self, self.hidden)

    @property
    def hidden(self) -> int:
        """The number of hidden units (M)."""
        return self.T.shape[0]

    @classmethod
    def orthonormal(cls, activation, hidden: int, readout=None) -> "Teacher":
        """M units with orthogonal weights of length √N: T = 1."""
        M = whole(1)(hidden, "Teacher.hidden")
        return cls(activation, np.eye(M), readout)

    @classmethod
    def from_weights(cls, activation, weights, readout=None) -> "Teacher":
        """The teacher with these weights, an M×N array."""
        W = array(2)(weights, "Teacher.weights")
        return cls(activation, W @ W.T / W.shape[1], readout)

    @classmethod
    def random(cls, activation, hidden: int, size: int, seed: int = 0, readout=None) -> "Teacher":
        """Weights drawn from N(0, 1) in `size` dimensions (N); T is then close to 1, not equal to it."""
        M = whole(1)(hidden, "Teacher.hidden")
        N = whole(M)(size, "Teacher.size")
        weights = np.random.default_rng(whole(0)(seed, "Teacher.seed")).standard_normal((M, N))
        return cls.from_weights(activation, weights, readout)


class Data(Part, abstract=True):
    """Base of the data sources."""


class Stream(Data):
    """Fresh examples at every step, never seen again: `batch` (B) of them, labels from `teacher` plus noise.

    Every label carries its own Gaussian noise of standard deviation `noise` (σ).
    """

    teacher: Teacher = field(part(Teacher))
    batch: int = field(whole(1), default=1)
    noise: float = field(number(minimum=0), default=0.0)


class Population(Data):
    """Infinitely many examples: the gradient is the expectation over all of them, and training a flow in time.

    `noise` (σ) then does not enter the dynamics.
    """

    teacher: Teacher = field(part(Teacher))
    noise: float = field(number(minimum=0), default=0.0)
