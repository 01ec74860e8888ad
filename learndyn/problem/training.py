"""Training rules and learning-rate schedules."""

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.part import Part, array, choice, field, number, optional, part, traced, whole


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


def _rate(value, name):
    """A number or a schedule; a constant schedule is the number it holds."""
    if isinstance(value, dict | Schedule):
        value = part(Schedule)(value, name)
        return value.value if isinstance(value, Constant) else value
    return number(minimum=0)(value, name)


def as_schedule(rate) -> Schedule:
    """The schedule that a number or a schedule stands for."""
    return rate if isinstance(rate, Schedule) else Constant(rate)


class Training(Part, abstract=True):
    """Base of the training rules."""


class GradientDescent(Training):
    """Gradient descent, stochastic where the data say so.

    Its length is `steps`, or `time` where the theory measures training in time; the network's page says which, and how
    the rate of the finite network follows from `learning_rate` (η). `readout_learning_rate` (η_v) is the rate of a
    trained readout, equal to `learning_rate` unless given. `momentum` (β) and `weight_decay` (λ) act as
    B ← βB − η·gradient, W ← (1 − ηλ) W + B. `noise` (τ) is the temperature of Langevin noise √(2ητ)ζ added to every
    weight at every step. `loss` says whether the loss of several examples is their mean or sum, and `criterion` what
    the loss of one is: squared, ½(y − f)²; logistic, log(1 + e^(−yf)) with y = ±1; or cross_entropy,
    −Σ_c y_c log softmax(f)_c with y the probabilities of the classes.
    """

    learning_rate: float | Schedule = field(_rate)
    steps: int | None = field(optional(whole(1)), default=None)
    time: float | None = field(optional(number(above=0)), default=None)
    momentum: float = field(number(minimum=0, below=1), default=0.0)
    weight_decay: float = field(number(minimum=0), default=0.0)
    noise: float = field(number(minimum=0), default=0.0)
    readout_learning_rate: float | Schedule | None = field(optional(_rate), default=None)
    loss: str = field(choice("mean", "sum"), default="mean")
    criterion: str = field(choice("squared", "logistic", "cross_entropy"), default="squared")

    def validate(self):
        if (self.steps is None) == (self.time is None):
            given = {"steps": self.steps, "time": self.time}
            raise ProblemError("GradientDescent.steps, time", given, "give exactly one of the two")

    def breakpoints(self, end: float) -> list[float]:
        """The times before `end` at which one of the rates is not smooth."""
        rates = [self.learning_rate, self.readout_learning_rate]
        kinks = {
            float(t) for rate in rates if isinstance(rate, Schedule) for t in rate.breakpoints()
        }
        return sorted(t for t in kinks if 0 < t < end)


def rates(training, steps: int):
    """η(t) for t = 0 … steps − 1."""
    return as_schedule(training.learning_rate)(np.arange(steps, dtype=float))


def impulse_response(training, steps: int):
    """How a weight answers to its force: κ (T×T) and d (T), T = steps + 1.

    They are defined by W(t) = d(t) W(0) + Σ_{s<t} κ(t, s) force(s).

    One step, with momentum β and decay λ, is B ← βB + η(t) force(t), W ← (1 − η(t)λ) W + B; so d(t+1) = (1 − η(t)λ)
    d(t) and κ(t+1, s) = (1 − η(t)λ) κ(t, s) + η(s) β^(t−s). NumPy arrays, or JAX arrays where the training is traced.
    """
    eta = rates(training, steps)
    beta, decay = training.momentum, training.weight_decay
    differentiated = traced(eta) or traced(beta) or traced(decay)
    xp = jnp if differentiated else np
    eta = xp.asarray(eta)
    if not differentiated and beta == 0 and decay == 0:
        kappa = np.zeros((steps + 1, steps + 1))
        kappa[:, :steps] = np.tri(steps + 1, steps, -1) * eta
        return kappa, np.ones(steps + 1)

    def advance(state, eta_t):
        row, buffer, d = state
        keep = 1 - eta_t[0] * decay
        buffer = beta * buffer + eta_t[1]
        return (keep * row + buffer, buffer, keep * d), (keep * row + buffer, keep * d)

    start = (xp.zeros(steps + 1), xp.zeros(steps + 1), xp.ones(()))
    force = (eta, xp.eye(steps, steps + 1) * eta[:, None])
    if differentiated:
        _, (rows, d) = jax.lax.scan(advance, start, force)
        return jnp.vstack([start[0], rows]), jnp.concatenate([jnp.ones(1), d])
    state, kappa, undriven = start, np.zeros((steps + 1, steps + 1)), np.ones(steps + 1)
    for t in range(steps):
        state, (kappa[t + 1], undriven[t + 1]) = advance(state, (force[0][t], force[1][t]))
    return kappa, undriven


class PerStepRule(NamedTuple):
    """Gradient descent step by step: η(t), momentum β(t) and decay λ(t), for rules that change in the middle."""

    eta: np.ndarray
    momentum: np.ndarray
    decay: np.ndarray

    @classmethod
    def of(cls, training: "GradientDescent") -> "PerStepRule":
        """The rule of a training that has steps."""
        assert training.steps is not None
        every = np.ones(training.steps)
        eta = np.asarray(rates(training, training.steps), dtype=float)
        return cls(eta, training.momentum * every, training.weight_decay * every)

    def until(self, step: int, training: "GradientDescent") -> "PerStepRule":
        """This rule up to `step`, and from there on that of another training."""
        pairs = zip(self, PerStepRule.of(training), strict=True)
        return PerStepRule(*(np.concatenate([old[:step], new[step:]]) for old, new in pairs))

    def impulse_response(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """κ and d of the first `steps` steps, as in `impulse_response`."""
        kappa, d = np.zeros((steps + 1, steps + 1)), np.ones(steps + 1)
        buffer = np.zeros(steps + 1)
        for t in range(min(steps, len(self.eta))):
            keep = 1 - self.eta[t] * self.decay[t]
            buffer = self.momentum[t] * buffer
            buffer[t] += self.eta[t]
            kappa[t + 1], d[t + 1] = keep * kappa[t] + buffer, keep * d[t]
        return kappa, d


def undriven_correlation(training, steps: int) -> np.ndarray:
    """C_W(t, s) = ⟨W(t)W(s)⟩ (T×T, T = steps + 1) of a weight that starts from N(0, 1) and feels no force.

    With decay λ and Langevin noise of temperature τ: W ← (1 − η(t)λ) W + √(2η(t)τ) ζ(t).
    """
    eta = np.asarray(rates(training, steps), dtype=float)
    keep = 1 - eta * training.weight_decay
    decayed = np.concatenate([[1.0], np.cumprod(keep)])
    C = np.outer(decayed, decayed)
    if training.noise:
        p = np.zeros((steps + 1, steps))  # what is left at t of the noise of step q
        for t in range(steps):
            p[t + 1] = keep[t] * p[t]
            p[t + 1, t] = np.sqrt(2 * eta[t] * training.noise)
        C = C + p @ p.T
    return C


def leaves_as_arrays(tree):
    """The same tree with every float and array leaf as a float64 JAX array, so that no number is compiled in."""

    def convert(leaf):
        if isinstance(leaf, float | np.ndarray | jax.Array):
            return jnp.asarray(leaf, dtype=jnp.float64)
        return leaf

    return jax.tree.map(convert, tree)
