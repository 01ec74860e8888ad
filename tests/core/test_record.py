"""What `save_at` means, and the states that grids and finite networks have of it."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record


def steps(save_at, count: int) -> np.ndarray:
    return Record.of(ld.GradientDescent(0.1, steps=count), save_at).at


def times(save_at, end: float) -> np.ndarray:
    return Record.of(ld.GradientDescent(0.1, time=end), save_at).at


def test_the_axis_is_what_training_is_measured_in():
    for training, axis in (({"steps": 3}, "step"), ({"time": 3.0}, "time")):
        record = Record.of(ld.GradientDescent(0.1, **training))
        assert record.axis == axis
        assert not record.chosen
        assert Record.of(ld.GradientDescent(0.1, **training), 2).chosen


def test_steps_are_all_or_evenly_spaced_from_the_first_to_the_last():
    assert steps(None, 5).tolist() == [0, 1, 2, 3, 4, 5]
    assert steps(None, 200).tolist() == list(range(201))
    for count in (201, 1000, 12345):
        found = steps(None, count)
        assert (len(found), found[0], found[-1]) == (201, 0, count)
        assert np.all(np.abs(found - np.linspace(0, count, 201)) <= 0.5)
    assert steps(3, 9).tolist() == [0, 4, 9]
    assert steps(50, 3).tolist() == [0, 1, 2, 3]
    assert steps([0.0, 3.0], 3).tolist() == [0, 3]
    assert steps(np.array([2]), 3).dtype == np.int64


def test_times_are_evenly_spaced_or_given():
    assert len(times(None, 4.0)) == 201
    np.testing.assert_array_equal(times(3, 4.0), [0, 2, 4])
    np.testing.assert_array_equal(times([0.5, 4.0 * (1 + 1e-14)], 4.0), [0.5, 4.0])


@pytest.mark.parametrize(
    "save_at", [1, [], [3.0, 1.0], [0.0, 20.0], [-1.0], "often", [[1.0]], [np.nan], [0.0], True]
)
def test_bad_times_are_refused(save_at):
    with pytest.raises(ld.ProblemError, match="save_at"):
        times(save_at, 10.0)


@pytest.mark.parametrize(
    "save_at", [1, [], [3, 1], [0, 20], [-1], "often", [[1]], [0.5], [2, 2], [np.nan], True]
)
def test_bad_steps_are_refused(save_at):
    with pytest.raises(ld.ProblemError, match="save_at"):
        steps(save_at, 10)


def test_a_network_of_n_inputs_has_whole_steps_of_one_over_n_each_once():
    record = Record("time", np.array([0.0, 0.04, 0.06, 0.26, 1.0])).on_whole_steps(10)
    np.testing.assert_array_equal(record.at, [0.0, 0.1, 0.3, 1.0])


def test_the_states_of_a_grid_are_those_nearest_to_the_record_each_once():
    grid = np.array([0.0, 1.0, 2.0, 4.0])
    record = Record("time", np.array([0.0, 0.4, 1.4, 2.9, 3.1, 4.0]))
    assert record.nearest(grid).tolist() == [0, 1, 2, 3]
    assert Record("step", np.array([0, 2, 3])).nearest(np.arange(4)).tolist() == [0, 2, 3]
