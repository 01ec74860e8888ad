"""The closed form of linear networks on whitened points, and the theory that is drawn beside it."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.wide.solve import LinearInnovation
from learndyn.papers.wide_whitened import (
    POINTS,
    along_targets,
    closed_form,
    final_rate,
    whitened_problem,
)

SIZE = np.sqrt(POINTS)


@pytest.mark.parametrize("richness", [0.1, 2.0])
def test_the_closed_form_solves_the_papers_equation(richness):
    """dΔ/dt = −2√(1 + γ_0²(y − Δ)²)Δ, Δ(0) = y; H_y = √(1 + γ_0²(y − Δ)²) ends at √(1 + γ_0²y²)."""

    def velocity(t, error):
        return -2 * np.sqrt(1 + richness**2 * (SIZE - error) ** 2) * error

    times = np.linspace(0, 5 / final_rate(richness), 9)
    found = closed_form(times, SIZE, richness)
    settings = {"t_eval": times, "rtol": 1e-11, "atol": 1e-13}
    expected = solve_ivp(velocity, (0, times[-1]), [SIZE], **settings).y[0]
    # Errors of the integrator add up over some hundred steps; those of the closed form are of rounding.
    np.testing.assert_allclose(found.error, expected, rtol=0, atol=1e-9)
    along = np.sqrt(1 + richness**2 * (SIZE - expected) ** 2)
    np.testing.assert_allclose(found.kernel, along, rtol=1e-9)
    late = closed_form(np.array([20.0 / final_rate(richness)]), SIZE, richness)
    assert late.kernel[0] == pytest.approx(final_rate(richness), rel=1e-12)


@pytest.mark.parametrize("richness", [0.1, 0.5, 2.0, 8.0])
def test_the_drawn_theory_is_the_closed_form(richness):
    theory = solve(whitened_problem(richness), LinearInnovation(tolerance=1e-4), save_at=9)
    found = along_targets(theory)
    expected = closed_form(theory["time"].values, SIZE, richness)
    accuracy = theory.evidence["accuracy"]
    # The stated accuracy is that of one entry: the norm of P of them has √P, and a kernel along y at most P times it.
    assert accuracy["prediction"] < 1e-3
    np.testing.assert_allclose(
        found.error, expected.error, rtol=0, atol=SIZE * accuracy["prediction"]
    )
    np.testing.assert_allclose(found.kernel, expected.kernel, rtol=0, atol=POINTS * accuracy["Phi"])


def test_networks_follow_the_closed_form():
    """Means of eight networks, within four standard errors and a term of order 1/N.

    The norm of an error is positive, so that noise adds a bias where it vanishes: 0.3/N to 0.4/N of |y| for N = 100
    and 400.
    """
    size = 400
    runs = simulate(whitened_problem(2.0), size, 8, save_at=5)
    expected = closed_form(runs["time"].values, SIZE, 2.0)
    for curves, exact in zip(along_targets(runs), expected, strict=True):
        error = curves.std(axis=0, ddof=1) / np.sqrt(8)
        allowed = 4 * error + np.abs(exact).max() / size
        np.testing.assert_array_less(np.abs(curves.mean(axis=0) - exact), allowed)
