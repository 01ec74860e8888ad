"""Problem files that are wrong in any way are refused with a sentence; nothing else is ever raised."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import learndyn as ld
from learndyn.errors import LearndynError, ProblemError, nearest, shown
from learndyn.problem.checks import COPIES, array, negative_eigenvalue, number, room, whole
from tests.problem.mutations import mutated, mutated_text, originals, quick

LONGEST_MESSAGE = 3000
"""Characters of an error message. The longest is the list of all theories."""


def outcome(read: Any, content: Any) -> str:
    """« problem », « long », or the name of the error that reading gives; what is no error for the user is raised."""
    try:
        read(content)
    except LearndynError as error:
        named = not isinstance(error, ProblemError) or (error.field and error.allowed)
        return type(error).__name__ if named and len(str(error)) < LONGEST_MESSAGE else "long"
    return "problem"


def outcomes(numbers: range) -> dict[str, int]:
    """How often files with random changes gave a problem, or an error of a kind."""
    count: dict[str, int] = {}
    for number_of_file in numbers:
        try:
            word = outcome(ld.Problem.from_dict, mutated(number_of_file))
        except Exception as error:
            raise AssertionError(
                f"file {number_of_file}: {shown(mutated(number_of_file), 2000)}"
            ) from error
        count[word] = count.get(word, 0) + 1
    return count


def test_the_files_before_the_changes_are_mostly_good():
    words = [outcome(ld.Problem.from_dict, values) for values in originals()]
    assert words.count("problem") > 0.85 * len(words)
    assert {outcome(ld.Problem.from_dict, values) for values in quick()} == {"problem"}


def test_a_changed_file_is_the_same_again():
    assert repr(mutated(7)) == repr(mutated(7))
    assert repr(mutated(7)) != repr(mutated(8))


def test_a_thousand_wrong_files_are_refused_with_a_sentence():
    count = outcomes(range(1000))
    assert "long" not in count
    assert count["ProblemError"] > 700
    assert count["problem"] > 30


@pytest.mark.slow
def test_a_hundred_thousand_wrong_files_are_refused_with_a_sentence():
    """About four minutes in a process of its own, where the types of arguments are not checked at every call."""
    code = "import json, tests.problem.test_bad_files as t; print(json.dumps(t.outcomes(range(100_000))))"
    root = Path(__file__).parents[2]
    # Warnings of NumPy are errors, as everywhere in the tests.
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    count = json.loads(process.stdout)
    assert "long" not in count
    assert count["ProblemError"] > 70_000
    assert count["problem"] > 3_000
    assert count["NotEnoughMemory"] > 30


def test_texts_that_are_not_even_toml_are_refused_with_a_sentence():
    words = {
        outcome(ld.Problem.from_text, mutated_text(number_of_file)) for number_of_file in range(500)
    }
    assert words == {"problem", "ProblemError"}


def refused(section: str, changes: dict[str, Any], file: dict[str, Any]) -> str:
    """The message with which a file is refused in which some values of a section were changed."""
    values = json.loads(json.dumps(file))
    values[section] |= changes
    with pytest.raises(LearndynError) as caught:
        ld.Problem.from_dict(values)
    return str(caught.value)


TWO_LAYER, LINEAR, WIDE, FLOW = (
    next(values for values in quick() if values["network"]["kind"] == kind)
    for kind in ("two_layer", "deep_linear", "wide", "neural_ode")
)
RAGGED = [[1.0, 2.0], [3.0]]
HUGE = 10**12
POWER_LAW = {"kind": "power_law", "capacity": 1.5, "source": 0.8, "modes": HUGE}


@pytest.mark.parametrize(
    ("section", "changes", "file", "words"),
    [
        ("network", {"field": RAGGED}, FLOW, ["coefficients", "equally long rows"]),
        ("network", {"initial_norm": RAGGED}, FLOW, ["NeuralODE.initial_norm", "equally long"]),
        ("network", {"width": RAGGED}, LINEAR, ["DeepLinear.width", "list of numbers"]),
        ("data", {"targets": RAGGED}, WIDE, ["Points.targets", "list of numbers or a matrix"]),
        ("data", {"targets": [[[1.0]], [[1.0]]]}, WIDE, ["Points.targets", "shape (2, 1, 1)"]),
        ("data", {"inputs": [["1", "2"], ["3", "4"]]}, WIDE, ["Points.inputs", "a matrix"]),
        ("data", {"targets": [True, False]}, WIDE, ["Points.targets", "list of numbers"]),
        ("data", {"targets": [10**400, 1]}, WIDE, ["Points.targets", "list of numbers"]),
        ("data", {"inputs": [[1e300, 0], [0, 1]]}, WIDE, ["Points.inputs", "at most 1e+140"]),
        ("data", {"noise": 10**400}, LINEAR, ["noise", "1.8e+308"]),
        ("data", {"noise": -(10**400)}, LINEAR, ["noise", "1.8e+308"]),
        ("training", {"steps": 10**30}, LINEAR, ["steps = 1000000", f"at most {2**63 - 1}"]),
        ("training", {"steps": 1e300}, LINEAR, ["steps = 1e+300", f"at most {2**63 - 1}"]),
        ("training", {"steps": 1 << 20_000}, LINEAR, ["steps = a value of type int", "at most"]),
        ("network", {"activation": {"kind": {}}}, TWO_LAYER, ["activation.kind", "unknown kind"]),
        ("network", {"kind": 1 << 20_000}, TWO_LAYER, ["network.kind", "unknown kind"]),
        ("network", {"steps": HUGE}, FLOW, ["network.steps = 1000000000000", "GiB", "smaller"]),
        ("network", {"windows": HUGE, "steps": HUGE}, FLOW, ["1000000000000", "GiB"]),
        ("network", {"time": 5e-324}, FLOW, ["NeuralODE.time = 5e-324", "too small"]),
        ("network", {"delay": 1e308, "field": [RAGGED]}, FLOW, ["coefficients"]),
        ("network", {"initial_overlap": 1e300}, FLOW, ["network.initial_overlap", "at most"]),
        ("data", {"noise": 1e300}, LINEAR, ["Dataset.noise", "at most 1e+140"]),
        ("network", {"richness": 1e-300}, LINEAR, ["DeepLinear.richness", "at least 1e-140"]),
        ("network", {"richness": 1e300}, WIDE, ["Wide.richness", "at most 1e+140"]),
        ("network", {"skip": 1e300}, LINEAR, ["DeepLinear.skip", "at most 1e+140"]),
    ],
)
def test_a_value_that_used_to_end_in_a_raw_error_is_refused(section, changes, file, words):
    message = refused(section, changes, file)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            {"kind": "teacher.orthonormal", "hidden": HUGE},
            ["Teacher.hidden = 10", "× 1000000000000"],
        ),
        ({"kind": "teacher.random", "hidden": 2, "size": HUGE}, ["Teacher.size = 10", "2 × 10"]),
        ({"kind": "teacher.random", "hidden": 2, "size": 2**63 - 1}, ["Teacher.size", "GiB"]),
    ],
)
def test_a_teacher_too_large_for_memory_is_refused_before_it_is_made(task, words):
    message = refused("data", {"task": task | {"activation": "erf"}}, TWO_LAYER)
    for word in words:
        assert word in message


def test_points_and_students_too_large_for_memory_are_refused_before_they_are_made():
    for changes in (
        {"points": HUGE},
        {"dimension": HUGE},
        {"test_points": HUGE},
        {"outputs": HUGE},
    ):
        data = {"kind": "points.random", "points": 3, "dimension": 2} | changes
        values = WIDE | {"data": data}
        with pytest.raises(ld.NotEnoughMemory, match=r"Points\.(test_)?points = .*GiB"):
            ld.Problem.from_dict(values)
    student = {"kind": "two_layer.random", "hidden": 2, "scale": 1.0, "size": HUGE}
    with pytest.raises(
        ld.NotEnoughMemory, match=r"TwoLayer\.size = 1000000000000: an array of 2 ×"
    ):
        ld.Problem.from_dict(TWO_LAYER | {"network": student})
    with pytest.raises(ProblemError, match=r"TwoLayer\.scale = 1e\+200: must be at most 1e\+140"):
        ld.Problem.from_dict(TWO_LAYER | {"network": student | {"size": 9, "scale": 1e200}})


def test_a_spectrum_too_large_for_memory_is_refused_when_its_arrays_are_made():
    with pytest.raises(ld.NotEnoughMemory, match=r"PowerLaw\.modes = 1000000000000"):
        ld.PowerLaw(1.5, 0.8, HUGE).arrays()


@pytest.mark.parametrize(
    ("capacity", "source", "name"), [(400.0, 1.0, "capacity"), (1.5, 400.0, "source")]
)
def test_a_power_law_that_falls_below_double_precision_is_refused(capacity, source, name):
    with pytest.raises(
        ProblemError, match=rf"PowerLaw\.{name} = 400\.0: is too large for 100 modes"
    ):
        ld.PowerLaw(capacity, source, 100)


def test_a_steep_power_law_within_double_precision_has_finite_arrays():
    eigenvalues, coefficients = ld.PowerLaw(100.0, 0.5, 1000).arrays()
    assert eigenvalues.min() > 0
    assert np.all(np.isfinite(coefficients))


def test_many_layers_of_one_width_are_checked_at_once():
    """A loop over 10¹² layers would not end."""
    task = ld.LinearMap(ld.Spectrum([1.0], [1.0]))
    rule = ld.GradientDescent(0.1, steps=3)
    with pytest.raises(ProblemError, match=r"network\.width = 1\.5: must be whole numbers"):
        ld.Problem(ld.DeepLinear(HUGE, 1.5), ld.Dataset(task, examples=5), rule)


def test_a_text_with_a_number_of_thousands_of_digits_or_endless_brackets_is_not_valid_toml():
    with pytest.raises(ProblemError, match=r"is not valid TOML: .*4300 digits"):
        ld.Problem.from_text(f"x = {'9' * 5000}")
    with pytest.raises(ProblemError, match="is not valid TOML: it is too deeply nested"):
        ld.Problem.from_text(f"x = {'[' * 50_000}")


def test_plain_data_that_is_no_table_is_refused():
    with pytest.raises(ProblemError, match="must have the tables network, data, training"):
        ld.Problem.from_dict([1])  # pyright: ignore[reportArgumentType]


def test_room_counts_the_copies_and_names_the_field(monkeypatch):
    from learndyn import memory

    free = type("Free", (), {"available": COPIES * 8 * 2_000_000})
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: free)
    room("Part.size", 1000, 1000, 2000)
    with pytest.raises(
        ld.NotEnoughMemory, match=r"Part\.size = 1000: an array of 1000 × 2001 numbers"
    ):
        room("Part.size", 1000, 1000, 2001)


def test_checks_of_numbers_at_the_edge_of_what_can_be_stored():
    assert whole(0)(2**63 - 1, "x") == 2**63 - 1
    assert number()(10**308, "x") == 1e308
    assert array(1)([10**30, 1], "x").tolist() == [1e30, 1.0]
    for check, value in ((whole(0), 2**63), (number(), 10**309), (array(1), [10**309])):
        with pytest.raises(ProblemError):
            check(value, "x")


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_negative_eigenvalue_is_seen_at_every_scale(scale):
    assert negative_eigenvalue(scale * np.array([[1.0, 0.5], [0.5, 1.0]])) is None
    assert negative_eigenvalue(scale * np.array([[1.0, 1.0], [1.0, 1.0]])) is None
    lowest = negative_eigenvalue(scale * np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert lowest is not None
    assert math.isclose(lowest, -scale, rel_tol=1e-10)


def test_values_that_cannot_be_printed_are_shown_by_their_type():
    assert shown(1 << 20_000) == "a value of type int, too long to show"
    assert "known: b" in nearest("a" * 100_000, ["b"])
