"""The pictures of reused data are in the paper's units."""

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learndyn.core.solve import solve
from learndyn.errors import NotConverged
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.two_layer.reused.time_grid import RARE
from learndyn.papers import delay_map, delayed_memory, grokking_setting
from learndyn.papers import delayed_features as drawn
from learndyn.papers.grokking_setting import GrokkingSetting
from tests.papers.test_figures import drawn_tiny

# Pictures take minutes in all.
pytestmark = pytest.mark.slow

SETTING = GrokkingSetting(0.5, 0.3, 3.0, 20.0)


def test_time_is_the_papers():
    """At small α the alignments grow as exp(3εt/2) where their sum is 0; the correction is of order α."""
    solution = solve(GrokkingSetting(1e-7, 0.3, math.inf, 2.0).problem(), save_at=[2.0])
    expected = 0.3 * math.exp(1.5 * 0.3 * 2.0)
    np.testing.assert_allclose(solution["R"].values.ravel(), [expected, -expected], rtol=1e-5)


def test_the_stable_step_is_that_of_the_curvature_at_the_solution():
    alpha, epsilon, gamma = 0.4, 0.3, 3.0
    length = 1 / math.sqrt(alpha * epsilon)
    largest = (1 + epsilon * RARE * length) ** 2
    # (K/α) Σ_i (α/K)² φ'(h_i)² over K = 2 units, for a rare sample and on average.
    alone = alpha * largest / gamma
    together = alpha * (1 + (epsilon * length) ** 2) * (1 + gamma**-0.5) ** 2
    setting = GrokkingSetting(alpha, epsilon, gamma, 1.0)
    assert setting.stable_step() == pytest.approx(2 / max(alone, together))
    assert alone > together
    lazy = GrokkingSetting(2.0, 0.05, gamma, 1.0)
    assert lazy.stable_step() == pytest.approx(2 / (2.05 * (1 + gamma**-0.5) ** 2))
    steps = setting.steps(0.5, first=0.01)
    assert (steps["step"], steps["largest_step"]) == (0.01, 0.5 * setting.stable_step())


def test_the_response_is_the_papers_and_has_no_diagonal():
    """One short step after a push, R^h = ⟨M²⟩/γ with M_ij = εΔδ_ij − (α/K)φ'_iφ'_j."""
    alpha, epsilon, gamma, step = 0.5, 0.3, 3.0, 1e-4
    setting = GrokkingSetting(alpha, epsilon, gamma, 2 * step)
    method = CausalSampling(step=step, samples=2048, batches=8)
    theory = solve(setting.problem(), method, save_at=3)
    found = delayed_memory.responses(theory, alpha)
    assert np.isnan(found[np.triu_indices(3)]).all()
    z, weights = np.polynomial.hermite_e.hermegauss(8)
    rho, a, b = np.meshgrid(z, z, z, indexing="ij")
    weight = np.einsum("i,j,k->ijk", weights, weights, weights) / (2 * math.pi) ** 1.5
    # ⟨h_1h_2⟩ = 0 and ⟨h_iρ⟩ = ±0.3: what is left of h_1 and h_2 has the correlation 0.09/0.91.
    rest, both = math.sqrt(0.91), 0.09 / 0.91
    h = np.stack(
        [0.3 * rho + rest * a, -0.3 * rho + rest * (both * a + math.sqrt(1 - both**2) * b)]
    )
    error = rho**2 / 2 - alpha / 2 * np.sum(h + epsilon / 2 * h**2, axis=0)
    slope = 1 + epsilon * h
    M = -alpha / 2 * slope[0] * slope + np.stack([epsilon * error, 0 * error])
    expected = np.sum(weight * np.sum(M**2, axis=0)) / gamma
    errors = theory.standard_error("R_h")
    assert errors is not None
    sampling = 2 / alpha / step * float(errors.values[1, 0, 0, 0])
    # Five standard errors of eight batches, and terms of the order of the step.
    assert abs(found[1, 0] - expected) < 5 * sampling + 10 * step
    assert sampling < 0.02 * expected


def test_steps_are_halved_until_no_sample_explodes(stand_in):
    def fails_twice(problem):
        if len(fake.computed) < 3:
            raise NotConverged("single samples explode")

    fake = stand_in("two_layer/dataset", before=fails_twice)
    steps = {"step": 0.4, "growth": 0.1, "largest_step": 0.8}
    assert grokking_setting.theory_of(SETTING, steps, {}, None).problem == SETTING.problem()
    tried = [(method.step, method.growth, method.largest_step) for method in fake.methods]
    assert tried == [(0.4, 0.1, 0.8), (0.2, 0.1, 0.4), (0.1, 0.1, 0.2)]
    fake.computed.clear()
    with pytest.raises(NotConverged):
        grokking_setting.theory_of(SETTING, steps, {}, None, halvings=1)
    assert len(fake.computed) == 2


