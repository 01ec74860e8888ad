"""From names, functions and plain data to activations."""

from typing import Any

from learndyn.errors import ProblemError, nearest
from learndyn.problem.activations.base import Activation
from learndyn.problem.activations.closed import Erf, Linear, Relu
from learndyn.problem.activations.smooth import NAMED, Custom, Named
from learndyn.problem.kinds import part

PLAIN = {"erf": Erf, "relu": Relu, "linear": Linear}


def activation(name: str) -> Activation:
    """The activation of this name: erf, relu, linear, tanh, …"""
    if name in PLAIN:
        return PLAIN[name]()
    if name in NAMED:
        return Named(name)
    raise ProblemError("activation", name, f"unknown; {nearest(name, PLAIN.keys() | NAMED.keys())}")


def as_activation(value: Any) -> Activation:
    """An activation from itself, a name, a function of one number, or the dictionary of a file."""
    if isinstance(value, Activation):
        return value
    if isinstance(value, str):
        return activation(value)
    if isinstance(value, dict):
        if set(value) == {"kind"} and value["kind"] in list(NAMED):
            return Named(value["kind"])
        return part(Activation)(value, "activation")
    if callable(value):
        return Custom(value)
    raise ProblemError(
        "activation", value, "must be an activation, a name, a function or a table with a kind"
    )
