"""Activations: a function, its derivative, and a name under which files know it."""

from learndyn.activations.base import Activation
from learndyn.activations.closed import Erf, Linear, Polynomial, Relu
from learndyn.activations.convert import activation, as_activation
from learndyn.activations.smooth import Custom, Formula, Named, Smooth

__all__ = [
    "Activation",
    "Custom",
    "Erf",
    "Formula",
    "Linear",
    "Named",
    "Polynomial",
    "Relu",
    "Smooth",
    "activation",
    "as_activation",
]
