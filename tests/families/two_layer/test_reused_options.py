"""What training on a reused dataset may have: which combinations are refused, and what files hold."""

import re
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.two_layer.reused.traced import has_kink
from learndyn.numerics.precision import float64
from learndyn.problem.activations import as_activation
from tests import problems

pytestmark = pytest.mark.compiles

problem = partial(problems.uneven, rate=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": 2.0, "momentum": 0.5}, r"training\.momentum = 0\.5: needs training\.steps"),
        ({"time": 2.0, "batch_ratio": 0.5}, r"data\.batch_ratio = 0\.5: needs training\.steps"),
        (
            {"steps": 2, "readout_rate": 0.1},
            r"training\.readout_learning_rate = 0\.1: has no effect on a fixed readout",
        ),
        ({"steps": 2, "temperature": 0.1}, r"training\.noise(.|\n)*does not understand"),
    ],
)
def test_what_does_not_fit_together_is_refused(options, message):
    with pytest.raises(ld.ProblemError, match=message):
        ld.solve(problem(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 1.0, "batch_ratio": 1.5}, "batch_ratio = 1.5: must be at most ratio = 1"),
        ({"examples": 20, "batch_ratio": 0.5}, "batch_ratio = 0.5: needs ratio"),
        ({"ratio": 1.0, "batch_ratio": 0.0}, "batch_ratio = 0"),
        ({"examples": 20, "batch": 5, "batch_ratio": 0.5}, "batch"),
    ],
)
def test_batches_must_be_part_of_the_dataset(options, message):
    with pytest.raises(ld.ProblemError, match=re.escape(message)):
        ld.Dataset(ld.Teacher("erf", [[1.0]]), **options)


def test_other_theories_do_not_understand_random_batches():
    data = ld.Dataset(ld.LinearMap(), ratio=2.0, batch_ratio=1.0)
    with pytest.raises(ld.ProblemError, match=r"data\.batch_ratio(.|\n)*does not understand"):
        ld.Problem(ld.DeepLinear(2, 1.0), data, ld.GradientDescent(0.1, steps=2))


def test_files_hold_all_of_it(tmp_path):
    rule = {"momentum": 0.4, "train_readout": True, "readout_rate": 0.2}
    asked = problem(steps=3, batch_ratio=0.7, **rule)
    asked.to_toml(tmp_path / "problem.toml")
    assert "batch_ratio = 0.7" in (tmp_path / "problem.toml").read_text(encoding="utf-8")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == asked


@pytest.mark.parametrize("name", ["erf", "tanh", "gelu", "softplus", "silu", "sin", "linear"])
def test_smooth_activations_have_no_kink(name):
    with float64():
        assert not has_kink(as_activation(name))
        assert not has_kink(ld.Polynomial([0.1, 0.7, 0.3, 0.2]))


@pytest.mark.parametrize(
    "activation",
    ["relu", lambda z: jnp.abs(z - 0.3), lambda z: z + 0.1 * jnp.sign(z)],
    ids=["relu", "kink", "jump"],
)
def test_kinks_and_jumps_are_seen(activation):
    with float64():
        assert has_kink(as_activation(activation))


def test_traced_responses_of_a_kink_are_refused():
    asked = problem(steps=2, activation="relu")
    with pytest.raises(
        ld.ProblemError, match=r"CausalSampling\.inputs = 'traced': must be 'reveal"
    ):
        ld.solve(asked, ld.CausalSampling(inputs="traced"))
    with pytest.raises(ld.ProblemError, match=r"FullBatch\.responses = True: must be False"):
        ld.simulate(asked, 20, 1, method=ld.FullBatch(responses=True))
    few = ld.CausalSampling(samples=256, batches=2)
    assert "R_w" not in ld.solve(asked, few).observables
    assert "R_w" in ld.solve(problem(steps=2), few).observables


def test_too_few_samples_for_the_directions_say_how_many_would_do():
    asked = problem(steps=30, activation="relu")
    with pytest.raises(ld.LearndynError, match=r"32 samples are too few(.|\n)*Try samples="):
        ld.solve(asked, ld.CausalSampling(samples=32, batches=2))


def test_a_network_in_hand_shows_the_readout_it_trains():
    run = ld.start(problem(steps=4, train_readout=True, momentum=0.5), size=30)
    before = run.weights["v"]
    run.advance(4)
    np.testing.assert_array_equal(run.state["v"], run.weights["v"])
    assert np.abs(run.weights["v"] - before).min() > 1e-3
