"""`transfer` over the width and the depth of deep linear networks: rates of a plain grid, and losses of networks."""

import math

import numpy as np
import pytest

import learndyn as ld


def over_width(parameterization: str) -> ld.Problem:
    """The setting of the figure deep-linear-2, at other widths."""
    return ld.Problem(
        ld.DeepLinear(2, 0.5, 4.0, centered=True, parameterization=parameterization),
        ld.Stream(ld.LinearMap(), batch_ratio=1.0),
        ld.GradientDescent(learning_rate=0.1, steps=12),
    )


def over_depth() -> ld.Problem:
    """Scaled residual branches on the population, where the optimum is at the edge of stability."""
    return ld.Problem(
        ld.DeepLinear(4, 1.0, 1.0, centered=True, skip=ld.ScaledSkip(1.25)),
        ld.Population(ld.LinearMap()),
        ld.GradientDescent(learning_rate=0.1, steps=30),
    )


def best_on_grid(problem: ld.Problem, rates: np.ndarray, path: str, value: float) -> float:
    """The optimum on a grid: the rate with the smallest last loss."""
    over = {"training.learning_rate": rates, path: [value]}
    steps = problem.training.steps
    swept = ld.sweep(problem, over, observables=["test_loss"], save_at=[0, steps])
    return float(rates[int(np.nanargmin(swept["test_loss"].reindex(step=[steps]).values.ravel()))])


@pytest.mark.slow
def test_rates_over_width_are_those_of_a_grid_and_networks_confirm_what_is_lost():
    """Within one place of the grid; networks at two widths within 3 errors of what the theory loses.

    Losses of networks deviate by O(1/D); for a ratio of two losses, twice that, times 1 + lost.
    """
    widths, rates = [0.5, 2.0, 8.0], np.geomspace(0.01, 0.5, 41)
    spacing = math.log(rates[1] / rates[0])
    found = ld.transfer(
        over_width("mup"),
        "network.width",
        widths,
        parameterizations=["mup", "ntk"],
        size=300,
        seeds=8,
        check=[2.0, 8.0],
    )
    for side in found.sides():
        for width in widths:
            cell = side.sel(width=width)
            problem = over_width(side["parameterization"].item())
            plain = best_on_grid(problem, rates, "network.width", width)
            assert abs(math.log(float(cell["best_rate"]) / plain)) < 1.01 * spacing
            if width > 0.5:
                lost, networks = float(cell["lost"]), float(cell["network_lost"])
                assert math.isfinite(lost)
                allowed = 3 * float(cell["network_lost_error"]) + 2 * (1 + lost) / 300
                assert abs(networks - lost) < allowed
    mup, ntk = (side["best_rate"].values for side in found.sides())
    # The message of the figure: the optimum of the NTK parameterisation moves with the width, that of μP less.
    assert np.ptp(np.log(mup)) < np.ptp(np.log(ntk))


@pytest.mark.slow
def test_rates_over_depth_are_those_of_a_grid():
    depths, rates = [4, 16], np.geomspace(1e-3, 1.0, 121)
    spacing = math.log(rates[1] / rates[0])
    found = ld.transfer(over_depth(), "network.depth", depths)
    for depth in depths:
        plain = best_on_grid(over_depth(), rates, "network.depth", depth)
        assert (
            abs(math.log(float(found.data["best_rate"].sel(depth=depth)) / plain)) < 1.01 * spacing
        )


@pytest.mark.slow
def test_the_best_rate_of_a_long_training_over_depth_is_the_best_time_of_flow():
    """η*T = t* for T = 10⁴ steps, and what is lost by keeping η*.

    Steps differ from flow by ηλ < 10⁻³. Both minima are known to the search's 1 %, and t* to its spacing squared.
    """
    times = np.append(0.0, np.geomspace(0.4, 1.6, 15))
    data = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5)
    depths, best = [2, 8], []
    for depth in depths:
        network = ld.DeepLinear(depth, 1.0, centered=True, skip=ld.ScaledSkip(1.0))
        flow = ld.Problem(network, data, ld.GradientDescent(1.0, time=times[-1]))
        loss = ld.solve(flow, save_at=times)["test_loss"].values[1:]
        k = int(np.argmin(loss))
        near = slice(k - 1, k + 2)
        a, b, _ = np.polyfit(np.log(times[1:][near]), loss[near], 2)
        best.append(math.exp(-b / (2 * a)))
    first = ld.DeepLinear(depths[0], 1.0, centered=True, skip=ld.ScaledSkip(1.0))
    long = ld.Problem(first, data, ld.GradientDescent(1e-4, steps=10_000))
    found = ld.transfer(long, "network.depth", depths, rtol=1e-2)
    np.testing.assert_allclose(found.data["best_rate"] * 10_000, best, rtol=0.02)
    assert best[0] / best[1] > 1.4
    assert 0.01 < float(found.data["lost"][1]) < 0.03
