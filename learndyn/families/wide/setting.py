"""What every theory of wide networks depends on: kernels of the inputs, the loss, and how weights move."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from learndyn.core.divergence import diverged
from learndyn.errors import ProblemError
from learndyn.problem.activations import Activation
from learndyn.problem.weight_response import impulse_response, undriven_correlation


class Loss(NamedTuple):
    """The loss 𝓛 of all trained points, and its force E = −∂𝓛/∂f.

    `targets` y (P × C); `mean` over points (not over outputs), or their sum.
    """

    criterion: str
    targets: np.ndarray
    mean: bool

    @property
    def scale(self) -> float:
        """1/P for the mean, 1 for the sum."""
        return 1 / len(self.targets) if self.mean else 1.0

    def force(self, f: np.ndarray) -> np.ndarray:
        """E (points × C) at the outputs f (points × C) of all points: zero for those that are not trained."""
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

    def value(self, f: np.ndarray, targets=None) -> np.ndarray:
        """𝓛 for outputs f (…, points, C) against `targets`, the trained ones unless given."""
        y = self.targets if targets is None else targets
        scale = 1 / len(y) if self.mean else 1.0
        if self.criterion == "squared":
            each = 0.5 * (y - f) ** 2
        elif self.criterion == "logistic":
            each = -log_expit(y * f)
        else:
            each = -y * log_softmax(f, axis=-1)
        return scale * each.sum(axis=(-2, -1))


class Setting(NamedTuple):
    """A wide network on its points.

    `K` (points × points) is the kernel of the inputs (test points last, biases not yet in it), `loss` that of the first
    P points, `k` (states × states) the impulse response of a weight and `C_W` its undriven correlation.
    """

    activation: Activation
    depth: int
    gamma: float
    bias: float
    K: np.ndarray
    loss: Loss
    k: np.ndarray
    C_W: np.ndarray

    @property
    def points(self) -> int:
        """All points, test points included."""
        return len(self.K)

    @property
    def trained(self) -> int:
        """P."""
        return len(self.loss.targets)

    @property
    def outputs(self) -> int:
        """C."""
        return self.loss.targets.shape[1]

    def diverged(self, f: np.ndarray) -> bool:
        """Whether training with the outputs f has diverged; their scale is 1 plus the largest target."""
        return bool(np.any(diverged(f, 1 + float(np.max(np.abs(self.loss.targets))))))

    @property
    def states(self) -> int:
        """T + 1."""
        return len(self.k)


def refuse_in_flow(training) -> None:
    """Refuse what gradient flow cannot have."""
    for name in ("momentum", "noise"):
        if value := getattr(training, name):
            allowed = "must be 0 in gradient flow; give training steps instead of a time"
            raise ProblemError(f"training.{name}", value, allowed)


def loss_of(problem) -> Loss:
    """The loss of a problem's points."""
    data, training = problem.data, problem.training
    targets = data.targets.reshape(data.trained, -1)
    return Loss(training.criterion, targets, training.loss == "mean")


def setting(problem, steps: int, training=None) -> Setting:
    """The setting of `steps` steps by a problem's training, or by another rule."""
    network, data = problem.network, problem.data
    rule = problem.training if training is None else training
    k, _ = impulse_response(rule, steps)
    return Setting(
        activation=network.activation,
        depth=network.depth,
        gamma=float(network.richness),
        bias=float(network.bias),
        K=data.kernel(),
        loss=loss_of(problem),
        k=np.asarray(k),
        C_W=undriven_correlation(rule, steps),
    )
