"""Recipes: the numbers of the layers, the programs as text, and refusals. Nothing here needs PyTorch or optax."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.precision import float64
from tests import problems
from tests.frameworks.cases import CASES, SIZE
from tests.optional import not_none

PARAMETERIZATIONS = ("standard", "ntk", "mup")


@pytest.mark.parametrize("name", CASES)
def test_what_moves_the_function_is_the_same_in_all_parameterisations(name):
    """a σ, a² r, r λ and the temperature of every array of weights, to rounding."""
    recipe = ld.recipe(CASES[name], SIZE)
    layers = zip(*(recipe.layers(p) for p in PARAMETERIZATIONS), strict=True)
    for same in layers:
        rows = [
            (
                x.multiplier * x.initial_std,
                x.multiplier**2 * x.rate,
                x.rate * x.weight_decay,
                x.temperature,
                x.multiplier * x.scale,
            )
            for x in same
        ]
        np.testing.assert_allclose(rows[1:], [rows[0]] * 2, rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_each_parameterisation_is_what_it_is_called(name):
    recipe = ld.recipe(CASES[name], SIZE)
    assert all(layer.multiplier == 1 for layer in recipe.layers("standard"))
    for layer in recipe.layers("ntk"):
        inputs = layer.shape[1] if len(layer.shape) == 2 else 1
        assert layer.multiplier == pytest.approx(1 / np.sqrt(inputs))
    for layer in recipe.layers("mup"):
        assert layer.rate == pytest.approx(1) or layer.rate == 0


def test_mup_of_a_wide_network_is_that_of_the_literature():
    """Yang and Hu 2021, with γ_0 = 1: initial deviations 1/√N, multipliers √N, 1 and 1/√N, one rate."""
    N, D = 64, 4
    data = ld.Points.random(3, D)
    problem = ld.Problem(ld.Wide(3, "relu"), data, ld.GradientDescent(0.3, steps=2))
    *hidden, readout = ld.recipe(problem, N).layers("mup")
    assert hidden[0].multiplier * np.sqrt(D) == pytest.approx(np.sqrt(N))
    assert [layer.multiplier for layer in hidden[1:]] == pytest.approx([1, 1])
    assert readout.multiplier == pytest.approx(1 / np.sqrt(N))
    assert {round(layer.initial_std * np.sqrt(N), 12) for layer in (*hidden, readout)} == {1.0}


@pytest.mark.parametrize("parameterization", PARAMETERIZATIONS)
def test_a_loop_written_by_hand_from_the_table_is_the_network(parameterization):
    """Deep linear with momentum and decay, by `jax.grad` and the numbers of the recipe: rounding, 1e-16 a step."""
    steps, beta = 6, 0.6
    problem = problems.deep_linear(
        depth=2, width=1.5, richness=1.4, noise=0.3, steps=steps, momentum=beta, weight_decay=0.2
    )
    run, recipe = ld.start(problem, size=10, seed=2), ld.recipe(problem, 10)
    layers = {layer.name: layer for layer in recipe.layers(parameterization)}
    rate = problem.training.learning_rate
    with float64():
        batch = run.sample(10**6)

        def loss(weights):
            h = batch["x"]
            for name, layer in layers.items():
                h = layer.multiplier * h @ weights[name].T
            return 0.5 * jnp.mean(jnp.sum((batch["y"] - h) ** 2, axis=1))

        gradient = jax.jit(jax.grad(loss))
        weights = recipe.weights(run.weights, parameterization)
        buffer = {name: 0.0 for name in weights}
        for _ in range(steps):
            slopes = gradient(weights)
            for name, layer in layers.items():
                lr = layer.rate * rate
                buffer[name] = beta * buffer[name] - lr * np.asarray(slopes[name])
                weights[name] = (1 - lr * layer.weight_decay) * weights[name] + buffer[name]
            run.step()
        expected = recipe.weights(run.weights, parameterization)
    for name, values in expected.items():
        np.testing.assert_allclose(weights[name], values, rtol=1e-10, atol=1e-12, err_msg=name)


def test_the_two_parameterisations_of_deep_linear_networks_are_one_network():
    """ "ntk" with richness γ is "mup" with richness γ/√ν, layer by layer."""
    data, rule = ld.Dataset(ld.LinearMap(), ratio=2.0), ld.GradientDescent(0.1, steps=3)
    ntk = ld.Problem(ld.DeepLinear(2, 2.5, 0.8, parameterization="ntk"), data, rule)
    mup = ld.Problem(ld.DeepLinear(2, 2.5, 0.8 / np.sqrt(2.5)), data, rule)
    tables = [ld.recipe(problem, 20).table for problem in (ntk, mup)]
    for name in tables[0].columns:
        if tables[0][name].dtype == float:
            np.testing.assert_allclose(tables[0][name], tables[1][name], rtol=1e-13)
        else:
            assert tables[0][name].tolist() == tables[1][name].tolist()


@pytest.mark.parametrize("parameterization", PARAMETERIZATIONS)
@pytest.mark.parametrize("framework", ["torch", "optax"])
def test_programs_are_python_without_leftovers(framework, parameterization):
    for name, problem in CASES.items():
        text = getattr(ld.recipe(problem, SIZE), framework)(parameterization)
        tree = ast.parse(text)
        assert "SCALE[" not in text, name
        assert "DATA_FILE" not in text, name
        imported = {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert imported <= used, name


def test_the_library_imports_no_framework():
    for path in Path(not_none(ld.__file__)).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named = "import torch" in text or "import optax" in text  # others need no parsing
        for node in ast.walk(ast.parse(text if named else "")):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"torch", "optax"} & {name.partition(".")[0] for name in names}, path


def test_the_table_is_told_and_printed():
    problem = problems.deep_linear(momentum=0.5, weight_decay=0.1, rate=0.2)
    recipe = ld.recipe(problem, 8)
    table = recipe.table
    assert set(table["parameterization"]) == set(PARAMETERIZATIONS)
    np.testing.assert_allclose(table["learning_rate"], 0.2 * table["rate_factor"])
    assert "weight_decay" in str(recipe)
    assert "temperature" not in str(recipe)
    scheduled = ld.recipe(problems.deep_linear(rate=ld.WarmUp(3, 0.1)), 8)
    assert np.all(np.isnan(scheduled.table["learning_rate"].to_numpy(float)))
    assert "learning_rate" not in str(scheduled)


REFUSED = {
    "gradient flow": (problems.deep_linear(time=1.0), "gradient flow has none"),
    "gradient flow, reused": (problems.two_layer(supply="dataset", time=1.0), "gradient flow"),
    "neural ODE": (problems.neural_ode(), "not layers of weights"),
    "expectation": (problems.two_layer(supply="population"), "take a Stream"),
    "infinite width": (problems.deep_linear(width=np.inf), "finite"),
    "convolution": (
        problems.wide(network=ld.Wide(1, "tanh", convolution=ld.Convolution(2, 1))),
        "fully connected",
    ),
    "learning rule": (
        problems.wide(network=ld.Wide(2, "tanh", learning_rule="feedback_alignment")),
        "backprop",
    ),
    "infinite depth": (
        problems.wide(network=ld.Wide(np.inf, "tanh", skip=ld.ScaledSkip(1.0))),
        "large depth",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_recipe_is_refused_with_the_reason(name):
    problem, reason = REFUSED[name]
    with pytest.raises(ld.ProblemError, match=reason):
        ld.recipe(problem, 20)


def test_a_program_is_its_own_recipe():
    (theory,) = [theory for theory in ld.theories() if theory.name == "program/points"]
    with pytest.raises(ld.ProblemError, match="itself the recipe"):
        ld.recipe(theory.example(), 20)


def test_bad_arguments_are_named():
    recipe = ld.recipe(problems.deep_linear(), 8)
    with pytest.raises(ld.ProblemError, match="did you mean 'standard'"):
        recipe.torch("standart")
    with pytest.raises(ld.ProblemError, match="at least 1"):
        ld.recipe(problems.deep_linear(), 0)
    with pytest.raises(ld.ProblemError, match="has no weights 'W0'"):
        recipe.weights({"W": np.ones((2, 2))})
    weights = ld.start(problems.deep_linear(), size=10).weights
    with pytest.raises(ld.ProblemError, match="must have the shape"):
        recipe.weights(weights)
    function = ld.Problem(
        ld.Wide(1, lambda z: jnp.tanh(z)), ld.Points.random(2, 2), ld.GradientDescent(0.1, steps=1)
    )
    with pytest.raises(ld.ProblemError, match="give it as a formula"):
        ld.recipe(function, 4).torch()


def test_the_coupled_rule_is_refused_where_no_theory_has_it():
    with pytest.raises(ld.ProblemError, match=r"training\.momentum_rule.*leave it at 'decoupled'"):
        problems.two_layer(supply="dataset", momentum=0.5, momentum_rule="coupled")
