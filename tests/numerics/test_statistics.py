"""Means and standard errors."""

import numpy as np
import pytest
from scipy.stats import sem

from learndyn.numerics.statistics import mean_and_error


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_error_is_the_standard_error_of_the_mean(axis):
    samples = 3 + np.random.default_rng(0).standard_normal((5, 4, 3))
    mean, error = mean_and_error(samples, axis)
    np.testing.assert_allclose(mean, samples.mean(axis=axis), rtol=1e-15)
    np.testing.assert_allclose(error, sem(samples, axis=axis), rtol=1e-14)


def test_lists_of_arrays_are_samples():
    mean, error = mean_and_error([np.zeros(2), np.ones(2)])
    np.testing.assert_array_equal(mean, [0.5, 0.5])
    np.testing.assert_allclose(error, [0.5, 0.5])


def test_a_single_sample_has_no_error():
    mean, error = mean_and_error(np.arange(3.0)[None])
    np.testing.assert_array_equal(mean, np.arange(3.0))
    assert error.shape == (3,)
    assert np.all(np.isnan(error))
