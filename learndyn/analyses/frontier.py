"""`frontier`: the smallest loss for a budget of multiply-adds, and how best to spend it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from learndyn.core.method import Method
from learndyn.core.theory import theory_for
from learndyn.errors import LearndynError, ProblemError
from learndyn.numerics.times import log_times
from learndyn.problem.checks import number, whole
from learndyn.problem.paths import changed
from learndyn.problem.problem import Problem
from learndyn.sweeps.sweep import sweep

RECORDED = 80
"""Steps of each training that are recorded, on a logarithmic grid."""
FEWEST = 6
"""Budgets that a fit of an exponent needs at least."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The best use of budgets C of multiply-adds.

    `data` has the axis "compute" (C):

    - `loss`, `excess`: the smallest loss for the budget, and its part above the floor;
    - `best_steps`, and an array such as `best_width` for each field that was varied: how the budget is best spent;
    - `inside`: whether that optimum lies inside the values tried; only such budgets enter the fits;

    and, along the axes of the fields and of "step", `loss_of_all` and `compute_of_all`, the curves that the frontier
    was taken from. `exponents` has for each of these quantities x the exponent p of x ∝ C^p with its error: the
    scatter of the fit, half of the difference between fits to the lower and to the upper half, and what the distance
    of the values of a field leaves open, joined as independent errors.
    """

    data: xr.Dataset
    exponents: pd.DataFrame
    problem: Problem
    floor: float
    fields: tuple[str, ...]

    def __repr__(self) -> str:
        inside = self.data["compute"].values[self.data["inside"].values]
        if not len(inside):
            return "frontier: no budget has its optimum inside the values tried; try more values"
        lines = [
            f"frontier from {inside[0]:.3g} to {inside[-1]:.3g} multiply-adds ({len(inside)} budgets):"
        ]
        for name, row in self.exponents.iterrows():
            lines.append(f"  {name} ∝ C^({row['exponent']:.3f} ± {row['error']:.2g})")
        return "\n".join(lines)

    __str__ = __repr__


def frontier(
    problem: Problem,
    over: Mapping[str, Iterable],
    *,
    observable: str = "test_loss",
    floor: float | None = None,
    budgets: int = 60,
    method: Method | None = None,
    progress: bool = False,
) -> Frontier:
    """The smallest loss for each budget of multiply-adds, over the steps and over the values of some fields.

    - `problem`: a deep linear network on a `Stream` or `Dataset` with a spectrum; its steps are the longest training.
    - `over`: paths of fields and their values, such as {"network.width": [8, 16, 32], "data.batch": [1, 4, 16]}. A
      step costs three multiply-adds for each weight and example. "training.learning_rate" may be among them.
    - `observable`: the loss. "test_loss" unless given.
    - `floor`: what no budget gets below; exponents are those of the excess over it. The noise of the labels unless
      given.
    - `budgets`: how many budgets, on a logarithmic grid. 60 unless given.
    - `method`: how to solve, as for `solve`; fewer `bins` are faster where there are many modes.
    - `progress`: whether to show a progress bar. False unless given.

    A budget whose optimum is at the end of the values of a field, or at the last step, or next to a training that has
    come to its last step, is not inside, and is left out of the fits: the true frontier may be lower there. Fields with
    a single value are not looked at for that.
    """
    if problem.training.time is not None:
        allowed = "must have steps: gradient flow has no cost"
        raise ProblemError("training.time", problem.training.time, allowed)
    steps = problem.training.steps
    whole(FEWEST)(budgets, "budgets")
    theory = theory_for(problem)
    if floor is None:
        floor = theory.outputs(problem) * theory.label_noise(problem) ** 2
    least: float = number(minimum=0)(floor, "floor")
    at = np.unique(np.rint(log_times(steps, RECORDED, first=1.0)).astype(int))
    swept = sweep(
        problem, over, observables=observable, method=method, save_at=at, progress=progress
    )
    if len(swept.failures):
        raise LearndynError(f"some points of the frontier failed:\n{swept.failures}")
    paths = list(swept.over)
    names = [path.rpartition(".")[2] for path in paths]
    loss = swept.data[observable].transpose(*names, "step").sel(step=slice(1, None))
    cost = _costs(problem, swept.over)
    compute = cost[..., None] * loss["step"].values
    data = _best(loss.values, compute, loss, names, budgets)
    data["excess"] = ("compute", data["loss"].values - least, {"long_name": "loss above the floor"})
    data["loss_of_all"] = ([*names, "step"], loss.values, {"long_name": "loss of all trainings"})
    data["compute_of_all"] = (
        [*names, "step"],
        compute,
        {"long_name": "multiply-adds of all trainings"},
    )
    return Frontier(data, _exponents(data, names), problem, least, tuple(names))


def _costs(problem: Problem, over: Mapping[str, Iterable]) -> np.ndarray:
    """Multiply-adds of a step, for each combination of values."""
    values = [list(labels) for labels in over.values()]
    costs = np.empty([len(labels) for labels in values])
    for place in np.ndindex(costs.shape):
        chosen = {path: labels[k] for path, labels, k in zip(over, values, place, strict=True)}
        varied = changed(problem, chosen)
        costs[place] = theory_for(varied).multiply_adds(varied)
    return costs


def _best(
    loss: Float[np.ndarray, "... step"],
    compute: Float[np.ndarray, "... step"],
    labelled: xr.DataArray,
    names: list[str],
    budgets: int,
) -> xr.Dataset:
    """The best training for each budget, by interpolation of log loss in log C along every curve."""
    grid = np.geomspace(compute.min(), compute.max(), budgets)
    shape = loss.shape[:-1]
    found = np.full((*shape, budgets), np.inf)
    for place in np.ndindex(shape):
        known = np.isfinite(loss[place]) & (loss[place] > 0)
        if known.any():
            x, y = np.log(compute[place][known]), np.log(loss[place][known])
            found[place] = np.exp(np.interp(np.log(grid), x, y, left=np.inf, right=np.inf))
    flat = found.reshape(-1, budgets)
    best = np.unravel_index(flat.argmin(axis=0), shape)
    smallest = flat.min(axis=0)
    inside = np.isfinite(smallest)
    data: dict[str, Any] = {
        "loss": ("compute", smallest, {"long_name": "smallest loss of a budget"})
    }
    step_cost = compute[..., 0][best] / labelled["step"].values[0]
    spent = grid / step_cost
    data["best_steps"] = ("compute", spent, {"long_name": "training steps at the optimum"})
    # A training cut short by the longest one allowed might have gone on.
    inside &= spent < labelled["step"].values[-1] * (grid[0] / grid[1])
    for axis, name in enumerate(names):
        values = labelled[name].values
        words = {"long_name": f"{name} at the optimum"}
        data[f"best_{name}"] = ("compute", values[best[axis]], words)
        if len(values) > 1:
            inside &= (best[axis] > 0) & (best[axis] < len(values) - 1)
            for side in (-1, 1):
                beside = list(best)
                beside[axis] = np.clip(best[axis] + side, 0, len(values) - 1)
                # If the neighbour has come to its last step, it might have been better later on.
                inside &= grid <= compute[..., -1][tuple(beside)]
    data["inside"] = ("compute", inside)
    labels = {"compute": ("compute", grid, {"long_name": "multiply-adds C"})}
    labels |= {name: (name, labelled[name].values) for name in [*names, "step"]}
    return xr.Dataset(data, labels)


def _exponents(data: xr.Dataset, names: list[str]) -> pd.DataFrame:
    """Exponents of what is spent and what is reached, over the budgets whose optimum is inside."""
    chosen = data.isel(compute=np.flatnonzero(data["inside"].values))
    rows = {}
    for name in ("excess", "best_steps", *(f"best_{name}" for name in names)):
        values = chosen[name].values
        if values.dtype.kind not in "iuf" or len(np.unique(data[name].values)) < 2:
            continue
        x = np.log(chosen["compute"].values)
        if len(x) < FEWEST or np.any(values <= 0):
            rows[name] = (math.nan, math.nan)
            continue
        slope, error = _slope(x, np.log(values.astype(float)))
        field = name.removeprefix("best_")
        if field in names:
            # The best value is known to half of the distance of those tried only, at both ends of the fit.
            tried = data[field].values
            coarse = np.diff(np.log(np.unique(tried[tried > 0]))).max() / 2
            error = float(np.hypot(error, math.sqrt(2) * coarse / (x[-1] - x[0])))
        rows[name] = slope, error
    return pd.DataFrame.from_dict(rows, orient="index", columns=["exponent", "error"])


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of a line and its error."""
    (slope, _), covariance = np.polyfit(x, y, 1, cov=True)
    half = len(x) // 2
    halves = [np.polyfit(x[part], y[part], 1)[0] for part in (slice(half + 1), slice(half, None))]
    return float(slope), float(
        np.hypot(math.sqrt(covariance[0, 0]), abs(halves[0] - halves[1]) / 2)
    )
