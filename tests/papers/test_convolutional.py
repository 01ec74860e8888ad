"""The figure of convolutional networks."""

import numpy as np
import pytest

from learndyn.papers.convolutional import figure_5, waves
from tests.pictured import legend_of


def test_waves_have_both_kinds_and_their_periods():
    x, y = waves(40, 6, noise=0.0, seed=3)
    assert x.shape == (40, 6)
    assert y.sum() == 0
    amplitudes = np.abs(np.fft.rfft(x, axis=1))
    assert np.all(amplitudes[y > 0].argmax(axis=1) == 1)
    assert np.all(amplitudes[y < 0].argmax(axis=1) == 2)


@pytest.mark.slow
def test_the_figure_has_a_line_for_each_richness_and_points_for_each_width():
    options = {"seeds": 2, "steps": 2, "points": 2, "samples": 256, "batches": 2}
    figure = figure_5(lambda done: None, (4, 8), (0.5, 1.0), **options)
    *panels, words = figure.axes
    assert len(panels) == 3
    texts = [text.get_text() for text in legend_of(words).get_texts()]
    assert texts == ["theory, N → ∞", "networks, N = 4", "networks, N = 8"]
    for panel in panels:
        assert len(panel.containers) == 4
        assert len(panel.lines) >= 2
        assert panel.get_xlabel()
        assert panel.get_ylabel()
