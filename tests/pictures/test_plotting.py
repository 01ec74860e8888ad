import re
from typing import Any

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from learndyn.core.compare import compare
from learndyn.core.solution import Solution
from learndyn.errors import FileError, LearndynError
from learndyn.numerics.times import log_times
from learndyn.pictures.plotting import Picture, agreement_panel, plot, save_figure
from learndyn.pictures.scales import figure_of
from learndyn.pictures.style import COLOURS, THEORY_COLOUR, a_few
from tests import problems
from tests.pictured import along_y, heights, legend_of

TIMES = np.linspace(0.0, 10.0, 21)


def make(seeds=0, times=TIMES, rate=0.1, units=2, decay=0.1, diverged_at=None, method="ode"):
    """A theory, or with `seeds` a simulation of size 784."""
    problem = problems.two_layer(rate=rate, time=10.0)
    rng = np.random.default_rng(seeds)
    front = ("seed",) if seeds else ()
    shape = (seeds,) if seeds else ()
    loss = np.exp(-decay * times) * np.exp(0.05 * rng.standard_normal((*shape, 1)))
    R = np.tanh(times[:, None, None] + 0 * rng.random((*shape, 1, units, units)))
    C = np.minimum.outer(times, times) + 0 * rng.random((*shape, 1, 1))
    dataset = xr.Dataset(
        {
            "test_loss": ((*front, "time"), loss, {"long_name": "test loss ½⟨ε²⟩", "units": "1"}),
            "R": ((*front, "time", "student", "teacher"), R, {"long_name": "overlaps R"}),
            "C": ((*front, "time", "time2"), C, {"long_name": "correlation", "units": "m²"}),
        },
        {"time": ("time", times, {"long_name": "time t = steps / N"}), "time2": times},
    )
    evidence = {"kind": "theory", "method": {"kind": method}}
    if seeds:
        dataset = dataset.assign_coords(seed=np.arange(seeds))
        evidence = {"kind": "simulation", "size": 784}
    return Solution(dataset, problem, evidence, diverged_at=diverged_at)


def texts(panel):
    return [text.get_text() for text in legend_of(panel).get_texts()]


def test_the_picture_shows_theory_mean_error_and_band_with_their_names():
    theory, runs = make(), make(seeds=10)
    figure = plot(theory, runs)
    (panel,) = figure.axes
    assert texts(panel) == ["theory, N → ∞", "N = 784, 10 seeds"]
    assert panel.get_xlabel() == "time t = steps / N"
    assert panel.get_ylabel() == "test loss ½⟨ε²⟩"
    curve, circles = panel.lines
    assert np.array_equal(curve.get_ydata(), theory["test_loss"])
    few = a_few(runs["time"])
    losses = runs["test_loss"].isel(time=few)
    np.testing.assert_allclose(along_y(circles), losses.mean("seed"))
    bars = panel.containers[0][2][0].get_segments()
    errors = losses.std("seed", ddof=1).values / np.sqrt(10)
    np.testing.assert_allclose([np.ptp(bar[:, 1]) / 2 for bar in bars], errors)
    band = heights(panel.collections[0])
    assert band.max() == pytest.approx(float(runs["test_loss"].quantile(5 / 6, "seed").max()))


def test_one_seed_is_a_line_with_circles_and_without_a_band():
    (panel,) = plot(runs=make(seeds=1)).axes
    assert texts(panel) == ["N = 784, 1 seed"]
    assert len(panel.lines) == 2
    assert not panel.collections


def test_the_order_of_the_solutions_does_not_matter_to_their_names():
    (panel,) = plot(make(seeds=3), make()).axes
    assert sorted(texts(panel)) == ["N = 784, 3 seeds", "theory, N → ∞"]


def test_each_observable_has_its_panel_and_units():
    figure = plot(make(), observables=["test_loss", "C", "R"], title="three")
    loss, overlaps, correlation, bar = figure.axes
    assert loss.get_ylabel() == "test loss ½⟨ε²⟩"
    assert overlaps.get_ylabel() == "overlaps R"
    assert correlation.get_title() == "C: correlation [m²]"
    assert bar.get_label() == "<colorbar>"
    assert figure.get_suptitle() == "three"
    assert len(plot(make(), observables=["test_loss", "R", "test_loss", "R"]).axes) == 4
    assert plot(make(), title="one").axes[0].get_title() == "one"


def test_few_components_are_named_and_many_are_not():
    (panel,) = plot(make(units=2), make(seeds=3, units=2), observables="R").axes
    names = ["R[0, 0]", "R[0, 1]", "R[1, 0]", "R[1, 1]"]
    assert sorted(texts(panel)) == sorted([*names, "theory, N → ∞", "N = 784, 3 seeds"])
    (panel,) = plot(make(units=4), observables="R").axes
    assert len(panel.lines) == 16
    assert texts(panel) == ["theory, N → ∞"]
    assert len({line.get_color() for line in panel.lines}) == 16


