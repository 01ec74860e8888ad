"""Learning rates from the theory: the largest stable one, the best one, and how both depend on a field of the problem.

All of it goes through `solve`, so it works for every problem that has a theory.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from learndyn.core.progress import progress_bar
from learndyn.core.solve import solve
from learndyn.errors import NotConverged, ProblemError, nearest
from learndyn.problem.checks import number
from learndyn.problem.part import Part
from learndyn.problem.paths import changed
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule

DOUBLINGS = 60
"""How many times a rate is doubled or halved before the search gives up."""
DECADES, POINTS = 3, 25
"""The grid on which the best rate is sought first: decades below the largest stable rate, and number of rates."""
ROUNDING = 1e-13
"""Losses that differ by less than this part of the initial loss are taken to be equal."""
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

    Stable means that the loss stays finite and that, at the end of the problem's own training, it is at most what it
    was at the start. The loss is the training loss, or the test loss if the theory has no training loss. The
    search starts from the problem's rate, or from `low` and `high`, doubles and halves until it has a stable rate and
    an unstable one, and then bisects in log η. Rich networks can be chaotic near the edge, so that stable and
    unstable rates alternate over several per cent; the result is then one of the edges. Raises `NotConverged` if 60
    doublings or halvings are not enough.
    """
    own, rtol = _own_rate(problem), number(above=0, below=1)(rtol, "rtol")
    below = number(above=0)(own if low is None else low, "low")
    above = below if high is None else number(above=0)(high, "high")
    if low is None:
        below = min(below, above)
    if above < below:
        raise ProblemError("low, high", (low, high), "low must not exceed high")
    for _ in range(DOUBLINGS):
        if _is_stable(problem, below):
            break
        below, above = below / 2, below
    else:
        text = f"training is unstable at every learning rate tried, down to {above:.3g}"
        raise NotConverged(
            f"{text}; set `low` to a rate at which the loss falls, or train for longer"
        )
    for _ in range(DOUBLINGS):
        if above > below and not _is_stable(problem, above):
            break
        below, above = above, above * 2
    else:
        text = f"training is stable at every learning rate tried, up to {below:.3g}"
        raise NotConverged(f"{text}, so there may be no largest one")
    stable = _edge(
        lambda x: _is_stable(problem, math.exp(x)), math.log(below), math.log(above), rtol
    )
    return math.exp(stable)


def best_rate(problem: Problem, *, observable: str = "test_loss", rtol: float = 1e-3) -> BestRate:
    """The learning rate η with the smallest `observable` at the end of training, among the stable ones.

    The search tries 25 rates in the three decades below the largest stable rate (and in further decades if the smallest
    is the best), and then uses Brent's method in log η between the neighbours of the best of them, to the relative
    accuracy `rtol`. A rate at which training diverges is never the best. Losses that differ by less than 10⁻¹³ of the
    initial one differ only by rounding; if a range of rates is equally good in this sense, its middle in log η is
    returned.
    """
    rtol = number(above=0, below=1)(rtol, "rtol")
    return _best_below(problem, largest_stable_rate(problem, rtol=rtol), observable, rtol)


def rates_over(
    problem: Problem, field: str, values: Iterable, *, progress: bool = False
) -> xr.Dataset:
    """`best_rate` and `largest_stable_rate` for each of `values` of one field of the problem.

    `field` is a path into the problem, as in a problem file: "network.width", "network.parameterization",
    "data.ratio", "training.steps". The dataset has the variables best_rate, best_loss and largest_stable_rate, and
    one dimension, called by the last word of the path.
    """
    labels = [value.item() if isinstance(value, np.generic) else value for value in values]
    problems = [_changed(problem, field, label) for label in labels]
    if not problems:
        raise ProblemError(field, labels, "needs at least one value")
    rows = []
    with progress_bar(progress, f"learning rates over {field}") as report:
        for done, varied in enumerate(problems, 1):
            largest = largest_stable_rate(varied)
            rows.append((*_best_below(varied, largest, "test_loss", 1e-3), largest))
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
        allowed = "must be a number, not a schedule, because the search varies one rate"
        raise ProblemError("training.learning_rate", rate, allowed)
    return number(above=0)(rate, "training.learning_rate")


