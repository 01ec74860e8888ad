"""Problems with huge, tiny and odd numbers are solved and simulated, or refused with a sentence."""

import collections
import dataclasses
import math
from typing import Any

import pytest

import learndyn as ld
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.errors import LearndynError, shown
from learndyn.families.neural_ode.pair import FlowPair
from tests.problem.mutations import with_other_numbers

QUICK = {"samples": 64, "batches": 2, "points": 64, "replicates": 2} | {
    "max_steps": 2000,
    "rtol": 1e-4,
    "atol": 1e-6,
}
"""Options with which methods end soon, by their names."""
STATES = 3


def is_small(problem: ld.Problem) -> bool:
    """Whether a problem is solved in a moment: how large it is, not how wild its numbers are."""
    network, data, training = problem.network, problem.data, problem.training
    counts = [training.steps, training.time, getattr(network, "depth", 1)]
    counts += [getattr(data, name, None) for name in ("batch", "examples")]
    spectrum = getattr(problem.task, "spectrum", None)
    counts.append(getattr(spectrum, "modes", None))
    if isinstance(network, ld.NeuralODE):
        counts += [network.steps, FlowPair.of(problem).teacher_steps]
    return all(count is None or math.isinf(count) or count <= 100 for count in counts)


def quick_method(problem: ld.Problem) -> Method:
    """The method for a problem, with few samples and loose tolerances."""
    method = theory_for(problem).automatic(problem, Record.of(problem.training, STATES))
    names = {item.name for item in dataclasses.fields(method)}
    return dataclasses.replace(method, **{k: v for k, v in QUICK.items() if k in names})


def solve(problem: ld.Problem) -> ld.Solution:
    return ld.solve(problem, quick_method(problem), save_at=STATES)


def simulate(problem: ld.Problem) -> ld.Solution:
    spectrum = getattr(problem.task, "spectrum", None)
    size = 6 if spectrum is None else len(spectrum.arrays()[0])
    return ld.simulate(problem, size, save_at=STATES)


def outcomes(compute: Any, wanted: int) -> collections.Counter:
    """How often the first `wanted` small problems with odd numbers had a solution, or an error of a kind."""
    count, number = collections.Counter(), 0
    while count.total() < wanted:
        number += 1
        try:
            problem = ld.Problem.from_dict(with_other_numbers(number))
        except LearndynError:
            continue
        if not is_small(problem):
            continue
        try:
            compute(problem)
            count["solution"] += 1
        except LearndynError as error:
            count[type(error).__name__] += 1
        except Exception as error:
            raise AssertionError(f"number {number}: {shown(problem.to_dict(), 2000)}") from error
    return count


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_four_hundred_problems_with_odd_numbers_are_solved_or_refused():
    """A few minutes, most of them for compiling. A training that diverges may overflow, with a warning."""
    count = outcomes(solve, 400)
    assert count["solution"] > 200


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_four_hundred_networks_with_odd_numbers_are_trained_or_refused():
    count = outcomes(simulate, 400)
    assert count["solution"] > 200


def wide_flow(**changes: Any) -> ld.Problem:
    points = ld.Points([[changes.get("entry", 0.1), 1.2], [-0.3, 0.4]], [1.0, -1.0])
    return ld.Problem(
        ld.Wide(1, "tanh"), points, ld.GradientDescent(changes.get("rate", 0.2), time=1.0)
    )


def test_gradient_flow_of_more_steps_than_integers_can_count_is_refused():
    """It used to end in a cast of infinity to a whole number."""
    with pytest.raises(
        ld.ProblemError, match=r"training\.time = 1\.0: gives .* steps of gradient flow"
    ):
        ld.solve(wide_flow(entry=1e15), save_at=3)


def test_networks_whose_gradient_flow_would_not_end_are_refused():
    with pytest.raises(
        ld.ProblemError, match=r"training\.time = 1\.0: gives .* steps of gradient flow"
    ):
        ld.simulate(wide_flow(rate=1e12), 6, save_at=3)


@pytest.mark.parametrize(
    ("depth", "width", "words"), [(2, 1e300, "size = 6"), (10**12, 1.0, "depth")]
)
def test_networks_with_too_many_units_or_layers_are_refused(depth, width, words):
    network = ld.DeepLinear(depth, width)
    problem = ld.Problem(
        network, ld.Dataset(ld.LinearMap(), ratio=1.0), ld.GradientDescent(0.1, steps=3)
    )
    with pytest.raises(LearndynError, match=words):
        ld.simulate(problem, 6)


def test_more_seeds_than_memory_are_refused():
    with pytest.raises(ld.NotEnoughMemory, match="seeds = 1000000000000: the curves of so many"):
        ld.simulate(wide_flow(), 6, 10**12, save_at=3)


@pytest.mark.parametrize("times", [ld.linear_times, ld.log_times])
def test_more_times_than_memory_are_refused(times):
    with pytest.raises(ld.NotEnoughMemory, match="save_at = 1000000000000: recording at so many"):
        times(1.0, 10**12)


@pytest.mark.parametrize("length", [{"time": 1.0}, {"steps": 10**13}])
def test_more_recorded_states_than_memory_are_refused(length):
    with pytest.raises(ld.NotEnoughMemory, match="save_at = 1000000000000"):
        Record.of(ld.GradientDescent(0.1, **length), 10**12)
