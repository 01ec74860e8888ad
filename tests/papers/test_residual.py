"""The figures of residual networks show what they say, and leave out what is not known."""

import math
from itertools import pairwise

import numpy as np
import pytest

from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.papers import residual as drawn
from learndyn.papers.deep_linear import _problem
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.supplies import Population
from learndyn.problem.tasks import LinearMap
from tests.papers.test_figures import drawn_tiny

# Pictures take minutes in all.
pytestmark = pytest.mark.slow


def test_a_star_is_at_the_minimum_of_its_line():
    figure, _ = drawn_tiny("deep-linear-5")
    for panel, count in zip(figure.axes, (4, 5), strict=True):
        drawn_lines = [(line, np.asarray(line.get_ydata())) for line in panel.lines]
        lines = [(line, y) for line, y in drawn_lines if len(y) > 1]
        stars = [(line, y) for line, y in drawn_lines if line.get_marker() == "*" and len(y)]
        assert len(lines) == len(stars) == count
        for (line, losses), (star, best) in zip(lines, stars, strict=True):
            assert star.get_color() == line.get_color()
            assert best[0] == losses.min()


def test_curves_of_the_training_dynamics_are_stable_and_share_the_first_step_at_every_richness(
    monkeypatch,
):
    found = []

    def solved(curves, seeds, report):
        for curve in curves:
            found.append((curve, solve(curve.problem)))
            curve.axes.plot([], [], label=curve.label)

    monkeypatch.setattr(drawn, "_draw_curves", solved)
    figure = drawn.figure_4(lambda done: None)
    assert len(found) == 13
    assert all(theory.evidence["edge_of_stability"] is None for _, theory in found)
    rich = [theory["test_loss"].values for curve, theory in found if curve.axes is figure.axes[0]]
    # One step of a centred network does not depend on γ_0; rounding is amplified by 1/γ_0² ≤ 11.
    np.testing.assert_allclose([losses[1] for losses in rich], rich[0][1], rtol=1e-13)
    assert all(later[-1] < earlier[-1] for earlier, later in pairwise(rich))


def test_infinite_depth_is_known_on_both_sides_of_its_optimum():
    network = DeepLinear(math.inf, 1.0, 1.0, centered=True, skip=ScaledSkip(1.25))
    problem = _problem(network, Population(LinearMap()), 0.012, 30)
    below, best, above = drawn._last_losses(problem, np.array([0.012, 0.01555, 0.01778]), 30)
    assert 0 < best < below < above < 1


def test_a_diverging_network_has_no_loss():
    network = DeepLinear(8, 1.0, 1.0, centered=True, skip=1.0)
    problem = _problem(network, Population(LinearMap()), 1.0, 30)
    (loss,) = drawn._last_losses(problem, np.array([1.0]), 30)
    assert math.isnan(loss)
