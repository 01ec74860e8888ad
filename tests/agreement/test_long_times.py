"""Long trainings of linear networks: panels against networks in gradient flow, and in very many steps."""

import numpy as np
import pytest
import scipy.stats

import learndyn as ld

DATA = {
    "population": ld.Population(ld.LinearMap()),
    "dataset": ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.4),
}
NETWORKS = {
    "feedforward": ld.DeepLinear(2, 0.8, 1.0),
    "residual": ld.DeepLinear(3, 0.8, 1.0, skip=ld.ScaledSkip(1.0)),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("data", [pytest.param("population", marks=pytest.mark.slow), "dataset"])
def test_gradient_flow_agrees_with_networks_and_the_deviation_shrinks(data, network):
    """At D = 30 and 90, at level 0.01/2 (two looks); the variance between runs falls as 1/D, by 3 (F at 1e-3).

    Times within a run are correlated, so that 24 seeds give at most 24 degrees of freedom.
    """
    training = ld.GradientDescent(0.5, time=12.0, weight_decay=0.02)
    problem = ld.Problem(NETWORKS[network], DATA[data], training)
    times = [0.0, 0.5, 2.0, 5.0, 12.0]
    theory = ld.solve(problem, save_at=times)
    variance = {}
    for size in (30, 90):
        runs = ld.simulate(problem, size, 24, save_at=times)
        comparison = ld.compare(theory, runs, level=0.01 / 2)
        assert comparison.agrees, comparison
        variance[size] = float((np.log(runs["test_loss"] / theory["test_loss"]) ** 2).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 24, 24)
    assert low < variance[30] / variance[90] / 3 < high


def test_flow_of_a_network_is_the_limit_of_small_steps():
    """One network, the same weights and data: Euler steps of 1/50 and 1/100, extrapolated, err at second order."""
    network, data = NETWORKS["residual"], DATA["dataset"]
    flow = ld.simulate(
        ld.Problem(network, data, ld.GradientDescent(0.3, time=4.0, weight_decay=0.1)),
        30,
        save_at=[0.0, 1.0, 4.0],
    )
    losses = []
    for pieces in (50, 100, 200):
        training = ld.GradientDescent(0.3 / pieces, steps=4 * pieces, weight_decay=0.1)
        runs = ld.simulate(ld.Problem(network, data, training), 30, save_at=[0, pieces, 4 * pieces])
        losses.append(runs["test_loss"].values)
    first, second = (2 * losses[k + 1] - losses[k] for k in (0, 1))
    left = np.abs(second - flow["test_loss"].values)
    # The extrapolations differ by 3/4 of the error of the first, four times that of the second.
    np.testing.assert_array_less(left, 0.6 * np.abs(second - first) + 1e-9)


@pytest.mark.slow
def test_a_hundred_thousand_steps_agree_with_networks():
    """Late overfitting and its end, where rows do not reach: D = 40 and 80, ten networks each."""
    data = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.7)
    problem = ld.Problem(ld.DeepLinear(2, 1.0, 0.5), data, ld.GradientDescent(0.02, steps=100_000))
    steps = [0, 100, 1000, 10_000, 30_000, 100_000]
    theory = ld.solve(problem, save_at=steps)
    assert theory.evidence["method"]["kind"] == "panels"
    for size in (40, 80):
        runs = ld.simulate(problem, size, 10, save_at=steps)
        # Few examples more than inputs: single networks scatter by half, and skewly.
        comparison = ld.compare(theory, runs, level=0.01 / 2)
        assert comparison.agrees, comparison


@pytest.mark.slow
def test_flow_of_wide_networks_agrees_and_the_deviation_shrinks():
    """Two linear layers, two outputs, a test point, at N = 60 and 240, at level 0.01/2 (two looks).

    The square of the deviation falls as 1/N, by 4; 12 networks, whose points and times are correlated, give at most 12
    degrees of freedom (F at 1e-3).
    """
    points = ld.Points(
        inputs=[[1.0, 0.2], [-0.1, 0.3]],
        targets=[[1.0, 0.3], [-0.5, 0.5]],
        test_inputs=[[0.4, -0.6]],
        test_targets=[[0.1, 0.2]],
    )
    network = ld.Wide(2, "linear", 1.5, centered=True)
    problem = ld.Problem(network, points, ld.GradientDescent(1.0, time=20.0))
    times = [0.0, 1.0, 5.0, 20.0]
    theory = ld.solve(problem, save_at=times)
    assert theory.evidence["method"]["kind"] == "linear_panels"
    squares = []
    for size in (60, 240):
        runs = ld.simulate(problem, size, 12, save_at=times)
        comparison = ld.compare(theory, runs, level=0.01 / 2)
        assert comparison.agrees, comparison
        squares.append(float(((runs["kernel"] - theory["kernel"]) ** 2).mean()))
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 12, 12)
    assert low < squares[0] / squares[1] / 4 < high
