"""The losses of the row recursion as a JAX function of the training rule, with its derivative."""

import jax
import numpy as np

from learndyn.families.deep_linear.equations import feedforward as rows
from learndyn.families.deep_linear.reverse import derivative
from learndyn.families.deep_linear.setting import DATASET, Setting
from learndyn.numerics.callback import float64_callback


def losses_of(setting: Setting):
    """A JAX function (κ, d) → (test loss, train loss), one entry for each step; reverse-mode derivatives work."""

    kept: list[tuple] = []

    def recursion(kappa, d) -> rows.Rows:
        found = rows.empty_rows(setting, len(d) - 1)
        rows.advance(0, len(d), found, rows.weights(setting, kappa, d))
        return found

    def finished(kappa, d) -> rows.Rows:
        """The recursion that `forward` kept, or a new one if it was for another rule."""
        while kept:
            (other_kappa, other_d), found = kept.pop()
            if np.array_equal(kappa, other_kappa) and np.array_equal(d, other_d):
                return found
        return recursion(kappa, d)

    def read(found: rows.Rows):
        diagonal = np.einsum("kii->ki", found.pairs[: len(setting.lam), rows.CG])
        test = per_step(setting.omega @ diagonal) + setting.outputs * setting.noise**2
        train = test if setting.data != DATASET else per_step(np.diag(found.C_Delta))
        return test, train

    def per_step(values):
        return values.reshape(-1, setting.outputs).sum(axis=1)

    @jax.custom_vjp
    def losses(kappa, d):
        return float64_callback(lambda *rule: read(recursion(*rule)), (d.shape,) * 2, kappa, d)

    def forward(kappa, d):
        def function(*rule):
            found = recursion(*rule)
            # The large matrices stay on this side: copying them through JAX would cost as much as the recursion.
            kept[:] = [(tuple(x.copy() for x in rule), found)]
            return read(found)

        return float64_callback(function, (d.shape,) * 2, kappa, d), (kappa, d)

    def backward(rule, bars):
        def function(kappa, d, test_bar, train_bar):
            w = rows.weights(setting, kappa, d)
            return derivative(finished(kappa, d), w, test_bar, train_bar)

        return float64_callback(function, tuple(x.shape for x in rule), *rule, *bars)

    losses.defvjp(forward, backward)
    return losses
