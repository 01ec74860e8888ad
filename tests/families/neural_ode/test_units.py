"""Which unit acts when, what is observed, and how training starts: what theory and finite systems share."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import fields_of, systems
from tests.problems import PAPER, neural_ode

CONTEXT = [[[0, 0], [0, 0.8]], [[0, 0.2], [0.4, 0]]]


def network(**fields):
    return ld.NeuralODE(
        **({"field": PAPER, "control_ratio": 0.75, "time": 1.0, "steps": 6} | fields)
    )


def pair(**properties):
    return FlowPair.of(neural_ode(**properties))


def test_units_are_numbered_by_system_window_and_neuron():
    flows = pair(
        amplitudes=[1.0, 2.0], teacher_amplitudes=[3.0], windows=3, teacher_windows=2,
        driven=CONTEXT,
    )  # fmt: skip
    first, second = systems(flows.shape)
    np.testing.assert_array_equal(first.student.numbers, [[0, 0, 2, 2, 4, 4], [1, 1, 3, 3, 5, 5]])
    np.testing.assert_array_equal(second.student.numbers, first.student.numbers + 6)
    np.testing.assert_array_equal(first.teacher.numbers, [[0, 0, 0, 1, 1, 1]])
    np.testing.assert_array_equal(second.teacher.numbers, [[2, 2, 2, 3, 3, 3]])
    assert (first.student.labels, first.teacher.labels) == ((0, 1), (0,))
    assert (second.student.labels, second.teacher.labels) == ((2, 3), (2,))
    student = flows.student
    expected = [student.field, student.field, student.driven, student.driven]
    assert fields_of(student, flows.shape) == expected
    shared = pair(amplitudes=[1.0, 2.0], own_fields=False)
    (only,) = systems(shared.shape)
    assert only.student.labels == (0, 0)
    assert len(fields_of(shared.student, shared.shape)) == 1


def test_one_number_is_the_overlap_of_units_that_meet():
    start = pair(windows=2, teacher_windows=3, initial_norm=0.7, initial_overlap=0.3).start()
    # The second of three windows has a time in common with both halves.
    np.testing.assert_array_equal(start.M, 0.3 * np.array([[1, 1, 0], [0, 1, 1]]))
    np.testing.assert_array_equal(start.Q, 0.7 * np.eye(2))
    np.testing.assert_array_equal(start.T, np.eye(3))
    start = pair(amplitudes=[1.0, 2.0], driven=CONTEXT, initial_overlap=0.3).start()
    np.testing.assert_array_equal(start.M, 0.3 * np.array([[1, 0], [0, 0], [0, 1], [0, 0]]))
    np.testing.assert_array_equal(start.a, [1.0, 2.0, 1.0, 2.0])
    np.testing.assert_array_equal(start.teacher_a, [1.0, 1.0])


def test_observed_steps_and_their_partners():
    seen = ld.Observations([[0.5], [1 / 3, 1.0]], weight=2.0)
    weights, paired = pair(teacher_time=2.0, observations=seen).observed()
    np.testing.assert_array_equal(weights, [[0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 1]])
    np.testing.assert_array_equal(paired[[2, 3, 6]], [4, 6, 12])
    weights, paired = pair(teacher_time=1.5).observed()
    np.testing.assert_array_equal(weights, [[0, 0, 0, 0, 0, 0, 1]])
    assert paired[6] == 9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"windows": 4}, r"windows = 4.*must divide the number of Euler steps of the flow, 6"),
        ({"windows": 2, "teacher_windows": 4}, r"data.task.windows = 4.*must divide"),
        ({"delay": 0.5}, r"delay = 0.5.*a delay with such a field"),
        ({"field": CONTEXT}, r"field = .*goes with a delay"),
        ({"field": CONTEXT, "delay": 0.4}, r"delay = 0.4.*whole number of steps.*2.4 of them"),
        ({"driven": PAPER}, r"driven = .*must have a second state, s"),
        ({"driver_loss": 0.5}, r"driver_loss = 0.5.*no second system"),
        ({"driven": CONTEXT, "field": CONTEXT, "delay": 0.5}, r"delay = 0.5.*no theory of both"),
        ({"windows": 2, "initial_norm": [[1.0]]}, r"initial_norm = .*\(2, 2\): the student has 2"),
        ({"windows": 2, "initial_overlap": 0.9, "teacher_windows": 1}, r"positive semidefinite"),
        ({"teacher_overlaps": [[1.0, 0.0]]}, r"data.task.overlaps = .*\(1, 1\)"),
        ({"field": "q*m - s*q", "delay": 0.5}, r"power series without negative"),
        ({"amplitudes": []}, r"amplitudes"),
    ],
)
def test_bad_values_are_refused_by_name(fields, words):
    with pytest.raises(ld.ProblemError, match=words):
        neural_ode(**fields)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([], "increasing times above 0"),
        ([0.5, 0.5], "increasing times above 0"),
        ([1.0, 0.5], "increasing times above 0"),
        ([0.0, 1.0], "increasing times above 0"),
        ([[0.5], []], "increasing times above 0"),
        ([[0.5], 1.0], "increasing times above 0"),
        (0.5, "increasing times above 0"),
        ([0.4], r"times = 0.4.*Euler steps 0.166667"),
        ([1.5], r"times = 1.5.*at most 1"),
    ],
)
def test_bad_observation_times_are_refused(times, words):
    def ask():
        data = ld.Stream(ld.TeacherFlow(observations=ld.Observations(times)))
        return ld.Problem(network(), data, ld.GradientDescent(0.1, steps=2))

    with pytest.raises(ld.ProblemError, match=words):
        ask()


def test_what_does_not_fit_is_refused():
    training = ld.GradientDescent(0.1, steps=2, readout_learning_rate=0.1)
    with pytest.raises(ld.ProblemError, match=r"readout_learning_rate = 0.1.*not trained"):
        ld.Problem(network(), ld.Stream(ld.TeacherFlow()), training)
    asked = ld.Problem(
        network(driven=CONTEXT), ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.1, steps=2)
    )
    with pytest.raises(ld.ProblemError, match=r"inference_steps.*second system is driven"):
        ld.solve(asked, ld.OverlapMap(inference_steps=[1]))
    layered = ld.Problem(
        network(windows=2), ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.1, steps=2)
    )
    with pytest.raises(ld.ProblemError, match=r"must have one control"):
        ld.recovery(layered)


@pytest.mark.parametrize(
    "times", [[0.5, 1.0], [[0.5], [0.5, 1.0]]], ids=["one list", "several lists"]
)
def test_problem_files_come_back(tmp_path, times):
    problem = neural_ode(
        amplitudes=[1.0, 0.5], teacher_amplitudes=[1.0], own_fields=False, windows=2,
        train_amplitudes=True, initial_overlap=[[0.1, 0.0]] * 4,
        supply="dataset", observations=ld.Observations(times, 0.5, "trajectory"),
    )  # fmt: skip
    problem.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == problem
