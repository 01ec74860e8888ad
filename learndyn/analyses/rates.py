"""Learning rates from the theory: the largest stable one and the best one.

All of it goes through `solve`, so it works for every problem that has a theory.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar, root_scalar

from learndyn.core.solution import Solution
from learndyn.core.solve import solve, trace
from learndyn.errors import AtTheEdge, LearndynError, NotConverged, ProblemError, nearest
from learndyn.numerics.precision import float64
from learndyn.problem.checks import number
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule

DOUBLINGS = 60
"""How many times a rate is doubled or halved before the search gives up."""
DECADES, POINTS = 3, 25
"""The grid on which the best rate is sought first: decades below the largest stable rate, and number of rates."""
ROUNDING = 1e-13
"""Losses that differ by less than this part of the initial loss are taken to be equal."""
NEAR = np.array([-0.1, -0.063, -0.037, -0.014, 0.0, 0.022, 0.047, 0.071, 0.1])
"""Distances in log η at which the neighbourhood of an optimum is looked at; irregular, so that ripples show."""
ROOT = 1e-6
"""The accuracy in log η of an optimum that is found as a root of the slope."""
SHARP = 1e-4
"""From this relative accuracy on, optima are roots of the slope."""
ROUGH = 0.01
"""Relative deviations from a parabola in the neighbourhood of an optimum that call it rough."""
EDGE = 0.9
"""An optimum above this part of the largest stable rate is at the edge."""
DIFFERENTIATED = 400
"""Trainings of more steps are not differentiated: a gradient costs several solutions by rows."""


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
    an unstable one, and then bisects in log η. Where the theory cannot follow a long training at the edge of stability
    (`Panels`), that counts as unstable. Rich networks can be chaotic near the edge, so that stable and
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
    loss = FinalLoss(problem, observable)
    return _search(loss, largest_stable_rate(problem, rtol=rtol), rtol)[0]


class Optimum(NamedTuple):
    """The best rate of a problem, how well it is known, and the curve that it was found on.

    - `rate`, `loss`: the best rate η and the loss at the end of training there.
    - `error`: the error of the rate: that of the search, or the distance at which the loss has risen by its own error.
    - `largest`: the largest stable rate.
    - `rates`, `losses`: the grid of rates on which the search began with some rates around the best one, and the losses
      there; inf where training diverges.
    - `flags`: what makes the optimum doubtful, in words.
    """

    rate: float
    loss: float
    error: float
    largest: float
    rates: np.ndarray
    losses: np.ndarray
    flags: tuple[str, ...]


def optimum(problem: Problem, observable: str = "test_loss", rtol: float = 1e-3) -> Optimum:
    """`best_rate` and `largest_stable_rate` in one search, with the error of the rate and what is odd about it.

    If `rtol` is 1e-4 or less and the theory can be differentiated, the end of the search is a root of the slope
    d loss/d log η: values of a loss with an error ε tell its minimum to √ε only. For less, compiling the slope takes
    longer than the whole search.
    """
    rtol = number(above=0, below=1)(rtol, "rtol")
    largest = largest_stable_rate(problem, rtol=rtol)
    loss = FinalLoss(problem, observable)
    best, grid, losses = _search(loss, largest, rtol)
    where, reached = math.log(best.rate), rtol
    slope = slope_of(problem, observable) if rtol <= SHARP else None
    if slope is not None:
        root = _root(slope, where)
        if root is not None and loss(root) <= best.loss + loss.rounding:
            where, reached = root, ROOT
    value, around = loss(where), [loss(where + d) for d in NEAR]
    curvature = float(np.polyfit(NEAR, around, 2)[0]) * 2 if np.all(np.isfinite(around)) else 0.0
    unknown = max(loss.accuracy, loss.rounding)
    width = math.sqrt(2 * unknown / curvature) if curvature > 0 else reached
    x = np.concatenate([grid, where + NEAR])
    y = np.concatenate([losses, around])[np.argsort(x)]
    x = np.sort(x)
    flags = tuple(_flags(loss, where, value, around, grid, losses, largest))
    return Optimum(
        math.exp(where),
        value,
        math.exp(where) * max(reached, width),
        largest,
        np.exp(x),
        y,
        flags,
    )


def slope_of(problem: Problem, observable: str) -> Callable[[float], float] | None:
    """d loss/d log η at the end of training, by automatic differentiation; None where the theory has no derivatives."""
    training: Any = problem.training
    if training.time is None and training.steps > DIFFERENTIATED:
        return None
    end = training.steps if training.time is None else training.time

    def final(log_rate: Any) -> Any:
        changed_rule = dataclasses.replace(training, learning_rate=jnp.exp(log_rate))
        changed_problem = dataclasses.replace(problem, training=changed_rule)
        return trace(changed_problem, save_at=[0, end])[observable][-1]

    derivative = jax.jit(jax.grad(final))

    def slope(log_rate: float) -> float:
        with float64():
            return float(derivative(jnp.asarray(log_rate, dtype=float)))

    try:
        slope(math.log(_own_rate(problem)))
    except (LearndynError, KeyError, NotImplementedError):
        return None
    return slope


def _root(slope: Callable[[float], float], where: float) -> float | None:
    """The root of the slope next to the best rate found; None if the slope does not change sign there."""
    low, high = where - NEAR[-1], where + NEAR[-1]
    ends = slope(low), slope(high)
    if not (ends[0] < 0 < ends[1]):
        return None
    return root_scalar(slope, bracket=(low, high), xtol=ROOT).root


def _flags(
    loss: "FinalLoss",
    where: float,
    value: float,
    around: list[float],
    grid: list[float],
    losses: list[float],
    largest: float,
) -> Iterator[str]:
    """What makes an optimum doubtful."""
    if math.exp(where) > EDGE * largest:
        yield "at the edge of stability"
    elif loss.edge:
        yield "training is at the edge of stability"
    unknown = max(3 * loss.accuracy, 3 * loss.rounding, ROUGH * abs(value))
    if not np.all(np.isfinite(around)):
        yield "rates close by diverge"
    elif np.max(np.abs(np.polyval(np.polyfit(NEAR, around, 2), NEAR) - around)) > unknown:
        yield "rough: the loss jumps between rates close by"
    stable = np.array(losses)
    if np.any(np.isinf(stable)):
        yield "some rates below the largest stable one diverge"
    inner = stable[1:-1]
    dips = (inner + unknown < stable[:-2]) & (inner + unknown < stable[2:])
    if np.count_nonzero(dips) > 1:
        yield "several minima"


def _own_rate(problem: Problem) -> float:
    """The rate of the problem, a positive number."""
    rate = getattr(problem.training, "learning_rate", None)
    if rate is None or isinstance(rate, Schedule):
        allowed = "must be a number, not a schedule, because the search varies one rate"
        raise ProblemError("training.learning_rate", rate, allowed)
    return number(above=0)(rate, "training.learning_rate")


def _ends(problem: Problem, rate: float) -> Solution | None:
    """The observables at the start and at the end of training at this rate.

    None if it diverges, or if it is at the edge of stability and the theory cannot follow it there.
    """
    training: Any = dataclasses.replace(problem.training, learning_rate=rate)
    end = training.steps if training.time is None else training.time
    try:
        solution = solve(dataclasses.replace(problem, training=training), save_at=[0, end])
    except AtTheEdge:
        return None
    except NotConverged as error:
        # Not a sign of instability: the curve at this rate is not known, and so the search cannot go on.
        raise NotConverged(
            f"the search came to the learning rate {rate:.4g}, where {error}"
        ) from error
    return solution if solution.diverged_at is None else None


def _is_stable(problem: Problem, rate: float) -> bool:
    """Whether the loss at the end of training is at most that at the start."""
    solution = _ends(problem, rate)
    if solution is None:
        return False
    start, end = solution["train_loss" if "train_loss" in solution else "test_loss"].values
    return bool(end <= start)


def _search(
    loss: "FinalLoss", largest: float, rtol: float
) -> tuple[BestRate, list[float], list[float]]:
    """The best rate up to the largest stable one, and the grid of log η, going down, with the losses there."""
    top, spacing = math.log(largest), DECADES * math.log(10) / (POINTS - 1)
    grid: list[float] = []
    losses: list[float] = []
    while not losses or losses[-1] <= min(losses) + loss.rounding:
        if len(grid) * spacing > DOUBLINGS * math.log(2):
            text = f"{loss.observable} does not rise as the learning rate falls, down to"
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
    return BestRate(math.exp(where), loss(where)), grid, losses


class FinalLoss:
    """An observable at the end of training as a function of log η.

    - `rounding`: the rounding errors to expect in it.
    - `accuracy`: the error that the theory states for the last rate tried, sampling errors included.
    - `edge`: whether the theory says that training at the last rate tried is at the edge of stability.
    """

    def __init__(self, problem: Problem, observable: str):
        self.problem, self.observable, self.rounding = problem, observable, 0.0
        self.accuracy, self.edge = 0.0, False

    def __call__(self, log_rate: float) -> float:
        solution, name = _ends(self.problem, math.exp(log_rate)), self.observable
        if solution is None:
            return math.inf
        known = [other for other in solution.observables if solution[other].ndim == 1]
        if name not in known:
            allowed = f"must be one number for each step or time; {nearest(name, known)}"
            raise ProblemError("observable", name, allowed)
        start, end = map(float, solution[name].values)
        self.rounding = ROUNDING * abs(start)
        sampling = solution.standard_error(name)
        self.accuracy = (solution.evidence.accuracy or {}).get(name, 0.0)
        self.accuracy += 0.0 if sampling is None else float(sampling.values[-1])
        self.edge = solution.evidence.get("edge_of_stability") is not None
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
