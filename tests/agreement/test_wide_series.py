"""Perturbation theory of one hidden layer against finite networks, at widths 250 and 1000.

What is compared is the coefficient of γ_0² itself. Networks with the same initial weights are trained at γ_0, γ_0/2 and
0; with D(γ_0) = F(γ_0) − F(0), each of them has c = [16 D(γ_0/2) − D(γ_0)]/(3γ_0²), in which the order γ_0⁴ has gone.
What is left is of order γ_0⁴/4 = 0.006. Odd orders have the mean zero, because the sign of the readout is free.
"""

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from learndyn.numerics.max_t import max_t_test
from tests import problems

RICHNESS, LAZY, SEEDS = 0.4, 1e-4, 40
NAMES = ("prediction", "kernel")
LEVEL = 0.01 / 4
"""Two observables at two widths."""


def at_richness(solutions):
    """c for every observable, from solutions at γ_0, γ_0/2 and 0; the start, where nothing has moved, is left out."""
    rich, half, lazy = solutions
    found = {}
    for name in NAMES:
        D, D_half = rich[name] - lazy[name], half[name] - lazy[name]
        c = (16 * D_half - D).isel(step=slice(1, None)) / (3 * RICHNESS**2)
        found[name] = c.values
    return found


@pytest.mark.slow
def test_the_order_of_features_agrees_with_networks():
    """Within the error bars of networks and theory at both widths; the variance of c falls as 1/N, by the F law."""
    asked = [
        problems.wide(
            depth=1,
            activation="tanh",
            richness=richness,
            centered=True,
            data=ld.Points.random(3, 5, seed=1),
            rate=1.0,
            steps=12,
        )
        for richness in (RICHNESS, RICHNESS / 2, LAZY)
    ]
    saved = [0, 4, 8, 12]
    theory = ld.solve(asked[0], ld.Perturbative(), save_at=saved)
    lazy = ld.solve(asked[2], ld.Perturbative(), save_at=saved)
    variance = {name: [] for name in NAMES}
    for width in (250, 1000):
        runs = [ld.simulate(x, width, SEEDS, save_at=saved) for x in asked]
        for name, c in at_richness(runs).items():
            expected = ((theory[name] - lazy[name]) / RICHNESS**2).isel(step=slice(1, None)).values
            # Both theories have the same samples: the error of their difference, 0.0013 at most, is a twentieth of the
            # networks’.
            residuals = (c - expected).reshape(SEEDS, -1)
            largest, p, _ = max_t_test(residuals, 0.0, LEVEL)
            assert p > LEVEL, (name, width, largest, p)
            seen = max_t_test(c.reshape(SEEDS, -1), 0.0, LEVEL)
            assert seen[1] < 1e-6, (name, width, seen)
            variance[name].append(float(np.mean(residuals**2)))
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], SEEDS, SEEDS)
    for name, (coarse, fine) in variance.items():
        assert low < coarse / fine / 4 < high, (name, coarse, fine)
