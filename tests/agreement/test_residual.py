"""Residual networks: theory against training at several depths and two sizes, and transfer across depth.

Depths 4, 8 and 16, and the transfer, are in the slow suite, but for depth 4 with branches of fixed scale.
"""

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from tests import problems

SAVED = np.arange(0, 31, 5)
DATA = {
    "population": ld.Population(ld.LinearMap()),
    "dataset": ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.4),
    "stream": ld.Stream(ld.LinearMap(), noise=0.3, batch_ratio=1.0),
}
problem = partial(
    problems.deep_linear, width=0.8, richness=1.0, skip=ld.ScaledSkip(1.0), rate=0.03, steps=30
)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    "depth",
    [2, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (4, 8, 16))],
)
def test_theory_agrees_with_training(depth, name):
    """At D = 100 and 300, at level 0.01/2 (two looks); the variance between runs falls as 1/D, by 3.

    Times within a run are strongly correlated, so that 40 seeds give at most 40 degrees of freedom; the bounds on the
    ratio of the variances are those of the F distribution at the level 1e-3.
    """
    setting = problem(depth=depth, data=DATA[name])
    theory = ld.solve(setting, save_at=SAVED)
    assert theory.evidence["edge_of_stability"] is None
    variance = {}
    for size, seeds in ((100, 40), (300, 40)):
        runs = ld.simulate(setting, size, seeds, save_at=SAVED)
        comparison = ld.compare(theory, runs, level=0.01 / 2)
        assert comparison.agrees, comparison
        variance[size] = float((np.log(runs["test_loss"] / theory["test_loss"]) ** 2).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 40, 40)
    assert low < variance[100] / variance[300] / 3 < high


@pytest.mark.parametrize("skip", [0.3, 0.8])
def test_fixed_branch_scale_agrees_with_training(skip):
    setting = problem(depth=4, data=DATA["dataset"], rate=0.02, skip=skip)
    theory = ld.solve(setting, save_at=SAVED)
    comparison = ld.compare(theory, ld.simulate(setting, 300, 20, save_at=SAVED))
    assert comparison.agrees, comparison


@pytest.mark.slow
def test_best_rate_transfers_across_depth_with_scaled_branches_only():
    """Depths 4 and 8 after 15 steps of online SGD: in theory and by training at D = 150 on a grid of rates 20 % apart.

    A parabola in log η through the lowest point and its neighbours finds the minimum to about half a grid step.
    """
    moved = {}
    for name, skip in (("scaled", ld.ScaledSkip(1.25)), ("fixed", 1.0)):
        best, trained = [], []
        for depth in (4, 8):

            def online(rate, depth=depth, skip=skip):
                network = ld.DeepLinear(depth, 1.0, 1.0, centered=True, skip=skip)
                training = ld.GradientDescent(rate, steps=15)
                return ld.Problem(
                    network, ld.Stream(ld.LinearMap(), noise=0.5, batch_ratio=2.0), training
                )

            best.append(ld.best_rate(online(0.005)).rate)
            losses, grid = [], best[-1] * 1.2 ** np.arange(-3.0, 3.0)
            for rate in grid:
                runs = ld.simulate(online(rate), 150, 20, save_at=[0, 15])
                final = runs["test_loss"].values[:, -1] if runs.diverged_at is None else [np.inf]
                losses.append(math.log(np.mean(final)))
            i = int(np.clip(np.argmin(losses), 1, len(grid) - 2))
            near = slice(i - 1, i + 2)
            curvature, slope, _ = np.polyfit(np.log(grid[near]), losses[near], 2)
            trained.append(math.exp(-slope / (2 * curvature)))
        assert np.abs(np.log(np.array(trained) / best)).max() < math.log(1.25), (best, trained)
        moved[name] = best[1] / best[0], trained[1] / trained[0]
    assert all(ratio > 0.5 for ratio in moved["scaled"]), moved
    assert all(ratio < 0.25 for ratio in moved["fixed"]), moved
