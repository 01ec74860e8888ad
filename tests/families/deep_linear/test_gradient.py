"""Derivatives of the losses with respect to the training rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.deep_linear.equations import feedforward
from learndyn.families.deep_linear.equations.feedforward_adjoint import _retreat, derivative
from learndyn.families.deep_linear.limit_numbers import POPULATION, limit_numbers
from learndyn.problem.weight_response import impulse_response
from tests.families.deep_linear.test_rows import SETTINGS, STEPS


@pytest.mark.parametrize("name", SETTINGS)
def test_reverse_sweep_is_the_derivative_along_a_random_direction(name):
    """Of a random combination of all losses, in the direction of random κ and d; central differences with Richardson.

    The error of the differences is of order h⁴ = 1e-16 of the fifth derivative plus rounding/h = 1e-12; 1e-7 allows for
    the derivative being small where terms cancel.
    """
    made = limit_numbers(SETTINGS[name], 64)
    kappa, d = impulse_response(SETTINGS[name].training, STEPS)
    rng = np.random.default_rng(0)
    test_bar, train_bar = rng.standard_normal((2, STEPS + 1))
    if made.data == POPULATION:
        train_bar = np.zeros_like(train_bar)
    to_kappa = 0.05 * np.tril(rng.standard_normal(kappa.shape), -1)
    to_d = 0.05 * np.append(0.0, rng.standard_normal(STEPS))

    def value(h):
        w = feedforward.recursion_constants(made, kappa + h * to_kappa, d + h * to_d)
        found = feedforward.empty_rows(made, STEPS)
        feedforward.advance(0, STEPS + 1, found, w)
        test = np.einsum("k,kii->i", made.omega, found.pairs[: len(made.lam), feedforward.CG])
        train = np.diag(found.C_Delta) if made.data == 0 else test
        total = (
            np.repeat(test_bar, made.outputs) @ test + np.repeat(train_bar, made.outputs) @ train
        )
        return total, found, w

    def difference(h):
        return (value(h)[0] - value(-h)[0]) / (2 * h)

    _, found, w = value(0.0)
    kappa_bar, d_bar = derivative(found, w, test_bar, train_bar)
    exact = np.sum(kappa_bar * to_kappa) + np.sum(d_bar * to_d)
    h = 1e-4
    assert (4 * difference(h / 2) - difference(h)) / 3 == pytest.approx(exact, rel=1e-7)


def final_loss(values, momentum=0.0, weight_decay=0.0, name="test_loss"):
    training = ld.GradientDescent(
        ld.PerStep(values), steps=12, momentum=momentum, weight_decay=weight_decay
    )
    problem = ld.Problem(
        ld.DeepLinear(2, 0.8, 0.7), ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.4), training
    )
    return ld.trace(problem)[name][-1]


@pytest.mark.slow
def test_gradient_with_respect_to_every_rate_of_a_schedule():
    """`jax.grad` against central differences, each of the twelve rates, plain and jitted."""
    values = np.linspace(0.15, 0.05, 12)
    with ld.float64():
        gradient = np.asarray(jax.grad(final_loss)(jnp.asarray(values)))
        jitted = np.asarray(jax.jit(jax.grad(final_loss))(jnp.asarray(values)))
        h = 1e-5
        expected = [
            (float(final_loss(values + h * e)) - float(final_loss(values - h * e))) / (2 * h)
            for e in np.eye(12)
        ]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(gradient, jitted)


@pytest.mark.parametrize("name", ["momentum", "weight_decay"])
def test_gradient_with_respect_to_momentum_and_decay(name):
    values = np.full(12, 0.05)
    with ld.float64():

        def loss(x):
            return final_loss(values, **{name: x}, name="train_loss")

        slope = float(jax.grad(loss)(0.3))
        h = 1e-5
        expected = (float(loss(0.3 + h)) - float(loss(0.3 - h))) / (2 * h)
    assert slope == pytest.approx(expected, rel=1e-6)


def test_a_gradient_compiles_the_recursion_that_a_solution_has_compiled():
    """Read-only arrays, which JAX hands to callbacks, would be another type."""
    ld.solve(SETTINGS["momentum"])
    with ld.float64():
        jax.grad(final_loss)(jnp.full(12, 0.05))
    assert len(feedforward.advance_with.signatures) == 1
    assert len(_retreat.signatures) == 1


def test_trace_gives_the_losses_of_solve():
    problem = SETTINGS["decay, centred, momentum"]
    traced, solved = ld.trace(problem), ld.solve(problem)
    for name in ("test_loss", "train_loss"):
        np.testing.assert_allclose(np.asarray(traced[name]), solved[name], rtol=1e-12)


def test_derivative_with_respect_to_the_network_is_refused():
    def loss(richness):
        network = ld.DeepLinear(1, 1.0, richness)
        problem = ld.Problem(
            network, ld.Population(ld.LinearMap()), ld.GradientDescent(0.1, steps=3)
        )
        return ld.trace(problem)["test_loss"][-1]

    with ld.float64(), pytest.raises(ld.ProblemError, match="training rule only"):
        jax.grad(loss)(0.5)


def test_every_method_traces_by_the_row_recursion():
    """A long training is solved in the innovation basis unless a method is given, and has derivatives all the same."""
    problem = SETTINGS["momentum"]
    by_rows, by_basis = (ld.trace(problem, method) for method in (ld.Rows(), ld.Innovation()))
    np.testing.assert_array_equal(by_rows["test_loss"], by_basis["test_loss"])
