"""Structured inputs: eigenvalues of their covariance, and the target along each eigenvector."""

import abc
import math
import sys

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import array, number, room, whole
from learndyn.problem.part import Part, field, traced


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


class Spectrum(Covariance):
    """A spectrum given mode by mode.

    - `eigenvalues` (λ_k): one for each mode, at least 0 and not all zero.
    - `coefficients` (w*_k): of the target, one for each mode; for several outputs, a row for each output.
    """

    eigenvalues: np.ndarray = field(array(1, minimum=0))
    coefficients: np.ndarray = field(array(1, 2))

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
