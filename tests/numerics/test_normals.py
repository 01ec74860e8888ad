"""Quasi-random standard normals."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from learndyn.errors import ProblemError
from learndyn.numerics.normals import GROUP, QuasiNormals

S = 1024


def normals(seed=0, samples: Any = S):
    return QuasiNormals(samples, np.random.SeedSequence(seed))


def test_a_column_is_the_same_however_many_are_asked_for_and_in_whichever_order():
    count = 2 * GROUP + 9
    whole = normals().columns(0, count)
    assert whole.shape == (S, count)
    backwards = normals()
    for k in reversed(range(count)):
        np.testing.assert_array_equal(backwards.columns(k, k + 1)[:, 0], whole[:, k])
    for first, last in ((3, 3), (5, 20), (GROUP - 2, GROUP), (GROUP - 2, 2 * GROUP + 2)):
        np.testing.assert_array_equal(normals().columns(first, last), whole[:, first:last])
    changed = normals()
    changed.columns(0, 5)[:] = 0.0
    np.testing.assert_array_equal(changed.columns(0, 5), whole[:, :5])


def test_columns_depend_on_the_seed_and_not_on_what_else_it_gave_rise_to():
    assert not np.array_equal(normals(0).columns(0, 3), normals(1).columns(0, 3))
    sequence = np.random.SeedSequence(0)
    children = sequence.spawn(2)
    np.testing.assert_array_equal(QuasiNormals(S, sequence).columns(0, 3), normals().columns(0, 3))
    one, two = (QuasiNormals(S, child).columns(0, 3) for child in children)
    # Five standard errors of the correlation of independent columns.
    assert abs(np.mean(one * two, axis=0)).max() < 5 / np.sqrt(S)


def test_columns_are_stratified_and_standard():
    z = normals().columns(0, 3 * GROUP)
    # One point in each of S equal intervals of probability.
    cells = np.sort(np.floor(S * ndtr(z)), axis=0)
    np.testing.assert_array_equal(cells, np.broadcast_to(np.arange(S)[:, None], z.shape))
    # A cell then errs by at most the variation in it, divided by S; the mean over an outermost cell, beyond 3.1, is
    # 0.28 (of the square 1.9) away from the value at its edge.
    error = np.ptp(z, axis=0) + 2 * 0.28
    assert np.all(np.abs(z.mean(axis=0)) < error / S)
    error = z.max(axis=0) ** 2 + z.min(axis=0) ** 2 + 2 * 1.9
    assert np.all(np.abs(np.mean(z**2, axis=0) - 1) < error / S)


def test_different_columns_are_uncorrelated():
    z = normals().columns(0, 3 * GROUP)
    correlation = z.T @ z / S - np.eye(3 * GROUP)
    groups = np.arange(3 * GROUP) // GROUP
    apart = groups[:, None] != groups
    # Five standard errors of random ones.
    assert np.abs(correlation[apart]).max() < 5 / np.sqrt(S)
    # Rows in random order are as good as random ones; in the same order, Sobol' sets are alike.
    assert np.sqrt(np.mean(correlation[apart] ** 2)) == pytest.approx(1 / np.sqrt(S), rel=0.1)
    # The leading dimensions of Sobol' points are much better than random.
    assert np.abs(correlation[:3, :3]).max() < 0.3 / np.sqrt(S)


def test_a_smooth_average_has_a_far_smaller_variance_than_with_random_normals():
    a = np.array([0.6, -0.5, 0.4])
    exact = np.exp(-0.5 * a @ a)
    for first in (0, GROUP):
        means = [np.cos(normals(seed).columns(first, first + 3) @ a).mean() for seed in range(40)]
        # ⟨cos²⟩ − ⟨cos⟩² for a Gaussian phase of variance a².
        plain = 0.5 * (1 + np.exp(-2 * a @ a)) - exact**2
        # The mean square of 40 errors is known to a factor 1 ± 0.22.
        assert np.mean((np.array(means) - exact) ** 2) < plain / S / 10


def test_samples_that_are_no_power_of_two_are_refused():
    for samples in (0, 3, 1000, -4, 2.5):
        with pytest.raises(ProblemError, match="samples"):
            normals(samples=samples)
    with pytest.raises(ProblemError, match="first"):
        normals().columns(3, 2)
    assert normals(samples=1).columns(0, 2).shape == (1, 2)
