"""When training counts as diverged."""

import numpy as np

from learndyn.core.divergence import DIVERGED, diverged


def test_what_is_not_finite_or_beyond_the_limit_has_diverged():
    sizes = np.array([0.0, DIVERGED, -DIVERGED, 1.01 * DIVERGED, -1.01 * DIVERGED, np.inf, np.nan])
    expected = [False, False, False, True, True, True, True]
    np.testing.assert_array_equal(diverged(sizes), expected)
    np.testing.assert_array_equal(diverged(3 * sizes, 3.0), expected)


def test_an_infinite_scale_lets_no_infinite_number_pass():
    assert diverged(np.inf, np.inf)
    assert not diverged(1.0, np.inf)


def test_a_scale_of_zero_lets_zero_pass():
    assert not diverged(0.0, 0.0)
    assert diverged(1e-300, 0.0)
