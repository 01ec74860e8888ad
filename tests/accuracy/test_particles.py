"""Stated errors of wide networks with one hidden layer, on points that span few dimensions."""

import numpy as np
import pytest

import learndyn as ld

SEEDS, BATCHES = 24, 8
NAMES = ("prediction", "kernel", "Phi", "G")
ACTIVATIONS = {
    "relu": "relu",
    "tanh": "tanh",
    "erf": "erf",
    "softplus": "softplus",
    "neither odd nor even": ld.Formula("tanh(z + 0.5)"),
}


def problem(activation, richness=1.0):
    points = ld.Points(inputs=[[1.4, 0.3], [-0.4, 1.2]], targets=[1.0, -1.0])
    training = ld.GradientDescent(0.3, steps=12)
    return ld.Problem(ld.Wide(1, activation, richness), points, training)


def mean_squares(asked: ld.Problem, samples: int, seeds: int) -> dict[str, tuple[float, float]]:
    """Mean z² of every observable over times and components, with its error over the seeds.

    z is the deviation from 2²⁰ quasi-random particles in stated errors, wherever there is one.
    """
    reference = ld.solve(asked, ld.KernelEvolution(samples=2**17, batches=8), seed=10**6)
    squares: dict[str, list] = {name: [] for name in NAMES}
    for seed in range(seeds):
        method = ld.KernelEvolution(samples=samples, batches=BATCHES)
        solution = ld.solve(asked, method, seed=seed)
        for name in NAMES:
            error = solution.standard_error(name)
            assert error is not None
            scale = float(np.abs(reference[name]).max())
            z = ((solution[name] - reference[name]) / error).values[error.values > 1e-12 * scale]
            squares[name].append(np.mean(z**2))
    return {
        name: (np.mean(values), np.std(values, ddof=1) / np.sqrt(seeds))
        for name, values in squares.items()
    }


@pytest.mark.parametrize(
    "activation",
    [
        name if name == "relu" else pytest.param(name, marks=pytest.mark.slow)
        for name in ACTIVATIONS
    ],
)
@pytest.mark.parametrize("richness", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_deviations_are_as_large_as_the_stated_errors(activation, richness):
    """Mean z² is at most Student's 7/5 for 8 batches, and at least 1/2, within three of its errors.

    A grid with a bias that all its shifts share had 4 to 80 here.
    """
    asked = problem(ACTIVATIONS[activation], richness)
    for name, (square, error) in mean_squares(asked, 1024, SEEDS).items():
        assert square - 3 * error < (BATCHES - 1) / (BATCHES - 3), (name, square, error)
        assert square + 3 * error > 0.5, (name, square, error)


def test_four_times_the_particles_have_less_than_half_the_error():
    """Quasi-random points beat the square root: the error falls faster than 1/√samples."""
    errors = []
    for samples in (512, 2048, 8192):
        method = ld.KernelEvolution(samples=samples, batches=16)
        error = ld.solve(problem("relu"), method).standard_error("prediction")
        assert error is not None
        errors.append(float(np.sqrt(np.mean(error.values[-1] ** 2))))
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2
