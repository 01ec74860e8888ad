"""What the pictures share: circles with standard errors, names beside curves, letters, colours that suit the values."""

import itertools
import math

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from learndyn.pictures import style


@pytest.fixture
def panel():
    _, panels = style.new_panels(1, 1)
    return panels[0, 0]


def test_networks_are_open_circles_at_the_mean_with_its_standard_error(panel):
    runs = np.array([[1.0, 4.0], [3.0, 8.0], [5.0, 3.0]])
    style.draw_networks(panel, [0.0, 1.0], runs, "red", band=True)
    circles, _, (bars,) = panel.containers[0]
    np.testing.assert_allclose(circles.get_ydata(), runs.mean(axis=0))
    lengths = [np.ptp(bar[:, 1]) / 2 for bar in bars.get_segments()]
    np.testing.assert_allclose(lengths, runs.std(axis=0, ddof=1) / math.sqrt(3))
    assert circles.get_marker() == "o"
    assert circles.get_markerfacecolor() == "white"
    (band,) = panel.collections[:1]
    corners = band.get_paths()[0].vertices[:, 1]
    # Of three seeds, a sixth is a third of the way from the first to the second.
    assert corners.min() == pytest.approx(1 + 2 / 3)
    assert corners.max() == pytest.approx(8 - 4 / 3)


def test_a_single_network_has_no_bars(panel):
    style.draw_networks(panel, [0.0, 1.0], np.array([[1.0, 2.0]]), band=True)
    assert panel.containers[0][2] == ()
    assert not panel.collections


def test_the_band_of_a_sampled_theory_is_two_standard_errors(panel):
    style.draw_theory(panel, [0.0, 1.0], [1.0, 2.0], error=[0.1, 0.2])
    corners = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.min() == pytest.approx(0.8)
    assert corners.max() == pytest.approx(2.4)


def test_a_few_points_are_spread_over_the_axis():
    assert style.a_few([1.0, 2.0]) == [0, 1]
    few = style.a_few(np.arange(101), 11)
    assert few == list(range(0, 101, 10))
    times = np.concatenate([[0.0], np.geomspace(1, 1e4, 401)])
    few = style.a_few(times, 9)
    np.testing.assert_allclose(np.diff(np.log10(times[few])), 0.5, atol=0.02)


def test_names_stand_beside_their_curves_and_apart(panel):
    lines = [style.draw_theory(panel, [1, 2, 3], [1, 1, end]) for end in (5.0, 5.01, 1.0)]
    panel.set(xlim=(1, 3), ylim=(0, 10))
    style.name_lines(panel, [(line, name) for line, name in zip(lines, "abc", strict=True)])
    assert panel.get_xlim()[1] > 3
    places = {text.get_text(): text.get_position() for text in panel.texts}
    heights = [places[name][1] for name in "cab"]
    assert all(b - a > 0.05 for a, b in itertools.pairwise(heights))
    assert places["c"][1] == pytest.approx(0.1)
    assert (places["a"][1] + places["b"][1]) / 2 == pytest.approx(0.5005)


def test_letters_go_before_titles():
    _, panels = style.new_panels(1, 2)
    style.finish(panels[0, 0], "loss")
    style.letter(panels.flat)
    assert [panel.get_title() for panel in panels.flat] == ["(a) loss", "(b)"]


def test_colours_suit_the_values():
    signed = style.colours_of([-1.0, 3.0, math.nan])
    assert signed["cmap"] == style.SIGNED
    assert (signed["norm"].vmin, signed["norm"].vmax) == (-3, 3)
    positive = style.colours_of([1.0, 3.0])
    assert positive["cmap"] == style.POSITIVE
    assert positive["norm"].vmin == 1
    assert isinstance(style.colours_of([0.0, 1.0, 10.0], log=True)["norm"], LogNorm)


def test_the_legend_says_what_lines_and_circles_are(panel):
    style.legend_of(panel, "networks, N = 10", train=True)
    texts = [text.get_text() for text in panel.get_legend().get_texts()]
    assert texts == ["theory", "networks, N = 10", "test", "train"]
