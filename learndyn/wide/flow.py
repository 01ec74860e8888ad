"""Gradient flow of wide networks: descent in small steps, extrapolated to none.

A solution with steps dt differs from gradient flow by a series in dt. Three solutions, with dt, dt/2 and dt/4, remove
its first two orders; how much the second one changed is the stated accuracy. If that is more than `tolerance`,
relative to the largest prediction or loss and beyond three standard errors of a sampled one, steps are halved.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from learndyn.errors import NotConverged, ProblemError
from learndyn.numerics.times import resolve_times
from learndyn.theory import Curves
from learndyn.training import GradientDescent, PerStep, as_schedule
from learndyn.wide.setting import setting

HALVINGS = 3
"""So often are steps halved before the solver gives up."""
JUDGED = ("prediction", "train_loss", "test_prediction", "test_loss")
FIRST_STEP = 0.5
"""The first step, times the largest eigenvalue of the dynamics at the start."""


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


def flow(problem, save_at, tolerance: float, report, solve: Callable) -> Curves:
    """Gradient flow at the recorded times; `solve(problem, steps, report) -> Curves` is descent."""
    for name in ("momentum", "noise"):
        if getattr(problem.training, name):
            allowed = "must be 0 in gradient flow; give training steps instead of a time"
            raise ProblemError(f"training.{name}", getattr(problem.training, name), allowed)
    times = resolve_times(save_at, problem.training.time)
    dt = first_step(problem)
    total = 8.0 ** (HALVINGS + 2)
    curves: list[Curves] = []
    worst = np.inf
    for halvings in range(HALVINGS + 3):
        descent, states = in_steps(problem, times, dt, halvings)
        done = 8.0 ** (halvings - 1) / total
        share = 8.0**halvings / total
        found = solve(descent, states, lambda x, a=done, b=share: report(a + b * x))
        curves.append(found)
        if found.diverged_at is not None:
            curves.clear()
            continue
        if len(curves) < 3:
            continue
        extrapolated, accuracy, worst = _extrapolated(curves[-3:])
        if worst <= tolerance:
            axis = {"step": "time", "step2": "time2"}
            named = {
                name: dataclasses.replace(x, dims=tuple(axis.get(d, d) for d in x.dims))
                for name, x in extrapolated.items()
            }
            coordinates = {axis.get(k, k): v for k, v in found.coordinates.items()}
            return dataclasses.replace(
                found,
                observables=named,
                times=times,
                axis="time",
                axis_words="time t (gradient flow)",
                coordinates=coordinates | {"time2": times},
                evidence=found.evidence | {"accuracy": accuracy, "steps": int(states[-1])},
            )
    raise NotConverged(
        f"gradient flow is known to {worst:.2g} of its largest value after {HALVINGS} halvings of the step, and the "
        f"tolerance is {tolerance:g}; use a larger tolerance, more samples or a shorter time"
    )


def _extrapolated(curves: list[Curves]):
    """Observables to second order, their accuracy, and the worst relative one."""
    found, accuracy, worst = {}, {}, 0.0
    for name, finest in curves[-1].observables.items():
        if name in ("A", "B"):  # a response to one step has no limit of small steps
            continue
        if name == "preactivation":
            found[name] = finest
            continue
        coarse, middle, fine = (np.asarray(c.observables[name].values) for c in curves)
        first, second = 2 * middle - coarse, 2 * fine - middle
        values = (4 * second - first) / 3
        error = float(np.max(np.abs(values - second), initial=0.0))
        found[name] = dataclasses.replace(finest, values=values)
        accuracy[name] = error
        if name in JUDGED:
            sampling = 0.0 if finest.error is None else 3 * float(np.max(np.asarray(finest.error)))
            scale = max(float(np.max(np.abs(values))), 1e-300)
            worst = max(worst, max(error - sampling, 0.0) / scale)
    return found, accuracy, worst
