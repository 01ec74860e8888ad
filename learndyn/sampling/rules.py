"""The rules of `GradientDescent` for programs: descent in steps, and gradient flow in time.

A network with outputs f = ⟨…⟩/γ_0 is trained by θ ← (1 − ηλ)θ + B + √(2ητ)ξ, B ← βB − ηγ_0²θ̄, with the gradients θ̄ of
`learndyn.programs`; in gradient flow dθ/dt = −η(t)(γ_0²θ̄ + λθ).
"""

from collections.abc import Callable

import numpy as np

from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import rates
from learndyn.programs import SGD, Net
from learndyn.programs.flow import Flow
from learndyn.programs.values import Value


def descent_rule(
    net: Net, training: GradientDescent, richness: float, rule: type[SGD] = SGD
) -> SGD:
    """Gradient descent in steps, or a rule derived from it."""
    assert training.steps is not None
    with float64():  # a program runs in a thread of its own
        eta = np.asarray(rates(training, training.steps), float) * richness**2
    return rule(
        net,
        lambda step: float(eta[step]),
        training.momentum,
        training.weight_decay / richness**2,
        training.noise / richness**2,
        coupled=training.momentum_rule == "coupled",
    )


def flow_rule(
    net: Net,
    training: GradientDescent,
    richness: float,
    loss: Callable[[], Value],
    tolerance: float,
) -> Flow:
    """Gradient flow."""
    assert training.time is not None
    schedule = as_schedule(training.learning_rate)

    def rate(time: float) -> float:
        with float64():
            return float(schedule(time)) * richness**2

    decay = training.weight_decay / richness**2
    return Flow(net, loss, rate, float(training.time), decay, tolerance)


def times_of(record: Record) -> np.ndarray:
    """The times of the states of a program in gradient flow: the start, and the recorded times."""
    return np.union1d([0.0], record.at)


def refuse_in_flow(training: GradientDescent) -> None:
    """Refuse momentum and noise in gradient flow."""
    for name in ("momentum", "noise"):
        if value := getattr(training, name):
            allowed = "must be 0 in gradient flow; give training steps instead of a time"
            raise ProblemError(f"training.{name}", value, allowed)
