"""Theory against finite networks trained by SGD, at N = 500, 1000 and 2000.

Every setting, some of them in the slow suite, is compared at every size with `compare` at level 0.01/3 (three looks),
strictly at the largest size. The scatter of single runs around the theory must fall as 1/√N from 500 to 2000, i.e. by
2; with ten seeds and the few independent time scales of a run its estimate is good to about a quarter, whence the
bounds 1.4 and 2.9.
"""

import numpy as np
import pytest

import learndyn as ld

SEEDS = 10
TIMES = np.arange(0, 12.1, 0.6)


def committee(K, M, rate, activation="erf", batch=1, noise=0.0, scale=0.7, **training):
    teacher = ld.Teacher.random(activation, M, 784, seed=11)
    network = ld.TwoLayer.random(
        K,
        teacher,
        scale,
        784,
        seed=12,
        train_readout="readout_learning_rate" in training,
        readout_scale=0.7 if "readout_learning_rate" in training else None,
    )
    data = ld.Stream(teacher, batch=batch, noise=noise)
    return ld.Problem(network, data, ld.GradientDescent(rate, time=12.0, **training))


SETTINGS = {
    "K < M": committee(1, 3, 0.8),
    "K = M": committee(2, 2, 1.0),
    "K > M": committee(4, 2, 0.6),
    "noise": committee(2, 2, 1.0, noise=0.5),
    "large rate": committee(2, 2, 4.0, noise=0.3),
    "mini-batch": committee(2, 2, 4.0, batch=3, noise=0.5),
    "trained readout": committee(3, 2, 1.0, noise=0.2, readout_learning_rate=0.5),
    "relu": committee(2, 2, 0.3, activation="relu", noise=0.1),
    "polynomial": committee(2, 1, 0.15, activation=ld.Polynomial([0, 0.8, 0.1]), noise=0.1),
    "tanh": committee(2, 2, 1.0, activation="tanh", noise=0.2),
    "weight decay": committee(2, 2, 1.0, noise=0.2, weight_decay=0.2),
    "schedule": committee(2, 2, ld.WarmUp(4.0, ld.ExponentialDecay(3.0, 0.1)), noise=0.3),
}

QUICK = ("K = M", "K > M", "noise", "trained readout", "relu")


@pytest.mark.parametrize(
    "setting",
    [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SETTINGS],
)
def test_theory_agrees_with_sgd_and_the_deviation_shrinks(setting):
    problem = SETTINGS[setting]
    theory = ld.solve(problem, save_at=TIMES)
    scatter = {}
    for size in (500, 1000, 2000):
        runs = ld.simulate(problem, size, SEEDS, save_at=TIMES)
        comparison = ld.compare(theory, runs, level=0.01 / 3)
        assert comparison.agrees, comparison
        residual = runs["Q"] - theory["Q"]
        scatter[size] = float(np.sqrt((residual**2).mean()))
    assert 1.4 < scatter[500] / scatter[2000] < 2.9


def test_comparison_notices_a_wrong_theory():
    """The mini-batch setting without the 1/B in the η² term, as printed in the primer."""
    problem = SETTINGS["mini-batch"]
    wrong = ld.Problem(problem.network, ld.Stream(problem.data.teacher, 1, 0.5), problem.training)
    theory = ld.solve(wrong, save_at=TIMES)
    runs = ld.simulate(problem, 500, 4, save_at=TIMES)
    forged = ld.Solution(theory.data, problem, theory.evidence)
    assert not ld.compare(forged, runs).agrees
