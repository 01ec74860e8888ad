"""Learning rates from the theory: the largest stable one, the best one, and how both depend on a field of the problem.

All of it goes through `solve`, so it works for every problem that has a theory.
"""

import copy
import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from learndyn.errors import NotConverged, ProblemError, nearest
from learndyn.part import Part, number
from learndyn.problem import Problem
from learndyn.progress import progress_bar
from learndyn.solve import solve
from learndyn.training import Schedule

DOUBLINGS = 60
"""So many times a rate is doubled or halved before the search gives up."""
DECADES, POINTS = 3, 25
"""The grid on which the best rate is looked for first: how far below the largest stable rate, how many rates."""
LONG_NAMES = {
    "best_rate": "learning rate with the smallest test loss at the end",
    "best_loss": "test loss at the end, at the best learning rate",
    "largest_stable_rate": "largest stable learning rate",
}


class BestRate(NamedTuple):
    """The learning rate with the smallest loss at the end of training, and that loss."""

    rate: float
    loss: float


def largest_stable_rate(
    problem: Problem, *, low: float | None = None, high: float | None = None, rtol: float = 1e-3
) -> float:
    """The largest learning rate η at which training is stable, to the relative accuracy `rtol`.

    Stable means: the loss is finite all the way and, at the end of the problem's own length of training, at most what it
    was at the start. The loss is the training loss, or the test loss where the theory has no training loss. The search
    starts from the problem's rate, or from `low` and `high`, doubles and halves until it has a stable rate and an
    unstable one twice as large, and then bisects in log η. Where stable and unstable rates alternate, it finds one of the
    edges. Raises `NotConverged` if 60 doublings or halvings are not enough.
    """
    check = number(above=0)
    rtol = number(above=0, below=1)(rtol, "rtol")
    start = _own_rate(problem) if low is None and high is None else None
    below = check(low, "low") if low is not None else (start or check(high, "high"))
    above = check(high, "high") if high is not None else below
    if above < below:
        raise ProblemError("low, high", (low, high), "low must not exceed high")
    for _ in range(DOUBLINGS):
        if _is_stable(problem, below):
            break
        below, above = below / 2, below
    else:
        text = f"training is unstable at every learning rate tried, down to {above:.3g}"
        raise NotConverged(f"{text}; give `low`, a rate at which the loss falls, or train for longer")
    for _ in range(DOUBLINGS):
        if above > below and not _is_stable(problem, above):
            break
        below, above = above, above * 2
    else:
        text = f"training is stable at every learning rate tried, up to {below:.3g}"
        raise NotConverged(f"{text}, so there may be no largest one")
    while above > below * (1 + rtol):
        middle = math.sqrt(below * above)
        if _is_stable(problem, middle):
            below = middle
        else:
            above = middle
    return below


def best_rate(problem: Problem, *, observable: str = "test_loss", rtol: float = 1e-3) -> BestRate:
    """The learning rate η with the smallest `observable` at the end of training, among the stable ones.

    25 rates in the three decades below the largest stable rate (and in further decades if the smallest is the best), then
    Brent's method in log η between the neighbours of the best of them, to the relative accuracy `rtol`. A rate at which
    training diverges is never the best. A loss below the rounding errors of its initial value is not told apart from 0;
    where many rates get there, one of them is returned.
    """
    rtol = number(above=0, below=1)(rtol, "rtol")
    return _best_below(problem, largest_stable_rate(problem, rtol=rtol), observable, rtol)


def rates_over(
    problem: Problem, field: str, values: Iterable, *, progress: bool = False
) -> xr.Dataset:
    """`best_rate` and `largest_stable_rate` for each of `values` of one field of the problem.

    `field` is a path into the problem, as in a problem file: "network.width", "network.parameterization", "data.ratio",
    "training.steps". The dataset has the variables best_rate, best_loss and largest_stable_rate, and one dimension, called
    by the last word of the path.
    """
    labels = [value.item() if isinstance(value, np.generic) else value for value in values]
    problems = [_changed(problem, field, label) for label in labels]
    if not problems:
        raise ProblemError(field, labels, "needs at least one value")
    rows, largest = [], _own_rate(problem)
    with progress_bar(progress, f"learning rates over {field}") as report:
        for done, changed in enumerate(problems, 1):
            # The edge for the value before is a better guess than the problem's own rate.
            largest = largest_stable_rate(changed, low=largest)
            rows.append((*_best_below(changed, largest, "test_loss", 1e-3), largest))
            report(done / len(problems))
    name = field.rpartition(".")[2]
    columns = zip(*rows, strict=True)
    arrays = {
        variable: (name, np.array(column), {"long_name": words, "units": "1"})
        for (variable, words), column in zip(LONG_NAMES.items(), columns, strict=True)
    }
    return xr.Dataset(arrays, {name: (name, np.array(labels), {"long_name": field})})