def test_legends_stand_below_their_panels_and_inside_the_figure():
    figure = plot(make(), make(seeds=3), observables=["test_loss", "R", "test_loss", "R"])
    FigureCanvasAgg(figure).draw()
    boxes = [legend_of(panel).get_window_extent() for panel in figure.axes]
    for panel, legend in zip(figure.axes, boxes, strict=True):
        assert legend.y1 <= panel.xaxis.get_label().get_window_extent().y0 + 1
        assert legend.y0 >= 0
        for other in figure.axes:
            assert not legend.overlaps(other.get_window_extent())


def test_a_legend_stays_inside_axes_that_make_no_room_for_it():
    panel = Figure().subplots()
    plot(make(), ax=panel)
    FigureCanvasAgg(figure_of(panel)).draw()
    legend, box = legend_of(panel).get_window_extent(), panel.get_window_extent()
    assert box.y0 <= legend.y0
    assert legend.y1 <= box.y1


def test_axes_are_logarithmic_where_the_curves_ask_for_it():
    logs = log_times(10.0, 50)
    cases: tuple[tuple[dict[str, Any], tuple[str, str]], ...] = (
        ({}, ("linear", "linear")),
        ({"decay": 1.0}, ("linear", "log")),
        ({"times": logs}, ("log", "linear")),
        ({"times": logs, "decay": 1.0}, ("log", "log")),
        ({"times": np.array([0.0, 1.0])}, ("linear", "linear")),
    )
    for arguments, scales in cases:
        (panel,) = plot(make(**arguments), make(seeds=2, **arguments)).axes
        assert (panel.get_xscale(), panel.get_yscale()) == scales, arguments
    (panel,) = plot(make(decay=1.0), log="x").axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")
    (panel,) = plot(make(times=logs, decay=1.0), log="").axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("linear", "linear")


def test_a_band_that_reaches_zero_does_not_stretch_a_logarithmic_axis():
    runs = make(seeds=2, decay=1.0)
    data = runs.data.copy(deep=True)
    data["test_loss"][0, 10] = 1e-300
    (panel,) = plot(Solution(data, runs.problem, runs.evidence)).axes
    assert panel.get_yscale() == "log"
    assert panel.get_ylim()[0] > 1e-7


def test_solutions_of_different_problems_are_told_apart_by_what_differs():
    (panel,) = plot(make(rate=0.1), make(seeds=3, rate=0.1), make(rate=0.2)).axes
    assert texts(panel) == [
        "theory, N → ∞, learning rate 0.1",
        "N = 784, 3 seeds, learning rate 0.1",
        "theory, N → ∞, learning rate 0.2",
    ]
    lines = legend_of(panel).get_lines()
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[0], COLOURS[1]]


def test_solutions_of_one_problem_are_told_apart_by_method_or_number():
    (panel,) = plot(make(method="ode"), make(method="series")).axes
    assert texts(panel) == ["theory, N → ∞, ode", "theory, N → ∞, series"]
    lines = legend_of(panel).get_lines()
    assert [line.get_color() for line in lines] == [THEORY_COLOUR, THEORY_COLOUR]
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    (panel,) = plot(make(seeds=3), make(seeds=3)).axes
    assert texts(panel) == ["N = 784, 3 seeds (1)", "N = 784, 3 seeds (2)"]


def with_errors(theory, **errors):
    """The theory as if it had been sampled."""
    data = theory.data
    for name, error in errors.items():
        array = (0 * data[name] + error).assign_attrs(standard_error_of=name)
        data = data.assign({f"{name}_standard_error": array})
    return Solution(data, theory.problem, theory.evidence)


def test_a_sampled_theory_has_a_band_of_two_standard_errors_and_the_same_names():
    theory = with_errors(make(), test_loss=0.03, R=0.1, C=0.1)
    (panel,) = plot(theory).axes
    assert texts(panel) == ["theory, N → ∞"]
    (band,) = panel.collections
    band_heights = heights(band)
    curve = theory["test_loss"].values
    ends = (band_heights.min(), band_heights.max())
    assert ends == pytest.approx((curve.min() - 0.06, curve.max() + 0.06))
    (panel,) = plot(theory, observables="R").axes
    assert len(panel.collections) == 4
    colours = [tuple(np.asarray(band.get_facecolor())[0, :3]) for band in panel.collections]
    assert colours == [to_rgb(line.get_color()) for line in panel.lines]
    (panel,) = plot(theory, make(seeds=3)).axes
    # The bands of theory and seeds, and the bars of the circles.
    assert len(panel.collections) == 3


def test_each_component_has_the_band_of_its_own_error():
    errors = xr.DataArray([[0.0, 0.1], [0.2, 0.3]], dims=("student", "teacher"))
    theory = with_errors(make(), R=errors)
    (panel,) = plot(theory, observables="R").axes
    widths = [
        np.ptp(heights(band)) - np.ptp(along_y(line))
        for band, line in zip(panel.collections, panel.lines, strict=True)
    ]
    assert widths == pytest.approx([0.0, 0.4, 0.8, 1.2])


