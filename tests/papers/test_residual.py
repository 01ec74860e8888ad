"""The figures of residual networks show what they say, and leave out what is not known."""

import math
from itertools import pairwise

import numpy as np
import pytest

from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.papers import residual as drawn
from learndyn.papers.deep_linear_curves import descent, last_losses
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.supplies import Population
from learndyn.problem.tasks import LinearMap
from tests.papers.test_figures import drawn_tiny
from tests.pictured import along_x, along_y

# Pictures take minutes in all.
pytestmark = pytest.mark.slow


def test_a_star_is_at_the_minimum_of_its_line():
    """The search knows the rate to 1 %, and near its minimum a loss is flat: 1e-3 is far above what that costs."""
    figure, _ = drawn_tiny("deep-linear-5")
    for panel, count in zip(figure.axes, (4, 5), strict=True):
        # A level across the panel has two points, and circles have no line.
        solid = [line for line in panel.lines if line.get_linestyle() == "-"]
        lines = [line for line in solid if len(along_x(line)) > 2]
        stars = [line for line in panel.lines if line.get_marker() == "*" and len(along_x(line))]
        assert len(lines) == len(stars) == count
        for line, star in zip(lines, stars, strict=True):
            assert star.get_color() == line.get_color()
            (rate,), (best,) = along_x(star), along_y(star)
            np.testing.assert_allclose(along_y(line)[along_x(line) == rate], [best], rtol=1e-6)
            assert best <= 1.001 * along_y(line).min()


def test_curves_of_the_training_dynamics_are_stable_and_share_the_first_step_at_every_richness(
    monkeypatch,
):
    found = []

    def solved(curves, seeds, report):
        for curve in curves:
            found.append((curve, solve(curve.problem)))
        return []

    monkeypatch.setattr(drawn, "draw_curves", solved)
    figure = drawn.figure_4(lambda done: None, deepest=4)
    assert len(found) == 13
    assert all(theory.evidence["edge_of_stability"] is None for _, theory in found)
    rich = [theory["test_loss"].values for curve, theory in found if curve.axes is figure.axes[0]]
    # One step of a centred network does not depend on γ_0; rounding is amplified by 1/γ_0² ≤ 11.
    np.testing.assert_allclose([losses[1] for losses in rich], rich[0][1], rtol=1e-13)
    assert all(later[-1] < earlier[-1] for earlier, later in pairwise(rich))


def test_infinite_depth_is_known_on_both_sides_of_its_optimum():
    network = DeepLinear(math.inf, 1.0, 1.0, centered=True, skip=ScaledSkip(1.25))
    problem = descent(network, Population(LinearMap()), 0.012, 30)
    below, best, above = last_losses(problem, np.array([0.012, 0.01555, 0.01778]), 30)
    assert 0 < best < below < above < 1


def test_a_diverging_network_has_no_loss():
    network = DeepLinear(8, 1.0, 1.0, centered=True, skip=1.0)
    problem = descent(network, Population(LinearMap()), 1.0, 30)
    (loss,) = last_losses(problem, np.array([1.0]), 30)
    assert math.isnan(loss)
