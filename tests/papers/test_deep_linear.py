"""What is recorded for the figures of the paper."""

import math

import numpy as np
import pytest

import learndyn as ld
from learndyn.papers import deep_linear_power_laws as power_laws
from learndyn.papers.deep_linear_curves import recorded_steps


@pytest.mark.parametrize("log", [False, True])
def test_recorded_steps_increase_up_to_the_end_and_leave_out_0_on_a_logarithmic_axis(log):
    steps = recorded_steps(640, 150, log)
    assert steps[0] == int(log)
    assert steps[-1] == 640
    assert (np.diff(steps) > 0).all()


@pytest.mark.parametrize(
    ("depth", "end", "within"),
    [
        (2, 3e3, 0.02),
        *(
            pytest.param(L, 1e6, x, marks=pytest.mark.slow)
            for L, x in ((1, 2e-3), (2, 4e-3), (4, 15e-3))
        ),
    ],
)
def test_the_exponent_of_hard_tasks_grows_with_depth(depth, end, within):
    """It is (L+1)β/(1+Lβ), up to what is left of the approach to it, and not 2β/(1+β) unless L = 1."""
    beta, deep = 0.4, (depth + 1) * 0.4 / (1 + depth * 0.4)
    data = ld.Population(ld.LinearMap(power_laws._long_power_law(beta, 1e8 * end)))
    network = ld.DeepLinear(depth, math.inf, 3.0, centered=True)
    problem = ld.Problem(network, data, ld.GradientDescent(1.0, time=end))
    times = [0.0, *np.geomspace(end / 10, end, 9)]
    theory = ld.solve(problem, ld.Panels(tolerance=1e-4, bins=200), save_at=times)
    exponent = ld.local_exponent(theory["test_loss"], window=0.6)["exponent"].values[5]
    assert abs(exponent - deep) < within
    assert depth == 1 or exponent - 2 * beta / (1 + beta) > 3 * within


def test_groups_of_a_power_law_keep_its_power():
    """Σ w*² λ up to a rank, against the sum over all modes; the groups replace a sum by an integral (1e-4)."""
    eigenvalues, coefficients = power_laws._long_power_law(0.4, 1e4).arrays()
    k = np.arange(1.0, 1e4)
    np.testing.assert_allclose(coefficients**2 @ eigenvalues, np.sum(k**-1.6), rtol=1e-4)
    assert np.all(np.diff(eigenvalues) < 0)
