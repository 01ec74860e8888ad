"""Real examples, on which linear networks are trained as they are."""

import functools

import numpy as np

from learndyn.problem.checks import boolean
from learndyn.problem.given import given
from learndyn.problem.part import field
from learndyn.problem.spectra import Covariance, Spectrum, estimate


class Examples(Covariance):
    """Your own examples in place of Gaussian inputs: `LinearMap(Examples(X, y))`.

    Networks are trained on examples drawn from these, a new choice for every seed, and tested on all others. The theory
    is that of Gaussian inputs with the covariance of the examples, and of targets that are the best linear map plus
    independent noise: `estimated`.

    - `inputs` (X): an array n × D with more examples than inputs.
    - `targets` (y): n numbers, or n × C.
    - `centered`: whether the means of inputs and targets are subtracted. True unless given.
    """

    inputs: np.ndarray = field(given(2))
    targets: np.ndarray = field(given(1, 2))
    centered: bool = field(boolean, default=True)

    def validate(self) -> None:
        # Estimating refuses what no theory can be made of.
        self._estimate  # noqa: B018

    @functools.cached_property
    def _estimate(self) -> tuple[Spectrum, np.ndarray, np.ndarray]:
        return estimate(self.inputs, self.targets, self.centered, "Examples")

    @property
    def estimated(self) -> Spectrum:
        """The spectrum of the examples."""
        return self._estimate[0]

    @property
    def examples(self) -> int:
        """The number of examples (n)."""
        return len(self.inputs)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.estimated.arrays()

    @property
    def outputs(self) -> int:
        return self.estimated.outputs

    @property
    def unexplained(self) -> float:
        return self.estimated.unexplained

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs along the eigenvectors (n × D), and what the linear map leaves of the targets (C × n)."""
        _, X, Y = self._estimate
        return X, Y.T - self.arrays()[1] @ X.T
