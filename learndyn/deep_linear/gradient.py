"""The losses of the row recursion as a JAX function of the training rule, with its derivative."""

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.deep_linear import rows
from learndyn.deep_linear.reverse import derivative
from learndyn.deep_linear.setting import DATASET, Setting


def losses_of(setting: Setting):
    """A JAX function (κ, d) → (test loss, train loss), one entry for each step; reverse-mode derivatives work."""

    def recursion(kappa, d):
        kappa, d = np.asarray(kappa), np.asarray(d)
        found = rows.empty_rows(setting, len(d) - 1)
        rows.advance(0, len(d), found, rows.weights(setting, kappa, d))
        return found

    def read(found: rows.Rows):
        modes = len(setting.lam)
        diagonal = np.einsum("kii->ki", found.pairs[:modes, rows.CG])
        test = _per_step(setting.omega @ diagonal) + setting.outputs * setting.noise**2
        train = test if setting.data != DATASET else _per_step(np.diag(found.C_Delta))
        return test, train

    def _per_step(values):
        return values.reshape(-1, setting.outputs).sum(axis=1)

    def shapes(d):
        row = jax.ShapeDtypeStruct(d.shape, jnp.float64)
        return row, row

    def call(function, out, *arguments):
        return jax.pure_callback(function, out, *arguments, vmap_method="sequential")

    @jax.custom_vjp
    def losses(kappa, d):
        return call(lambda kappa, d: read(recursion(kappa, d)), shapes(d), kappa, d)

    def forward(kappa, d):
        def function(kappa, d):
            found = recursion(kappa, d)
            return *read(found), *found

        n, modes, L = d.shape[0] * setting.outputs, len(setting.lam), setting.depth
        tape = ((modes + L, 6, n, n), (L + 1, 2, n, n), (n, n))
        out = (*shapes(d), *(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in tape))
        test, train, *found = call(function, out, kappa, d)
        return (test, train), (kappa, d, tuple(found))

    def backward(residuals, bars):
        kappa, d, found = residuals

        def function(kappa, d, test_bar, train_bar, *found):
            w = rows.weights(setting, np.asarray(kappa), np.asarray(d))
            made = rows.Rows(*(np.ascontiguousarray(x) for x in found))
            return derivative(made, w, test_bar, train_bar)

        out = tuple(jax.ShapeDtypeStruct(x.shape, jnp.float64) for x in (kappa, d))
        return call(function, out, kappa, d, *bars, *found)

    losses.defvjp(forward, backward)
    return losses
