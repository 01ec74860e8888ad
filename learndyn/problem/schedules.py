"""Learning rates that depend on time."""

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import legendre

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.checks import array, number
from learndyn.problem.kinds import part
from learndyn.problem.part import Part, field, traced

Time = float | Float[np.ndarray | Array, "..."]
"""One time or step t, or an array of them."""


class Schedule(Part):
    """A learning rate that depends on time: `schedule(t)`, a JAX function of a scalar or an array.

    t is a time if the length of training is given as `time`, and the index of a step if it is given as `steps`.
    """

    @abc.abstractmethod
    def __call__(self, t: Time) -> Any:
        """The rate at time t: a number, or a NumPy or JAX array of the shape of t."""

    def breakpoints(self) -> list[float]:
        """Times at which the schedule is not smooth; an adaptive solver steps exactly onto them."""
        return []


class Constant(Schedule):
    """The same rate at all times. A training rule stores it as a plain number.

    - `value` (η): the rate, at least 0.
    """

    value: float = field(number(minimum=0))

    def __call__(self, t: Time) -> Any:
        return self.value + 0.0 * t


class ExponentialDecay(Schedule):
    """η(t) = initial · exp(−rate · t).

    - `initial`: the rate at t = 0, at least 0.
    - `rate`: how fast it decays, per unit of time or per step; at least 0.
    """

    initial: float = field(number(minimum=0))
    rate: float = field(number(minimum=0))

    def __call__(self, t: Time) -> Any:
        return self.initial * jnp.exp(-self.rate * t)


class PowerDecay(Schedule):
    """η(t) = initial · (1 + t/timescale)^(−exponent).

    - `initial`: the rate at t = 0, at least 0.
    - `exponent`: the power with which it decays, at least 0.
    - `timescale`: when the decay begins, in time or steps. 1 unless given.
    """

    initial: float = field(number(minimum=0))
    exponent: float = field(number(minimum=0))
    timescale: float = field(number(above=0), default=1.0)

    def __call__(self, t: Time) -> Any:
        return self.initial * (1 + t / self.timescale) ** (-self.exponent)


def _number_or_schedule(value: Any) -> Schedule | dict:
    return value if isinstance(value, Schedule | dict) else Constant(value)


class WarmUp(Schedule):
    """η(t) = min(t/duration, 1) · then(t): a linear rise from zero.

    - `duration`: how long the rise takes, in time or steps; above 0.
    - `then`: the schedule, or the number, that the rise multiplies.
    """

    duration: float = field(number(above=0))
    then: Schedule = field(part(Schedule, convert=_number_or_schedule))

    def __call__(self, t: Time) -> Any:
        return jnp.minimum(t / self.duration, 1.0) * self.then(t)

    def breakpoints(self) -> list[float]:
        return [self.duration, *self.then.breakpoints()]


class Piecewise(Schedule):
    """η(t) = `values[0]` before `times[0]`, `values[1]` from there to `times[1]`, and so on.

    - `times`: where the rate changes, in time or steps; increasing and above 0.
    - `values`: the rates, at least 0; one more than there are times.
    """

    times: np.ndarray = field(array(1, above=0))
    values: np.ndarray = field(array(1, minimum=0))

    def validate(self) -> None:
        if len(self.values) != len(self.times) + 1:
            allowed = f"must have one entry more than times, which has {len(self.times)}"
            raise ProblemError("Piecewise.values", self.values, allowed)
        if not traced(self.times) and np.any(np.diff(self.times) <= 0):
            raise ProblemError("Piecewise.times", self.times, "must increase")

    def __call__(self, t: Time) -> Any:
        index = jnp.searchsorted(jnp.asarray(self.times), t, side="right")
        return jnp.asarray(self.values)[index]

    def breakpoints(self) -> list[float]:
        return list(self.times)


class PerStep(Schedule):
    """A separate rate for every step: η(t) = `values[t]`, and the last value afterwards.

    - `values`: the rates, at least 0.
    """

    values: np.ndarray = field(array(1, minimum=0))

    def __call__(self, t: Time) -> Any:
        index = jnp.clip(jnp.floor(t).astype(int), 0, len(self.values) - 1)
        return jnp.asarray(self.values)[index]

    def breakpoints(self) -> list[float]:
        return [float(t) for t in range(1, len(self.values))]


def rate_or_schedule(value: Any, name: str) -> float | Schedule:
    """A number or a schedule; a constant schedule is the number it holds."""
    if isinstance(value, dict | Schedule):
        value = part(Schedule)(value, name)
        return value.value if isinstance(value, Constant) else value
    return number(minimum=0)(value, name)


def as_schedule(rate: float | Schedule) -> Schedule:
    """The schedule that a number or a schedule stands for."""
    return rate if isinstance(rate, Schedule) else Constant(rate)


def integral(rate: float | Schedule, at: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """∫η dt up to increasing times: Gauss's rule on panels that double, from every kink of the schedule on."""
    if not isinstance(rate, Schedule):
        return rate * at
    points, weights = legendre.leggauss(16)
    end = float(at[-1])
    kinks = [0.0, *sorted(t for t in set(map(float, rate.breakpoints())) if 0 < t < end)]
    edges = {float(t) for t in at}
    for kink, last in zip(kinks, [*kinks[1:], end], strict=True):
        edges |= {kink, *(kink + (last - kink) * 0.5 ** np.arange(60)).tolist()}
    ordered = np.array(sorted(edges))
    half, middle = np.diff(ordered) / 2, (ordered[1:] + ordered[:-1]) / 2
    with float64():
        eta = np.asarray(rate(middle[:, None] + half[:, None] * points), float)
    total = np.concatenate([[0.0], np.cumsum(half * (eta @ weights))])
    return total[np.searchsorted(ordered, at)]