def test_a_band_below_zero_does_not_stretch_a_logarithmic_axis():
    (panel,) = plot(with_errors(make(decay=1.0), test_loss=0.01)).axes
    assert panel.get_yscale() == "log"
    assert panel.get_ylim()[0] > 1e-7


def test_divergence_is_marked():
    (panel,) = plot(make(diverged_at=5.0)).axes
    assert "diverged" in texts(panel)
    assert any(np.array_equal(line.get_xdata(), [5.0, 5.0]) for line in panel.lines)


def test_drawing_goes_where_the_user_says():
    figure = Figure()
    panels = figure.subplots(1, 2)
    assert plot(make(), observables=["test_loss", "R"], ax=panels) is figure
    assert all(panel.lines for panel in panels)
    assert plot(make(), ax=panels[0]) is figure
    other = Figure()
    assert plot(make(), figure=other) is other
    assert len(other.axes) == 1
    with pytest.raises(LearndynError, match="2 axes for 1 observables"):
        plot(make(), ax=panels)


def test_what_cannot_be_plotted_is_refused_with_the_reason():
    theory = make()
    numbers: Any = [1, 2]
    with pytest.raises(LearndynError, match="nothing to plot"):
        plot()
    empty = Solution(
        theory.data.isel(time=slice(0), time2=slice(0)), theory.problem, theory.evidence, 40
    )
    with pytest.raises(LearndynError, match="diverged before any recorded time"):
        plot(empty)
    with pytest.raises(LearndynError, match="must be a Solution"):
        plot(numbers)
    with pytest.raises(LearndynError, match="did you mean 'test_loss'"):
        plot(theory, observables="test_los")
    with pytest.raises(LearndynError, match="log = 'z'"):
        plot(theory, log="z")
    with pytest.raises(LearndynError, match="name at least one"):
        plot(theory, observables=[])
    steps = Solution(theory.data.rename(time="step"), theory.problem, theory.evidence)
    with pytest.raises(LearndynError, match="over time and over steps"):
        plot(theory, steps)
    scalar = Solution(theory.data.assign(limit=1.0), theory.problem, theory.evidence)
    with pytest.raises(LearndynError, match="limit does not depend on time"):
        plot(scalar, observables="limit")


def test_without_a_test_loss_the_simplest_observable_is_drawn():
    theory = make()
    data = theory.data.drop_vars("test_loss").assign(m=theory["R"][:, 0, 0])
    (panel,) = plot(Solution(data, theory.problem, theory.evidence)).axes
    assert len(panel.lines) == 1
    # Single numbers are simpler still, but no curves.
    data = data.assign(drop=np.nan)
    (panel,) = plot(Solution(data, theory.problem, theory.evidence)).axes
    np.testing.assert_array_equal(panel.lines[0].get_ydata(), data["m"])


@pytest.mark.parametrize(
    ("ending", "opening"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89P")],
)
def test_figures_are_written_in_the_format_of_their_ending(tmp_path, ending, opening):
    path = tmp_path / f"a.{ending}"
    save_figure(plot(make(), make(seeds=3)), path)
    assert path.read_bytes().startswith(opening)
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_ending_or_folder_is_refused(tmp_path):
    figure = plot(make())
    for name in ("a.jpeg2000", "a"):
        with pytest.raises(FileError, match=r"\.png, \.svg, \.pdf"):
            save_figure(figure, tmp_path / name)
    with pytest.raises(FileError, match="cannot write"):
        save_figure(figure, tmp_path / "nowhere" / "a.png")


def test_a_picture_shows_itself_in_a_notebook_and_draws_without_a_display():
    figure = plot(make())
    assert isinstance(figure, Picture)
    assert figure._repr_png_().startswith(b"\x89PNG")
    FigureCanvasAgg(figure).draw()


def test_plotting_leaves_pyplot_and_the_settings_alone():
    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    plot(make(), make(seeds=3), observables=["test_loss", "R"])
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == figures


def test_the_agreement_panel_has_a_line_per_observable_and_the_band():
    theory, runs = make(), make(seeds=5)
    rng = np.random.default_rng(0)
    data = runs.data.copy(deep=True)
    data["R"] = data["R"] + 0.01 * rng.standard_normal(data["R"].shape)
    result = compare(theory, Solution(data, runs.problem, runs.evidence))
    (panel,) = agreement_panel(result).axes
    legend = texts(panel)
    assert legend[:2] == ["± 2", "test_loss"]
    assert legend[2].startswith("R[")
    assert legend[2].endswith("the worst of 4")
    drawn = next(line for line in panel.lines if line.get_label() == legend[2])
    assert np.abs(along_y(drawn)).max() == pytest.approx(result.table.loc["R", "largest_in_errors"])
    figure = Figure()
    assert agreement_panel(result, ax=figure.subplots()) is figure


def test_svg_files_are_shortened_without_moving_their_letters(tmp_path):
    """Numbers lose digits that nobody sees; the scale of the letters is not one of them."""
    path = tmp_path / "a.svg"
    save_figure(plot(make()), path)
    text = path.read_text(encoding="utf-8")
    assert "scale(0.015625)" in text
    assert not re.search(r"[LM] \d+\.\d{3}", text)
