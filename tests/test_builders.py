"""The builders of `tests.problems` refuse what they would otherwise ignore."""

import pytest

import learndyn as ld
from tests import problems

BUILDERS = [problems.two_layer, problems.deep_linear, problems.wide, problems.neural_ode]


@pytest.mark.parametrize("build", BUILDERS)
def test_an_unknown_property_is_refused(build):
    with pytest.raises(TypeError, match=r"no such properties.*: colour"):
        build(colour="red")


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("part", ["network", "data", "training"])
def test_a_ready_part_is_used(build, part):
    made = build(rate=0.01)
    rest = {} if part == "training" else {"rate": 0.01}
    assert build(**{part: getattr(made, part)}, **rest) == made


@pytest.mark.parametrize(
    ("build", "given"),
    [
        (problems.two_layer, {"network": ld.TwoLayer("erf", [[0.5]], [[0.1]]), "units": 2}),
        (problems.deep_linear, {"network": ld.DeepLinear(2, 0.8), "depth": 2}),
        (problems.deep_linear, {"data": ld.Dataset(ld.LinearMap(), ratio=1.5), "noise": 0.1}),
        (problems.deep_linear, {"width": 0.8, "width_ratio": 0.8}),
        (problems.wide, {"data": problems.PLANE, "seed": 1}),
        (problems.neural_ode, {"training": ld.GradientDescent(0.5, steps=2), "epochs": 2}),
        (problems.neural_ode, {"supply": "stream", "examples": 2}),
    ],
)
def test_a_property_that_would_have_no_effect_is_refused(build, given):
    *_, last = given
    with pytest.raises(TypeError, match=f"given ready: .*{last}"):
        build(**given)
