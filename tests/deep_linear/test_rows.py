"""The row recursion against a plain transcription of the equations, and what must hold exactly."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.deep_linear import rows
from learndyn.deep_linear.functions import Functions
from learndyn.deep_linear.setting import setting
from learndyn.training import impulse_response
from tests.deep_linear.naive import naive

STEPS = 14
TWO_OUTPUTS = ld.Spectrum([1.0, 0.5, 0.2], [[1.0, -0.5, 2.0], [0.3, 1.0, 0.7]])
ONE_OUTPUT = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])


def made_of(network, data, rate=0.1, **training):
    return ld.Problem(network, data, ld.GradientDescent(rate, steps=STEPS, **training))


SETTINGS = {
    "one layer": made_of(ld.DeepLinear(1, 0.6, 0.7), ld.Dataset(1.2, 0.5)),
    "deep": made_of(ld.DeepLinear(3, 0.6, 0.7), ld.Dataset(1.2, 0.5), 0.05),
    "centred": made_of(ld.DeepLinear(2, 0.6, 0.7, centered=True), ld.Dataset(1.2, 0.5)),
    "unequal widths": made_of(ld.DeepLinear(3, [0.5, 2.0, 1.3], 0.7), ld.Dataset(0.8, 0.3), 0.05),
    "two outputs": made_of(ld.DeepLinear(2, 0.8, 0.9, outputs=2), ld.Dataset(1.5, 0.4), 0.05),
    "two outputs, centred": made_of(
        ld.DeepLinear(2, 0.8, 0.9, outputs=2, centered=True), ld.Dataset(1.5, 0.4), 0.05
    ),
    "momentum": made_of(ld.DeepLinear(2, 0.8), ld.Dataset(1.5, 0.4), 0.05, momentum=0.6),
    "weight decay": made_of(ld.DeepLinear(2, 0.8, 1.3), ld.Dataset(1.5, 0.4), weight_decay=0.3),
    "decay, centred, momentum": made_of(
        ld.DeepLinear(2, 0.8, 0.5, centered=True),
        ld.Dataset(1.5, 0.4),
        0.05,
        weight_decay=0.3,
        momentum=0.5,
    ),
    "schedule": made_of(
        ld.DeepLinear(2, 0.8), ld.Dataset(1.5, 0.4), ld.WarmUp(5.0, ld.ExponentialDecay(0.2, 0.1))
    ),
    "ntk": made_of(ld.DeepLinear(2, 2.0, parameterization="ntk"), ld.Dataset(1.5, 0.4)),
    "stream": made_of(ld.DeepLinear(2, 0.6, 0.7), ld.Stream(batch_ratio=0.8, noise=0.5)),
    "stream, two outputs": made_of(
        ld.DeepLinear(2, 0.6, 0.7, outputs=2, centered=True),
        ld.Stream(batch_ratio=0.8, noise=0.5),
        0.05,
        weight_decay=0.2,
    ),
    "population": made_of(ld.DeepLinear(3, 0.6, 0.7), ld.Population()),
    "infinite width": made_of(ld.DeepLinear(3, np.inf, 0.7), ld.Dataset(1.5, 0.2)),
    "spectrum, dataset": made_of(
        ld.DeepLinear(2, 20, 0.7, outputs=2),
        ld.Dataset(examples=30, noise=0.1, spectrum=TWO_OUTPUTS),
    ),
    "spectrum, stream": made_of(
        ld.DeepLinear(2, 20, 0.7, centered=True),
        ld.Stream(batch=10, noise=0.1, spectrum=ONE_OUTPUT),
        0.2,
    ),
    "spectrum, stream, two outputs": made_of(
        ld.DeepLinear(2, 20, 0.7, outputs=2), ld.Stream(batch=10, noise=0.1, spectrum=TWO_OUTPUTS)
    ),
    "spectrum, population": made_of(
        ld.DeepLinear(2, np.inf, 0.7), ld.Population(spectrum=ld.PowerLaw(1.5, 0.7, 20)), 0.2
    ),
}


def by_rows(problem, saved=None):
    saved = np.arange(problem.training.steps + 1) if saved is None else np.asarray(saved)
    made = setting(problem, 64)
    w = rows.weights(made, *impulse_response(problem.training, problem.training.steps))
    found = rows.empty_rows(made, problem.training.steps)
    rows.advance(0, problem.training.steps + 1, found, w)
    functions = Functions(found, w, made, saved)
    return functions.some()


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_equations_as_they_read(name):
    """All functions to rounding: 1e-11 of the largest entry."""
    problem = SETTINGS[name]
    expected = naive(setting(problem, 64), *impulse_response(problem.training, STEPS))
    found = by_rows(problem)
    assert expected.keys() - found.keys() <= {"R_Delta"}
    for key in expected.keys() & found.keys():
        scale = np.abs(expected[key]).max()
        np.testing.assert_allclose(
            found[key], expected[key], rtol=0, atol=1e-11 * scale, err_msg=key
        )
