"""The steps of gradient descent on a reused dataset: those of training, or steps in time that follow gradient flow.

A sample responds to its own force: a step τ under this force alone multiplies its error by 1 − κ, with the curvature

    κ = (τ/γ) Σ_i v_i² g'(h_i)²,

so that it explodes if κ > 2. All samples together oscillate where τ times the largest eigenvalue of the Hessian,
about (1 + 1/√γ)² Σ_i v_i² ⟨g'(h_i)²⟩ (the edge of the Marchenko–Pastur law), exceeds 2.
"""

import math
from typing import NamedTuple

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import number, optional
from learndyn.problem.part import Part, field
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent

RARE = 5.0
"""Fields up to this many standard deviations must be stable; about one sample in two million lies beyond."""
SAFETY = 0.5
"""The automatic step is this fraction of the largest stable one."""
MOST_STEPS = 20_000
"""The largest number of steps; with more, neither theory nor training would end."""


class TimeSteps(Part, abstract=True):
    """Base of the methods for two-layer networks on a `Dataset`: the steps in time that follow gradient flow.

    They are used if training has a `time`. If training has `steps`, these are the steps, and all fields stay unset.

    - `step`: the first step, in units of time. Half of the largest stable step unless given.
    - `growth`: each further step is longer by the factor 1 + `growth`, between 0 and 1. 0 unless given.
    - `largest_step`: the largest step, in units of time. Unbounded unless given.
    """

    step: float | None = field(optional(number(above=0)), default=None)
    growth: float = field(number(minimum=0, maximum=1), default=0.0)
    largest_step: float | None = field(optional(number(above=0)), default=None)


class Grid(NamedTuple):
    """Steps τ_k of the weights and τ_v,k of the readout (k = 0 … T − 1), and the main axis ("time" or "step") with its
    values at the states 0 … T.
    """

    axis: str
    times: np.ndarray
    tau: np.ndarray
    tau_v: np.ndarray

    @classmethod
    def of(cls, axis: str, times: np.ndarray, training: GradientDescent) -> "Grid":
        """Steps with the rates of a training."""
        readout = training.readout_learning_rate
        each = [training.learning_rate, training.learning_rate if readout is None else readout]
        length = np.diff(times) if axis == "time" else 1.0
        tau, tau_v = (np.asarray(as_schedule(eta)(times[:-1].astype(float))) for eta in each)
        return cls(axis, times, tau * length, tau_v * length)

    def with_rates(self, training: GradientDescent) -> "Grid":
        """The same states with the rates of a training."""
        return Grid.of(self.axis, self.times, training)

    def until(self, last: int) -> "Grid":
        """The first steps, up to state `last`."""
        return Grid(self.axis, self.times[: last + 1], self.tau[:last], self.tau_v[:last])


def time_grid(problem: Problem, method: TimeSteps) -> Grid:
    """The steps of a problem's training."""
    training = problem.training
    if training.time is None:
        for name, unset in (("step", None), ("growth", 0.0), ("largest_step", None)):
            value = getattr(method, name)
            if value != unset:
                allowed = "has no effect if training has steps; leave it out, or give training a time instead"
                raise ProblemError(f"{type(method).__name__}.{name}", value, allowed)
        count = training.steps
        _bounded(count, "training.steps", "use fewer steps")
        return Grid.of("step", np.arange(count + 1), training)
    step = automatic_step(problem) if method.step is None else float(method.step)
    times = _times(training.time, step, method)
    return Grid.of("time", times, training)


def _times(end: float, step: float, method: TimeSteps) -> np.ndarray:
    """The times 0 … end in growing steps, scaled so that the last one is `end`."""
    name = f"{type(method).__name__}.step"
    largest = math.inf if method.largest_step is None else method.largest_step
    if not method.growth:
        count = math.ceil(end / min(step, largest) * (1 - 1e-12))
        _bounded(count, name, "use a larger step, growth, or less time", step)
        return np.linspace(0.0, end, count + 1)
    times = [0.0]
    while times[-1] < end * (1 - 1e-12):
        times.append(times[-1] + min(step, largest))
        step *= 1 + method.growth
        _bounded(len(times), name, "use a larger step, largest_step, or less time", times[1])
    return np.asarray(times) * (end / times[-1])


def _bounded(count: int, name: str, advice: str, value: float | None = None) -> None:
    """Refuse more than `MOST_STEPS` steps."""
    if count > MOST_STEPS:
        allowed = f"gives {count} steps or more, and at most {MOST_STEPS} are allowed; {advice}"
        raise ProblemError(name, count if value is None else value, allowed)


def curvature(problem: Problem, width: float) -> float:
    """Σ_i v_i² max g'(h_i)² over |h_i| ≤ width · √Q_ii, at the start."""
    network = problem.network
    h = np.linspace(-width, width, 201)[:, None] * np.sqrt(np.diagonal(network.Q))
    slopes = np.asarray(network.activation.derivative(h))
    return float(network.readout**2 @ np.max(slopes**2, axis=0))


def automatic_step(problem: Problem) -> float:
    """`SAFETY` times the largest step, in time, that is stable at the start."""
    training, ratio = problem.training, problem.data.ratio
    eta = as_schedule(training.learning_rate)(np.linspace(0.0, training.time, 1001))
    rate = float(np.max(np.asarray(eta)))
    alone = curvature(problem, RARE) / ratio
    together = (1 + ratio**-0.5) ** 2 * curvature(problem, 1.0)
    fastest = rate * max(alone, together, training.weight_decay)
    return min(2 * SAFETY / fastest, training.time / 20) if fastest > 0 else training.time / 20
