"""How a weight responds to forces under a training rule: the impulse response, and the undriven weight.

Momentum, weight decay, Langevin noise and schedules enter every two-time theory through these arrays only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.problem.part import traced
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent


def rates(training: GradientDescent, steps: int) -> Float[np.ndarray | Array, " steps"]:
    """η(t) for t = 0 … steps − 1."""
    return as_schedule(training.learning_rate)(np.arange(steps, dtype=float))


def impulse_response(
    training: GradientDescent, steps: int
) -> tuple[Float[np.ndarray | Array, "T T"], Float[np.ndarray | Array, " T"]]:
    """How a weight responds to a force: κ (T×T) and d (T), T = steps + 1.

    They are defined by W(t) = d(t) W(0) + Σ_{s<t} κ(t, s) force(s).

    One step, with momentum β and decay λ, is B ← βB + η(t) force(t), W ← (1 − η(t)λ) W + B; so d(t+1) = (1 − η(t)λ)
    d(t) and κ(t+1, s) = (1 − η(t)λ) κ(t, s) + η(s) β^(t−s). They are NumPy arrays, or JAX arrays if the
    training is traced.
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

    def advance(state: tuple, eta_t: tuple) -> tuple[tuple, tuple]:
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
    def of(cls, training: GradientDescent) -> "PerStepRule":
        """The rule of a training that has steps."""
        assert training.steps is not None
        every = np.ones(training.steps)
        eta = np.asarray(rates(training, training.steps), dtype=float)
        return cls(eta, training.momentum * every, training.weight_decay * every)

    def until(self, step: int, training: GradientDescent) -> "PerStepRule":
        """This rule up to `step`, and the rule of another training from there on."""
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


def undriven_correlation(training: GradientDescent, steps: int) -> Float[np.ndarray, "T T"]:
    """C_W(t, s) = ⟨W(t)W(s)⟩ (T×T, T = steps + 1) of a weight that starts from N(0, 1) and feels no force.

    With decay λ and Langevin noise of temperature τ: W ← (1 − η(t)λ) W + √(2η(t)τ) ζ(t).
    """
    eta = np.asarray(rates(training, steps), dtype=float)
    keep = 1 - eta * training.weight_decay
    decayed = np.concatenate([[1.0], np.cumprod(keep)])
    C = np.outer(decayed, decayed)
    if training.noise:
        p = np.zeros((steps + 1, steps))  # the part of the noise of step q that is left at t
        for t in range(steps):
            p[t + 1] = keep[t] * p[t]
            p[t + 1, t] = np.sqrt(2 * eta[t] * training.noise)
        C = C + p @ p.T
    return C
