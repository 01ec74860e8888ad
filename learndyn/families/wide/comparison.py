"""All approximations of a wide network at once, against the full theory and a finite network."""

import dataclasses

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from learndyn.core.record import Record
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.errors import NoTheory, ProblemError
from learndyn.families.wide.network import Wide
from learndyn.families.wide.solve import (
    GradientIndependence,
    Perturbative,
    SampledLayers,
    StaticKernel,
    automatic,
)
from learndyn.problem.problem import Problem

COMPARED = ("train_loss", "prediction", "test_prediction", "kernel", "Phi")


@dataclasses.dataclass(frozen=True, repr=False)
class Approximations:
    """The full theory, its approximations and, if they were trained, finite networks.

    - `solutions`: the solutions by the names of the methods.
    - `runs`: the simulation, or None.
    - `table`: a row for each method and a column for each observable: the root mean square deviation from the full
      theory, in per cent of the root mean square of the full theory. In columns that end in " (runs)", the mean of the
      networks takes the place of the full theory.
    - `left_out`: why a method is missing, by its name.
    """

    solutions: dict[str, Solution]
    runs: Solution | None
    table: pd.DataFrame
    left_out: dict[str, str]

    def __repr__(self) -> str:
        lines = ["deviations in per cent", self.table.to_string(float_format="{:.3g}".format)]
        return "\n".join(lines + [f"{name}: {reason}" for name, reason in self.left_out.items()])


def approximations(
    problem: Problem,
    size: int | None = None,
    seeds: int = 4,
    *,
    save_at: int | ArrayLike | None = None,
    samples: int = 1024,
) -> Approximations:
    """Solve a wide network by every method that applies, and train `seeds` networks of width `size` if it is given."""
    if not isinstance(problem.network, Wide):
        kind = type(problem.network).__name__
        raise ProblemError("problem.network", kind, "must be a Wide network")
    full_theory = automatic(problem, Record.of(problem.training, save_at))
    if isinstance(full_theory, SampledLayers):
        full_theory = dataclasses.replace(full_theory, samples=samples)
    methods = [
        full_theory,
        GradientIndependence(samples=samples),
        Perturbative(),
        StaticKernel(),
    ]
    solutions, left_out = {}, {}
    for method in methods:
        name = type(method).__name__
        try:
            solutions[name] = solve(problem, method, save_at=save_at)
        except NoTheory as error:
            left_out[name] = str(error)
    full = solutions[type(full_theory).__name__]
    runs = simulate(problem, size, seeds, save_at=save_at) if size else None
    rows = {}
    for name, solution in solutions.items():
        shown = [x for x in COMPARED if x in solution and x in full]
        rows[name] = {x: _deviation(solution[x], full[x]) for x in shown}
        if runs is not None:
            mean = {x: runs[x].mean("seed") for x in shown}
            rows[name] |= {f"{x} (runs)": _deviation(solution[x], mean[x]) for x in shown}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    return Approximations(solutions, runs, table, left_out)


def _deviation(values: xr.DataArray, reference: xr.DataArray) -> float:
    """The root mean square deviation, in per cent of the reference's root mean square, before either diverged."""
    values, reference = xr.align(values, reference, join="inner")
    size = np.sqrt(np.mean(reference.values**2))
    return float(100 * np.sqrt(np.mean((values.values - reference.values) ** 2)) / size)