def test_a_delay_is_relative_to_the_first_loss_and_to_the_labels(stand_in):
    """Losses 3e^(−t) and 3e^(−t/4) fall below 0.075 at ln 40 and 4 ln 40; a test loss that stays has no delay."""

    def delays(test_loss):
        def formula(problem, times):
            train = 3 * np.exp(-times)
            return {"train_loss": train, "test_loss": test_loss(times), "grokking_delay": 7.0}

        stand_in("two_layer/dataset", formula=formula)
        return delay_map._delays(SETTING, {})

    # Records at t are 0.035 t apart, over which interpolation shifts a drop at t by up to (0.035 t)²/8 times the rate.
    assert delays(lambda times: 3 * np.exp(-times / 4)) == pytest.approx((7.0, 4.0), rel=6e-4)
    # The labels set the level: a tenth of the first loss is 0.3, which this test loss passes.
    relative, absolute = delays(lambda times: 3 * np.exp(-times) + 0.1)
    assert relative == 7.0
    assert math.isnan(absolute)


def test_cells_without_a_delay_are_hatched_and_have_no_number():
    axes = Figure().subplots()
    delays = np.array([[2.0, math.nan], [4.0, 8.0]])
    delay_map._draw_cells(axes, np.array([0.1, 2.0]), np.array([0.2, 0.8]), delays, LogNorm(2, 8))
    (patch,) = axes.patches
    assert isinstance(patch, Rectangle)
    assert patch.get_hatch()
    # Column 1 is α = 2, row 0 is ε = 0.2.
    assert patch.get_xy() == (0.5, -0.5)
    numbers = {text.get_position(): text.get_text() for text in axes.texts}
    assert numbers == {(0, 0): "2.0", (0, 1): "4.0", (1, 1): "8.0"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.2", "0.8"]


def test_the_drops_are_marked_with_their_errors():
    drops = {"theory": ["10 ± 1", "40 ± 2", "4 ± 0.5"], "D = 30": ["9", "41", "4.2"]}
    axes = Figure().subplots()
    drawn._mark_drops(axes, drops, (10.0, 40.0), 0.1)
    arrow: Any = axes.texts[0]
    assert (arrow.xy, arrow.xyann) == ((10.0, 0.1), (40.0, 0.1))
    words = axes.texts[-1].get_text()
    assert (
        words
        == "theory: train 10 ± 1, test 40 ± 2, delay 4 ± 0.5\nD = 30: train 9, test 41, delay 4.2"
    )
    axes = Figure().subplots()
    drawn._mark_drops(axes, drops, (10.0, math.nan), 0.1)
    assert not axes.texts


def test_networks_that_do_not_drop_count_as_late_ones_in_the_median():
    assert drawn._median(np.array([30.0, math.nan, 1234.0, 20.0, 40.0])) == "40 [30, 1230]"
    assert drawn._median(np.array([10.0, math.nan, math.nan, math.nan])).startswith("∞")


def test_the_alignment_falls_at_first_for_small_epsilon_only():
    """Online at the start dA_1/dt = (3ε/2 − …)A_1 − (α/K)ΣA_j: negative for ε = 0.05 and positive for 0.3."""
    slopes = {}
    for epsilon, setting in drawn._varied(0.01)[2].settings.items():
        solution = solve(setting._replace(gamma=math.inf).problem(), save_at=[0.0, 0.01])
        A = solution["R"].values[:, :, 0]
        slopes[epsilon] = float(A[1, 0] - A[0, 0]) / 0.01
        overlaps = np.eye(2)
        force = epsilon / 2 * (1 - 0.5 * epsilon / 2 * 2) + epsilon
        expected = force * A[0] - 0.5 / 2 * (1 + epsilon**2 * overlaps) @ A[0]
        # A difference over dt = 0.01 is of first order, with rates of order one.
        assert slopes[epsilon] == pytest.approx(expected[0], abs=0.01)
    assert slopes[0.05] < -0.05
    assert slopes[0.3] > 0.05


def test_every_problem_of_the_second_figure_is_in_its_panels():
    figure, _ = drawn_tiny("grokking-2")
    for panel, varied in zip(figure.axes, drawn._varied(2.0), strict=False):
        words = {str(line.get_label()) for line in panel.lines}
        assert {f"{varied.symbol} = {value:g}" for value in varied.settings} <= words
