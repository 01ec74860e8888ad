"""The row recursion against a plain transcription of the equations, and what must hold exactly."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.deep_linear.equations import feedforward
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.families.deep_linear.row_observables import RowObservables
from learndyn.problem.weight_response import impulse_response
from tests import problems
from tests.families.deep_linear.naive import naive

STEPS = 14
TWO_OUTPUTS = ld.Spectrum([1.0, 0.5, 0.2], [[1.0, -0.5, 2.0], [0.3, 1.0, 0.7]])
ONE_OUTPUT = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])
problem = partial(problems.deep_linear, depth=2, width=0.8, richness=0.7, rate=0.1, steps=STEPS)

SETTINGS = {
    "one layer": problem(depth=1, width=0.6, ratio=1.2, noise=0.5),
    "deep": problem(depth=3, width=0.6, ratio=1.2, noise=0.5, rate=0.05),
    "centred": problem(width=0.6, centered=True, ratio=1.2, noise=0.5),
    "unequal widths": problem(depth=3, width=[0.5, 2.0, 1.3], ratio=0.8, noise=0.3, rate=0.05),
    "two outputs": problem(richness=0.9, outputs=2, ratio=1.5, noise=0.4, rate=0.05),
    "two outputs, centred": problem(
        richness=0.9, outputs=2, centered=True, ratio=1.5, noise=0.4, rate=0.05
    ),
    "momentum": problem(richness=1.0, ratio=1.5, noise=0.4, rate=0.05, momentum=0.6),
    "weight decay": problem(richness=1.3, ratio=1.5, noise=0.4, weight_decay=0.3),
    "decay, centred, momentum": problem(
        richness=0.5, centered=True, ratio=1.5, noise=0.4, rate=0.05, weight_decay=0.3, momentum=0.5
    ),
    "schedule": problem(
        richness=1.0, ratio=1.5, noise=0.4, rate=ld.WarmUp(5.0, ld.ExponentialDecay(0.2, 0.1))
    ),
    "ntk": problem(width=2.0, richness=1.0, parameterization="ntk", ratio=1.5, noise=0.4),
    "stream": problem(width=0.6, supply="stream", batch_ratio=0.8, noise=0.5),
    "stream, two outputs": problem(
        width=0.6,
        outputs=2,
        centered=True,
        supply="stream",
        batch_ratio=0.8,
        noise=0.5,
        rate=0.05,
        weight_decay=0.2,
    ),
    "population": problem(depth=3, width=0.6, supply="population"),
    "infinite width": problem(depth=3, width=np.inf, ratio=1.5, noise=0.2),
    "spectrum, dataset": problem(width=20, outputs=2, examples=30, noise=0.1, spectrum=TWO_OUTPUTS),
    "spectrum, stream": problem(
        width=20, centered=True, supply="stream", batch=10, noise=0.1, spectrum=ONE_OUTPUT, rate=0.2
    ),
    "spectrum, stream, two outputs": problem(
        width=20, outputs=2, supply="stream", batch=10, noise=0.1, spectrum=TWO_OUTPUTS
    ),
    "spectrum, population": problem(
        width=np.inf, supply="population", spectrum=ld.PowerLaw(1.5, 0.7, 20), rate=0.2
    ),
}


def by_rows(problem, saved=None):
    saved = np.arange(problem.training.steps + 1) if saved is None else np.asarray(saved)
    made = limit_numbers(problem, 64)
    w = feedforward.recursion_constants(
        made, *impulse_response(problem.training, problem.training.steps)
    )
    found = feedforward.empty_rows(made, problem.training.steps)
    feedforward.advance(0, problem.training.steps + 1, found, w)
    functions = RowObservables(found, w, made, saved)
    return functions.selected()


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_equations_as_they_read(name):
    """All functions to rounding: 1e-11 of the largest entry."""
    problem = SETTINGS[name]
    kappa, d = map(np.asarray, impulse_response(problem.training, STEPS))
    expected = naive(limit_numbers(problem, 64), kappa, d)
    found = by_rows(problem)
    assert expected.keys() - found.keys() <= {"R_Delta"}
    for key in expected.keys() & found.keys():
        scale = np.abs(expected[key]).max()
        np.testing.assert_allclose(
            found[key], expected[key], rtol=0, atol=1e-11 * scale, err_msg=key
        )
