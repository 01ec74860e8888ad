"""Which method solves which wide network, and what each of them refuses."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.families.wide.solve import ROWS_WORK, automatic
from tests import problems

problem = partial(problems.wide, count=3, dimension=4, steps=4, rate=0.1)
linear = partial(problem, activation="linear")
FLOW = {"steps": None, "time": 1.0}
LONG = 1 + round((ROWS_WORK / (2 * 3**2)) ** (1 / 3))
"""So many steps of two layers on three points are too many for the row recursion."""


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        (problem(depth=1), ld.SampledLayers),
        (problem(depth=1, activation="relu", **FLOW), ld.SampledLayers),
        (problem(depth=2), ld.SampledLayers),
        (problem(depth=3, activation="relu"), ld.SampledLayers),
        (problem(depth=2, **FLOW), ld.SampledLayers),
        (linear(depth=1), ld.LinearRows),
        (linear(activation=ld.Polynomial([0, 1]), depth=3), ld.LinearRows),
        (problem(activation=ld.Polynomial([0, 2])), ld.SampledLayers),
        (linear(steps=LONG - 3), ld.LinearRows),
        (linear(steps=LONG), ld.LinearInnovation),
        (linear(steps=LONG, momentum=0.5, weight_decay=0.1), ld.LinearInnovation),
        (linear(steps=LONG, temperature=0.1), ld.LinearRows),
        (linear(steps=LONG, bias=True), ld.LinearRows),
        (linear(steps=2 * LONG, bias=True, depth=1), ld.LinearInnovation),
        (linear(**FLOW), ld.LinearPanels),
        (linear(bias=True, **FLOW), ld.LinearPanels),
        (linear(count=90, **FLOW), ld.LinearInnovation),
        (linear(count=90, bias=True, **FLOW), ld.LinearRows),
        (linear(steps=None, time=1e4, weight_decay=0.1), ld.LinearPanels),
        (linear(steps=None, time=1e9, weight_decay=0.1), ld.LinearPanels),
    ],
)
def test_the_automatic_choice(asked, method):
    assert automatic(asked, Record.of(asked.training)) == method()


def test_the_choice_looks_at_the_steps_that_are_recorded():
    asked = linear(steps=LONG)
    assert automatic(asked, Record.of(asked.training, [0, 20])) == ld.LinearRows()
    asked = linear(steps=10_000)
    assert automatic(asked, Record.of(asked.training)) == ld.LinearInnovation()
    assert automatic(asked, Record.of(asked.training, 11)) == ld.LinearPanels()


@pytest.mark.parametrize(
    "asked", [problem(depth=1), problem(depth=2), linear(), linear(steps=None, time=0.2)]
)
def test_the_choice_is_in_the_evidence(asked):
    chosen = automatic(asked, Record.of(asked.training, 3))
    found = ld.solve(asked, save_at=3)
    assert found.evidence["method"] == chosen.to_dict()
    assert found.evidence["solver"]


REFUSED = {
    "LinearRows, tanh": (ld.LinearRows(), problem(), "linear activations only; use SampledLayers"),
    "LinearRows, one layer of tanh": (
        ld.LinearRows(),
        problem(depth=1),
        "linear activations only; use SampledLayers",
    ),
    "LinearRows, flow of tanh": (ld.LinearRows(), problem(**FLOW), "use SampledLayers"),
    "LinearInnovation, relu": (
        ld.LinearInnovation(),
        problem(activation="relu"),
        "linear activations only; use SampledLayers",
    ),
    "LinearInnovation, noise": (
        ld.LinearInnovation(),
        linear(temperature=0.1),
        "must be LinearRows with Langevin noise",
    ),
    "LinearInnovation, biases": (
        ld.LinearInnovation(),
        linear(bias=True),
        "must be LinearRows .* with biases in several layers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_refuses_what_it_is_not_for(name):
    method, asked, words = REFUSED[name]
    with pytest.raises(ld.ProblemError, match=f"method = .*{type(method).__name__}.*{words}"):
        ld.solve(asked, method)


UNKNOWN = {
    "Perturbative, tanh": (ld.Perturbative(), problem(), "only for linear .*; use StaticKernel"),
    "Perturbative, momentum": (ld.Perturbative(), linear(momentum=0.5), "solve the full theory"),
    "Perturbative, biases": (ld.Perturbative(), linear(bias=True), "set bias to false"),
    "StaticKernel, decay": (ld.StaticKernel(), problem(weight_decay=0.1), "weight_decay"),
    "GradientIndependence, noise": (
        ld.GradientIndependence(),
        problem(temperature=0.1),
        "solve the full theory",
    ),
    "GradientIndependence, momentum, linear": (
        ld.GradientIndependence(),
        linear(momentum=0.5),
        "solve the full theory",
    ),
    "GradientIndependence, time": (
        ld.GradientIndependence(),
        problem(**FLOW),
        "needs training in steps",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_approximations_refuse_what_is_not_known(name):
    method, asked, words = UNKNOWN[name]
    with pytest.raises(ld.NoTheory, match=words):
        ld.solve(asked, method)


@pytest.mark.parametrize("method", [ld.OrderParameterODE(), ld.Rows(), ld.WideDescent()])
def test_methods_of_other_theories_are_refused_by_name(method):
    with pytest.raises(ld.ProblemError, match="must be one of SampledLayers, LinearRows"):
        ld.solve(problem(), method)


def test_any_depth_may_be_sampled():
    """Also what has a method of its own: one layer, and linear units."""
    for asked in (problem(depth=1), linear()):
        found = ld.solve(asked, ld.SampledLayers(samples=64, batches=2))
        assert found.evidence["solver"] == "sampled layers"
        assert np.max(np.abs(found["prediction"].values[0])) < 1e-7


@pytest.mark.parametrize(
    ("method", "asked", "way"),
    [
        (ld.SampledLayers(), problem(depth=1), "alone"),
        (ld.SampledLayers(), problem(), "alone"),
        (ld.GradientIndependence(), problem(), "alone"),
        (ld.GradientIndependence(), linear(), "processes"),
        (ld.LinearRows(), linear(), "processes"),
        (ld.StaticKernel(), problem(), "processes"),
    ],
)
def test_batches_use_all_cores_and_the_rest_is_led_by_python(method, asked, way):
    assert method.way(asked) == way
