"""The figures of the paper are registered and can be drawn."""

from itertools import pairwise

import numpy as np
import pytest

from learndyn.deep_linear import figures as drawn
from learndyn.figures import figures

# Pictures take minutes in all.
pytestmark = pytest.mark.slow

NUMBERS = (1, 2, 3, 6, 7, 8)
# Small enough for seconds; the panels and curves are those of the real figures.
TINY = {
    1: {"size": 16, "seeds": 2, "steps": 6},
    2: {"size": 16, "seeds": 2, "steps": 3, "count": 9},
    3: {"size": 20, "seeds": 2, "steps": 64, "count": 5},
    6: {"modes": 20, "seeds": 2, "steps": 24},
    7: {"steps": 5, "count": 2},
    8: {"modes": 200, "steps": 60},
}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_figure_is_registered_with_a_caption_and_a_reference(number):
    figure = {figure.name: figure for figure in figures()}[f"deep-linear-{number}"]
    assert figure.title
    assert "Bordelon" in figure.reference
    assert len(figure.caption) > 100
    assert 0 < figure.minutes <= 2
    assert figure.make is getattr(drawn, f"figure_{number}")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_figure_has_labelled_panels_with_positive_theory_lines_and_reports_its_end(number):
    reported = []
    figure = getattr(drawn, f"figure_{number}")(reported.append, **TINY[number])
    assert all(earlier <= later for earlier, later in pairwise(reported))
    assert reported[-1] == pytest.approx(1.0)
    panels = figure.axes
    rows = {panel.get_subplotspec().rowspan.start for panel in panels}
    for panel in panels:
        place = panel.get_subplotspec()
        if place.rowspan.start == max(rows) or number == 3:
            assert panel.get_xlabel()
        if place.colspan.start == 0 or number == 3:
            assert panel.get_ylabel()
        assert panel.get_legend() is not None
        lines = [line for line in panel.lines if line.get_linestyle() != "None"]
        lines = [np.asarray(line.get_ydata()) for line in lines if len(line.get_ydata())]
        assert len(lines) >= 2
        for values in lines:
            assert np.isfinite(values).all()
            assert (values > 0).all()


@pytest.mark.parametrize("log", [False, True])
def test_recorded_steps_increase_up_to_the_end_and_leave_out_0_on_a_logarithmic_axis(log):
    steps = drawn._steps(640, 150, log)
    assert steps[0] == int(log)
    assert steps[-1] == 640
    assert (np.diff(steps) > 0).all()
