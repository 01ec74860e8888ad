"""Activations: a function, its derivative, and a name under which files know it."""

from learndyn.problem.activations.base import Activation
from learndyn.problem.activations.closed import Erf, Linear, Polynomial, Relu
from learndyn.problem.activations.convert import activation, as_activation
from learndyn.problem.activations.smooth import Custom, Formula, Named, Smooth

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
