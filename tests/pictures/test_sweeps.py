"""Pictures of sweeps: what is drawn where, in which colour, with which words."""

import itertools
from typing import Any

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LogNorm, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learndyn.errors import LearndynError, ProblemError
from learndyn.pictures.panels.places import SHADES, log_spaced, places_of
from learndyn.pictures.style import RUNS_COLOUR, THEORY_COLOUR
from learndyn.pictures.sweeps import plot_sweep
from learndyn.sweeps.sweep import Sweep
from tests import problems
from tests.pictured import along_x, along_y, heights, values_of

RATES = [0.01, 0.1, 1.0]
WIDTHS = [0.5, 1.0, 2.0, 4.0]
TWO = {"training.learning_rate": RATES, "network.width": WIDTHS}
STEPS = np.arange(21)
SEEDS = 4


def make(over, *, value=None, theory=True, runs=False, diverged=(), failed=(), sampled=False):
    """A sweep whose test loss at the end is `value(**swept)`, reached from 1 by an exponential.

    `diverged` and `failed` are indices of points; `runs` adds seeds at 0.9 of the theory and around it.
    """
    axes = [path.rpartition(".")[2] for path in over]
    shape = tuple(len(values) for values in over.values())
    loss = np.empty((*shape, len(STEPS)))
    for index in np.ndindex(shape):
        swept = {a: v[i] for a, v, i in zip(axes, over.values(), index, strict=True)}
        end = value(**swept) if value else 0.5 + 0.01 * sum(index)
        loss[index] = (
            np.exp(np.log(end) * STEPS / STEPS[-1]) if end > 0 else 1 + (end - 1) * STEPS / 20
        )
    at = np.full(shape, np.nan)
    error = np.full(shape, "", dtype="U40")
    for index in diverged:
        loss[index][5:], at[index] = np.nan, 5
    for index in failed:
        loss[index], error[index] = np.nan, "the solver gave up"
    words = {"long_name": "test loss ½⟨ε²⟩", "units": "1"}
    arrays = {}
    if theory:
        arrays["test_loss"] = ((*axes, "step"), loss, words)
        arrays |= {"diverged_at": (axes, at), "error": (axes, error)}
        overlap = np.broadcast_to(loss[..., None], (*loss.shape, 2))
        arrays["R"] = ((*axes, "step", "student"), overlap * [1, 2], {"long_name": "overlap R"})
        arrays["kappa"] = (axes, loss[..., 0], {"long_name": "rate κ", "units": "1/s"})
        if sampled:
            attributes = {"standard_error_of": "test_loss"}
            arrays["test_loss_standard_error"] = ((*axes, "step"), 0.01 * loss, attributes)
    if runs:
        spread = np.array([-0.03, -0.01, 0.01, 0.03]).reshape(SEEDS, 1)
        arrays["test_loss_runs"] = (
            (*axes, "seed", "step"),
            0.9 * loss[..., None, :] + spread,
            words,
        )
        arrays |= {"diverged_at_runs": (axes, at), "error_runs": (axes, error)}
    coordinates = {
        axis: (axis, np.array(values), {"long_name": path})
        for axis, (path, values) in zip(axes, over.items(), strict=True)
    }
    data = xr.Dataset(
        arrays, coordinates | {"step": ("step", STEPS, {"long_name": "training step"})}
    )
    data.attrs["axes"] = axes
    problem = problems.two_layer(rate=0.1, time=10.0)
    return Sweep(data, problem, over, {"computed": 1, "reused": 0, "failed": 0})


def one(values=RATES, **options):
    return make({"training.learning_rate": values}, **options)


