"""The losses of the row recursion as a JAX function of the training rule, with its derivative.

The rule enters through the impulse response κ(t, s) of a weight to its force and the decay d(t) of an undriven weight.
"""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float

from learndyn.families.deep_linear.equations import feedforward
from learndyn.families.deep_linear.equations.feedforward_adjoint import derivative
from learndyn.families.deep_linear.limit_numbers import DATASET, LimitNumbers
from learndyn.numerics.callback import float64_callback

Response = Float[np.ndarray, "steps steps"]
Decay = StepValues = Float[np.ndarray, " steps"]


def differentiable_losses(
    numbers: LimitNumbers,
) -> Callable[[Array | np.ndarray, Array | np.ndarray], tuple[Float[Array, " steps"], ...]]:
    """The JAX function (κ, d) → (test loss, train loss), with one entry per step. Reverse-mode derivatives work."""

    latest: list[tuple[tuple[np.ndarray, ...], feedforward.RecursionRows]] = []

    def recursion(kappa: Response, d: Decay) -> feedforward.RecursionRows:
        rows = feedforward.empty_rows(numbers, len(d) - 1)
        feedforward.advance(0, len(d), rows, feedforward.recursion_constants(numbers, kappa, d))
        return rows

    def finished(kappa: Response, d: Decay) -> feedforward.RecursionRows:
        """The recursion that `forward` left in `latest`, or a new one if that was for another rule."""
        while latest:
            (other_kappa, other_d), rows = latest.pop()
            if np.array_equal(kappa, other_kappa) and np.array_equal(d, other_d):
                return rows
        return recursion(kappa, d)

    def read(rows: feedforward.RecursionRows) -> tuple[StepValues, StepValues]:
        diagonal = np.einsum("kii->ki", rows.pairs[: len(numbers.lam), feedforward.CG])
        test = per_step(numbers.omega @ diagonal) + numbers.outputs * numbers.noise**2
        train = test if numbers.data != DATASET else per_step(np.diag(rows.C_Delta))
        return test, train

    def per_step(values: Float[np.ndarray, " n"]) -> StepValues:
        return values.reshape(-1, numbers.outputs).sum(axis=1)

    @jax.custom_vjp
    def losses(kappa: Float[Array, "steps steps"], d: Float[Array, " steps"]):
        return float64_callback(lambda *rule: read(recursion(*rule)), (d.shape,) * 2, kappa, d)

    def forward(kappa: Float[Array, "steps steps"], d: Float[Array, " steps"]):
        def function(*rule: np.ndarray) -> tuple[StepValues, StepValues]:
            rows = recursion(*rule)
            # The large matrices stay outside JAX: copying them through it would cost as much as the recursion.
            latest[:] = [(tuple(x.copy() for x in rule), rows)]
            return read(rows)

        return float64_callback(function, (d.shape,) * 2, kappa, d), (kappa, d)

    def backward(rule: tuple[Array, Array], bars: tuple[Array, Array]):
        def function(kappa: Response, d: Decay, test_bar: StepValues, train_bar: StepValues):
            const = feedforward.recursion_constants(numbers, kappa, d)
            return derivative(finished(kappa, d), const, test_bar, train_bar)

        return float64_callback(function, tuple(x.shape for x in rule), *rule, *bars)

    losses.defvjp(forward, backward)
    return losses