def _ends(problem: Problem, rate: float) -> xr.Dataset | None:
    """The observables at the start and at the end of training at this rate; None if it diverges."""
    training: Any = dataclasses.replace(problem.training, learning_rate=rate)
    end = training.steps if training.time is None else training.time
    try:
        solution = solve(dataclasses.replace(problem, training=training), save_at=[0, end])
    except NotConverged as error:
        # Not a sign of instability: the curve at this rate is not known, and so the search cannot go on.
        raise NotConverged(
            f"the search came to the learning rate {rate:.4g}, where {error}"
        ) from error
    return solution.data if solution.diverged_at is None else None


def _is_stable(problem: Problem, rate: float) -> bool:
    """Whether the loss at the end of training is at most that at the start."""
    data = _ends(problem, rate)
    if data is None:
        return False
    start, end = data["train_loss" if "train_loss" in data else "test_loss"].values
    return bool(end <= start)


def _best_below(problem: Problem, largest: float, observable: str, rtol: float) -> BestRate:
    """The best rate up to the largest stable one."""
    loss = _FinalLoss(problem, observable)
    top, spacing = math.log(largest), DECADES * math.log(10) / (POINTS - 1)
    grid: list[float] = []
    losses: list[float] = []
    while not losses or losses[-1] <= min(losses) + loss.rounding:
        if len(grid) * spacing > DOUBLINGS * math.log(2):
            text = f"{observable} does not rise as the learning rate falls, down to"
            raise NotConverged(f"{text} {math.exp(grid[-1]):.3g}, so there is no best rate")
        grid += [top - spacing * k for k in range(len(grid), len(grid) + POINTS)]
        losses += map(loss, grid[len(losses) :])
    best = int(np.argmin(losses))
    bounds = (grid[best + 1], grid[max(best - 1, 0)])
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": rtol})
    # The grid holds the end of the interval, which the search inside it never reaches.
    smallest, where = min((float(minimum.fun), float(minimum.x)), (losses[best], grid[best]))
    bound = smallest + loss.rounding
    if min(loss(where - rtol), loss(where + rtol)) <= bound:
        where = _middle(loss, grid, losses, where, bound, rtol)
    return BestRate(math.exp(where), loss(where))


class _FinalLoss:
    """An observable at the end of training as a function of log η, and the `rounding` errors to expect in it."""

    def __init__(self, problem: Problem, observable: str):
        self.problem, self.observable, self.rounding = problem, observable, 0.0

    def __call__(self, log_rate: float) -> float:
        data, name = _ends(self.problem, math.exp(log_rate)), self.observable
        if data is None:
            return math.inf
        if name not in data or data[name].dims not in (("step",), ("time",)):
            known = [str(other) for other in data.data_vars if data[other].ndim == 1]
            allowed = f"must be one number for each step or time; {nearest(name, known)}"
            raise ProblemError("observable", name, allowed)
        start, end = map(float, data[name].values)
        self.rounding = ROUNDING * abs(start)
        return end if math.isfinite(end) else math.inf


def _middle(
    loss: Callable[[float], float],
    grid: list[float],
    losses: list[float],
    where: float,
    bound: float,
    rtol: float,
) -> float:
    """The middle of the interval around `where` in which the loss is at most `bound`; the grid goes downwards."""
    points = list(zip(grid, losses, strict=True))
    below = [point for point in points if point[0] < where]
    above = [point for point in reversed(points) if point[0] > where]
    edges = []
    for neighbours in (below, above):
        edge = where
        for x, value in neighbours:
            if value > bound:
                edge = _edge(lambda x: loss(x) <= bound, edge, x, rtol)
                break
            edge = x
        edges.append(edge)
    return sum(edges) / 2


def _edge(holds: Callable[[float], bool], inside: float, outside: float, rtol: float) -> float:
    """The last number at which `holds` is true, by bisection; it is true at `inside` and false at `outside`."""
    while abs(outside - inside) > rtol:
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _changed(problem: Problem, field: str, value: Any) -> Problem:
    """The problem with another value of one field."""
    if field == "training.learning_rate":
        raise ProblemError(
            "field", field, "cannot be varied, because it is what the search looks for"
        )
    if isinstance(value, Part) or np.ndim(value):
        raise ProblemError(field, value, "every value must be a single number or word")
    return changed(problem, {field: value})
