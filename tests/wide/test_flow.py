"""Gradient flow of wide networks: exact solutions, and the stated accuracy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld

WHITE = ld.Points(gram=np.eye(3), targets=[1.0, -0.5, 0.8])


@pytest.mark.parametrize("richness", [0.3, 2.0])
def test_white_inputs_follow_the_exact_equation(richness):
    """L = 1, linear, K = 1, sum loss: dΔ/dt = −2√(1 + γ_0²(y − Δ)²)Δ, and the kernel grows along the targets."""
    training = ld.GradientDescent(1.0, time=1.5, loss="sum")
    flow = ld.solve(ld.Problem(ld.Wide(1, "linear", richness), WHITE, training), save_at=7)
    y = np.linalg.norm(WHITE.targets)

    def velocity(t, error):
        return -2 * np.sqrt(1 + richness**2 * (y - error) ** 2) * error

    exact = solve_ivp(
        velocity, (0, 1.5), [y], t_eval=flow["time"].values, rtol=1e-10, atol=1e-12
    ).y[0]
    error = np.linalg.norm(WHITE.targets - flow["prediction"].values, axis=1)
    allowed = 3 * flow.evidence["accuracy"]["prediction"]
    assert allowed < 5e-3
    np.testing.assert_allclose(error, exact, rtol=0, atol=allowed)
    unit = WHITE.targets / y
    now = np.einsum("titj->tij", flow["Phi"].values[0].transpose(0, 1, 2, 3))
    along = np.einsum("i,tij,j->t", unit, now, unit)
    expected = np.sqrt(1 + richness**2 * (y - exact) ** 2)
    np.testing.assert_allclose(along, expected, rtol=0, atol=3 * flow.evidence["accuracy"]["Phi"])


def test_flow_is_the_limit_of_small_steps():
    points = ld.Points.random(3, 5, seed=2)
    # Particles are the same for all steps, so that their sampling error cancels.
    network = ld.Wide(1, "tanh", 1.0)
    method = ld.KernelEvolution(samples=256, batches=4)
    flow = ld.solve(
        ld.Problem(network, points, ld.GradientDescent(1.0, time=4.0)), method, save_at=3
    )
    assert flow.axis == "time"
    distances = []
    for steps in (10, 20):
        descent = ld.Problem(network, points, ld.GradientDescent(4.0 / steps, steps=steps))
        found = ld.solve(descent, method, save_at=3)
        distances.append(
            float(np.max(np.abs(found["prediction"].values - flow["prediction"].values)))
        )
    # First order: half the step, half the distance; the next order is a step of 0.4 or 0.2 times smaller.
    assert 1.5 < distances[0] / distances[1] < 2.6


def test_recorded_times_are_met_exactly():
    points = ld.Points.random(3, 5, seed=2)
    asked = ld.Problem(ld.Wide(2, "linear", 1.0), points, ld.GradientDescent(1.0, time=4.0))
    times = np.array([0.0, 0.3, 1.7, 4.0])
    some, more = (ld.solve(asked, save_at=t) for t in (times, np.linspace(0, 4, 41)))
    np.testing.assert_array_equal(some["time"], times)
    at = [0, 3, 17, 40]
    allowed = some.evidence["accuracy"]["prediction"] + more.evidence["accuracy"]["prediction"]
    assert (
        np.max(np.abs(some["prediction"].values - more["prediction"].values[at])) < allowed + 1e-9
    )


def test_what_flow_cannot_have_is_refused():
    points = ld.Points.random(3, 5, seed=2)
    for rule in ({"momentum": 0.5}, {"noise": 0.1}):
        training = ld.GradientDescent(1.0, time=1.0, **rule)
        with pytest.raises(ld.ProblemError, match="must be 0 in gradient flow"):
            ld.solve(ld.Problem(ld.Wide(1, "tanh"), points, training))
