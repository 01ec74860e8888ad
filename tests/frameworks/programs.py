"""Runs the programs that recipes write, from the library's own weights and on its own batches."""

import contextlib
import functools
from typing import Any, cast

import numpy as np

import learndyn as ld

PARAMETERIZATIONS = ("standard", "ntk", "mup")
FRAMEWORKS = ("torch", "optax")


@functools.cache
def _compiled(text: str):
    return compile(text, "recipe", "exec")


@contextlib.contextmanager
def loaded(recipe, framework, parameterization, replaced=("", "")):
    """The names that a program defines, in double precision; `replaced` changes its text first."""
    text = getattr(recipe, framework)(parameterization)
    assert replaced[0] in text
    text = text.replace(*replaced).replace('jax.config.update("jax_enable_x64", True)\n', "")
    names: dict[str, Any] = {"__name__": "recipe"}
    with ld.float64():
        exec(_compiled(text), names)
        names["EVERY"] = 1
        yield names


class OwnTraining:
    """The library's network of a problem and a seed: weights, batches and recorded states, step by step."""

    def __init__(self, problem, size, examples=None, seed=3):
        self.problem, self.recipe, self.seed = problem, ld.recipe(problem, size), seed
        run = ld.start(problem, size=size, seed=seed)
        self.weights, self.batches = [], []
        steps = self.recipe._blueprint.steps
        for step in range(steps + 1):
            self.weights.append(run.weights)
            batch = run.sample(examples) if examples else {}
            if batch:
                self.batches.append((batch["x"], batch["y"].reshape(len(batch["x"]), -1)))
            if step < steps:
                run.step()
        assert not run.diverged
        self.solution, self.network = run.solution, cast("Any", run._progressing)

    def trained(self, framework, parameterization, test=None, batches=None, data=None, **options):
        """The rows of the program's log, and its weights at every step in its own parameterisation."""
        rows, weights = [], []
        batches = self.batches if batches is None else batches
        start = self.recipe.weights(self.weights[0], parameterization)
        given = [iter(batches), *([test] if test is not None else []), *([data] if data else [])]
        with loaded(self.recipe, framework, parameterization, **options) as names:
            if framework == "torch":
                model = names["Network"](start)
                for row in names["train"](model, *given):
                    rows.append(row)
                    arrays = {name: w.detach().numpy() for name, w in model.weights.items()}
                    weights.append({name: w.copy() for name, w in arrays.items()})
            else:
                for row, now in names["train"](start, *given):
                    rows.append(row)
                    weights.append({name: np.asarray(w) for name, w in now.items()})
        return np.array(rows), weights

    def distance(self, weights, parameterization):
        """The largest difference of the program's weights from the library's, relative to the size of an array."""
        far = 0.0
        for mine, theirs in zip(self.weights, weights, strict=True):
            for name, w in self.recipe.weights(mine, parameterization).items():
                scale = np.sqrt(np.mean(w**2)) + 1e-300
                far = max(far, np.max(np.abs(w - theirs[name])) / scale)
        return far
