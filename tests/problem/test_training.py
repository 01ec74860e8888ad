"""Learning-rate schedules and time grids."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.precision import float64
from learndyn.numerics.times import parse_times

T = np.array([0.0, 0.5, 1.0, 2.0, 10.0])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (ld.Constant(0.3), np.full(5, 0.3)),
        (ld.ExponentialDecay(0.3, 0.5), 0.3 * np.exp(-0.5 * T)),
        (ld.PowerDecay(0.3, 2.0, 4.0), 0.3 / (1 + T / 4) ** 2),
        (ld.WarmUp(2.0, 0.4), [0.0, 0.1, 0.2, 0.4, 0.4]),
        (ld.WarmUp(1.0, ld.ExponentialDecay(1.0, 1.0)), np.minimum(T, 1) * np.exp(-T)),
        (ld.Piecewise([1.0, 5.0], [0.1, 0.2, 0.3]), [0.1, 0.1, 0.2, 0.2, 0.3]),
    ],
    ids=["constant", "exponential", "power", "warm-up", "warm-up then decay", "piecewise"],
)
def test_schedules_follow_their_formulas(schedule, expected):
    with float64():
        np.testing.assert_allclose(schedule(T), expected, rtol=1e-14)
        np.testing.assert_allclose([schedule(t) for t in T], expected, rtol=1e-14)


def test_breakpoints_are_those_inside_the_training():
    rate = ld.WarmUp(2.0, ld.Piecewise([3.0, 50.0], [1.0, 0.5, 0.1]))
    training = ld.GradientDescent(rate, time=10.0, readout_learning_rate=ld.WarmUp(4.0, 1.0))
    assert training.breakpoints(10.0) == [2.0, 3.0, 4.0]


def test_piecewise_is_refused_if_it_does_not_fit():
    with pytest.raises(ld.ProblemError, match="one entry more"):
        ld.Piecewise([1.0], [1.0])
    with pytest.raises(ld.ProblemError, match="increase"):
        ld.Piecewise([2.0, 1.0], [1.0, 2.0, 3.0])


def test_grids():
    log = ld.log_times(100.0, 5, first=0.1)
    np.testing.assert_allclose(log, [0, 0.1, 1, 10, 100])
    np.testing.assert_array_equal(parse_times("log:5:0.1", 100.0), log)
    np.testing.assert_array_equal(parse_times("linear:3", 4.0), [0, 2, 4])


@pytest.mark.parametrize(
    "text", ["log", "log:x", "linear:1", "log:10:-1", "cubic:10", "log:10:200"]
)
def test_bad_grid_words_are_refused(text):
    with pytest.raises(ld.ProblemError, match="save_at"):
        parse_times(text, 100.0)
