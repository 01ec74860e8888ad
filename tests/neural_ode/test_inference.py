"""The flow alone: correlations, growth of perturbations, chaos."""

import numpy as np
import pytest

import learndyn as ld


def network(g1=0.8, g2=0.8, **fields):
    return ld.NeuralODE([[0, 0], [0, g1], [g2 / 2, 0]], 0.75, 1.0, 10, **fields)


@pytest.mark.parametrize(
    ("g2", "norm", "lyapunov"), [(0.8, 1.037644, 0.155078), (3.0, 1.524695, 0.532138)]
)
def test_the_stationary_state_is_known_in_closed_form(g2, norm, lyapunov):
    """C = q sech²(τ√(g_2q/12)), μ² = g_1 + g_2q/3, λ = √(g_1 + ¾g_2q) − μ; numbers as printed, to six digits."""
    found = ld.stationary_flow(network(g2=g2))
    q, mu = found.norm, found.confinement
    assert found.phase == "chaotic"
    np.testing.assert_allclose(mu**2, 0.8 + g2 * q / 3, rtol=1e-10)
    tau = found.correlation["tau"].values
    exact = q / np.cosh(tau * np.sqrt(g2 * q / 12)) ** 2
    np.testing.assert_allclose(found.correlation, exact, atol=1e-9)
    np.testing.assert_allclose(found.lyapunov, np.sqrt(0.8 + 0.75 * g2 * q) - mu, atol=1e-9)
    np.testing.assert_allclose([q, found.lyapunov], [norm, lyapunov], atol=6e-7)


def test_a_students_flow_has_its_own_chaos():
    """A control of norm Q is a teacher with g_1 Q in place of g_1."""
    student = ld.stationary_flow(network(0.8, 3.0), control_norm=0.5)
    teacher = ld.stationary_flow(network(0.4, 3.0))
    np.testing.assert_allclose(student.lyapunov, teacher.lyapunov, rtol=1e-10)


def test_perturbations_grow_at_the_lyapunov_exponent():
    """On grids h = 0.1 and 0.05 after a long time; extrapolated to h = 0 it is that of continuous time."""
    net = network(g2=3.0)
    rates = [float(ld.inference(net, time=15.0, steps=n)["growth"][-1]) for n in (150, 300, 600)]
    np.testing.assert_allclose(rates, [0.51255, 0.52212, 0.52707], atol=6e-6)
    limit = (rates[0] - 6 * rates[1] + 8 * rates[2]) / 3
    np.testing.assert_allclose(limit, ld.stationary_flow(net).lyapunov, atol=2e-4)


def test_perturbations_are_differences_of_two_flows():
    """D at h → 0 of one Euler step by hand: δx_1 = a δx_0 + h r'δx_0, ⟨δx_1²⟩ = a² + h²∂_1G(1)."""
    net = network()
    found = ld.inference(net, time=0.2, steps=2)
    h, a = 0.1, 1 - 0.1 * 1.0
    slope = 0.8 + 0.8
    np.testing.assert_allclose(found["D"][0, :2], [1.0, a], rtol=1e-14)
    np.testing.assert_allclose(found["D"][1, 1], a**2 + h**2 * slope, rtol=1e-14)
    np.testing.assert_allclose(found["D"], found["D"].values.T, rtol=1e-13)
    rate = np.log(a**2 + h**2 * slope) / (2 * h)
    np.testing.assert_allclose(found["growth"][0], rate, rtol=1e-12)


def test_the_teacher_alone_is_the_teacher_of_a_problem():
    net = network(teacher_noise=0.1)
    problem = ld.Problem(net, ld.Stream(), ld.GradientDescent(0.1, steps=1))
    found = ld.solve(problem, ld.DynamicalMeanField(inference_steps=[0]))
    alone = ld.inference(net)
    np.testing.assert_allclose(alone["C"], found["C_xx"][0], rtol=1e-13)
    assert float(alone["R"][3, 4]) == 0
    a = 1 - 0.1 * np.diagonal(alone["C"])
    np.testing.assert_allclose(alone["R"][5, 2], np.prod(a[2:5]), rtol=1e-13)


def test_phases():
    """A field with a large part without state holds the flow at a fixed point; a strong confinement at zero."""
    held = ld.stationary_flow(ld.NeuralODE([[0.5, 0], [0, 0.3]], 1.0, 1.0, 10))
    assert held.phase == "fixed point"
    q = held.norm
    np.testing.assert_allclose(q**3, 0.5 + 0.3 * q, rtol=1e-12)
    np.testing.assert_allclose(held.lyapunov, np.sqrt(0.3) - q, rtol=1e-12)
    np.testing.assert_allclose(held.correlation, q)
    still = ld.stationary_flow(
        ld.NeuralODE(
            [[0, 0], [0, 0.3]], 1.0, 1.0, 10, confinement=ld.Polynomial(np.array([1.0, 1.0]))
        )
    )
    assert (still.phase, still.norm) == ("zero", 0.0)
    np.testing.assert_allclose(still.lyapunov, np.sqrt(0.3) - 1)
    with pytest.raises(ld.NotConverged, match="not confined"):
        ld.stationary_flow(ld.NeuralODE([[0, 0], [0, 1.3]], 1.0, 1.0, 10, confinement=1.0))


@pytest.mark.slow
def test_chaos_with_a_frozen_part():
    """With a part b of the field without state the correlation decays to C(∞) > 0, where μ²C = G(C)."""
    b, g2 = 0.05, 3.0
    net = ld.NeuralODE([[b, 0], [0, 0.8], [g2 / 2, 0]], 0.75, 1.0, 10)
    found = ld.stationary_flow(net)
    assert found.phase == "chaotic"
    floor = float(found.correlation[-1])
    G = b + 0.8 * floor + g2 / 2 * floor**2
    np.testing.assert_allclose(found.confinement**2 * floor, G, rtol=1e-8)
    late = ld.inference(net, time=40.0, steps=800)["C"].values
    np.testing.assert_allclose(late[-1, -1], found.norm, rtol=5e-3)
    np.testing.assert_allclose(late[-1, 400], floor, rtol=0.05)


def test_bad_values_are_refused():
    with pytest.raises(ld.ProblemError, match="control_norm = -1"):
        ld.inference(network(), control_norm=-1)
    with pytest.raises(ld.ProblemError, match="steps = 0"):
        ld.inference(network(), steps=0)
