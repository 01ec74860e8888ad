"""The library's activations as functions of a program's vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from learndyn.numerics.precision import float64
from learndyn.problem.activations import Activation, Linear, Named, Relu
from learndyn.problem.activations.values import with_slope
from learndyn.programs.values import Value


def activated(activation: Activation, x: Value) -> Value:
    """φ(x), entry by entry, in the precision of x."""
    if isinstance(activation, Linear):
        return x
    phi, slope = value_and_slope(activation)(x.data)

    def pull(adjoint: Any) -> list[tuple[Value, Any]]:
        return [(x, adjoint * slope)]

    return Value(x.net, phi, x.dim, pull if x.needs else None)


def value_and_slope(
    activation: Activation,
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """φ and φ' of an array. NumPy is as fast as compiled code for two usual ones, and does not wait for its threads."""
    if isinstance(activation, Relu):
        return lambda h: (np.maximum(h, 0), h > 0)
    if isinstance(activation, Named) and activation.name == "tanh":
        return _tanh

    def compiled(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with float64():  # a program runs in a thread of its own
            phi, slope = with_slope(activation, h)
            return np.asarray(phi, h.dtype), np.asarray(slope, h.dtype)

    return compiled


def _tanh(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    phi = np.tanh(h)
    return phi, 1 - phi * phi
