"""The pictures of the family of neural ODEs show what their captions say.

They are drawn with small finite systems; the lines are the theory at the parameters of the captions.
"""

from itertools import pairwise

import numpy as np
import pytest

import learndyn as ld
from tests.papers.test_figures import drawn_tiny, registered
from tests.pictured import along_x, curve_of

ROUNDING = 1e-12
"""Sums of a few thousand terms of order one, along some hundred steps that contract."""


def curve(name: str, panel: int, label: str) -> np.ndarray:
    """The values of the line of this name, or of the one whose name begins so."""
    panels = drawn_tiny(name)[0].axes
    return np.asarray(curve_of(panels[panel], label, panels).get_ydata(), dtype=float)


def by_hand(rate, epochs, data=None, field=((0, 0), (0, 0.8), (0.4, 0)), **network):
    """The theory of parameters as they stand in the captions."""
    settings = {"control_ratio": 0.75, "time": 1.0, "steps": 6} | network
    made = ld.NeuralODE(np.array(field, dtype=float), **settings)
    training = ld.GradientDescent(rate, steps=epochs)
    return ld.solve(ld.Problem(made, data or ld.Stream(ld.TeacherFlow()), training))


@pytest.mark.slow
def test_superfluous_amplitudes_fall_exponentially_and_their_controls_stop():
    name = "neural-ode-neurons"
    theory = by_hand(2.0, 60, amplitudes=[1.0, 1.0, -0.6], train_amplitudes=True)
    for unit in range(3):
        a, Q = curve(name, 0, f"$a_{unit + 1}$"), curve(name, 1, f"$Q_{{{unit + 1}{unit + 1}}}$")
        np.testing.assert_allclose(a, theory["a"].values[:, unit], rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(Q, theory["Q"].values[:, unit, unit], rtol=0, atol=ROUNDING)
        if unit == 0:
            assert a[-1] > 2
            continue
        slopes = np.diff(np.log(np.abs(a)))
        assert (slopes < 0).all()
        assert abs(a[-1] / a[0]) < 0.03
        # The rate still follows the first neuron, which is not at rest: a per cent or two in thirty steps.
        np.testing.assert_allclose(slopes[30:], slopes[-1], rtol=0.02)
        # What is left to come is of the order of a², below 1e-3.
        assert abs(Q[-1] - Q[-11]) < 1e-3 < 0.3 < Q[-1]
    product = curve(name, 1, "$(a_1/h_s)")
    expected = theory["a"].values[:, 0] * theory["m"].values[:, 0, 0] / 3
    np.testing.assert_allclose(product, expected, rtol=0, atol=ROUNDING)
    assert np.max(np.abs(product[20:] - 1)) < 0.03
    # Of the two factors each still moves when their product no longer does.
    assert theory["a"].values[-1, 0] / theory["a"].values[20, 0] > 1.2


@pytest.mark.slow
def test_half_the_sum_of_two_windows_is_learned_long_before_their_order():
    name = "neural-ode-windows"
    late = []
    for panel, seen in enumerate((None, ld.Observations([0.5, 1.0]))):
        theory = by_hand(1.0, 120, ld.Stream(ld.TeacherFlow(observations=seen)), windows=2)[
            "m"
        ].values
        own, other = curve(name, panel, "$M_{11}$"), curve(name, panel, "$M_{12}$")
        half = curve(name, panel, "half the sum")
        np.testing.assert_allclose(own, theory[:, 0, 0], rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(other, theory[:, 0, 1], rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(half, theory.sum(axis=(1, 2)) / 2, rtol=0, atol=ROUNDING)
        common, order = (int(np.argmax(some > 0.9)) for some in (half, own - other))
        assert 0 < common < order
        assert abs(half[-1] - 1) < 0.01
        late.append((common, order))
    (common, order), (seen_common, seen_order) = late
    assert order > 5 * common
    assert seen_order < 0.3 * order
    assert seen_common <= common


@pytest.mark.slow
def test_the_test_loss_of_few_noisy_trajectories_has_a_minimum_later_for_more_of_them():
    name = "neural-ode-early-stopping"
    tested, _ = drawn_tiny(name)[0].axes
    marks = [line for line in tested.lines if line.get_marker() == "v" and len(along_x(line))]
    train = [curve(name, 1, f"n = {n}") for n in (1, 2, 4)]
    best = []
    for n, mark, falling in zip((1, 2, 4), marks, train, strict=True):
        test = curve(name, 0, f"n = {n}")
        assert test[0] == pytest.approx(falling[0], abs=ROUNDING)
        assert (np.diff(falling) < 0).all()
        best.append(int(np.argmin(test)))
        assert 0 < best[-1] < len(test) - 1
        assert test[-1] > 1.05 * test[best[-1]]
        np.testing.assert_array_equal(mark.get_xydata(), [[best[-1], test[best[-1]]]])
    assert best[0] < best[1] < best[2]
    data = ld.Dataset(ld.TeacherFlow(noise=1 / 3), examples=1)
    theory = by_hand(0.5, 40, data, control_ratio=1.0, steps=5)
    for values, quantity in ((curve(name, 0, "n = 1"), "test_loss"), (train[0], "train_loss")):
        np.testing.assert_allclose(values, theory[quantity], rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_one_trajectory_teaches_slower_than_fresh_ones_and_ends_elsewhere_with_noise():
    name, words = "neural-ode-next-token", ("next piece of one trajectory", "fresh trajectories")
    chained, fresh = (curve(name, 0, label) for label in words)
    assert chained[0] == pytest.approx(fresh[0], abs=ROUNDING)
    assert (chained[2:] > fresh[2:]).all()
    assert chained[-1] < 1e-4 * chained[0]
    for label, chain, stationary in zip(words, (True, False), (1.007, 0.963), strict=True):
        assert f"{stationary}" in registered(name).caption
        m = curve(name, 1, label)
        data = ld.Stream(ld.TeacherFlow(noise=0.1, chained=chain))
        theory = by_hand(0.4, 90, data, steps=5, noise=0.1)["m"].values[:, 0, 0]
        np.testing.assert_allclose(m, theory[:51], rtol=0, atol=ROUNDING)
        # Half a unit of the last digit of the caption.
        assert theory[-1] == pytest.approx(stationary, abs=5e-4)


@pytest.mark.slow
def test_more_observations_teach_more_and_masks_diffuse():
    name = "neural-ode-masks"
    labels = ("two times", "the end", "two times, ρ", "the same, one mask")
    m, Q = ({label: curve(name, panel, label) for label in labels} for panel in (0, 1))
    for better, worse in pairwise(labels):
        assert (m[better][2:11] > m[worse][2:11]).all()
    own, shared = (Q[label] for label in labels[2:])
    assert (shared[1:11] > own[1:11]).all()
    # Equal at the start, so that in one step the pull is the same and only the diffusion differs.
    assert m[labels[2]][1] == pytest.approx(m[labels[3]][1], abs=ROUNDING)
    assert shared[1] - own[1] > 0.01
    seen = ld.Observations([0.5, 1.0], visible=0.4, mask="trajectory")
    theory = by_hand(1.0, 30, ld.Stream(ld.TeacherFlow(observations=seen)))
    for values, quantity in ((m[labels[3]], "m"), (shared, "Q")):
        np.testing.assert_allclose(values, theory[quantity][:, 0, 0], rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_a_context_without_delay_is_a_power_of_the_state_and_a_delay_changes_it():
    name = "neural-ode-context"
    power = [[0, 0], [0, 0.4], [0, 0.8]]
    delayed = [[[0, 0], [0, 0.4]], [[0, 0], [0, 0.8]]]
    given = {"time": 2.0, "steps": 12}
    none = by_hand(0.2, 30, field=power, **given)
    some = by_hand(0.2, 30, field=delayed, delay=0.5, **given)
    for panel, quantity in enumerate(("m", "test_loss")):
        for label, theory in (("delay 0", none), ("delay 0.5", some)):
            values = curve(name, panel, label)
            expected = theory[quantity].squeeze()
            np.testing.assert_allclose(values, expected, rtol=0, atol=ROUNDING)
    early = [curve(name, 0, f"delay {delay}")[5] for delay in ("0", "0.5", "1")]
    assert early[0] < early[1] - 0.02 < early[2] - 0.04


@pytest.mark.slow
def test_a_driver_is_learned_slower_than_what_it_drives_and_sooner_if_it_is_seen():
    name = "neural-ode-stack"
    field = [[[0, 0], [0, 0.4]], [[0, 0], [0.4, 0.4]]]
    reached = []
    for panel, share in enumerate((0.0, 0.3)):
        driven = ld.PolynomialField(np.array(field, dtype=float))
        theory = by_hand(0.5, 80, driven=driven, driver_loss=share)["m"].values
        driver, second = curve(name, panel, "$m_1$"), curve(name, panel, "$m_2$")
        np.testing.assert_allclose(driver, theory[:, 0, 0], rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(second, theory[:, 1, 1], rtol=0, atol=ROUNDING)
        assert (driver[1:60] < second[1:60]).all()
        reached.append((driver[20], second[20]))
    assert reached[0][0] < 0.3 < 0.9 < reached[0][1]
    assert reached[1][0] > 3 * reached[0][0]
