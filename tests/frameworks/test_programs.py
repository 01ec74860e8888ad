"""Programs that recipes write follow the library's own networks step by step; PyTorch and optax are needed."""

import functools
import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import learndyn as ld
from tests.frameworks.cases import ACTIVATIONS, CASES, POINTS, SIZE, STEPS, TEACHER, given
from tests.frameworks.programs import FRAMEWORKS, PARAMETERIZATIONS, loaded

WHY = "not installed: make test-frameworks installs and runs these tests"
pytest.importorskip("torch", reason=f"PyTorch is {WHY}")
pytest.importorskip("optax", reason=f"optax is {WHY}")

ROUNDING = 1e-11
"""Ten steps of rounding errors, 1e-16 each, which training amplifies by less than 1e4."""


@functools.cache
def case(name):
    return given(CASES[name])


@pytest.mark.parametrize("parameterization", PARAMETERIZATIONS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", CASES)
def test_the_program_is_the_network_of_the_library(name, framework, parameterization):
    """From the same weights and on the same batches: all weights at all steps, and the losses that are exact."""
    own, options = case(name)
    rows, weights = own.trained(framework, parameterization, **options)
    assert len(rows) == len(own.weights)
    first = "W" if "W" in own.weights[0] else "W0"
    moved = np.abs(own.weights[-1][first] - own.weights[0][first]).max()
    assert moved > 1e-3
    assert own.distance(weights, parameterization) < ROUNDING
    with loaded(own.recipe, framework, parameterization) as names:
        columns = (
            names["train"].__doc__.partition("yield ")[2].rstrip(".").split(", ")[: rows.shape[1]]
        )
    for column, logged in zip(columns, rows.T, strict=True):
        exact = column == "train_loss" or not isinstance(own.problem.network, ld.TwoLayer)
        if column.endswith("loss") and exact:
            expected = own.solution[column].values.ravel()
            np.testing.assert_allclose(logged, expected, rtol=ROUNDING, err_msg=column)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_that_of_the_library(name, framework):
    network = ld.Wide(2, ACTIVATIONS[name], bias=True)
    own, options = given(ld.Problem(network, POINTS, ld.GradientDescent(0.1, steps=STEPS)))
    _, weights = own.trained(framework, "standard", **options)
    assert own.distance(weights, "standard") < ROUNDING


DEEP = ld.Problem(
    ld.DeepLinear(2, 2.0, 1.0),
    ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.2),
    ld.GradientDescent(0.05, steps=STEPS, momentum=0.5, weight_decay=0.1),
)


def test_a_loop_reproduces_a_simulated_curve_and_one_without_the_root_of_the_width_does_not():
    own, options = given(DEEP)
    curve = ld.simulate(DEEP, SIZE, first_seed=own.seed)["test_loss"].values.ravel()
    rows, _ = own.trained("torch", "ntk", **options)
    np.testing.assert_allclose(rows[:, -1], curve, rtol=ROUNDING)
    multiplier = own.recipe.layers("ntk")[1].multiplier
    assert multiplier == pytest.approx(1 / np.sqrt(2 * SIZE))
    wrong = f'"multiplier": {multiplier!r}', '"multiplier": 1.0'
    rows, _ = own.trained("torch", "ntk", replaced=wrong, **options)
    assert not np.allclose(rows[:, -1], curve, rtol=0.1)


def test_the_two_rules_of_momentum_are_two_rules():
    """The optimiser of PyTorch itself, under the decoupled rule, leaves the network of the library."""
    own, options = given(DEEP)
    assert "DecoupledSGD" in own.recipe.torch()
    wrong = "return DecoupledSGD(", "return torch.optim.SGD("
    _, weights = own.trained("torch", "standard", replaced=wrong, **options)
    assert own.distance(weights, "standard") > 1e-3


