"""The accuracy of neural ODEs in continuous inference time, against many more halvings of the Euler step."""

from functools import partial

import pytest

import learndyn as ld
from tests import problems
from tests.accuracy.measures import check_ratios, ratios

problem = partial(problems.neural_ode, steps=6, epochs=5)


@pytest.mark.slow
def test_extrapolation_of_fresh_trajectories():
    """The finest step changes more than is left of the error, also where a warning says that it may not."""
    settings = [{}, {"time": 3.0}, {"noise": 0.1, "teacher_noise": 0.1}, {"adjoint": "truncated"}]
    found = []
    for network in settings:
        reference = ld.solve(problem(**network), ld.OverlapMap(extrapolation=5))
        for extrapolation in (1, 2, 3):
            solution = ld.solve(problem(**network), ld.OverlapMap(extrapolation=extrapolation))
            found += ratios(solution, reference)
    check_ratios(found, least=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [ld.Stream(ld.TeacherFlow(chained=True)), ld.Dataset(ld.TeacherFlow(), examples=1)]
)
def test_extrapolation_of_correlated_trajectories(data):
    """The same with all correlations of training steps, which are deterministic too."""
    short = problem(epochs=2, data=data, steps=3)
    reference = ld.solve(short, ld.TrainingMemory(extrapolation=4))
    found = []
    for extrapolation in (1, 2):
        solution = ld.solve(short, ld.TrainingMemory(extrapolation=extrapolation))
        found += ratios(solution, reference)
    check_ratios(found, least=1e-2)


@pytest.mark.slow
def test_long_euler_steps_are_warned_of():
    """Where extrapolation changes an observable by more than a tenth, its accuracy is no bound: it says so."""
    rough = problem(time=3.0, steps=4)
    solution = ld.solve(rough, ld.OverlapMap(extrapolation=1))
    assert "more steps" in solution.evidence["warnings"][0]
