"""A wide network's problem as arrays: the kernel of its inputs, its loss, and the response of its weights."""

from typing import NamedTuple

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.families.wide.loss import Loss, loss_of
from learndyn.problem.activations import Activation
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import impulse_response, undriven_correlation


class WideSetting(NamedTuple):
    """A wide network, its points and its training, as arrays.

    - `activation` (φ), `depth` (L), `gamma` (γ_0): those of `Wide`.
    - `bias`: 1 with biases, 0 without; what they add to the kernel below each hidden layer.
    - `K` (K^x): kernel of the inputs, points × points, with the test points last and without the bias.
    - `loss` (𝓛): of the first P points, the trained ones.
    - `k` (k(t, s)): impulse response of a weight to its force, states × states.
    - `C_W` (C_W(t, s)): correlation of an undriven weight, states × states.
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
        """Number of points, test points included."""
        return len(self.K)

    @property
    def trained(self) -> int:
        """P, the number of trained points."""
        return len(self.loss.targets)

    @property
    def outputs(self) -> int:
        """C, the number of outputs."""
        return self.loss.targets.shape[1]

    def diverged(self, f: np.ndarray) -> bool:
        """Whether training with the outputs f has diverged, on the scale of 1 plus the largest target."""
        return bool(np.any(diverged(f, 1 + float(np.max(np.abs(self.loss.targets))))))

    @property
    def states(self) -> int:
        """T + 1, the number of states of T steps."""
        return len(self.k)


def wide_setting(
    problem: Problem, steps: int, training: GradientDescent | None = None
) -> WideSetting:
    """The arrays of a problem for `steps` steps of its training, or of another `training`."""
    network, data = problem.network, problem.data
    rule = problem.training if training is None else training
    k, _ = impulse_response(rule, steps)
    return WideSetting(
        activation=network.activation,
        depth=network.depth,
        gamma=float(network.richness),
        bias=float(network.bias),
        K=data.kernel(),
        loss=loss_of(problem),
        k=np.asarray(k),
        C_W=undriven_correlation(rule, steps),
    )
