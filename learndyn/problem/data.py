"""Where the examples come from: data sources and the teachers that label them."""

import abc
from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.numerics.covariance import covariance_root
from learndyn.problem.activations import Activation, as_activation
from learndyn.problem.activations.base import static_field
from learndyn.problem.part import (
    Part,
    array,
    boolean,
    choice,
    field,
    number,
    optional,
    part,
    traced,
    whole,
)


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


def _times(value, name: str) -> tuple[tuple[float, ...], ...]:
    """A list of times, or a list of such lists, as a tuple of tuples in increasing order."""
    allowed = "must be a list of increasing times above 0, or a list of such lists, used in turn"
    try:
        times = list(value)
        lists = times if all(np.iterable(some) for some in times) else [times]
        found = tuple(tuple(number(above=0)(t, name) for t in some) for some in lists)
    except (ProblemError, TypeError):
        raise ProblemError(name, value, allowed) from None
    if not found or not all(found) or any(list(t) != sorted(set(t)) for t in found):
        raise ProblemError(name, value, allowed)
    return found


class Observations(Part):
    """When and how much of a trajectory is seen: its loss is Σ_o (w/2) Σ_i ε_io (y_i − x_i)², over observation times o.

    `times` are times of the student's flow (and the same fractions of the teacher's), or several lists of times, of
    which training steps use one after the other, again and again: times that are missing in a list are masked. A
    component is seen (ε = 1) with probability `visible` (ρ); the `mask` is drawn anew in each training step, for every
    "observation" or once for the whole "trajectory". `weight` (w) is that of every observation.
    """

    times: Any = static_field(_times)
    visible: float = field(number(above=0, maximum=1), default=1.0)
    mask: str = static_field(choice("observation", "trajectory"), default="observation")
    weight: float = field(number(above=0), default=1.0)

    def to_dict(self):
        times = [list(some) for some in self.times]
        return super().to_dict() | {"times": times[0] if len(times) == 1 else times}


