"""The standard errors of sampled programs are those of their means."""

import pytest

import learndyn as ld
from tests.accuracy.measures import check_mean_square_z, mean_square_z
from tests.families.program.loops import mlp, perceptron

DEEP = ld.Problem(
    ld.Program(mlp, depth=2, activation="tanh", richness=1.5),
    ld.Points([[1.0, 0.2], [-0.3, 0.8]], [1.0, -1.0]),
    ld.GradientDescent(0.5, steps=8),
)
REUSED = ld.Problem(ld.Program(perceptron, alpha=1.5, rate=0.8, steps=8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "names"), [(DEEP, ["prediction"]), (REUSED, ["train_loss", "overlaps"])]
)
@pytest.mark.parametrize("extrapolate", [False, True])
def test_standard_errors_of_programs(problem, names, extrapolate):
    """Over seeds, against a solution with 32 times the samples; ⟨z²⟩ for eight batches is 7/5."""
    reference = ld.solve(problem, ld.SampledLimit(samples=16384, extrapolate=False), seed=1000)
    method = ld.SampledLimit(samples=512, batches=8, extrapolate=extrapolate)
    check_mean_square_z(mean_square_z(problem, method, reference, names, range(30)), batches=8)
