"""The losses of `GradientDescent` as functions of a program's outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from learndyn.programs.functions import softplus
from learndyn.programs.values import Value


def loss_on_points(criterion: str, over_points: str) -> Callable[[Value, Any], Value]:
    """The loss of outputs (points × outputs), given targets."""

    def each(f: Value, y: np.ndarray) -> Value:
        if criterion == "squared":
            return (f - y) ** 2 / 2
        if criterion == "logistic":
            return softplus(-y * f)
        # The largest output is taken off before the exponential, which changes no difference of outputs.
        z = f - f.data.max(axis=1, keepdims=True)
        normalisation = np.log(np.exp(z).sum(1))
        return y * (normalisation[:, None] - z)

    def loss(f: Value, y: np.ndarray) -> Value:
        total = each(f, y).sum()
        return total / len(y) if over_points == "mean" else total

    return loss
