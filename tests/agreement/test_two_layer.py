"""Theory against finite networks trained by SGD, at N = 500, 1000 and 2000.

Every setting, some of them in the slow suite, is compared at every size with `compare` at level 0.01/3 (three looks),
strictly at the largest size. The scatter of single runs around the theory must fall as 1/√N from 500 to 2000, i.e. by
2; with ten seeds and the few independent time scales of a run its estimate is good to about a quarter, whence the
bounds 1.4 and 2.9.
"""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems

SEEDS = 10
TIMES = np.arange(0, 12.1, 0.6)
committee = partial(problems.two_layer, seed=12, scale=0.7, teacher_seed=11, size=784, time=12.0)

SETTINGS = {
    "K < M": committee(units=1, teacher_units=3, rate=0.8),
    "K = M": committee(units=2, teacher_units=2, rate=1.0),
    "K > M": committee(units=4, teacher_units=2, rate=0.6),
    "noise": committee(units=2, teacher_units=2, rate=1.0, noise=0.5),
    "large rate": committee(units=2, teacher_units=2, rate=4.0, noise=0.3),
    "mini-batch": committee(units=2, teacher_units=2, rate=4.0, batch=3, noise=0.5),
    "trained readout": committee(
        units=3,
        teacher_units=2,
        rate=1.0,
        noise=0.2,
        train_readout=True,
        readout_scale=0.7,
        readout_rate=0.5,
    ),
    "relu": committee(units=2, teacher_units=2, rate=0.3, activation="relu", noise=0.1),
    "polynomial": committee(
        units=2, teacher_units=1, rate=0.15, activation=ld.Polynomial([0, 0.8, 0.1]), noise=0.1
    ),
    "tanh": committee(units=2, teacher_units=2, rate=1.0, activation="tanh", noise=0.2),
    "weight decay": committee(units=2, teacher_units=2, rate=1.0, noise=0.2, weight_decay=0.2),
    "schedule": committee(
        units=2, teacher_units=2, rate=ld.WarmUp(4.0, ld.ExponentialDecay(3.0, 0.1)), noise=0.3
    ),
}

QUICK = ("noise", "trained readout", "relu")
"""K = M with noise, K > M with a trained readout, and another activation."""
SGD_UP_TO = {"quick": 500, "whole": 2000}
"""Larger networks are the exact chain of their overlaps: it costs as much at any size, and it has the same law, as
`test_chain_and_sgd_have_the_same_law` shows."""


@pytest.mark.parametrize(
    ("setting", "trained"),
    [
        *((setting, "quick") for setting in QUICK),
        *(pytest.param(setting, "whole", marks=pytest.mark.slow) for setting in SETTINGS),
    ],
)
def test_theory_agrees_with_sgd_and_the_deviation_shrinks(setting, trained):
    problem = SETTINGS[setting]
    theory = ld.solve(problem, save_at=TIMES)
    scatter = {}
    for size in (500, 1000, 2000):
        method = ld.SGD() if size <= SGD_UP_TO[trained] else ld.OverlapChain()
        runs = ld.simulate(problem, size, SEEDS, save_at=TIMES, method=method)
        comparison = ld.compare(theory, runs, level=0.01 / 3)
        assert comparison.agrees, comparison
        residual = runs["Q"] - theory["Q"]
        scatter[size] = float(np.sqrt((residual**2).mean()))
    assert 1.4 < scatter[500] / scatter[2000] < 2.9


def test_comparison_notices_a_wrong_theory():
    """The mini-batch setting without the 1/B in the η² term, as printed in the primer."""
    problem = SETTINGS["mini-batch"]
    wrong = ld.Problem(
        problem.network, ld.Stream(problem.data.task, noise=0.5, batch=1), problem.training
    )
    theory = ld.solve(wrong, save_at=TIMES)
    runs = ld.simulate(problem, 500, 4, save_at=TIMES)
    forged = ld.Solution(theory.data, problem, theory.evidence)
    assert not ld.compare(forged, runs).agrees
