"""Symmetric starts, on a theory of two numbers: what grows across a mirror, how fast, and what is said of it."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.core.curves import Curves
from learndyn.core.record import Record
from learndyn.core.symmetry import Mirror, SymmetricStart, Symmetry, with_symmetry
from learndyn.core.symmetry_words import escape_time, note_on_runs
from learndyn.core.theory import Theory
from learndyn.errors import NotConverged
from tests.fakes import bare_theory, curves, observable

MIRROR = Symmetry("a = 0", (Mirror(np.arange(2), np.array([1, -1])),))


@dataclasses.dataclass(frozen=True)
class Toy:
    """s' = 1 − s and a' = (rate·s − 1)·a − a³ + drive: a = 0 grows at rate − 1, once s has come to its plateau 1."""

    rate: float
    a: float = 0.0
    s: float = 0.0
    time: float = 40.0
    drive: float = 0.0
    rounding: float = 0.0
    stiff: float | None = None


def record(problem: Toy, save_at=None) -> Record:
    """201 times unless given."""
    times = np.linspace(0.0, problem.time, 201) if save_at is None else np.asarray(save_at, float)
    return Record("time", times, chosen=save_at is not None)


def integrated(problem: Toy, record: Record) -> Curves:
    """The solution."""
    times = record.at

    def velocity(t, y):
        s, a = y
        return [1 - s, (problem.rate * s - 1) * a - a**3 + problem.drive]

    if problem.stiff is not None and problem.a:
        raise NotConverged("too stiff")
    start = [problem.s, problem.a + problem.rounding]
    options = {"rtol": 1e-10, "atol": 1e-25, "method": "DOP853"}
    y = solve_ivp(velocity, (0, times[-1]), start, t_eval=times, **options).y
    return curves({"y": observable(("time", "part"), y.T, "both")}, times)


def symmetric_start(problem: Toy) -> SymmetricStart | None:
    if problem.a:
        return None

    def moved(amount: float) -> Any:
        return dataclasses.replace(problem, a=amount)

    return SymmetricStart([MIRROR], lambda arrays: arrays["y"], moved)


THEORY = bare_theory(integrated, symmetric_start)


def checked(problem: Toy, save_at=None, theory: Theory = THEORY) -> dict:
    """The evidence of a solution."""
    at = record(problem, save_at)
    solved = integrated(problem, at)
    toy: Any = problem
    no_method: Any = None
    return with_symmetry(theory, toy, no_method, at, 0, solved).evidence


def test_the_rate_is_that_of_the_plateau_which_is_reached_later():
    """s = 1 − e^{−t}, so that ln a = −rate·(1 − e^{−t}) + (rate − 1)·t: at the start a shrinks, at the rate 1."""
    found = checked(Toy(1.5, time=60.0))["symmetric_start"]
    # The second half of the growth is after t = 15, where s is off by e^{−15}.
    assert found["rate"] == pytest.approx(0.5, rel=1e-5)
    assert found["axis"] == "time"
    assert found["symmetry"] == "a = 0"
    # From its lowest point, where rate·(1 − e^{−t}) = 1, to √(rate − 1), at which a³ ends the growth.
    t = math.log(3)
    lowest = math.log(1e-8) - 1.5 * (1 - math.exp(-t)) + 0.5 * t
    assert found["growth"] == pytest.approx(0.5 * math.log(0.5) - lowest, rel=1e-3)


def test_a_fluctuation_of_one_over_the_root_of_the_size_needs_the_escape_time():
    """From a size to the next, the time to reach a = 1/2 grows as `escape_time`: all that depends on the size."""
    solved = checked(Toy(1.5, time=60.0))["symmetric_start"]
    sizes, reached = (1e6, 1e10), []
    for size in sizes:
        toy = Toy(1.5, a=1 / math.sqrt(size), time=60.0)
        moved = integrated(toy, record(toy))
        reached.append(np.interp(0.5, moved["y"][:, 1], moved.times))
    first, second = (escape_time(solved, size) for size in sizes)
    assert first is not None
    assert second is not None
    # Records are 0.3 apart, over which a is interpolated linearly: an error of (0.5·0.3)²/8/0.5 for each.
    assert reached[1] - reached[0] == pytest.approx(second - first, abs=0.02)
    assert first == pytest.approx(math.log(1e6) / (2 * 0.5), rel=1e-5)


@pytest.mark.parametrize(
    "problem",
    [
        Toy(0.5),  # a decays
        Toy(1.0),  # a stays as it is
        Toy(1.05),  # a grows by e² in 40, not enough even for 100 inputs
        Toy(1.5, a=1e-9),  # a little off
        Toy(1.5, drive=1e-6),  # no symmetry of the equations, although one of the start
        Toy(1.5, drive=1.0),
    ],
)
def test_nothing_is_said_where_nothing_symmetric_is_left(problem):
    assert checked(problem) == {}


def test_growth_counts_from_the_lowest_point():
    """ln a = t/2 − 12(1 − e^{−t}) from s = −7: at t = 20 it is below the start, but 7.9 above its lowest point."""
    found = checked(Toy(1.5, s=-7.0, time=20.0))["symmetric_start"]
    lowest = math.log(24)
    expected = 10 - 12 * (1 - math.exp(-20)) - (lowest / 2 - 12 * (1 - 1 / 24))
    # The lowest point is at most 0.05 from a record, where a differs in the second order.
    assert found["growth"] == pytest.approx(expected, abs=1e-3)
    # The second half is after t = 12, where s is off by 8e^{−12}.
    assert found["rate"] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("save_at", [[40.0], [0.0, 40.0], np.linspace(0, 40, 500)])
def test_the_rate_does_not_depend_on_the_records(save_at):
    found = checked(Toy(1.5), save_at)["symmetric_start"]
    assert found["rate"] == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("time", [1e3, 5e3])
def test_growth_within_one_record_of_a_long_training_is_looked_at_closely(time):
    found = checked(Toy(2.5, time=time))["symmetric_start"]
    # The window of linear growth, 11 e-foldings, ends at t = 9; its second half is after t = 5: e^{−5}.
    assert found["rate"] == pytest.approx(1.5, rel=0.01)


def test_a_solution_that_leaves_by_its_rounding_errors_says_so():
    evidence = checked(Toy(1.5, time=100.0, rounding=1e-16))
    left = evidence["symmetric_start"]["left_at"]
    # ln a = ln 1e-16 − 1.5 + t/2 = ln 1e-3 at t = 63, rounded up to a multiple of 0.5.
    assert left == pytest.approx(2 * (math.log(1e13) + 1.5), abs=0.5)
    assert len(evidence["warnings"]) == 2
    assert "rounding errors have grown" in evidence["warnings"][1]


def test_a_second_solution_that_fails_is_reported_and_not_raised():
    (text,) = checked(Toy(1.5, stiff=1.0))["warnings"]
    assert "whether finite networks leave it is not known (too stiff)" in text


def test_the_sentence_has_the_rate_and_the_time_with_the_symbol_of_the_size():
    (text,) = checked(Toy(1.5))["warnings"]
    assert text == (
        "the start is exactly symmetric (a = 0), and the limit stays symmetric for ever; finite networks leave it at a "
        "rate of 0.5 per unit of time, after about ln N/(2·0.5) = 1 ln N (6.91 at N = 1000)"
    )


def test_runs_are_said_to_leave_only_where_their_training_is_long_enough():
    evidence: dict[str, Any] = checked(Toy(1.5, time=12.0)) | {"size_symbol": "d"}
    growth = evidence["symmetric_start"]["growth"]
    assert 3 < growth < 6
    note = note_on_runs(evidence, 100)
    assert note is not None
    assert "d = 100 " in note
    assert "= 4.61," in note
    assert note_on_runs(evidence, math.ceil(math.exp(2 * growth)) + 1) is None
    assert note_on_runs({}, 100) is None


def test_a_sampled_theory_says_when_its_batches_have_left():
    times = np.linspace(0.0, 1.0, 5)
    a, error = np.array([0, 0.01, 0.05, 0.1, 0.1]), np.array([0, 0.01, 0.03, 0.2, 0.2])
    values, errors = (np.stack([np.ones(5), x], axis=1) for x in (a, error))
    y = observable(("time", "part"), values, "both", error=errors)
    sampled = curves({"y": y}, times, evidence={"batches": 5})
    start = symmetric_start(Toy(1.0))
    assert start is not None
    sampling = start._replace(moved=None)
    theory: Any = SimpleNamespace(symmetries=lambda problem: sampling, size_symbol="N")
    nothing: Any = None
    found = with_symmetry(theory, nothing, nothing, nothing, 0, sampled).evidence
    # √(0.1² + 4·0.2²) is the first beyond a tenth of the largest number, 1; before is √(0.05² + 4·0.03²) = 0.08.
    assert found["symmetric_start"]["left_at"] == 0.75
    assert found["symmetric_start"]["rate"] is None
    assert "samples are not symmetric" in found["warnings"][1]