def _own_rate(problem: Problem) -> float:
    """The rate of the problem, a positive number."""
    rate = getattr(problem.training, "learning_rate", None)
    if rate is None or isinstance(rate, Schedule):
        allowed = "must be a number here, not a schedule: the search varies one rate"
        raise ProblemError("training.learning_rate", rate, allowed)
    return number(above=0)(rate, "training.learning_rate")


def _ends(problem: Problem, rate: float) -> xr.Dataset | None:
    """The observables at the start and at the end of training at this rate; None if it diverges."""
    _own_rate(problem)
    training = dataclasses.replace(problem.training, learning_rate=rate)
    end = training.steps if training.time is None else training.time
    solution = solve(dataclasses.replace(problem, training=training), save_at=[0, end])
    return solution.data if solution.diverged_at is None else None


def _is_stable(problem: Problem, rate: float) -> bool:
    data = _ends(problem, rate)
    if data is None:
        return False
    start, end = data["train_loss" if "train_loss" in data else "test_loss"].values
    return bool(end <= start)


def _best_below(problem: Problem, largest: float, observable: str, rtol: float) -> BestRate:
    """The best rate up to the largest stable one."""

    def loss(log_rate: float) -> float:
        data = _ends(problem, math.exp(log_rate))
        if data is None:
            return math.inf
        if observable not in data or data[observable].dims not in (("step",), ("time",)):
            known = [str(name) for name in data.data_vars if data[name].ndim == 1]
            allowed = f"must be one number for each step or time; {nearest(observable, known)}"
            raise ProblemError("observable", observable, allowed)
        value = float(data[observable].values[-1])
        return value if math.isfinite(value) else math.inf

    top, width = math.log(largest), DECADES * math.log(10)
    spacing = width / (POINTS - 1)
    grid: list[float] = []
    losses: list[float] = []
    while not losses or losses[-1] <= min(losses):
        if len(grid) * spacing > DOUBLINGS * math.log(2):
            text = f"{observable} is the smaller, the smaller the learning rate, down to"
            raise NotConverged(f"{text} {math.exp(grid[-1]):.3g}: there is no best rate")
        grid += [top - spacing * k for k in range(len(grid), len(grid) + POINTS)]
        losses += map(loss, grid[len(losses) :])
    best = int(np.argmin(losses))
    bounds = (grid[best + 1], grid[max(best - 1, 0)])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": rtol})
    # The grid holds the end of the interval, which the search inside it never reaches.
    loss_there, log_rate = min((float(found.fun), float(found.x)), (losses[best], grid[best]))
    return BestRate(math.exp(log_rate), loss_there)


def _paths(part: Part, name: str):
    """The dotted paths of all fields of a part and of the parts in it."""
    for item in dataclasses.fields(part):
        value, path = getattr(part, item.name), f"{name}.{item.name}"
        if isinstance(value, Part):
            yield from _paths(value, path)
        else:
            yield path


def _changed(problem: Problem, field: str, value) -> Problem:
    """The problem with another value of one field."""
    parts = {name: getattr(problem, name) for name in ("network", "data", "training")}
    known = {path for name, part in parts.items() for path in _paths(part, name)}
    known.discard("training.learning_rate")
    if field not in known:
        raise ProblemError("field", field, f"is no field to vary; {nearest(field, known)}")
    if isinstance(value, Part) or np.ndim(value):
        raise ProblemError(field, value, "every value must be a single number or word")
    changed = copy.deepcopy(problem.to_dict())
    *path, last = field.split(".")
    table = changed
    for word in path:
        table = table[word]
    table[last] = value
    return Problem.from_dict(changed)
