"""Stated errors of wide networks with one hidden layer, on points that span few dimensions."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems
from tests.accuracy.measures import mean_square_z

SEEDS, BATCHES = 24, 8
NAMES = ("prediction", "kernel", "Phi", "G")
ACTIVATIONS = {
    "relu": "relu",
    "tanh": "tanh",
    "erf": "erf",
    "softplus": "softplus",
    "neither odd nor even": ld.Formula("tanh(z + 0.5)"),
}
problem = partial(problems.wide, depth=1, data=problems.PLANE, rate=0.3, steps=12)


@pytest.mark.parametrize(
    "activation",
    [
        name if name == "relu" else pytest.param(name, marks=pytest.mark.slow)
        for name in ACTIVATIONS
    ],
)
@pytest.mark.parametrize("richness", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_deviations_are_as_large_as_the_stated_errors(activation, richness):
    """Against 2¹⁷ neurons, mean z² is at most Student's 7/5 for 8 batches and at least 1/2, within three errors.

    Their own variance is 1/32 of what is judged, or less.

    A grid with a bias that all its shifts share had 4 to 80 here.
    """
    asked = problem(activation=ACTIVATIONS[activation], richness=richness)
    reference = ld.solve(asked, ld.SampledLayers(samples=2**14, batches=8), seed=10**6)
    method = ld.SampledLayers(samples=512, batches=BATCHES)
    squares = mean_square_z(asked, method, reference, NAMES, range(SEEDS))
    for name, (square, error) in squares.items():
        assert square - 3 * error < (BATCHES - 1) / (BATCHES - 3), (name, square, error)
        assert square + 3 * error > 0.5, (name, square, error)


def test_four_times_the_samples_have_less_than_half_the_error():
    """Quasi-random points beat the square root: the error falls faster than 1/√samples."""
    errors = []
    for samples in (512, 2048, 8192):
        method = ld.SampledLayers(samples=samples, batches=16)
        error = ld.solve(problem(activation="relu"), method).standard_error("prediction")
        assert error is not None
        errors.append(float(np.sqrt(np.mean(error.values[-1] ** 2))))
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2