class Stream(Data):
    """Fresh examples at every step, never seen again; every label carries Gaussian noise of deviation `noise` (σ).

    A step takes `batch` (B, 1 unless given) examples, or `batch_ratio` (α_B = B/D) per input dimension. Two-layer
    networks need a `teacher`. Linear networks learn a random linear function of isotropic inputs, or of inputs with
    a `spectrum`. For neural ODEs an example is a trajectory, of which `observations` say what is seen (its end, unless
    given); `chained`, each starts where the one before it ended.
    """

    teacher: Teacher | None = field(optional(part(Teacher)), default=None)
    batch: int | None = field(optional(whole(1)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    batch_ratio: float | None = field(optional(number(above=0)), default=None)
    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)
    chained: bool = field(boolean, default=False)
    observations: Observations | None = field(optional(part(Observations)), default=None)

    def validate(self):
        either(self, batch=self.batch, batch_ratio=self.batch_ratio)
        either(self, teacher=self.teacher, spectrum=self.spectrum)
        if self.batch is None and self.batch_ratio is None:
            object.__setattr__(self, "batch", 1)


class Dataset(Data):
    """A fixed set of examples, all of them used at every step; `noise` (σ) is that of their labels.

    There are `ratio` (P/D; α or γ in the papers) examples per input dimension, or `examples` (P) where the inputs have
    a `spectrum` or are trajectories of a neural ODE, which may take `batch` of them at a step, in turn. `teacher`,
    `spectrum` and `observations` are those of `Stream`.
    """

    ratio: float | None = field(optional(number(above=0)), default=None)
    noise: float = field(number(minimum=0), default=0.0)
    examples: int | None = field(optional(whole(1)), default=None)
    spectrum: Covariance | None = field(optional(part(Covariance)), default=None)
    teacher: Teacher | None = field(optional(part(Teacher)), default=None)
    batch: int | None = field(optional(whole(1)), default=None)
    observations: Observations | None = field(optional(part(Observations)), default=None)

    def validate(self):
        either(self, ratio=self.ratio, examples=self.examples)
        either(self, teacher=self.teacher, spectrum=self.spectrum)
        if self.ratio is None and self.examples is None:
            raise ProblemError(
                "Dataset.ratio", None, "missing; give ratio, or examples with a spectrum"
            )
        if self.batch is not None and (self.examples is None or self.examples % self.batch):
            raise ProblemError(
                "Dataset.batch", self.batch, f"must divide examples, {self.examples}"
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


def no_trajectories(data) -> None:
    """Refuse what is for trajectories only."""
    if getattr(data, "chained", False):
        raise ProblemError("data.chained", True, "must be false: only trajectories can be chained")
    if getattr(data, "observations", None) is not None:
        allowed = "must be left out: only trajectories are observed at times"
        raise ProblemError("data.observations", data.observations, allowed)
    if isinstance(data, Dataset) and data.batch is not None:
        allowed = "must be left out: this network uses all examples at every step"
        raise ProblemError("data.batch", data.batch, allowed)


def _one_or_two_axes(value, name):
    """A list of numbers (one output) or a matrix with a column for each output."""
    return array(2 if np.ndim(value) == 2 else 1)(value, name)


class Points(Data):
    """Your own examples: `inputs` x_μ (points × dimension) and `targets` y_μ (points, or points × outputs).

    `test_inputs` are predicted but not trained on; `test_targets`, if given, make the test loss. Networks see the
    inputs only through the Gram matrix K_μα = x_μ·x_α/dimension, which may be given instead as `gram`: over all
    points, the trained ones first.
    """

    constructors = ("random",)

    inputs: Any = field(optional(array(2)), default=None)
    targets: Any = field(optional(_one_or_two_axes), default=None)
    test_inputs: Any = field(optional(array(2)), default=None)
    test_targets: Any = field(optional(_one_or_two_axes), default=None)
    gram: Any = field(optional(array(2)), default=None)

    def validate(self):
        if self.targets is None:
            raise ProblemError("Points.targets", None, "missing; one for each trained point")
        either(self, inputs=self.inputs, gram=self.gram)
        either(self, test_inputs=self.test_inputs, gram=self.gram)
        if self.gram is not None:
            self._check_gram()
        elif self.inputs is None:
            raise ProblemError("Points.inputs", None, "missing; give inputs, or their gram matrix")
        elif len(self.inputs) != len(self.targets):
            allowed = f"must have one row per target ({len(self.targets)}); its shape is {self.inputs.shape}"
            raise ProblemError("Points.inputs", self.inputs, allowed)
        if self.test_inputs is not None and self.test_inputs.shape[1] != self.inputs.shape[1]:
            allowed = f"must have as many columns as inputs ({self.inputs.shape[1]})"
            raise ProblemError("Points.test_inputs", self.test_inputs, allowed)
        if self.test_targets is not None:
            tested = self.total - self.trained
            shape = (tested, *self.targets.shape[1:])
            if self.test_targets.shape != shape:
                allowed = f"must have the shape {shape}: one for each test point, with as many outputs as targets"
                raise ProblemError("Points.test_targets", self.test_targets, allowed)

    def _check_gram(self):
        if self.gram.shape[0] != self.gram.shape[1] or len(self.gram) < len(self.targets):
            allowed = f"must be square with a row for each of the {len(self.targets)} targets, test points after them"
            raise ProblemError(
                "Points.gram", self.gram, f"{allowed}; its shape is {self.gram.shape}"
            )
        semidefinite("Points.gram", self.gram)

    @property
    def trained(self) -> int:
        """The number of trained points (P)."""
        return len(self.targets)

    @property
    def total(self) -> int:
        """The number of all points, test points included."""
        if self.gram is not None:
            return len(self.gram)
        return self.trained + (0 if self.test_inputs is None else len(self.test_inputs))

    @property
    def outputs(self) -> int:
        """The number of outputs (C)."""
        return 1 if self.targets.ndim == 1 else self.targets.shape[1]

    def kernel(self) -> np.ndarray:
        """K_μα = x_μ·x_α/dimension over all points, the trained ones first."""
        if self.gram is not None:
            return self.gram
        x = self.all_inputs()
        return x @ x.T / x.shape[1]

    def all_inputs(self) -> np.ndarray:
        """The inputs of all points (total × dimension), trained first; with a Gram matrix, some that have it."""
        if self.gram is not None:
            return covariance_root(self.gram) * np.sqrt(self.total)
        if self.test_inputs is None:
            return self.inputs
        return np.concatenate([self.inputs, self.test_inputs])

    @classmethod
    def random(
        cls, points: int, dimension: int, seed: int = 0, outputs: int = 1, test_points: int = 0
    ) -> "Points":
        """Inputs drawn from N(0, 1) and targets ±1 at random (for test points as well)."""
        P, D = whole(1)(points, "Points.points"), whole(1)(dimension, "Points.dimension")
        C, Q = whole(1)(outputs, "Points.outputs"), whole(0)(test_points, "Points.test_points")
        rng = np.random.default_rng(whole(0)(seed, "Points.seed"))
        x = rng.standard_normal((P + Q, D))
        y = rng.choice([-1.0, 1.0], (P + Q, C))
        y = y[:, 0] if C == 1 else y
        if not Q:
            return cls(x, y)
        return cls(x[:P], y[:P], x[P:], y[P:])
