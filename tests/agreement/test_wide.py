"""Theory against finite wide networks, at width 1000, some of them in the slow suite, and 4000 there.

Every setting is compared with `compare` at level 0.01/2; sampled theories bring standard errors of their own. The
variance of single runs around the theory must fall as 1/N: from 125 to 500 by 4, within the F distribution at the
level 1e-3.
"""

from functools import partial

import numpy as np
import pytest
import scipy.stats

import learndyn as ld
from learndyn.families.wide.problem_arrays import wide_setting
from tests import problems

POINTS = ld.Points.random(4, 6, seed=1, test_points=2)
TWO = ld.Points.random(4, 6, seed=2, outputs=2)
CLASSES = ld.Points(TWO.inputs, [[1.0, 0.0], [0.2, 0.8], [0.0, 1.0], [0.7, 0.3]])
problem = partial(
    problems.wide, depth=2, activation="tanh", richness=1.0, centered=True, data=POINTS, steps=20
)

SETTINGS = {
    "linear, three layers": problem(depth=3, activation="linear", rate=0.2),
    "tanh, lazy": problem(depth=1, richness=0.1, rate=1.0),
    "tanh, one layer": problem(depth=1, richness=2.0, rate=0.5),
    "tanh, two layers": problem(rate=0.5),
    "tanh, three layers": problem(depth=3, rate=0.4, steps=12),
    "erf, one layer": problem(depth=1, activation="erf", richness=0.5, rate=0.5),
    "erf, two layers": problem(activation="erf", rate=0.4),
    "erf, three layers": problem(depth=3, activation="erf", rate=0.3, steps=12),
    "relu, one layer": problem(depth=1, activation="relu", rate=0.5),
    "relu, two layers": problem(activation="relu", richness=0.7, rate=0.4, steps=12),
    "relu, three layers": problem(depth=3, activation="relu", richness=0.5, rate=0.4, steps=12),
    "weight decay": problem(rate=0.5, weight_decay=0.1),
    "momentum": problem(rate=0.2, momentum=0.6),
    "coupled rule": problem(
        rate=ld.WarmUp(8, 0.3), momentum=0.6, weight_decay=0.2, momentum_rule="coupled"
    ),
    "two outputs": problem(rate=0.5, data=TWO),
    "biases, logistic": problem(rate=1.0, bias=True, criterion="logistic"),
    "cross-entropy, one layer": problem(
        depth=1, activation="relu", rate=1.0, data=CLASSES, criterion="cross_entropy"
    ),
    "cross-entropy, two layers": problem(rate=1.0, data=CLASSES, criterion="cross_entropy"),
    "Langevin noise, linear": problem(
        activation="linear", rate=0.2, temperature=0.1, weight_decay=0.5
    ),
    "Langevin noise, one layer": problem(depth=1, rate=0.5, temperature=0.1, weight_decay=0.5),
    "Langevin noise, two layers": problem(rate=0.3, temperature=0.05, momentum=0.3),
}
SAVED = 5


def check_agreement(asked, size, seeds):
    theory = ld.solve(asked, save_at=SAVED)
    comparison = ld.compare(theory, ld.simulate(asked, size, seeds, save_at=SAVED), level=0.01 / 2)
    assert comparison.agrees, comparison
    return theory


SLOW = {
    "tanh, lazy",
    "tanh, three layers",
    "erf, one layer",
    "erf, two layers",
    "erf, three layers",
    "relu, three layers",
    "weight decay",
    "momentum",
    "two outputs",
    "biases, logistic",
    "cross-entropy, two layers",
    "Langevin noise, two layers",
    "three layers",
    "linear",
}


def marked(settings):
    """The names of settings, those in `SLOW` with the mark."""
    return [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in settings]


@pytest.mark.parametrize("setting", marked(SETTINGS))
def test_theory_agrees_with_training(setting):
    check_agreement(SETTINGS[setting], 1000, 10)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["linear, three layers", "tanh, two layers", "relu, one layer"])
