"""Where the examples come from: data sources and the teachers that label them."""

import abc
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


class Covariance(Part, abstract=True):
    """Base of the structured inputs: x ~ N(0, Λ) with eigenvalues λ_k, labels y = Σ_k w*_k x_k plus noise.

    x_k is the input along the k-th eigenvector. Data with a spectrum have no dimension in the theory; widths, batches
    and dataset sizes are then counts, not ratios.
    """

    @abc.abstractmethod
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues λ_k (modes) and target coefficients w*_ck (outputs × modes)."""


class Spectrum(Covariance):
    """Eigenvalues λ_k and target coefficients w*_k, one for each mode; for several outputs a row for each."""

    eigenvalues: np.ndarray = field(array(1, minimum=0))
    coefficients: np.ndarray = field(lambda value, name: array(np.ndim(value) or 1)(value, name))

    def validate(self):
        modes = len(self.eigenvalues)
        if not self.eigenvalues.any():
            raise ProblemError("Spectrum.eigenvalues", self.eigenvalues, "must have a positive sum")
        if self.coefficients.shape[-1] != modes:
            allowed = f"must have one entry per eigenvalue ({modes}) for each output"
            raise ProblemError("Spectrum.coefficients", self.coefficients, allowed)

    def arrays(self):
        return self.eigenvalues, np.atleast_2d(self.coefficients)


class PowerLaw(Covariance):
    """λ_k = k^(−capacity) and w*_k² λ_k = k^(−capacity·source − 1) for k = 1 … modes (w*_k > 0).

    In a linear model the loss falls as t^(−source); a source below 1 is a hard task.
    """

    capacity: float = field(number(above=1))
    source: float = field(number(above=0))
    modes: int = field(whole(1))

    def arrays(self):
        k = np.arange(1.0, self.modes + 1)
        eigenvalues = k**-self.capacity
        return eigenvalues, np.sqrt(k ** (-self.capacity * self.source - 1) / eigenvalues)[None]


def either(data, **given) -> None:
    """Refuse two fields that exclude each other."""
    if sum(value is not None for value in given.values()) > 1:
        names = " and ".join(given)
        raise ProblemError(f"{type(data).__name__}.{names}", given, "give only one of the two")


class Stream(Data):
    """Fresh examples at every step, never seen again; every label carries Gaussian noise of deviation `noise` (σ).

    A step takes `batch` (B, 1 unless given) examples, or `batch_ratio` (α_B = B/D) per input dimension. Two-layer
    networks need a `teacher`. Linear networks learn a random linear function of isotropic inputs, or of inputs with
    a `spectrum`.
    """

    teacher: Teacher | None = field(optional(part(Teacher)), default=None)
    batch: int | None = field(optional(whole(1)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    batch_ratio: float | None = field(optional(number(above=0)), default=None)
    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)

    def validate(self):
        either(self, batch=self.batch, batch_ratio=self.batch_ratio)
        either(self, teacher=self.teacher, spectrum=self.spectrum)
        if self.batch is None and self.batch_ratio is None:
            object.__setattr__(self, "batch", 1)


class Dataset(Data):
    """A fixed set of examples, all of them used at every step; `noise` (σ) is that of their labels.

    There are `ratio` (P/D; α or γ in the papers) examples per input dimension, or `examples` (P) where the inputs have
    a `spectrum`. `teacher` and `spectrum` are those of `Stream`.
    """

    ratio: float | None = field(optional(number(above=0)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    examples: int | None = field(optional(whole(1)), default=None)
    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)
    teacher: Teacher | None = field(optional(part(Teacher)), default=None)

    def validate(self):
        either(self, ratio=self.ratio, examples=self.examples)
        either(self, teacher=self.teacher, spectrum=self.spectrum)
        if self.ratio is None and self.examples is None:
            raise ProblemError(
                "Dataset.ratio", None, "missing; give ratio, or examples with a spectrum"
            )


class Population(Data):
    """Infinitely many examples: the gradient is the expectation over all of them.

    `noise` (σ) then does not enter the dynamics. `teacher` and `spectrum` are those of `Stream`.
    """

    teacher: Teacher | None = field(optional(part(Teacher)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)

    def validate(self):
        either(self, teacher=self.teacher, spectrum=self.spectrum)
