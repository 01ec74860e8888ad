"""Implicit multistep weights: their order, their stability, and decay."""

import numpy as np
import pytest

from learndyn.numerics.multistep import Multistep, derivative, lagrange


def integrated(times, rate, order, decay=0.0):
    """w' = −rate·w − decay·w, w(0) = 1, with the first rate as a force and the second in the rule."""
    rule, w = Multistep(len(times), decay, order), np.ones(1)
    for time in times[1:]:
        rule.add(time)
        n = len(w)
        past = rule.d[n] - rate * rule.kappa[n, :n] @ w
        w = np.append(w, past / (1 + rate * rule.kappa[n, n]))
    return w


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_order_on_steps_that_grow(order):
    """Halving all steps divides the error by 2^order; the second and third node are of lower order but short."""
    errors = []
    for count in (80, 160):
        times = np.expm1(np.linspace(0, np.log(11.0), count + 1)) / 5
        errors.append(np.max(np.abs(integrated(times, 0.7, order) - np.exp(-0.7 * times))))
    # The start-up is of second order with steps of the first size.
    assert errors[0] / errors[1] > 0.8 * 2 ** min(order, 3)


def test_long_steps_are_stable():
    times = 1e-3 * (1.4 ** np.arange(70) - 1)
    w = integrated(times, 1.0, 3)
    assert np.max(np.abs(w)) <= 1
    assert abs(w[-1]) < 1e-8


def test_decay_is_part_of_the_rule():
    """The same w whether the decay is a force or in the weights, up to rounding: the rule is linear."""
    times = 0.1 * (1.2 ** np.arange(20) - 1)
    split, whole = integrated(times, 0.3, 3, decay=0.5), integrated(times, 0.8, 3)
    np.testing.assert_allclose(split, whole, rtol=1e-12)


def test_polynomials_are_exact():
    before = np.array([-0.7, -0.4, -0.1])
    x = np.append(before, 0.0)
    assert abs(derivative(before, 0.1) @ (2 + 3 * x + x**3) - 3) < 1e-12
    known, at = np.array([0.1, 0.4, 0.9, 1.3]), np.array([0.2, 2.0])
    np.testing.assert_allclose(lagrange(known, at) @ (known**3 - known), at**3 - at, atol=1e-12)
