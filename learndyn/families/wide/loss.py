"""The loss of wide networks on their points, and its force on the outputs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, log_expit, log_softmax, softmax

from learndyn.problem.problem import Problem


class Loss(NamedTuple):
    """The loss 𝓛 of all trained points, and its force E = −∂𝓛/∂f.

    - `criterion`: "squared", "logistic" or "cross_entropy", as in `GradientDescent`.
    - `targets` (y): of the trained points, P × C.
    - `mean`: whether 𝓛 is the mean over points (not over outputs), or their sum.
    """

    criterion: str
    targets: np.ndarray
    mean: bool

    @property
    def scale(self) -> float:
        """1/P for the mean, 1 for the sum."""
        return 1 / len(self.targets) if self.mean else 1.0

    def force(self, f: Float[np.ndarray, "points C"]) -> Float[np.ndarray, "points C"]:
        """E at the outputs f of all points; it is zero for points that are not trained."""
        E = np.zeros_like(f)
        y, P = self.targets, len(self.targets)
        trained = f[:P]
        if self.criterion == "squared":
            E[:P] = y - trained
        elif self.criterion == "logistic":
            E[:P] = y * expit(-y * trained)
        else:
            E[:P] = y - softmax(trained, axis=1)
        return self.scale * E

    def force_along(
        self, f: Float[np.ndarray, "points C"], change: Float[np.ndarray, "points C"]
    ) -> Float[np.ndarray, "points C"]:
        """How E changes with f along `change`, to first order."""
        dE = np.zeros_like(f)
        y, P = self.targets, len(self.targets)
        trained, moved = f[:P], change[:P]
        if self.criterion == "squared":
            dE[:P] = -moved
        elif self.criterion == "logistic":
            dE[:P] = -(y**2) * expit(y * trained) * expit(-y * trained) * moved
        else:
            shares = softmax(trained, axis=1)
            dE[:P] = -shares * (moved - np.sum(shares * moved, axis=1, keepdims=True))
        return self.scale * dE

    def value(
        self, f: Float[np.ndarray, "*states points C"], targets: np.ndarray | None = None
    ) -> Float[np.ndarray, "*states"]:
        """𝓛 of the outputs f against `targets` (points × C), those of the trained points unless given."""
        y = self.targets if targets is None else targets
        scale = 1 / len(y) if self.mean else 1.0
        if self.criterion == "squared":
            each = 0.5 * (y - f) ** 2
        elif self.criterion == "logistic":
            each = -log_expit(y * f)
        else:
            each = -y * log_softmax(f, axis=-1)
        return scale * each.sum(axis=(-2, -1))


def loss_of(problem: Problem) -> Loss:
    """The loss of a problem's trained points."""
    data, training = problem.data, problem.training
    targets = data.targets.reshape(data.trained, -1)
    return Loss(training.criterion, targets, training.loss == "mean")
