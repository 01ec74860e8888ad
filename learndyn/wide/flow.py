"""Gradient flow of wide networks: descent in small steps, extrapolated to none.

A solution with steps dt differs from gradient flow by a series in dt. Three solutions, x(dt), x(dt/2) and x(dt/4),
remove its first two orders:

    x = (4 x_2 − x_1)/3,    x_1 = 2 x(dt/2) − x(dt),    x_2 = 2 x(dt/4) − x(dt/2).

How much the second order changed, x − x_2, is the stated accuracy. If that is more than `tolerance`, relative to the
largest prediction or loss, steps are halved.

A sampled solution is extrapolated batch by batch: a batch starts from the same neurons whatever the step, so that most
of its noise is in none of the differences. The spread of x is the standard error, which extrapolation may make larger;
the spread of x − x_2 is the noise of the stated accuracy, and only what is beyond it counts. So `tolerance` is about
the step alone, and the standard error about samples.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learndyn.errors import NotConverged, ProblemError
from learndyn.numerics.richardson import richardson
from learndyn.numerics.statistics import mean_and_error
from learndyn.numerics.times import DEFAULT_COUNT, resolve_times
from learndyn.theory import Curves
from learndyn.training import GradientDescent, PerStep, as_schedule
from learndyn.wide.setting import setting

HALVINGS = 3
"""So often are steps halved before the solver gives up."""
JUDGED = ("prediction", "train_loss", "test_prediction", "test_loss")
NOISE = 3.0
"""A change below so many of its own standard errors is none of the step."""
FIRST_STEP = 0.5
"""The first step, times the largest eigenvalue of the dynamics at the start."""


class Descent(NamedTuple):
    """The curves of descent, and where they were sampled the values of every batch (a first axis more)."""

    curves: Curves
    batches: dict[str, np.ndarray]


def in_steps(problem, times: np.ndarray, dt: float, halvings: int):
    """The problem as descent in steps of at most dt/2^halvings, and the states at which it is at `times`."""
    training = problem.training
    intervals = np.diff(np.concatenate([[0.0], times]))
    counts = np.where(intervals > 0, np.ceil(intervals / dt * (1 - 1e-12)), 0).astype(int)
    counts *= 2**halvings
    lengths = np.repeat(intervals / np.maximum(counts, 1), counts)
    starts = np.concatenate([[0.0], np.cumsum(lengths)])[:-1]
    eta = np.asarray(as_schedule(training.learning_rate)(starts), dtype=float) * lengths
    rule = GradientDescent(
        PerStep(eta),
        steps=len(eta),
        weight_decay=training.weight_decay,
        loss=training.loss,
        criterion=training.criterion,
    )
    return dataclasses.replace(problem, training=rule), np.cumsum(counts)


def first_step(problem) -> float:
    """A stable step in time: `FIRST_STEP` over the largest rate times (L + 1) times the largest eigenvalue of K."""
    made = setting(problem, 1, GradientDescent(1.0, steps=1))
    P = made.trained
    largest = np.linalg.eigvalsh(made.K[:P, :P] + made.bias)[-1] * (made.depth + 1)
    times = np.linspace(0.0, problem.training.time, 1001)
    rate = float(np.max(np.asarray(as_schedule(problem.training.learning_rate)(times))))
    fastest = rate * (largest * made.loss.scale + problem.training.weight_decay)
    return FIRST_STEP / fastest if fastest > 0 else problem.training.time


def flow(problem, save_at, tolerance: float, report, solve: Callable, costly: bool) -> Curves:
    """Gradient flow at the recorded times; `solve(problem, steps, report) -> Descent` is descent.

    Every recorded time needs a step that ends there: where steps are `costly`, no more times are recorded than the
    first steps have, unless `save_at` asks for them.
    """
    for name in ("momentum", "noise"):
        if getattr(problem.training, name):
            allowed = "must be 0 in gradient flow; give training steps instead of a time"
            raise ProblemError(f"training.{name}", getattr(problem.training, name), allowed)
    dt = first_step(problem)
    if save_at is None and costly:
        save_at = min(int(np.ceil(problem.training.time / dt)) + 1, DEFAULT_COUNT)
    times = resolve_times(save_at, problem.training.time)
    total = 8.0 ** (HALVINGS + 2)
    grids: list[Descent] = []
    errors = [np.inf]
    for halvings in range(HALVINGS + 3):
        descent, states = in_steps(problem, times, dt, halvings)
        done = 8.0 ** (halvings - 1) / total
        share = 8.0**halvings / total
        found = solve(descent, states, lambda x, a=done, b=share: report(a + b * x))
        if found.curves.diverged_at is not None:
            grids.clear()
            continue
        grids = [*grids[-2:], found]
        if len(grids) < 3:
            continue
        extrapolated, accuracy, worst = _extrapolated(grids)
        errors.append(worst)
        if worst <= tolerance:
            evidence = {"accuracy": accuracy, "steps": int(states[-1])}
            return _against_time(found.curves, extrapolated, times, evidence)
    raise NotConverged(_why(errors, tolerance, bool(grids and grids[-1].batches)))


def _why(errors: list[float], tolerance: float, sampled: bool) -> str:
    """Why gradient flow is not known to the tolerance, from the errors after each halving, and what to try."""
    last, before = errors[-1], errors[-2] if len(errors) > 1 else np.inf
    if not np.isfinite(last):
        return (
            f"descent diverges after up to {HALVINGS + 2} halvings of the step; use a shorter time"
        )
    known = (
        f"gradient flow is known to {last:.2g} of its largest value after {HALVINGS} halvings of the step, and the "
        f"tolerance is {tolerance:g}; "
    )
    if sampled and last > before / 2:
        return known + (
            "halving no longer helps, because responses of as many steps need more samples than there are; use more "
            "samples, a larger tolerance or a shorter time"
        )
    return known + "use a larger tolerance or a shorter time"


def _against_time(descent: Curves, observables: dict, times: np.ndarray, evidence: dict) -> Curves:
    """The curves of descent with these observables, on the axis of time."""
    axis = {"step": "time", "step2": "time2"}
    named = {
        name: dataclasses.replace(x, dims=tuple(axis.get(d, d) for d in x.dims))
        for name, x in observables.items()
    }
    coordinates = {axis.get(k, k): v for k, v in descent.coordinates.items()}
    return dataclasses.replace(
        descent,
        observables=named,
        times=times,
        axis="time",
        axis_words="time t (gradient flow)",
        coordinates=coordinates | {"time2": times},
        evidence=descent.evidence | evidence,
    )


def _extrapolated(grids: list[Descent]):
    """Observables to second order, their accuracy, and the worst relative one beyond what is noise."""
    found, accuracy, worst = {}, {}, 0.0
    for name, finest in grids[-1].curves.observables.items():
        if name in ("A", "B"):  # a response to one step has no limit of small steps
            continue
        if name == "preactivation":
            found[name] = finest
            continue
        shape = np.asarray(finest.values).shape
        coarse, middle, fine = (_by_batch(grid, name).reshape(-1, *shape) for grid in grids)
        values, second = (richardson(x).values for x in ((coarse, middle, fine), (middle, fine)))
        if len(values) > 1:
            mean, error = mean_and_error(values)
            change, noise = mean_and_error(values - second)
        else:
            mean, error = values[0], None
            change, noise = (values - second)[0], np.zeros(shape)
        found[name] = dataclasses.replace(finest, values=mean, error=error)
        of_descent = grids[-1].curves.evidence.get("accuracy", {}).get(name, 0.0)
        accuracy[name] = float(np.max(np.abs(change), initial=0.0)) + of_descent
        if name in JUDGED:
            scale = max(float(np.max(np.abs(mean))), 1e-300)
            # Few batches know a single noise poorly: none is taken to be below what is usual for the observable.
            usual = np.sqrt(np.mean(noise**2))
            beyond = np.abs(change) - NOISE * np.maximum(noise, usual)
            worst = max(worst, float(np.max(beyond, initial=0.0)) / scale)
    return found, accuracy, worst


def _by_batch(grid: Descent, name: str) -> np.ndarray:
    """The values of every batch, or of the one solution there is."""
    if name in grid.batches:
        return grid.batches[name]
    return np.asarray(grid.curves.observables[name].values)
