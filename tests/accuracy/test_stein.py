"""Stated errors of deep wide networks whose responses come from Gaussian integration by parts."""

import numpy as np
import pytest

import learndyn as ld
from tests.optional import not_none

SETTINGS = {
    "relu, two layers": ("relu", 2, 8, 15, 512),
    "relu, three layers": ("relu", 3, 4, 15, 256),
    "relu, long": ("relu", 2, 8, 30, 1024),
    "tanh, two layers": ("tanh", 2, 8, 15, 512),
}
NAMES = ("prediction", "train_loss", "kernel", "Phi", "G")


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_bias_is_within_the_stated_accuracy(setting):
    """As few samples as are allowed, against sixteen times as many, three seeds.

    What is beyond the accuracy is at most four standard errors, of thousands of correlated numbers. The accuracy is no
    more than thirty times the largest deviation or error: half the samples are fewer than would be allowed, and more
    biased than in proportion.
    """
    activation, depth, count, steps, samples = SETTINGS[setting]
    points = ld.Points.random(count, 30, seed=3)
    training = ld.GradientDescent(0.5, steps=steps)
    asked = ld.Problem(ld.Wide(depth, activation), points, training)

    def solved(samples: int, seed: int) -> ld.Solution:
        method = ld.SampledLayers(samples=samples, batches=8, responses="stein")
        return ld.solve(asked, method, save_at=6, seed=seed)

    reference = solved(16 * samples, 100)
    for seed in range(3):
        solution = solved(samples, seed)
        for name in NAMES:
            accuracy = solution.evidence["accuracy"][name]
            deviation = abs(solution[name] - reference[name]).values
            mine, theirs = (not_none(x.standard_error(name)) for x in (solution, reference))
            error = np.hypot(mine.values, theirs.values)
            assert np.all(deviation <= accuracy + 4 * error + 1e-12), (name, seed)
            assert accuracy < 30 * max(np.max(deviation), np.max(error)), (name, seed)
