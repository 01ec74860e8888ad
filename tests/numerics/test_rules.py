"""The quadrature rules."""

import numpy as np
import pytest

from learndyn.errors import ProblemError
from learndyn.numerics.rules import gaussian_rule


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_weights_sum_to_one_and_points_are_standard(n):
    rule = gaussian_rule(n, 4096, 3, seed=1)
    assert rule.points.shape == (*rule.weights.shape, n)
    np.testing.assert_allclose(rule.weights.sum(axis=1), 1.0, rtol=1e-13)
    for z, w in zip(rule.points, rule.weights, strict=True):
        # Grids of 16 points per axis end at 5.3 standard deviations: exp(−5.3²/2) = 8e-7, times
        # the squares of the points there. Scrambles are matched, to rounding.
        tolerance = 1e-4 if n == 3 else 1e-12
        np.testing.assert_allclose(w @ z, 0.0, atol=tolerance)
        np.testing.assert_allclose((z * w[:, None]).T @ z, np.eye(n), atol=tolerance)


def test_grids_converge_exponentially_for_analytic_functions():
    exact = 0.394294490397841  # ⟨tanh(z)²⟩ by 30-digit quadrature.
    errors = []
    for points in (8, 16, 32, 64):
        rule = gaussian_rule(1, points, 1, seed=0).replicate(0)
        errors.append(abs(rule.weights @ np.tanh(rule.points[:, 0]) ** 2 - exact))
    # The balance of tail and aliasing gives exp(−(3π points)^(2/3)/2) = 1e-4, 7e-7, 2e-10, 7e-16,
    # times (2π/h)², at most 600, for the double poles of tanh².
    assert errors[1] < 4e-4
    assert errors[2] < 1e-7
    assert errors[3] < 4e-13


def test_the_spread_of_replicates_is_the_error():
    rng = np.random.default_rng(0)
    a = rng.standard_normal(6) / 2
    rule = gaussian_rule(6, 2**10, 64, seed=3)
    means = np.einsum("rs,rs->r", rule.weights, np.cos(rule.points @ a))
    exact = np.exp(-0.5 * a @ a)
    error = means.std(ddof=1) / 8
    # Five standard errors of 64 replicates; the moment matching leaves a bias of order 1/S², far
    # below.
    assert abs(means.mean() - exact) < 5 * error
    # Far better than 2^10 independent points, whose standard deviation is about 0.3/32.
    assert means.std(ddof=1) < 1e-3


def test_the_same_seed_gives_the_same_points_and_another_seed_does_not():
    one, same, other = (gaussian_rule(5, 64, 2, seed=s).points for s in (7, 7, 8))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [((0, 64, 2, 0), "n"), ((2, 1, 2, 0), "points"), ((2, 64, 0, 0), "replicates")],
)
def test_impossible_rules_are_refused_by_name(arguments, field):
    with pytest.raises(ProblemError, match=f"gaussian_rule.{field} = "):
        gaussian_rule(*arguments)


def test_too_few_points_to_match_moments_are_refused():
    with pytest.raises(ProblemError, match="must be at least 40"):
        gaussian_rule(10, 32, 1, seed=0)
    assert gaussian_rule(10, 32, 1, seed=0, match_moments=False).points.shape == (1, 32, 10)