def test_theory_agrees_with_training_at_4000(setting):
    check_agreement(SETTINGS[setting], 4000, 6)


def test_two_points_agree_with_many_networks():
    """Points in a plane, where particles fill three dimensions: strict, at 48 networks of width 4000."""
    asked = problem(depth=1, activation="relu", rate=0.3, steps=12, data=problems.PLANE)
    runs = ld.simulate(asked, 4000, 48, save_at=SAVED)
    comparison = ld.compare(ld.solve(asked, save_at=SAVED), runs, level=0.01 / 2, finite_size=0)
    assert comparison.agrees, comparison


@pytest.mark.parametrize(
    "setting",
    [
        "tanh, two layers",
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("linear, three layers", "relu, one layer")
        ),
    ],
)
def test_the_deviation_shrinks(setting):
    asked = SETTINGS[setting]
    theory = ld.solve(asked, save_at=SAVED)
    variance = {}
    for size in (125, 500):
        runs = ld.simulate(asked, size, 30, save_at=SAVED, first_seed=100)
        variance[size] = float(((runs["prediction"] - theory["prediction"])[:, 1:] ** 2).mean())
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 30, 30)
    assert low < variance[125] / variance[500] / 4 < high


FEW = ld.Points.random(2, 4, seed=1, test_points=1)
RESPONSES = {
    "tanh": problem(richness=1.5, rate=1.0, steps=7, data=FEW),
    "two outputs, momentum, decay": problem(
        richness=1.5,
        rate=0.5,
        steps=6,
        data=ld.Points.random(2, 4, seed=2, outputs=2),
        momentum=0.5,
        weight_decay=0.1,
    ),
    "three layers": problem(depth=3, richness=1.5, rate=0.8, steps=5, data=FEW),
    "linear": problem(activation="linear", rate=0.3, steps=6, data=FEW),
}


def with_kernels(solution, setting):
    """A C_W G and B C_W Φ by layer, or layer and seed: the responses along the fields as they move.

    Single entries of A and B also concern directions in which fields hardly move, where the theory's are noisy.
    """
    A, B, Phi, G = (solution[name].values for name in ("A", "B", "Phi", "G"))
    C_W = setting.C_W[:, None, :, None]
    G = C_W[:, :, None, :, :, None] * G[..., 1:, :, :, :, :, :, :]
    Phi = C_W * (Phi[..., :-1, :, :, :, :] + setting.bias)
    return (
        np.einsum("...ltmsac,...lsacubd->...ltmubd", A[..., :-1, :, :, :, :, :], G),
        np.einsum("...ltmcsa,...lsaub->...ltmcub", B[..., 1:, :, :, :, :, :], Phi),
    )


@pytest.mark.parametrize("setting", marked(RESPONSES))
def test_responses_agree_with_training(setting):
    """Tangents of trained networks, along random directions, against the theory; their scatter falls as 1/N.

    The scatter is that of products with kernels, in which the theory's own error is small beside it.
    """
    asked, measured = RESPONSES[setting], ld.WideDescent(responses=True)
    method = None if setting == "linear" else ld.SampledLayers(samples=4096, responses=True)
    theory = ld.solve(asked, method)
    runs = ld.simulate(asked, 500, 12, method=measured)
    table = ld.compare(theory, runs, level=0.01 / 2).table.loc[["A", "B"]]
    assert (table["verdict"] == "agrees").all(), table
    small = ld.simulate(asked, 125, 12, method=measured, first_seed=100)
    low, high = scipy.stats.f.ppf([0.0005, 0.9995], 12, 12)
    with ld.float64():
        arrays = wide_setting(asked, asked.training.steps)
    known, few, many = (with_kernels(x, arrays) for x in (theory, small, runs))
    for name, expected, coarse, fine in zip("AB", known, few, many, strict=True):
        variance = [float(np.mean((one - expected) ** 2)) for one in (coarse, fine)]
        assert low < variance[0] / variance[1] / 4 < high, (name, variance)