@pytest.mark.parametrize("parameterization", PARAMETERIZATIONS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_noise_has_the_temperature_of_the_problem(framework, parameterization):
    """The first step less that of the network without noise, for every array of weights.

    Mean squares of n normal numbers: five standard errors √(2/n).
    """
    network, rate, tau = ld.Wide(2, "tanh", richness=0.6, bias=True), 0.1, 0.3
    noisy, quiet = (
        ld.Problem(network, POINTS, ld.GradientDescent(rate, steps=1, noise=noise))
        for noise in (tau, 0.0)
    )
    batches = [(np.array(POINTS.inputs), np.array(POINTS.targets))] * 2
    test = np.array(POINTS.test_inputs), np.array(POINTS.test_targets)
    own = given(quiet).own
    quiet_end = own.recipe.weights(own.weights[-1], parameterization)
    own.recipe = ld.recipe(noisy, 16)
    _, weights = own.trained(framework, parameterization, test=test, batches=batches)
    for layer in own.recipe.layers(parameterization):
        zeta = (weights[-1][layer.name] - quiet_end[layer.name]) / layer.scale
        power = np.mean(zeta**2) / (2 * rate * tau)
        assert abs(power - 1) < 5 * np.sqrt(2 / zeta.size), layer.name


DRAWN = {
    "deep linear": (DEEP, SIZE),
    "power law": (
        ld.Problem(
            ld.DeepLinear(1, 12),
            ld.Stream(ld.LinearMap(ld.PowerLaw(1.5, 0.7, SIZE)), batch=8, noise=0.3),
            ld.GradientDescent(0.2, steps=STEPS),
        ),
        SIZE,
    ),
    "two-layer, online": (
        ld.Problem(
            ld.TwoLayer.random(2, TEACHER, 0.7, 40),
            ld.Stream(TEACHER, noise=0.3, batch=2),
            ld.GradientDescent(0.8, time=2.0),
        ),
        SIZE,
    ),
    "two-layer, reused": (
        ld.Problem(
            ld.TwoLayer.random(2, TEACHER, 0.7, 40),
            ld.Dataset(TEACHER, noise=0.3, ratio=2.0),
            ld.GradientDescent(0.3, steps=STEPS),
        ),
        SIZE,
    ),
    "wide": (
        ld.Problem(ld.Wide(2, "relu", bias=True), POINTS, ld.GradientDescent(0.3, steps=STEPS)),
        30,
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_weights_and_data_that_a_program_draws_have_the_law_of_the_library(name):
    """Mean test losses of 200 networks each, at the first and the last step: within 4.5 standard errors."""
    problem, size = DRAWN[name]
    runs, count = ld.simulate(problem, size, 200), 200
    theirs = runs["test_loss"].transpose("seed", ...).values[:, [0, -1]]
    mine = []
    with loaded(ld.recipe(problem, size), "torch", "standard") as names:
        names["EVERY"] = names["STEPS"]
        for seed in range(count):
            rng = np.random.default_rng(seed)
            weights, target = names["draw"](rng)
            data = [names["dataset"](rng, target)] if "dataset" in names else []
            batches = names["batches"](rng, data[0] if data else target)
            test = names["test_examples"](rng, target)
            rows = list(names["train"](names["Network"](weights), batches, test, *data))
            mine.append([row[-1] for row in rows])
    mine = np.array(mine)
    error = np.sqrt((mine.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / count)
    assert np.all(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * error)
    assert np.all(error < 0.1 * theirs.mean(axis=0))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_program_is_a_script_that_prints_its_log(framework, tmp_path):
    recipe = ld.recipe(DEEP, SIZE)
    path = tmp_path / "loop.py"
    path.write_text(getattr(recipe, framework)("mup"), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(path), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    log = pd.read_csv(io.StringIO(done.stdout))
    assert list(log) == ["step", "train_loss", "test_loss"]
    assert log["step"].tolist() == list(range(STEPS + 1))
    assert log["train_loss"].iloc[-1] < log["train_loss"].iloc[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_large_arrays_are_read_from_their_file(framework, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = ld.Points.random(60, 10)
    recipe = ld.recipe(ld.Problem(ld.Wide(1, "tanh"), points, ld.GradientDescent(0.1, steps=2)), 8)
    assert recipe.needs_data_file
    recipe.save_data("data.npz")
    with loaded(recipe, framework, "standard") as names:
        np.testing.assert_array_equal(names["X"], points.inputs)
        weights, _ = names["draw"](np.random.default_rng(0))
        started = names["Network"](weights) if framework == "torch" else weights
        assert len(list(names["train"](started, names["batches"](None, None)))) == 3
