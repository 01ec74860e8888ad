"""Structured inputs: eigenvalues of their covariance, and the target along each eigenvector."""

import abc
import math
import sys
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.errors import ProblemError
from learndyn.problem.checks import array, boolean, number, optional, room, squared, whole
from learndyn.problem.given import given_examples, refuse_constant_columns
from learndyn.problem.part import Part, field, traced

DEPENDENT = 1e-12
"""Eigenvalues below this part of the largest one are zero: some inputs are sums of others."""
GROUP = 1.5
"""The ratio of the lengths of neighbouring groups of modes in fits of power laws."""
REDRAWN = 400
"""How often a power law is fitted to spectra redrawn within their errors."""


class Covariance(Part, abstract=True):
    """Base of the structured inputs: x ~ N(0, Λ) with eigenvalues λ_k, labels y = Σ_k w*_k x_k plus noise.

    x_k is the input along the k-th eigenvector. Data with a spectrum have no dimension in the theory; widths, batches
    and dataset sizes are then counts, not ratios.
    """

    @abc.abstractmethod
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues λ_k (modes) and target coefficients w*_ck (outputs × modes)."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """The number of outputs that there are coefficients for."""

    @property
    def unexplained(self) -> float:
        """Standard deviation of what no linear map of the inputs explains; the noise of the supply comes on top."""
        return 0.0


class PowerLawFit(NamedTuple):
    """Exponents of a spectrum as in `PowerLaw`, λ_k ∝ k^(−capacity) and λ_k w*_k² ∝ k^(−capacity·source − 1).

    An error joins the scatter of fits to spectra redrawn within their sampling errors, and half of the difference
    between fits to the first and to the second half of the modes in log k: it is large if there is no power law.
    """

    capacity: float
    capacity_error: float
    source: float
    source_error: float
    first: int
    last: int

    def __str__(self) -> str:
        return (
            f"capacity {self.capacity:.3g} ± {self.capacity_error:.2g}, source {self.source:.3g} ± "
            f"{self.source_error:.2g} (modes {self.first} to {self.last})"
        )


class Spectrum(Covariance):
    """A spectrum given mode by mode, or estimated from examples (`Spectrum.from_data`).

    - `eigenvalues` (λ_k): one for each mode, at least 0 and not all zero.
    - `coefficients` (w*_k): of the target, one for each mode; for several outputs, a row for each output.
    - `unexplained`: standard deviation, for each output, of the part of the targets that no linear map explains. It
      acts as label noise does, and adds to the noise of the supply. 0 unless given.
    - `examples` (n): how many examples the spectrum was estimated from. None unless given: it is known exactly.
    """

    eigenvalues: np.ndarray = field(array(1, minimum=0))
    coefficients: np.ndarray = field(array(1, 2))
    unexplained: float = field(squared(minimum=0), default=0.0)  # pyright: ignore[reportIncompatibleMethodOverride]
    examples: int | None = field(optional(whole(2)), default=None)

    def validate(self) -> None:
        modes = len(self.eigenvalues)
        if not self.eigenvalues.any():
            raise ProblemError("Spectrum.eigenvalues", self.eigenvalues, "must have a positive sum")
        if self.coefficients.shape[-1] != modes:
            allowed = f"must have one entry per eigenvalue ({modes}) for each output"
            raise ProblemError("Spectrum.coefficients", self.coefficients, allowed)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.eigenvalues, np.atleast_2d(self.coefficients)

    @property
    def outputs(self) -> int:
        return len(np.atleast_2d(self.coefficients))

    @classmethod
    def from_data(cls, inputs: Any, targets: Any, centered: bool = True) -> "Spectrum":
        """The spectrum of your own examples: inputs X (n × D) and targets y (n, or n × C).

        - λ_k: the eigenvalues of the covariance X^⊤X/n, the largest first (n − 1 instead of n if centred).
        - w*_k: the least-squares map along each eigenvector, shrunk: an estimate from n examples has the power
          λ_k w*_k² of the truth plus σ²/n on average, and that much is taken off (down to zero).
        - `unexplained` (σ): what that map leaves, σ² = Σ(y − ŷ)²/((n − D − 1) C).
        - `centered`: whether the means of inputs and targets are subtracted first. True unless given.

        From n examples an eigenvalue is known to √(2/n) of itself, and neighbouring ones repel each other: all of them
        are spread by about √(D/n). With n ≤ D + 1 examples the small ones are zero and every target is explained, so
        that is refused.
        """
        return estimate(inputs, targets, boolean(centered, "centered"), "Spectrum")[0]

    def standard_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Sampling errors of eigenvalues and coefficients: λ_k √(2/n) for Gaussian inputs, and σ/√(n λ_k)."""
        lam, w = self.arrays()
        if self.examples is None:
            return np.zeros_like(lam), np.zeros_like(w)
        with np.errstate(divide="ignore"):
            error = np.where(lam > 0, self.unexplained / np.sqrt(self.examples * lam), 0.0)
        return lam * math.sqrt(2 / self.examples), np.broadcast_to(error, w.shape)

    def power_law(self, first: int = 1, last: int | None = None) -> PowerLawFit:
        """Fit power laws to the modes from the `first` to the `last`.

        The last one is that from which on the task has less power than the estimate has noise, σ²/n, unless given.
        """
        lam, w = self.arrays()
        first = whole(1)(first, "first")
        end = int(np.count_nonzero(lam > 0))
        noise = 0.0 if self.examples is None else self.unexplained**2 / self.examples
        groups = _Groups.between(first, end)
        lost = np.flatnonzero(groups.power(lam, w) <= noise * self.outputs)
        known = int(groups.edges[lost[0]]) - 1 if len(lost) else end
        end = known if last is None else min(whole(1)(last, "last"), end)
        groups = _Groups.between(first, end)
        if len(groups.edges) < 5:
            allowed = f"must leave at least four groups of modes; the power of the task is known up to mode {known}"
            raise ProblemError("first, last", (first, end), allowed)
        errors, rng = self.standard_errors(), np.random.default_rng(0)
        redrawn = [
            groups.exponents(
                np.abs(lam + errors[0] * rng.standard_normal(lam.shape)),
                w + errors[1] * rng.standard_normal(w.shape),
            )
            for _ in range(REDRAWN)
        ]
        middle = groups.edges[len(groups.edges) // 2]
        halves = [
            _Groups.between(*ends).exponents(lam, w) for ends in ((first, middle), (middle, end))
        ]
        misfit = np.abs(np.subtract(*halves)) / 2
        exponents = groups.exponents(lam, w)
        deviations = np.hypot(np.std(redrawn, axis=0), misfit)
        (capacity, source), (capacity_error, source_error) = exponents.tolist(), deviations.tolist()
        return PowerLawFit(capacity, capacity_error, source, source_error, first, end)


class _Groups(NamedTuple):
    """Groups of neighbouring modes, each about half as long again as the one before; mode k counts from 1."""

    edges: np.ndarray

    @classmethod
    def between(cls, first: int, last: int) -> "_Groups":
        """Groups from mode `first` to mode `last`."""
        count = max(2, math.ceil(math.log((last + 1) / first, GROUP)) + 1)
        return cls(np.unique(np.rint(np.geomspace(first, last + 1, count)).astype(int)))

    def mean(self, values: Float[np.ndarray, " k"]) -> Float[np.ndarray, " groups"]:
        """The mean over the modes of each group."""
        start = self.edges[0] - 1
        sums = np.add.reduceat(values[start : self.edges[-1] - 1], self.edges[:-1] - 1 - start)
        return sums / np.diff(self.edges)

    def power(
        self, lam: Float[np.ndarray, " k"], w: Float[np.ndarray, "c k"]
    ) -> Float[np.ndarray, " groups"]:
        """The mean of Σ_c λ_k w*_ck² in each group."""
        return self.mean((lam * w**2).sum(axis=0))

    def exponents(
        self, lam: Float[np.ndarray, " k"], w: Float[np.ndarray, "c k"]
    ) -> Float[np.ndarray, "2"]:
        """Capacity and source, by least squares in the logarithms of the groups' means."""
        k = np.arange(1.0, len(lam) + 1)
        log_k = self.mean(np.log(k))
        eigenvalues = np.polyfit(log_k, self.mean(np.log(np.maximum(lam, np.finfo(float).tiny))), 1)
        power = self.power(lam, w)
        used = power > 0
        slope = np.polyfit(log_k[used], np.log(power[used]), 1)[0] if used.sum() > 1 else np.nan
        return np.array([-eigenvalues[0], (slope + 1) / eigenvalues[0]])


def estimate(
    inputs: Any, targets: Any, centered: bool, owner: str
) -> tuple[Spectrum, np.ndarray, np.ndarray]:
    """The spectrum of examples, the inputs along its eigenvectors (n × D) and the targets (n × C)."""
    X, Y = given_examples(inputs, targets, owner)
    refuse_constant_columns(X, owner)
    n, D = X.shape
    if n < D + 1 + centered:
        allowed = (
            f"fewer examples ({n}) than a covariance of {D} inputs needs ({D + 1 + centered}): its small eigenvalues "
            "would be zero, and the targets explained perfectly; bring more examples, or project the inputs onto "
            "fewer directions first"
        )
        raise ProblemError(f"{owner}.inputs", f"{n} × {D}", allowed)
    if centered:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    lam, U = np.linalg.eigh(X.T @ X / (n - centered))
    lam, U = lam[::-1], U[:, ::-1]
    kept = lam > DEPENDENT * lam[0]
    lam, rotated = np.where(kept, lam, 0.0), X @ U
    w = np.zeros((Y.shape[1], D))
    w[:, kept] = (Y.T @ rotated[:, kept]) / (n - centered) / lam[kept]
    freedom = (n - int(kept.sum()) - centered) * Y.shape[1]
    variance = float(np.sum((Y - rotated @ w.T) ** 2)) / freedom
    w *= np.sqrt(np.clip(1 - variance / n / np.maximum(lam * w**2, sys.float_info.min), 0, None))
    coefficients = w[0] if len(w) == 1 else w
    return Spectrum(lam, coefficients, math.sqrt(variance), n), rotated, Y


class PowerLaw(Covariance):
    """λ_k = k^(−capacity) and w*_k² λ_k = k^(−capacity·source − 1) for k = 1 … modes (w*_k > 0).

    - `capacity`: the exponent of the eigenvalues, above 1.
    - `source` (β): the loss of a linear model falls as t^(−source). Above 0; a source below 1 is a hard task.
    - `modes`: the number of modes.
    """

    capacity: float = field(number(above=1))
    source: float = field(number(above=0))
    modes: int = field(whole(1))

    @property
    def outputs(self) -> int:
        return 1

    def validate(self) -> None:
        if any(map(traced, (self.capacity, self.source))):
            return
        steepest = max(self.capacity, self.capacity * self.source + 1)
        if steepest * math.log(self.modes) > -math.log(sys.float_info.min):
            name = "capacity" if self.capacity >= self.source else "source"
            allowed = (
                f"is too large for {self.modes} modes: the last ones would have a variance below "
                f"{sys.float_info.min:.1g}, the smallest number in double precision"
            )
            raise ProblemError(f"PowerLaw.{name}", getattr(self, name), allowed)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        room("PowerLaw.modes", self.modes, 2, self.modes)
        k = np.arange(1.0, self.modes + 1)
        eigenvalues = k**-self.capacity
        return eigenvalues, np.sqrt(k ** (-self.capacity * self.source - 1) / eigenvalues)[None]
