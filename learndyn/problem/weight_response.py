"""How a weight responds to forces under a training rule: the impulse response, and the undriven weight.

Momentum, weight decay, Langevin noise and schedules enter every two-time theory through these arrays only.
"""

from typing import Any, NamedTuple

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


class Step(NamedTuple):
    """One step of a rule: B ← βB + a (force − λ_B W), W ← k W + b B, with W and B from before the step in the first.

    "decoupled": a = η, b = 1, λ_B = 0, k = 1 − ηλ. "coupled": a = 1, b = η, λ_B = λ, k = 1.

    - `inner` (a), `outer` (b): factors of the force in the buffer, and of the buffer in the weight.
    - `momentum` (β).
    - `inner_decay` (λ_B): decay inside the buffer.
    - `keep` (k): what is left of a weight.
    """

    inner: Any
    outer: Any
    momentum: Any
    inner_decay: Any
    keep: Any

    @classmethod
    def of(cls, eta: Any, momentum: Any, decay: Any, coupled: bool) -> "Step":
        """A step of rate η with momentum β and decay λ."""
        if coupled:
            return cls(1.0, eta, momentum, decay, 1.0)
        return cls(eta, 1.0, momentum, 0.0, 1 - eta * decay)

    def moved(self, W: Any, B: Any, force: Any) -> tuple[Any, Any]:
        """W and B after a step under a force, of which `force` is already a times."""
        B = self.momentum * B + force
        if not (isinstance(self.inner_decay, float) and self.inner_decay == 0):
            B = B - self.inner * self.inner_decay * W
        return self.keep * W + self.outer * B, B

    @property
    def buffered(self) -> bool:
        """Whether a step needs the buffer: otherwise W ← k W + a·force."""
        return bool(self.momentum or self.inner_decay or self.outer != 1)


def impulse_response(
    training: GradientDescent, steps: int
) -> tuple[Float[np.ndarray | Array, "T T"], Float[np.ndarray | Array, " T"]]:
    """How a weight responds to a force: κ (T×T) and d (T), T = steps + 1.

    They are defined by W(t) = d(t) W(0) + Σ_{s<t} κ(t, s) force(s), and follow from the `Step`s of the rule: d is W for
    W(0) = 1 without a force, and column s of κ is W for W(0) = 0 and a force of 1 at step s alone. With the decoupled
    rule d(t+1) = (1 − η(t)λ) d(t) and κ(t+1, s) = (1 − η(t)λ) κ(t, s) + η(s) β^(t−s). They are NumPy arrays, or JAX
    arrays if the training is traced.
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
    coupled = training.momentum_rule == "coupled"

    def advance(state: tuple, now: tuple) -> tuple[tuple, tuple]:
        (row, B), (d, d_B), (eta_t, impulse) = *state, now
        step = Step.of(eta_t, beta, decay, coupled)
        row, B = step.moved(row, B, step.inner * impulse)
        d, d_B = step.moved(d, d_B, 0.0)
        return ((row, B), (d, d_B)), (row, d)

    start = (xp.zeros(steps + 1),) * 2, (xp.ones(()), xp.zeros(()))
    given = eta, xp.eye(steps, steps + 1)
    if differentiated:
        _, (rows, d) = jax.lax.scan(advance, start, given)
        return jnp.vstack([start[0][0], rows]), jnp.concatenate([jnp.ones(1), d])
    state, kappa, undriven = start, np.zeros((steps + 1, steps + 1)), np.ones(steps + 1)
    for t in range(steps):
        state, (kappa[t + 1], undriven[t + 1]) = advance(state, (given[0][t], given[1][t]))
    return kappa, undriven


class PerStepRule(NamedTuple):
    """Gradient descent step by step: η(t), momentum β(t) and decay λ(t), for rules that change in the middle.

    `coupled` is whether the rule is "coupled", which does not change.
    """

    eta: np.ndarray
    momentum: np.ndarray
    decay: np.ndarray
    coupled: bool = False

    @classmethod
    def of(cls, training: GradientDescent) -> "PerStepRule":
        """The rule of a training that has steps."""
        assert training.steps is not None
        every = np.ones(training.steps)
        eta = np.asarray(rates(training, training.steps), dtype=float)
        coupled = training.momentum_rule == "coupled"
        return cls(eta, training.momentum * every, training.weight_decay * every, coupled)

    def at(self, t: int) -> Step:
        """Step number t."""
        eta, beta, decay = (float(values[t]) for values in self[:3])
        return Step.of(eta, beta, decay, self.coupled)

    def until(self, step: int, training: GradientDescent) -> "PerStepRule":
        """This rule up to `step`, and the rule of another training from there on."""
        pairs = zip(self[:3], PerStepRule.of(training)[:3], strict=True)
        joined = (np.concatenate([old[:step], new[step:]]) for old, new in pairs)
        return PerStepRule(*joined, coupled=self.coupled)

    def impulse_response(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """κ and d of the first `steps` steps, as in `impulse_response`."""
        kappa, d = np.zeros((steps + 1, steps + 1)), np.ones(steps + 1)
        B, d_B = np.zeros(steps + 1), 0.0
        for t in range(min(steps, len(self.eta))):
            step, impulse = self.at(t), np.zeros(steps + 1)
            impulse[t] = step.inner
            kappa[t + 1], B = step.moved(kappa[t], B, impulse)
            d[t + 1], d_B = step.moved(d[t], d_B, 0.0)
        return kappa, d


def undriven_correlation(training: GradientDescent, steps: int) -> Float[np.ndarray, "T T"]:
    """C_W(t, s) = ⟨W(t)W(s)⟩ (T×T, T = steps + 1) of a weight that starts from N(0, 1) and feels no force.

    With decay λ and Langevin noise of temperature τ, a step ends with W ← W + √(2η(t)τ) ζ(t).
    """
    eta = np.asarray(rates(training, steps), dtype=float)
    coupled = training.momentum_rule == "coupled"
    # What is left at t of the initial weight, and of the noise of every step.
    left = np.zeros((steps + 1, steps + 1 if training.noise else 1))
    left[0, 0] = 1.0
    buffer = np.zeros(left.shape[1])
    for t in range(steps):
        step = Step.of(eta[t], float(training.momentum), float(training.weight_decay), coupled)
        left[t + 1], buffer = step.moved(left[t], buffer, 0.0)
        if training.noise:
            left[t + 1, t + 1] = np.sqrt(2 * eta[t] * training.noise)
    return left @ left.T
