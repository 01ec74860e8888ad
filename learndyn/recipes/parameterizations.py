"""The same network in three parameterisations, whose functions follow the same curve step by step.

A layer enters the function as a W, with a multiplier a and initial entries N(0, σ²). Its raw rate is r = ρη, a step of
decay multiplies it by 1 − κη, and noise of temperature τ adds √(2τη)ζ. With another multiplier a' and c = a/a',

    W' = c W,  σ' = c σ,  r' = c² r,  λ' = κη/r',  T' = τη/r,

because a' ∂f/∂(aW) = ∂f/∂W' makes a'W' move by a'² r' = a² r times the same gradient; λ' is the decay in
W' ← (1 − r'λ')W' and T' the temperature in √(2r'T')ζ. Momentum β acts on a'W' as on aW.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from learndyn.core.blueprint import Layer


class LayerRecipe(NamedTuple):
    """One array of weights in one parameterisation.

    - `name`, `shape`: as among the weights of a run.
    - `initial_std`: standard deviation of its entries at the start.
    - `multiplier`: what stands before it in the forward pass.
    - `rate`: its learning rate per unit of the learning rate of training.
    - `weight_decay`: a step multiplies it by 1 − learning rate × weight decay.
    - `temperature`: a step adds √(2 × learning rate × temperature) ζ.
    - `schedule`: "learning_rate" or "readout_learning_rate", the field of training that its rate follows.
    - `scale`: the library's own weights times this are those of this parameterisation.
    """

    name: str
    shape: tuple[int, ...]
    initial_std: float
    multiplier: float
    rate: float
    weight_decay: float
    temperature: float
    schedule: str
    scale: float


def _ntk(layer: Layer) -> float:
    return 1 / math.sqrt(layer.shape[1]) if len(layer.shape) == 2 else 1.0


def _mup(layer: Layer) -> float:
    """The multiplier with which r' = η; a layer that is not trained keeps its own."""
    return layer.multiplier * math.sqrt(layer.rate) if layer.rate else layer.multiplier


MULTIPLIERS: dict[str, Callable[[Layer], float]] = {
    "standard": lambda layer: 1.0,
    "ntk": _ntk,
    "mup": _mup,
}
"""The multiplier of a layer in each parameterisation; all else follows from it."""

MEANING = {
    "standard": "no multipliers: scales are in the initial weights and the learning rates of the layers",
    "ntk": "every matrix has the multiplier 1/√(its inputs)",
    "mup": "every layer has the same learning rate, that of training",
}


def in_parameterization(layer: Layer, parameterization: str) -> LayerRecipe:
    """A layer of the library in a parameterisation."""
    multiplier = MULTIPLIERS[parameterization](layer)
    scale = layer.multiplier / multiplier
    rate = scale**2 * layer.rate
    return LayerRecipe(
        layer.name,
        layer.shape,
        scale * layer.std,
        multiplier,
        rate,
        layer.decay / rate if rate else 0.0,
        layer.temperature / layer.rate if layer.rate else 0.0,
        layer.schedule,
        scale,
    )
