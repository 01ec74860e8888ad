"""Theory against finite two-layer networks on a reused dataset, at D = 800 and 3500.

Every setting is compared at both sizes (half of them, and the larger size, in the slow suite) with `compare` at level
0.01/2 (two looks); the theory is sampled, and its standard errors are part of the error bars. The variance of the loss
of single runs around the theory must fall as 1/D: from 200 to 800, by 4. Times within a run are strongly correlated, so
that 30 seeds give an estimate with no more than 30 degrees of freedom; the bounds are those of the F distribution at
the level 1e-3.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from tests import problems
from tests.optional import not_none

SAMPLES = {"samples": 1024, "batches": 8}
general = partial(
    problems.two_layer,
    Q=[[1.0, 0.2], [0.2, 0.8]],
    R=[[0.4, 0.1], [-0.2, 0.4]],
    readout=[1.2, -0.8],
    teacher_activation="erf",
    T=[[1.0, 0.3], [0.3, 0.7]],
    teacher_readout=[1.0, -1.5],
    supply="dataset",
)


def bent(z):
    """An activation with a kink."""
    return jnp.abs(z) + 0.5 * z


SETTINGS = {
    "few examples": (
        problems.late_learning(alpha=0.5, eps=0.3, ratio=0.5, overlap=0.3, time=6.0),
        0.1,
    ),
    "interpolation threshold": (
        problems.late_learning(alpha=0.5, eps=0.4, ratio=1.0, overlap=0.4, time=8.0),
        0.125,
    ),
    "lazy": (problems.late_learning(alpha=2.0, eps=0.3, ratio=2.0, overlap=0.3, time=5.0), 0.125),
    "rich": (problems.late_learning(alpha=0.1, eps=0.6, ratio=5.0, overlap=0.3, time=8.0), 0.25),
    "many examples": (
        problems.late_learning(alpha=0.5, eps=0.4, ratio=5.0, overlap=0.3, time=15.0),
        0.4,
    ),
    "noise and decay": (
        problems.late_learning(
            alpha=0.6, eps=0.4, ratio=2.0, overlap=0.3, time=10.0, noise=0.4, weight_decay=0.1
        ),
        0.25,
    ),
    "erf": (
        general(activation="erf", ratio=1.5, rate=1.0, time=12.0, noise=0.2),
        0.3,
    ),
    "tanh, steps": (
        general(
            activation="tanh",
            ratio=2.5,
            rate=ld.WarmUp(10, 0.6),
            steps=40,
            teacher_activation="relu",
        ),
        None,
    ),
    "momentum": (
        general(activation="tanh", ratio=1.5, rate=0.1, momentum=0.7, steps=40, weight_decay=0.1),
        None,
    ),
    "trained readout": (
        general(
            activation="erf",
            ratio=1.5,
            rate=0.3,
            steps=40,
            noise=0.2,
            train_readout=True,
            readout_rate=0.15,
        ),
        None,
    ),
    "mini-batches": (
        general(activation="erf", ratio=1.5, batch_ratio=0.5, rate=0.3, steps=30, noise=0.2),
        None,
    ),
    "relu": (general(activation="relu", ratio=2.0, rate=0.2, steps=30, noise=0.2), None),
    "kink": (
        general(activation=bent, ratio=2.5, rate=0.1, steps=25, weight_decay=0.1),
        None,
    ),
    "relu with all": (
        general(
            activation="relu",
            ratio=2.0,
            batch_ratio=0.8,
            momentum=0.5,
            rate=0.1,
            steps=30,
            noise=0.2,
            weight_decay=0.1,
            train_readout=True,
            readout_rate=0.1,
        ),
        None,
    ),
}


def runs_of(problem, size, seeds, step, **options):
    return ld.simulate(problem, size, seeds, method=ld.FullBatch(step=step), **options)


def check_agreement(setting, size, seeds):
    problem, step = SETTINGS[setting]
    kink = setting in ("relu", "kink", "relu with all")
    samples = {"samples": 8192, "batches": 8} if kink else SAMPLES
    theory = ld.solve(problem, ld.CausalSampling(step=step, **samples), save_at=9)
    assert theory.evidence["inputs"] == ("revealed" if kink else "traced")
    assert "warnings" not in theory.evidence
    runs = runs_of(problem, size, seeds, step, save_at=9)
    comparison = ld.compare(theory, runs, level=0.01 / 2)
    assert comparison.agrees, comparison
    return problem, step, theory, runs


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_theory_agrees_with_training_at_3500(setting):
    check_agreement(setting, 3500, 6)


QUICK = ("noise and decay", "tanh, steps", "mini-batches", "relu with all")


@pytest.mark.parametrize(
    "setting",
    [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SETTINGS],
)
def test_theory_agrees_with_training_and_the_deviation_shrinks(setting):
    problem, step, theory, large = check_agreement(setting, 800, 30)
    small = runs_of(problem, 200, 30, step, save_at=9)
    around_200, around_800 = (
        float((np.log(runs["test_loss"] / theory["test_loss"])[:, 1:] ** 2).mean())
        for runs in (small, large)
    )
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 30, 30)
    assert low < around_200 / around_800 / 4 < high


@pytest.mark.parametrize(
    "setting",
    ["noise and decay"]
    + [
        pytest.param(x, marks=pytest.mark.slow)
        for x in ("erf", "momentum", "trained readout", "mini-batches")
    ],
)
def test_responses_agree_with_training(setting):
    """Tangents of trained networks, along random directions, against the theory's response functions."""
    problem, step = SETTINGS[setting]
    theory = ld.solve(problem, ld.CausalSampling(step=step, **SAMPLES), save_at=6)
    method = ld.FullBatch(step=step, responses=True)
    runs = ld.simulate(problem, 400, 20, method=method, save_at=6)
    table = ld.compare(theory, runs).table.loc[["R_w", "R_h", "R_star"]]
    assert (table["verdict"] == "agrees").all(), table
    assert (table["rms_per_cent"] < 10).all(), table


@pytest.mark.slow
def test_the_delay_of_a_setting_that_groks():
    """γ = 3, α = 0.5, ε = 0.3: train and test loss drop in training when the theory says, test five times later."""
    problem = problems.late_learning(alpha=0.5, eps=0.3, ratio=3.0, overlap=0.3, time=80.0)
    theory = ld.solve(problem, ld.CausalSampling(step=0.5, **SAMPLES))
    runs = runs_of(problem, 2000, 10, 0.5)
    for name in ("train_drop", "test_drop", "grokking_delay"):
        found = runs[name].values
        assert np.isfinite(found).all()
        error = np.hypot(
            found.std(ddof=1) / np.sqrt(len(found)), float(not_none(theory.standard_error(name)))
        )
        # A drop time is a smooth function of the curve, with a bias of order 1/D, below its error here.
        bound = scipy.stats.t.isf(0.0005, len(found) - 1) * error
        assert abs(found.mean() - float(theory[name])) < bound, name
    assert 4.5 < float(theory["grokking_delay"]) < 7
