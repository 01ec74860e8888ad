"""Learning rates that depend on time."""

import abc

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import array, number
from learndyn.problem.kinds import part
from learndyn.problem.part import Part, field, traced


class Schedule(Part):
    """A learning rate that depends on time: `schedule(t)`, a JAX function of a scalar or an array.

    Time is the training's own: `time` where training is measured in time, the step index where in steps.
    """

    @abc.abstractmethod
    def __call__(self, t) -> jax.Array:
        """The rate at time t."""

    def breakpoints(self) -> list[float]:
        """Times at which the schedule is not smooth; an adaptive solver steps exactly onto them."""
        return []


class Constant(Schedule):
    """The same rate at all times. In a training rule it is kept as the plain number."""

    value: float = field(number(minimum=0))

    def __call__(self, t):
        return self.value + 0.0 * t


class ExponentialDecay(Schedule):
    """`initial · exp(−rate · t)`."""

    initial: float = field(number(minimum=0))
    rate: float = field(number(minimum=0))

    def __call__(self, t):
        return self.initial * jnp.exp(-self.rate * t)


class PowerDecay(Schedule):
    """`initial · (1 + t / timescale) ** (−exponent)`."""

    initial: float = field(number(minimum=0))
    exponent: float = field(number(minimum=0))
    timescale: float = field(number(above=0), default=1.0)

    def __call__(self, t):
        return self.initial * (1 + t / self.timescale) ** (-self.exponent)


def _number_or_schedule(value):
    return value if isinstance(value, Schedule | dict) else Constant(value)


class WarmUp(Schedule):
    """A linear rise from zero over `duration`, multiplying the schedule (or number) `then`."""

    duration: float = field(number(above=0))
    then: Schedule = field(part(Schedule, convert=_number_or_schedule))

    def __call__(self, t):
        return jnp.minimum(t / self.duration, 1.0) * self.then(t)

    def breakpoints(self):
        return [self.duration, *self.then.breakpoints()]


class Piecewise(Schedule):
    """`values[0]` before `times[0]`, `values[1]` from then to `times[1]`, and so on: one value more than times."""

    times: np.ndarray = field(array(1, above=0))
    values: np.ndarray = field(array(1, minimum=0))

    def validate(self):
        if len(self.values) != len(self.times) + 1:
            allowed = f"must have one entry more than times (which has {len(self.times)})"
            raise ProblemError("Piecewise.values", self.values, allowed)
        if not traced(self.times) and np.any(np.diff(self.times) <= 0):
            raise ProblemError("Piecewise.times", self.times, "must increase")

    def __call__(self, t):
        index = jnp.searchsorted(jnp.asarray(self.times), t, side="right")
        return jnp.asarray(self.values)[index]

    def breakpoints(self):
        return list(self.times)


class PerStep(Schedule):
    """`values[t]` at step t, the last one ever after: a rate of its own for every step."""

    values: np.ndarray = field(array(1, minimum=0))

    def __call__(self, t):
        index = jnp.clip(jnp.floor(t).astype(int), 0, len(self.values) - 1)
        return jnp.asarray(self.values)[index]

    def breakpoints(self):
        return [float(t) for t in range(1, len(self.values))]


def rate_or_schedule(value, name):
    """A number or a schedule; a constant schedule is the number it holds."""
    if isinstance(value, dict | Schedule):
        value = part(Schedule)(value, name)
        return value.value if isinstance(value, Constant) else value
    return number(minimum=0)(value, name)


def as_schedule(rate) -> Schedule:
    """The schedule that a number or a schedule stands for."""
    return rate if isinstance(rate, Schedule) else Constant(rate)