def texts(figure):
    """The legend, which stands above the panels of the figure."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def lines(panel, marker="None"):
    return [
        line for line in panel.lines if line.get_marker() == marker and len(line.get_xdata()) > 1
    ]


def bars(panel):
    """The upper and lower ends of all error bars."""
    found = [c for c in panel.collections if isinstance(c, LineCollection)]
    return np.array([segment[:, 1] for one in found for segment in one.get_segments()])


def test_curves_have_the_colour_of_their_value_on_the_bar():
    sweep = one()
    panel, bar = plot_sweep(sweep).axes
    drawn = lines(panel)
    assert len(drawn) == 3
    for line, curve, height in zip(drawn, sweep["test_loss"], (0.0, 0.5, 1.0), strict=True):
        assert np.array_equal(line.get_ydata(), curve)
        assert np.array_equal(line.get_xdata(), STEPS)
        # The rates are a decade apart: the colours are equally far apart on a logarithmic bar.
        assert to_rgba(line.get_color()) == pytest.approx(SHADES(height), abs=1 / 255)
    assert bar.get_ylabel() == "learning rate"
    assert bar.get_yscale() == "log"
    assert bar.get_ylim() == pytest.approx((0.01, 1.0))
    assert panel.get_xlabel() == "training step"
    assert panel.get_ylabel() == "test loss ½⟨ε²⟩"


def test_unsorted_values_keep_their_own_curves():
    sweep = one([1.0, 0.01, 0.1])
    panel, _ = plot_sweep(sweep).axes
    for line, rate in zip(lines(panel), RATES, strict=True):
        assert np.array_equal(line.get_ydata(), sweep["test_loss"].sel(learning_rate=rate))


def test_evenly_spaced_values_have_a_linear_bar():
    _, bar = plot_sweep(one([1.0, 2.0, 3.0])).axes
    assert bar.get_yscale() == "linear"
    assert [tick.get_text() for tick in bar.get_yticklabels()] == ["1", "2", "3"]


def test_runs_are_means_with_standard_errors_on_the_theory():
    sweep = one(runs=True)
    figure = plot_sweep(sweep)
    panel = figure.axes[0]
    dots = lines(panel, "o")
    assert len(lines(panel)) == len(dots) == 3
    for dot, curve in zip(dots, sweep["test_loss_runs"], strict=True):
        mean = curve.mean("seed").sel(step=dot.get_xdata())
        assert np.allclose(dot.get_ydata(), mean, rtol=1e-14)
    # The four seeds are at ± 0.01 and ± 0.03 around their mean.
    error = np.std([-0.03, -0.01, 0.01, 0.03], ddof=1) / 2
    assert np.allclose(np.diff(bars(panel)), 2 * error, rtol=1e-12)
    assert texts(figure) == ["theory", "runs, mean of 4 seeds ± standard error"]


def test_runs_alone_are_lines_in_a_band():
    sweep = one(theory=False, runs=True)
    figure = plot_sweep(sweep)
    panel = figure.axes[0]
    assert len(lines(panel)) == 3
    assert not lines(panel, "o")
    band = heights(panel.collections[0])
    error = np.std([-0.03, -0.01, 0.01, 0.03], ddof=1) / 2
    assert band.max() == pytest.approx(0.9 + error)
    assert texts(figure) == ["runs, mean of 4 seeds ± standard error"]


def test_a_sampled_theory_has_a_band_of_two_standard_errors():
    figure = plot_sweep(one(sampled=True))
    band = heights(figure.axes[0].collections[0])
    assert band.max() == pytest.approx(1.02)
    assert "± 2 standard errors" in texts(figure)


def test_a_curve_that_diverges_ends_in_a_cross_and_one_that_failed_is_counted():
    figure = plot_sweep(one(diverged=[(2,)], failed=[(0,)]))
    panel = figure.axes[0]
    (cross,) = [line for line in panel.lines if line.get_marker() == "x"]
    assert cross.get_xdata() == [4]
    assert texts(figure) == ["theory", "1 failed: not drawn", "diverged"]


def test_a_diverging_curve_does_not_stretch_the_axis():
    sweep = one(diverged=[(2,)])
    sweep.data["test_loss"][2, 4] = 1e200
    panel = plot_sweep(sweep).axes[0]
    assert panel.get_ylim()[1] < 100
    (cross,) = [line for line in panel.lines if line.get_marker() == "x"]
    assert cross.get_ydata() == [panel.get_ylim()[1]]


def test_words_and_infinite_values_have_single_colours_and_names():
    figure = plot_sweep(make({"network.parameterization": ["mup", "ntk"]}))
    assert len(figure.axes) == 1
    assert texts(figure) == ["parameterization = mup", "parameterization = ntk", "theory"]
    figure = plot_sweep(make({"network.width": [np.inf, 1.0]}))
    assert texts(figure)[:2] == ["width = 1", "width = ∞"]


def test_a_second_field_has_panels_with_shared_axes():
    sweep = make({"training.learning_rate": RATES, "network.width": [2.0, 1.0]})
    *panels, bar = plot_sweep(sweep, kind="curves").axes
    assert [panel.get_title() for panel in panels] == ["width = 1", "width = 2"]
    assert bar.get_ylabel() == "learning rate"
    for panel, width in zip(panels, (1.0, 2.0), strict=True):
        for line, rate in zip(lines(panel), RATES, strict=True):
            expected = sweep["test_loss"].sel(width=width, learning_rate=rate)
            assert np.array_equal(line.get_ydata(), expected)
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert panels[1].get_ylabel() == ""
    *panels, bar = plot_sweep(sweep, kind="curves", colour="width").axes
    assert len(panels) == 3
    assert bar.get_ylabel() == "width"


def test_select_fixes_a_field_by_its_value_or_the_digits_shown():
    sweep = make({"training.learning_rate": [0.0123456, 0.2], "network.width": WIDTHS})
    for rate in (0.0123456, 0.01235):
        panel, bar = plot_sweep(sweep, select={"learning_rate": rate}).axes
        assert bar.get_ylabel() == "width"
        for line, curve in zip(lines(panel), sweep["test_loss"][0], strict=True):
            assert np.array_equal(line.get_ydata(), curve)


def cells(panel):
    (mesh,) = [c for c in panel.collections if isinstance(c, QuadMesh)]
    return mesh


def test_the_map_has_each_value_at_its_place_on_logarithmic_axes():
    sweep = make(TWO)
    panel, bar = plot_sweep(sweep).axes
    values = values_of(cells(panel))
    assert np.array_equal(
        values, sweep["test_loss"].isel(step=-1).transpose("width", "learning_rate")
    )
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("learning rate", "width")
    assert bar.get_ylabel() == "test loss ½⟨ε²⟩, at step 20"
    # The borders of cells are half way between neighbours in the logarithm.
    corners = np.asarray(cells(panel).get_coordinates())
    assert corners[0, :, 0] == pytest.approx(10.0 ** np.array([-2.5, -1.5, -0.5, 0.5]))
    assert corners[:, 0, 1] == pytest.approx(2.0 ** np.array([-1.5, -0.5, 0.5, 1.5, 2.5]))
    assert isinstance(cells(panel).norm, Normalize)
    assert not isinstance(cells(panel).norm, LogNorm)


def test_the_axes_of_a_map_can_be_exchanged_and_the_moment_chosen():
    sweep = make(TWO)
    panel, bar = plot_sweep(sweep, x="width", at=7.4).axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("width", "learning rate")
    assert np.array_equal(values_of(cells(panel)), sweep["test_loss"].sel(step=7))
    assert bar.get_ylabel().split() == ["test", "loss", "½⟨ε²⟩,", "at", "step", "7"]


def test_colours_are_logarithmic_beyond_two_decades_only():
    wide = make(TWO, value=lambda learning_rate, width: 1e-3 * learning_rate * width)
    assert isinstance(cells(plot_sweep(wide).axes[0]).norm, LogNorm)
    signed = make(TWO, value=lambda learning_rate, width: 1 - width)
    assert not isinstance(cells(plot_sweep(signed).axes[0]).norm, LogNorm)


def test_a_loss_that_vanishes_by_rounding_leaves_the_colours_logarithmic():
    sweep = make(TWO, value=lambda learning_rate, width: 1e-5 * width)
    sweep.data["test_loss"][0, 0, -1] = -1e-16
    mesh = cells(plot_sweep(sweep).axes[0])
    assert isinstance(mesh.norm, LogNorm)
    # Losses start at 1, of which 1e-13 counts as rounding.
    assert mesh.norm.vmin == pytest.approx(1e-13)
    assert values_of(mesh)[0, 0] == pytest.approx(1e-13)


def test_points_without_a_value_are_hatched_and_said_in_the_legend():
    figure = plot_sweep(make(TWO, diverged=[(2, 0)], failed=[(0, 3)]))
    panel = figure.axes[0]
    patches = {p.get_hatch(): p for p in panel.patches if isinstance(p, Rectangle)}
    assert patches["////"].get_xy() == pytest.approx((10**-0.5, 2**-1.5))
    assert patches["xxxx"].get_xy() == pytest.approx((10**-2.5, 2**1.5))
    assert sorted(texts(figure)) == ["diverged", "failed"]
    assert np.ma.count_masked(cells(panel).get_array()) == 2
    # Before it diverged, a training has values.
    assert len(plot_sweep(make(TWO, diverged=[(2, 0)]), at=3).axes[0].patches) == 0


def test_runs_are_dots_in_the_cells_with_colours_of_the_same_bar():
    sweep = make(TWO, runs=True)
    sweep.data["test_loss_runs"][0, 1] = np.nan
    figure = plot_sweep(sweep)
    panel = figure.axes[0]
    (dots,) = [c for c in panel.collections if not isinstance(c, QuadMesh)]
    assert dots.norm is cells(panel).norm
    mean = sweep["test_loss_runs"].mean("seed").isel(step=-1)
    drawn = ~np.ma.getmaskarray(values_of(dots))
    assert np.count_nonzero(drawn) == 11
    values = np.asarray(dots.get_array())[drawn]
    for (x, y), value in zip(np.asarray(dots.get_offsets())[drawn], values, strict=True):
        assert value == pytest.approx(mean.sel(learning_rate=x, width=y).item(), rel=1e-14)
    (cross,) = panel.lines
    assert (cross.get_xdata(), cross.get_ydata()) == ([0.01], [1.0])
    assert texts(figure) == ["dots: mean of 4 runs", "runs diverged or failed"]


def test_words_and_infinite_values_have_places_in_a_row():
    over = {"network.width": [np.inf, 1.0, 2.0], "network.parameterization": ["mup", "ntk"]}
    sweep = make(over, value=lambda width, parameterization: 1 / width if width < 9 else 0.1)
    panel = plot_sweep(sweep).axes[0]
    assert [t.get_text() for t in panel.get_xticklabels()] == ["1", "2", "∞"]
    assert [t.get_text() for t in panel.get_yticklabels()] == ["mup", "ntk"]
    assert values_of(cells(panel))[0].tolist() == pytest.approx([1.0, 0.5, 0.1])


def bowl(learning_rate, width):
    """Smallest at the rate 0.1 for the width 1, at ends of the range for others."""
    return 0.1 + 0.1 * abs(np.log10(learning_rate * width**5) + 1)


def test_the_best_rate_is_that_of_the_smallest_loss_and_open_at_the_ends():
    sweep = make(TWO, value=bowl)
    figure = plot_sweep(sweep, kind="best")
    top, bottom = figure.axes
    final = sweep["test_loss"].isel(step=-1)
    expected = [RATES[k] for k in final.argmin("learning_rate").values]
    assert expected == [1.0, 0.1, 0.01, 0.01]
    line, inner, ends = top.lines
    assert np.array_equal(line.get_xdata(), WIDTHS)
    assert np.array_equal(line.get_ydata(), expected)
    assert along_x(inner).tolist() == [1.0]
    assert inner.get_markerfacecolor() == THEORY_COLOUR
    assert along_x(ends).tolist() == [0.5, 2.0, 4.0]
    assert ends.get_markerfacecolor() == "white"
    assert np.array_equal(bottom.lines[0].get_ydata(), final.min("learning_rate"))
    assert texts(figure) == [
        "theory",
        "open: at the end of the values swept, the optimum may lie outside",
    ]
    assert top.get_ylabel() == "best learning rate"
    assert bottom.get_xlabel() == "width"
    assert " ".join(bottom.get_ylabel().split()) == "smallest test loss ½⟨ε²⟩, at step 20"
    # The whole range that was swept is in view.
    assert top.get_ylim()[0] < 0.01 < 1 < top.get_ylim()[1]


def test_another_field_than_the_rate_can_be_the_best():
    sweep = make(TWO, value=bowl)
    top, bottom = plot_sweep(sweep, kind="best", x="width").axes
    final = sweep["test_loss"].isel(step=-1)
    assert np.array_equal(
        top.lines[0].get_ydata(), [WIDTHS[k] for k in final.argmin("width").values]
    )
    assert bottom.get_xlabel() == "learning rate"


def test_the_best_of_runs_has_the_standard_error_of_that_point():
    sweep = make(TWO, value=bowl, runs=True)
    figure = plot_sweep(sweep, kind="best")
    top, bottom = figure.axes
    colours = {line.get_color() for line in top.lines}
    assert colours == {THEORY_COLOUR, RUNS_COLOUR}
    error = np.std([-0.03, -0.01, 0.01, 0.03], ddof=1) / 2
    assert np.allclose(np.diff(bars(bottom)), 2 * error, rtol=1e-12)


def test_a_diverged_rate_is_never_the_best_and_a_lost_row_is_named():
    lost = [(k, 3) for k in range(3)]
    figure = plot_sweep(make(TWO, value=bowl, diverged=[(1, 1)], failed=lost), kind="best")
    line = figure.axes[0].lines[0]
    assert along_x(line).tolist() == [0.5, 1.0, 2.0]
    assert along_y(line)[1] != 0.1
    assert "no theory at width 4" in texts(figure)


def test_of_equally_good_values_the_middle_is_the_best():
    sweep = make({"training.learning_rate": [1, 2, 3, 4, 5.0], "network.width": [1.0, 2.0]})
    sweep.data["test_loss"][1:4, :, -1] = np.array([[1e-15], [0.0], [-1e-15]])
    line = plot_sweep(sweep, kind="best").axes[0].lines[0]
    assert along_y(line).tolist() == [3.0, 3.0]


def test_a_line_goes_through_the_values_at_the_moment_asked_for():
    sweep = one(runs=True, diverged=[(2,)])
    figure = plot_sweep(sweep, kind="line", at=10)
    (panel,) = figure.axes
    ((theory,), (dots,)) = lines(panel, ""), lines(panel, "o")
    assert np.array_equal(theory.get_ydata(), sweep["test_loss"].sel(step=10), equal_nan=True)
    mean = sweep["test_loss_runs"].mean("seed", skipna=False).sel(step=10)
    assert np.allclose(dots.get_ydata(), mean, rtol=1e-14, equal_nan=True)
    crosses = [line for line in panel.lines if line.get_marker() == "x"]
    assert {along_x(line)[0] for line in crosses} == {1.0}
    assert texts(figure)[-1] == "diverged"
    assert panel.get_xscale() == "log"


@pytest.mark.parametrize("kind", ["line", "best"])
def test_unsorted_values_are_joined_in_increasing_order(kind):
    widths, rates = [2.0, 0.5, 1.0, 4.0], [1.0, 0.01, 0.1]
    over = {"training.learning_rate": rates, "network.width": widths}
    sweep = make(over, value=bowl)
    final = sweep["test_loss"].isel(step=-1).sortby(["width", "learning_rate"])
    panel = plot_sweep(sweep, kind=kind, x="width" if kind == "line" else None).axes[0]
    line = panel.lines[0]
    assert along_x(line).tolist() == sorted(widths)
    expected = final[0] if kind == "line" else final["learning_rate"][final.argmin("learning_rate")]
    assert np.array_equal(line.get_ydata(), expected)


def test_lines_of_a_second_field_are_coloured():
    sweep = make(TWO)
    panel, bar = plot_sweep(sweep, kind="line", x="width").axes
    assert bar.get_ylabel() == "learning rate"
    for line, values in zip(lines(panel, "."), sweep["test_loss"].isel(step=-1), strict=True):
        assert np.array_equal(line.get_ydata(), values)
    _, bar = plot_sweep(sweep, kind="line", colour="learning_rate").axes
    assert bar.get_ylabel() == "learning rate"


def test_a_number_without_steps_is_a_line_with_units():
    (panel,) = plot_sweep(one(), "kappa").axes
    assert panel.get_ylabel() == "rate κ [1/s]"
    assert len(lines(panel, ".")) == 1


def test_a_shorter_training_counts_at_its_own_end():
    sweep = one()
    sweep.data["test_loss"][0, 11:] = np.nan
    (panel,) = plot_sweep(sweep, kind="line").axes
    expected = [sweep["test_loss"].values[0, 10], *sweep["test_loss"].values[1:, -1]]
    assert np.array_equal(lines(panel, ".")[0].get_ydata(), expected)
    assert "at the end of" in panel.get_ylabel()


def test_components_are_selected_by_their_index():
    sweep = one()
    panel = plot_sweep(sweep, "R", select={"student": 1}).axes[0]
    assert np.array_equal(lines(panel)[1].get_ydata(), sweep["R"][1, :, 1])


def test_a_symbol_and_units_of_an_axis_are_in_its_label():
    sweep = one()
    sweep.data["learning_rate"].attrs |= {"symbol": "η", "units": "1/s"}
    assert places_of(sweep.data["learning_rate"]).label == "learning rate η [1/s]"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 1, 2], True),
        ([1, 2, 5, 10], True),
        ([1, 2, 3], False),
        ([0.0, 1, 10], False),
        ([-1, 1, 10], False),
        ([1, 2], False),
        ([0.1, 1], True),
        ([3], False),
    ],
)
def test_log_spaced_values_are_recognised(values, expected):
    assert log_spaced(np.array(values, dtype=float)) is expected


THREE = TWO | {"data.noise": [0.0, 0.1]}


@pytest.mark.parametrize(
    ("over", "options", "words"),
    [
        (TWO, {"kind": "heat"}, ["kind = 'heat'", "curves, map, best, line"]),
        (TWO, {"observable": "tets_loss"}, ["did you mean 'test_loss'?"]),
        (TWO, {"observable": "R"}, ["observable = 'R'", "student (2)", "select={'student': 0}"]),
        (TWO, {"x": "widht"}, ["x = 'widht'", "did you mean 'width'?"]),
        (TWO, {"colour": "width"}, ["colour = 'width'", "must be None for the kind 'map'"]),
        (TWO, {"kind": "curves", "x": "width"}, ["x = 'width'", "kind 'curves'"]),
        (TWO, {"kind": "line", "x": "width", "colour": "width"}, ["another field than x"]),
        (TWO, {"at": 21}, ["at = 21", "from 0 to 20"]),
        (TWO, {"select": {"width": 3.0}}, ["select['width'] = 3.0", "0.5, 1.0, 2.0, 4.0"]),
        (TWO, {"select": {"widht": 1.0}}, ["did you mean 'width'?"]),
        (TWO, {"select": {"width": 1.0, "learning_rate": 0.1}}, ["must leave a swept field"]),
        (TWO, {"kind": "curves", "observable": "kappa"}, ["depends on the step or time"]),
        (TWO, {"observable": "kappa", "at": 3}, ["at = 3", "must be None"]),
        (THREE, {}, ["noise = 0, 0.1", "select={'noise': 0.0}"]),
        (THREE, {"kind": "curves"}, ["select="]),
        ({"network.width": WIDTHS}, {"kind": "map"}, ["needs two swept fields"]),
        (
            {"network.width": WIDTHS, "data.noise": [0.1, 1.0]},
            {"kind": "best"},
            ["x = None", "noise"],
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_try(over, options, words):
    with pytest.raises(LearndynError) as caught:
        plot_sweep(make(over), **options)
    for word in words:
        assert word in str(caught.value)


def test_too_many_panels_are_refused():
    over = {"network.width": np.arange(1.0, 9).tolist(), "data.noise": np.arange(7.0).tolist()}
    with pytest.raises(ProblemError, match="noise = 0, 1, 2, 3, 4, 5, 6"):
        plot_sweep(make(over), kind="curves")


def test_a_sweep_without_a_single_value_says_so():
    sweep = one()
    data: Any = sweep.data
    empty = Sweep(sweep.data[["error", "diverged_at"]], sweep.problem, sweep.over, {})
    empty.data.attrs = sweep.data.attrs
    with pytest.raises(LearndynError, match="every point failed"):
        plot_sweep(empty)
    with pytest.raises(LearndynError, match="must be a Sweep"):
        plot_sweep(data)


def test_it_draws_where_it_is_told_to():
    figure = Figure()
    panels = figure.subplots(1, 2)
    assert plot_sweep(one(), ax=panels[0]) is figure
    legend = panels[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["theory"]
    assert not panels[1].lines
    plot_sweep(make(TWO, value=bowl), kind="best", ax=Figure().subplots(2, 1))
    with pytest.raises(LearndynError, match="needs 2"):
        plot_sweep(make(TWO), kind="best", ax=panels[0])


def test_every_kind_can_be_written_and_pyplot_is_left_alone(tmp_path):
    before, settings = pyplot.get_fignums(), dict(matplotlib.rcParams)
    options = itertools.product(("curves", "map", "best", "line"), (False, True))
    for kind, runs in options:
        sweep = make(TWO, value=bowl, runs=runs, diverged=[(2, 0)], failed=[(0, 3)])
        plot_sweep(sweep, kind=kind).savefig(tmp_path / f"{kind}.png", dpi=40)
    assert pyplot.get_fignums() == before
    assert dict(matplotlib.rcParams) == settings
