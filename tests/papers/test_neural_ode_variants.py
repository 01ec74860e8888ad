"""The pictures of noisy adjoints, other times and power-law amplitudes show what their captions say."""

import numpy as np
import pytest

from learndyn.core.solve import solve
from learndyn.papers import neural_ode_variants as drawn
from tests.papers.test_figures import drawn_tiny
from tests.pictured import curve_of

ROUNDING = 1e-12
"""Sums of a few hundred terms of order one."""


def curve(name: str, panel: int, label: str) -> np.ndarray:
    """The line of this name in a panel, as rows x and y."""
    panels = drawn_tiny(name)[0].axes
    return np.asarray(curve_of(panels[panel], label, panels).get_xydata()).T


def test_noise_of_the_adjoint_diffuses_the_control_and_does_not_turn_it():
    """In one step m does not feel the noise, and Q grows in proportion to it."""
    ends = [
        solve(drawn.problem_of_noisy_adjoint(noise, steps=1), save_at=[1])
        for noise in (0.0, 1.0, 3.0)
    ]
    m, Q = (np.array([float(end[name].squeeze()) for end in ends]) for name in "mQ")
    np.testing.assert_allclose(m, m[0], rtol=0, atol=ROUNDING)
    assert Q[1] - Q[0] > 0.001
    assert Q[2] - Q[0] == pytest.approx(3 * (Q[1] - Q[0]), rel=1e-9)


@pytest.mark.slow
def test_the_loss_that_a_noisy_adjoint_leaves_is_proportional_to_weak_noise():
    left = {
        (rate, noise): solve(drawn.problem_of_noisy_adjoint(noise, rate, 400), save_at=[400])
        for rate, noise in ((0.3, 0.0), (0.3, 0.01), (0.3, 0.1), (0.1, 0.1), (1.0, 10.0))
    }
    loss = {key: float(end["test_loss"][-1]) for key, end in left.items()}
    assert abs(loss[0.3, 0.0]) < ROUNDING
    # The next order is Q² − 1 of relative size 0.01 at a noise of 0.1.
    assert loss[0.3, 0.1] == pytest.approx(10 * loss[0.3, 0.01], rel=0.03)
    # A smaller rate leaves less, a little more than in proportion: corrections of first order in the rate.
    assert loss[0.1, 0.1] == pytest.approx(loss[0.3, 0.1] / 3, rel=0.15)
    # Where noise and rate are large nothing is learned.
    assert abs(drawn.cosine(left[1.0, 10.0])) < 0.01
    tested = curve("neural-ode-noisy-adjoint", 0, "$τ_p$ = 3")[1]
    theory = solve(drawn.problem_of_noisy_adjoint(3.0, steps=12))
    # Not to the last digit: a figure may have been compiled for another file of tests, with other optimisations.
    np.testing.assert_allclose(tested, theory["test_loss"], rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_a_student_with_more_time_takes_a_weaker_control_in_nearly_the_same_direction():
    ends = {
        time: solve(drawn.problem_of_student_time(time, steps=400), save_at=[400])
        for time in (0.6, 1.0, 2.0)
    }
    m, Q, loss = (
        {time: float(end[name].squeeze()) for time, end in ends.items()}
        for name in ("m", "Q", "test_loss")
    )
    assert m[1.0] == pytest.approx(1, abs=1e-6)
    assert abs(loss[1.0]) < 1e-9
    assert min(loss[0.6], loss[2.0]) > 0.005
    for time in (0.6, 2.0):
        assert m[time] * time == pytest.approx(1, abs=0.15)
        assert m[time] / np.sqrt(Q[time]) > 0.95
    two = solve(drawn.problem_of_student_time(2.0, windows=2, steps=400), save_at=[400])
    assert 0.5 * loss[2.0] < float(two["test_loss"][-1]) < 0.95 * loss[2.0]


def test_halfway_is_where_an_overlap_passes_a_half_for_the_first_time():
    steps = np.array([0.0, 1.0, 3.0])
    overlaps = np.array([[0.0, 0.0, 0.0], [0.4, 1.0, 0.1], [0.6, 0.2, 0.3]])
    np.testing.assert_allclose(drawn.halfway(steps, overlaps), [2.0, 0.5, np.nan])


@pytest.mark.slow
def test_strong_neurons_are_learned_first():
    """After a number of steps ∝ α_j⁻², so that the loss falls as a power of the steps."""
    grid = np.unique(np.geomspace(1, 400, 48).round().astype(int))
    for exponent in (1.0, 1.5):
        theory = solve(drawn.problem_of_power_law(exponent), save_at=grid)
        m = np.diagonal(theory["m"].values, axis1=1, axis2=2)
        half = drawn.halfway(grid, m)
        alpha = drawn.amplitudes_of(exponent, 12)[np.isfinite(half)]
        half = half[np.isfinite(half)]
        assert len(half) >= 6
        assert (np.diff(half) > 0).all()
        slope = np.polyfit(np.log(alpha[2:]), np.log(half[2:]), 1)[0]
        # Neurons that were learned before change the flow, by a few per cent.
        assert slope == pytest.approx(-2, rel=0.05)
        loss = theory["test_loss"].values
        early = (grid >= 3) & (grid <= 30)
        power = np.polyfit(np.log(grid[early]), np.log(loss[early]), 1)[0]
        # Twelve neurons are few: the loss of infinitely many would fall with this power.
        assert power == pytest.approx(1 / (2 * exponent) - 1, abs=0.1)


@pytest.mark.slow
def test_a_student_finds_power_law_amplitudes_from_equal_ones():
    end = solve(drawn.problem_of_power_law(1.0, known=False), save_at=[400])
    found = end["a"].values[0] * np.diagonal(end["m"].values[0]) / 12
    ratio = found / (drawn.amplitudes_of(1.0, 12) / 12)
    # The strong ones first; the weakest are still on their way.
    assert (np.diff(ratio) < 0).all()
    assert 0.95 < ratio.min() < ratio.max() < 1
