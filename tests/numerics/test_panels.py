"""Rules for panels: exactness, orders and stability."""

import numpy as np
import pytest

from learndyn.numerics.panels import radau, summed


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_are_exact_for_polynomials(count):
    """To the degree 2s − 2 at the end of a panel, s − 1 at the other nodes, which need not be whole numbers."""
    steps = 23
    rule = summed(count, steps)
    for degree in range(2 * count - 1):
        exact = np.sum(np.arange(steps, dtype=float) ** degree)
        found = steps * rule.sums[-1] @ (steps * rule.nodes) ** degree
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    # Σ_{m<q} m = q(q − 1)/2 for any q
    q = steps * rule.nodes
    np.testing.assert_allclose(steps * rule.sums @ q, q * (q - 1) / 2, rtol=1e-10, atol=1e-10)


def test_sums_over_long_panels_are_integrals():
    """The difference is of order 1/steps."""
    for count in (3, 4):
        limit = radau(count)
        for steps in (10**4, 10**6):
            rule = summed(count, steps)
            assert np.max(np.abs(rule.nodes - limit.nodes)) < 1 / steps
            assert np.max(np.abs(rule.sums - limit.sums)) < 1 / steps


def amplification(rule, length, rate):
    """By how much a panel multiplies a weight with the force −W."""
    a = rate * length * rule.sums
    return np.linalg.solve(np.eye(len(a)) + a, np.ones(len(a)))[-1]


@pytest.mark.parametrize("count", [3, 4])
def test_panels_decay_as_gradient_flow_does(count):
    """One panel of order 2s − 1: halving its length h = ½ divides the error by 2^{2s}, up to the relative order h.

    Long panels damp completely.
    """
    rule = radau(count)
    errors = [abs(amplification(rule, h, 1.0) - np.exp(-h)) for h in (0.5, 0.25)]
    assert 0.5 < errors[0] / errors[1] / 4**count < 1.5
    assert abs(amplification(rule, 1e8, 1.0)) < 1e-7


@pytest.mark.parametrize("steps", [8, 20, 1000])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 1.0, 1.5, 2.0])
def test_panels_of_descent_are_stable_wherever_descent_is(steps, rate):
    assert abs(amplification(summed(4, steps), steps, rate)) <= 1 + 1e-12


def test_panels_of_descent_follow_its_steps():
    """A slow mode, ηλ = 0.01, over 50 steps: the error is of seventh order in ηλ·steps = 0.5."""
    found = amplification(summed(4, 50), 50, 0.01)
    np.testing.assert_allclose(found, 0.99**50, rtol=1e-8)


def test_interpolation_is_exact_for_polynomials():
    rule, parts = radau(4), np.array([0.0, 0.3, 1.0])
    known = np.concatenate([[0.0], rule.nodes])
    for degree in range(5):
        np.testing.assert_allclose(
            rule.interpolate(parts) @ known**degree, parts**degree, atol=1e-13
        )
