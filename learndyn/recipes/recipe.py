"""`recipe`: the numbers and the programs with which others train a network of the library."""

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from learndyn.core.blueprint import Blueprint
from learndyn.core.theory import theory_for
from learndyn.errors import ProblemError, nearest
from learndyn.files import write_atomically
from learndyn.problem.checks import whole
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule
from learndyn.recipes.jax_code import optax_program
from learndyn.recipes.parameterizations import (
    MEANING,
    MULTIPLIERS,
    LayerRecipe,
    in_parameterization,
)
from learndyn.recipes.text import Written
from learndyn.recipes.torch_code import torch_program


def recipe(problem: Problem, size: int) -> "Recipe":
    """How to train the network that `simulate(problem, size)` trains, in PyTorch, JAX or by hand.

    The recipe has the initial standard deviation, multiplier, learning rate and weight decay of every array of weights,
    in three parameterisations of the same network, whose functions follow the same curve step by step:

    - "standard": no multipliers; all scales are in the initial weights and the learning rates;
    - "ntk": the multiplier of a matrix is one over the square root of its inputs;
    - "mup": all layers have the same learning rate, that of training.

    Gradient flow, neural ODEs, programs, convolutions and learning rules other than backprop are refused.
    """
    inputs: int = whole(1)(size, "size")
    return Recipe(problem, inputs, theory_for(problem).blueprint(problem, inputs))


class Recipe:
    """The network of a problem at a size, for other programs. `recipe` makes one; it prints as a table.

    - `table`: a pandas table of all arrays of weights in all parameterisations. `rate_factor` is the learning rate per
      unit of the learning rate η of training; `learning_rate` is the product, and NaN if η is a schedule.
    """

    def __init__(self, problem: Problem, size: int, blueprint: Blueprint):
        self.problem, self.size, self._blueprint = problem, size, blueprint

    def layers(self, parameterization: str = "standard") -> list[LayerRecipe]:
        """The arrays of weights in a parameterisation."""
        if parameterization not in MULTIPLIERS:
            allowed = f"unknown; {nearest(parameterization, MULTIPLIERS)}"
            raise ProblemError("parameterization", parameterization, allowed)
        return [in_parameterization(layer, parameterization) for layer in self._blueprint.layers]

    @property
    def table(self) -> pd.DataFrame:
        """All arrays of weights in all parameterisations, one row each."""
        training = self.problem.training
        rows = []
        for name in MULTIPLIERS:
            for layer in self.layers(name):
                rate = getattr(training, layer.schedule)
                rows.append(
                    {
                        "parameterization": name,
                        "layer": layer.name,
                        "shape": "×".join(map(str, layer.shape)),
                        "initial_std": layer.initial_std,
                        "multiplier": layer.multiplier,
                        "rate_factor": layer.rate,
                        "learning_rate": math.nan
                        if isinstance(rate, Schedule)
                        else layer.rate * float(rate),
                        "weight_decay": layer.weight_decay,
                        "momentum": float(training.momentum),
                        "temperature": layer.temperature,
                    }
                )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        table = self.table
        optional = ("weight_decay", "momentum", "temperature")
        unused = [name for name in optional if not np.any(table[name])]
        if np.all(np.isnan(table["learning_rate"])):
            unused.append("learning_rate")
        shown = table.drop(columns=unused)
        lines = [self.title]
        for name, rows in shown.groupby("parameterization", sort=False):
            text = rows.drop(columns="parameterization").to_string(
                index=False, float_format=lambda x: f"{x:.6g}"
            )
            lines += ["", f"{name}: {MEANING[str(name)]}", text]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        blueprint = self._blueprint
        return f"{blueprint.words}, {blueprint.data.words}; size {self.size}."

    def weights(
        self, weights: dict[str, Any], parameterization: str = "standard"
    ) -> dict[str, np.ndarray]:
        """Weights of a network of the library, as `run.weights` gives them, in a parameterisation.

        The programs train from them: `Network(weights)` of `torch`, `train(weights, …)` of `optax`.
        """
        converted = {}
        for layer in self.layers(parameterization):
            if layer.name not in weights:
                allowed = f"has no weights {layer.name!r}; it must have those of start(problem, size={self.size})"
                raise ProblemError("weights", sorted(weights), allowed)
            array = np.asarray(weights[layer.name], dtype=float)
            if array.size != math.prod(layer.shape):
                allowed = f"must have the shape {layer.shape} at size {self.size}"
                raise ProblemError(f"weights[{layer.name!r}].shape", array.shape, allowed)
            converted[layer.name] = layer.scale * array.reshape(layer.shape)
        return converted

    def torch(self, parameterization: str = "standard", data_file: str = "data.npz") -> str:
        """A program for PyTorch: module, optimiser groups, data and a loop that prints a log as CSV.

        Arrays that are too large for text are read from `data_file`, which `save_data` writes.
        """
        return torch_program(self._written(parameterization, data_file))

    def optax(self, parameterization: str = "standard", data_file: str = "data.npz") -> str:
        """The same for JAX and optax."""
        return optax_program(self._written(parameterization, data_file))

    def _written(self, parameterization: str, data_file: str) -> Written:
        return Written(
            self._blueprint,
            self.problem.training,
            parameterization,
            self.layers(parameterization),
            self.title,
            data_file,
        )

    @property
    def needs_data_file(self) -> bool:
        """Whether the programs read arrays from a file."""
        return bool(self._blueprint.data.arrays)

    def save_data(self, path: str | Path) -> None:
        """Write the arrays that the programs read."""

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, **cast(Any, self._blueprint.data.arrays))

        write_atomically(Path(path), write)
