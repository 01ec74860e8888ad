"""What the programs for PyTorch and JAX have in common: constants, the table of layers, data in NumPy, the log."""

import re
from typing import NamedTuple

from learndyn.core.blueprint import Blueprint
from learndyn.problem.schedules import Constant, Schedule, as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.recipes.parameterizations import MEANING, LayerRecipe
from learndyn.recipes.rates import rate_text

EVERY_STEP = 1000
"""Trainings up to this many steps are logged at every step, longer ones about this many times."""


class Written(NamedTuple):
    """A network in one parameterisation, ready to be written out.

    - `blueprint`, `training`: the network and its training.
    - `parameterization`, `layers`: its name, and the weights in it.
    - `title`: what the program is, in one line.
    - `data_file`: where large arrays are.
    """

    blueprint: Blueprint
    training: GradientDescent
    parameterization: str
    layers: list[LayerRecipe]
    title: str
    data_file: str

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The rates of the layers by their fields, if one of them is not constant; otherwise empty."""
        rates = {layer.schedule: getattr(self.training, layer.schedule) for layer in self.layers}
        if not any(isinstance(rate, Schedule) for rate in rates.values()):
            return {}
        return {name: as_schedule(rate) for name, rate in rates.items()}

    @property
    def momentum(self) -> float:
        return float(self.training.momentum)

    @property
    def decayed(self) -> bool:
        """Whether weights decay."""
        return any(layer.weight_decay for layer in self.layers)

    @property
    def noisy(self) -> bool:
        """Whether a step adds noise."""
        return any(layer.temperature for layer in self.layers)

    @property
    def framework_rule(self) -> bool:
        """Whether the rule is that of the frameworks' own SGD, rate outside and decay inside the momentum buffer."""
        return not self.momentum or self.training.momentum_rule == "coupled"

    def rate(self, layer: LayerRecipe) -> float:
        """The learning rate of a layer; per unit of the schedule if there are schedules."""
        if self.schedules:
            return layer.rate
        return layer.rate * float(getattr(self.training, layer.schedule))

    @property
    def multiplied(self) -> bool:
        """Whether some multiplier is not 1."""
        return any(layer.multiplier != 1 for layer in self.layers)

    def header(self, imports: str) -> str:
        """The docstring, imports and constants."""
        blueprint = self.blueprint
        halves = {"squared": "½ |y - f|²", "logistic": "log(1 + exp(-y f))"}
        loss = halves.get(blueprint.criterion, "-Σ_c y_c log softmax(f)_c")
        descended = f"{'mean' if blueprint.mean else 'sum'} over examples of {loss}"
        logged = "The log has the same losses"
        if blueprint.logged == 2:
            logged = "The log has twice this loss, |y - f|² without the half"
        noise = f"; the test loss includes the label noise, {blueprint.noise:.6g}"
        logged += noise if blueprint.noise else ""
        every = max(1, blueprint.steps // EVERY_STEP)
        data = blueprint.data
        return f'''"""{self.title}

Parameterisation "{self.parameterization}": {MEANING[self.parameterization]}.
Training descends the {descended}.
{logged}.
Usage: python FILE [SEED] > log.csv
"""

import copy
import math
import sys

{imports}
STEPS, EVERY = {blueprint.steps}, {every}
LAYERS = {{
{self._table()}
}}
{data.constants.replace("{DATA_FILE}", self.data_file)}

{self._data()}

'''

    def _table(self) -> str:
        """The layers, one line each."""
        lines = []
        for layer in self.layers:
            entries = {"shape": layer.shape, "std": layer.initial_std}
            if self.multiplied:
                entries["multiplier"] = layer.multiplier
            entries["lr"] = self.rate(layer)
            if self.decayed:
                entries["weight_decay"] = layer.weight_decay
            if self.noisy:
                entries["temperature"] = layer.temperature
            text = ", ".join(f'"{key}": {value!r}' for key, value in entries.items())
            lines.append(f'    "{layer.name}": {{{text}}},')
        return "\n".join(lines)

    def _data(self) -> str:
        text = self.blueprint.data.functions
        for layer in self.layers:
            text = text.replace(f"{{SCALE[{layer.name}]}}", repr(layer.scale))
        return text

    def rates(self, jax: bool) -> str:
        """Functions of the step for the rates that are not constant."""
        texts = []
        for name, schedule in self.schedules.items():
            per_time = self.blueprint.per_time
            expression = rate_text(schedule, self.blueprint.steps, per_time, jax)
            time = "t = step" if per_time is None else f"t = step / {per_time:.1f}  # time"
            time = "" if isinstance(schedule, Constant) else f"    {time}\n"
            texts.append(
                f"def {name}(step):\n"
                f'    """The rate that multiplies the lr of the layers."""\n'
                f"{time}    return {expression}\n"
            )
        if len(texts) > 1:
            pairs = ", ".join(f'"{layer.name}": {layer.schedule}' for layer in self.layers)
            texts.append(f"RATES = {{{pairs}}}\n")
        return "\n\n".join(texts)

    @property
    def rate_of(self) -> str:
        """The function of the step that is the schedule of the layer called `name`, as text."""
        return "RATES[name]" if len(self.schedules) > 1 else next(iter(self.schedules))

    @property
    def columns(self) -> list[str]:
        """The columns of the log."""
        data = self.blueprint.data
        losses = {"train_loss": data.train_set is not None, "test_loss": data.tested}
        time = [] if self.blueprint.per_time is None else ["time"]
        return ["step", *time, *(name for name, there in losses.items() if there)]

    def row(self, train: str, test: str) -> str:
        """The values of the columns, from the text of the losses of the train and the test set."""
        blueprint = self.blueprint
        times = f"{blueprint.logged:g} * " if blueprint.logged != 1 else ""
        noise = f" + {blueprint.noise:.15g}" if blueprint.noise else ""
        values = {
            "step": "step",
            "time": f"step / {blueprint.per_time}",
            "train_loss": f"{times}{train}",
            "test_loss": f"{times}{test}{noise}",
        }
        return ",\n            ".join(values[name] for name in self.columns)

    @property
    def arguments(self) -> str:
        """The data that `train` takes: batches, test examples, and the whole dataset if the train loss is its."""
        data = self.blueprint.data
        names = ["batches", *(["test"] if data.tested else [])]
        return ", ".join([*names, *(["data"] if data.train_set == "data" else [])])

    def main(self, started: str, row: str) -> str:
        """The end of the program: draw, train, log."""
        data = self.blueprint.data
        calls = {"batches": data.batches, "test": "test_examples(rng, target)", "data": "data"}
        given = ", ".join(calls[name] for name in self.arguments.split(", "))
        prepared = f"\n    {data.prepared}" if data.prepared else ""
        return f'''
if __name__ == "__main__":
    rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    weights, target = draw(rng){prepared}
    print("{",".join(self.columns)}")
    for {row} in train({started}, {given}):
        print(*row, sep=",")
'''


def tidy(program: str) -> str:
    """The program without imports that it does not use."""
    for module in ("copy", "math", "scipy.special", "torch.nn.functional as F"):
        name = module.rpartition(" ")[2]
        if not re.search(rf"(?<!import )(?<![\w.]){re.escape(name)}\.", program):
            program = program.replace(f"import {module}\n", "")
    return program


def forward_text(blueprint: Blueprint, linear: str, phi: str) -> list[str]:
    """The lines of the forward pass, from a template of a linear layer and of the activation.

    In `linear`, `{x}` is what comes in, `{W}` the name of the weights and `{b}` that of the biases, or empty.
    """
    (first, bias), *others = blueprint.hidden
    lines = ["h = " + linear_text(linear, "x", f'"{first.name}"', f'"{bias.name}"' if bias else "")]
    activated = phi.format("h") if blueprint.activation is not None or blueprint.normalised else "h"
    if others:
        text = linear_text(linear, activated, 'f"W{ell}"', 'f"b{ell}"' if bias else "")
        lines.append(f"for ell in range(1, {len(blueprint.hidden)}):")
        lines.append(f"    h = {'h + ' if blueprint.residual else ''}{text}")
    lines.append("return " + linear_text(linear, activated, f'"{blueprint.readout.name}"', ""))
    return lines


def linear_text(template: str, x: str, W: str, b: str) -> str:
    """A linear layer as text; the part of the template after `|` is for biases."""
    without, _, biased = template.partition("|")
    return (without + (biased if b else "")).replace("{x}", x).replace("{W}", W).replace("{b}", b)
