"""Gradient flow of methods without samples: gradient descent in small steps, extrapolated to step size zero.

A solution with steps dt differs from gradient flow by a series in dt. Three solutions, x(dt), x(dt/2) and x(dt/4),
remove its first two orders:

    x = (4 x_2 − x_1)/3,    x_1 = 2 x(dt/2) − x(dt),    x_2 = 2 x(dt/4) − x(dt/2).

The change by the second order, x − x_2, is the stated accuracy. If it is more than `tolerance`, relative to the largest
prediction or loss, the steps are halved.
"""

import dataclasses
import sys
from collections.abc import Callable

import numpy as np

from learndyn.core.curves import Curves, ExtrapolatedCurves, extrapolated
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.errors import NotConverged, ProblemError
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import PerStep, as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.sampling.rules import refuse_in_flow

HALVINGS = 3
"""The number of times the steps are halved before the solver gives up."""
JUDGED = ("prediction", "train_loss", "test_prediction", "test_loss")
FIRST_STEP = 0.5
"""The first step, times the largest eigenvalue of the dynamics at the start."""

MOST_STEPS = 10**6
"""The largest number of steps; with more, no method would end."""


def refuse_steps(problem: Problem, steps: float, most: float) -> None:
    """Refuse a time that takes too many steps."""
    if not steps <= most:
        allowed = (
            f"gives {steps:.3g} steps of gradient flow, and at most {most:g} are allowed; use less time, a smaller "
            "learning rate or smaller inputs"
        )
        raise ProblemError("training.time", problem.training.time, allowed)


def in_steps(
    problem: Problem, times: np.ndarray, dt: float, halvings: int
) -> tuple[Problem, np.ndarray]:
    """The problem as descent in steps of at most dt/2^halvings, and the numbers of its states at `times`."""
    training = problem.training
    intervals = np.diff(np.concatenate([[0.0], times]))
    needed = np.where(intervals > 0, np.ceil(intervals / dt * (1 - 1e-12)), 0) * 2.0**halvings
    refuse_steps(problem, float(needed.sum()), MOST_STEPS)
    counts = needed.astype(int)
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


def first_step(problem: Problem) -> float:
    """A stable step in time: `FIRST_STEP` over the largest rate times (L + 1) times the largest eigenvalue of K."""
    setting = wide_setting(problem, 1, GradientDescent(1.0, steps=1))
    P = setting.trained
    largest = np.linalg.eigvalsh(setting.K[:P, :P] + setting.bias)[-1] * (setting.depth + 1)
    times = np.linspace(0.0, problem.training.time, 1001)
    rate = float(np.max(np.asarray(as_schedule(problem.training.learning_rate)(times))))
    fastest = rate * (largest * setting.loss.scale + problem.training.weight_decay)
    if fastest == 0:
        return problem.training.time
    return max(FIRST_STEP / fastest, sys.float_info.min)


def in_steps_or_time(
    problem: Problem,
    record: Record,
    tolerance: float,
    report: Report,
    descend: Callable[[Problem, Record, Report], Curves],
) -> Curves:
    """Descent if the record is in steps, and else gradient flow at the recorded times."""
    if record.axis == "step":
        return descend(problem, record, report)
    return flow(problem, record, tolerance, report, descend)


def flow(
    problem: Problem,
    record: Record,
    tolerance: float,
    report: Report,
    descend: Callable[[Problem, Record, Report], Curves],
) -> Curves:
    """Gradient flow at the recorded times; `descend(problem, record, report)` is descent in steps."""
    refuse_in_flow(problem.training)
    dt = first_step(problem)
    total = 8.0 ** (HALVINGS + 2)
    grids: list[Curves] = []
    error = np.inf
    for halvings in range(HALVINGS + 3):
        descent, states = in_steps(problem, record.at, dt, halvings)
        done = 8.0 ** (halvings - 1) / total
        share = 8.0**halvings / total
        curves = descend(
            descent, Record("step", states), lambda x, a=done, b=share: report(a + b * x)
        )
        if curves.diverged_at is not None:
            grids.clear()
            continue
        # A response to a single step has no limit of small steps.
        with_limit = curves.restricted(curves.arrays.keys() - {"A", "B"})
        grids = [*grids[-2:], dataclasses.replace(with_limit, record=record)]
        if len(grids) < 3:
            continue
        result = extrapolated(grids)
        error = _worst(result)
        if error <= tolerance:
            in_steps_alone = curves.evidence.get("accuracy", {})
            accuracy = {
                name: float(np.max(np.abs(change), initial=0.0)) + in_steps_alone.get(name, 0.0)
                for name, change in result.change.items()
            }
            return result.curves.told(accuracy=accuracy, steps=int(states[-1]))
    raise NotConverged(_why(error, tolerance))


def _why(error: float, tolerance: float) -> str:
    """Why gradient flow missed the tolerance, and what to try."""
    if not np.isfinite(error):
        return (
            f"descent still diverges after {HALVINGS + 2} halvings of the step; use a shorter time"
        )
    return (
        f"gradient flow is accurate to {error:.2g} of its largest value after {HALVINGS} halvings of the step, and the "
        f"tolerance is {tolerance:g}; use a larger tolerance or a shorter time"
    )


def _worst(result: ExtrapolatedCurves) -> float:
    """The largest change by the finest step, relative to the largest value."""
    worst = 0.0
    for name in JUDGED:
        if name in result.change:
            scale = max(float(np.max(np.abs(result.curves[name]))), 1e-300)
            worst = max(worst, float(np.max(np.abs(result.change[name]), initial=0.0)) / scale)
    return worst
