"""Stability of perfect recovery."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems

pytestmark = pytest.mark.compiles
problem = partial(problems.neural_ode, steps=10, epochs=5)


@pytest.mark.parametrize(("rate", "radius"), [(0.1, 0.944), (1.0, 0.531), (2.0, 1.079)])
def test_known_spectral_radii(rate, radius):
    found = ld.recovery(problem(rate=rate, adjoint="truncated"))
    np.testing.assert_allclose(found.spectral_radius, radius, atol=6e-4)


@pytest.mark.parametrize("adjoint", [pytest.param("true", marks=pytest.mark.slow), "truncated"])
def test_deviations_shrink_at_the_spectral_radius(adjoint):
    """Close to recovery the late deviation of m or Q is multiplied by it at every step."""
    asked = problem(rate=0.7, epochs=40, adjoint=adjoint, initial_overlap=0.999)
    found = ld.solve(asked)
    late = np.abs(found["Q"].values[:, 0, 0] - 1)[20:26]
    radius = ld.recovery(asked).spectral_radius
    np.testing.assert_allclose((late[-1] / late[0]) ** (1 / 5), radius, rtol=0.02)


def test_the_largest_rate_is_the_edge():
    edge = ld.recovery(problem(rate=0.1)).largest_rate
    np.testing.assert_allclose(ld.recovery(problem(rate=edge)).spectral_radius, 1.0, rtol=1e-10)
    assert ld.recovery(problem(rate=0.99 * edge)).spectral_radius < 1
    near = {"initial_overlap": 1 - 1e-4, "epochs": 400}
    assert float(ld.solve(problem(rate=0.97 * edge, **near))["test_loss"][-1]) < 1e-12
    grown = ld.solve(problem(rate=1.03 * edge, **near))["test_loss"].values
    assert grown[40] > 2 * grown[0]


def test_short_times_have_the_edge_of_linear_regression():
    """T → 0: stable if and only if κg < 2/(1 + σ/B) with κ = ηT²/σ; corrections of order T."""
    T, sigma, B = 1e-3, 0.75, 3
    found = ld.recovery(problem(rate=0.1, batch=B, time=T))
    edge = 2 / (1 + sigma / B) / 0.8 * sigma / T**2
    np.testing.assert_allclose(found.largest_rate, edge, rtol=5 * T)


def test_what_has_no_recovery_is_refused():
    for asked, words in (
        (problem(rate=0.1, noise=0.1), "network.noise = 0.1"),
        (problem(rate=0.1, adjoint_noise=0.1), "network.adjoint_noise = 0.1"),
        (problem(rate=0.1, teacher_time=2.0), "data.task.time = 2"),
        (problem(rate=0.1, chained=True), "data.task.chained = True"),
        (problem(rate=0.1, supply="dataset", examples=2), "must be a NeuralODE on a Stream"),
    ):
        with pytest.raises(ld.ProblemError, match=words):
            ld.recovery(asked)
