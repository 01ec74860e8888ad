"""Extrapolation to vanishing steps."""

import numpy as np
import pytest

from learndyn.numerics.richardson import richardson


def values(limit, coefficients: dict, count: int):
    """limit + Σ_p c_p h^p for h = 1, 1/2, 1/4, …"""
    return [limit + sum(c * 0.5 ** (k * p) for p, c in coefficients.items()) for k in range(count)]


@pytest.mark.parametrize("orders", [None, (2,), (1, 2, 3), (2, 4), (1, 3)])
def test_the_orders_are_removed_exactly(orders):
    rng = np.random.default_rng(0)
    limit = rng.standard_normal((3, 2))
    powers = orders or (1, 2)
    series = {p: rng.standard_normal((3, 2)) for p in powers}
    found = richardson(values(limit, series, len(powers) + 1), orders)
    np.testing.assert_allclose(found.values, limit, rtol=0, atol=1e-13)


def test_other_orders_are_left():
    found = richardson(values(1.0, {1: 1.0}, 2), orders=(2,))
    assert abs(found.values - 1.0) > 0.1


def test_the_error_is_the_change_by_the_finest_step():
    sequence = values(1.0, {1: 0.3, 2: -0.2, 3: 0.5}, 3)
    found = richardson(sequence)
    expected = abs(found.values - richardson(sequence[:-1]).values)
    np.testing.assert_allclose(found.error, expected, rtol=1e-14)


def test_one_value_is_its_own_limit():
    found = richardson([np.array([2.0])])
    assert (found.values, found.error) == (2.0, 0.0)


def test_as_many_orders_are_given_as_can_be_removed():
    with pytest.raises(ValueError, match="2 values"):
        richardson([1.0, 2.0], orders=(1, 2))
