"""Functions of two times as maps."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from learndyn.core.solution import Solution
from learndyn.numerics.times import log_times
from learndyn.pictures.plotting import plot
from learndyn.pictures.scales import figure_of
from tests import problems

TIMES = np.linspace(0.0, 10.0, 11)


def make(seeds=0, times=TIMES, units=1, shift=0.0, function=lambda t, s: 1 + t + 2 * s):
    """A function F_ij(t, t′) of two times, the same for all units; of runs, plus a shift and 0, 1, … for the seeds."""
    values = function(times[:, None], times[None, :]) + shift
    F = np.broadcast_to(values[:, None, :, None], (len(times), units, len(times), units))
    dims, coords = ("time", "unit", "time2", "unit2"), {"time": times, "time2": times}
    evidence = {"kind": "theory"}
    if seeds:
        F = F + np.arange(seeds).reshape(-1, 1, 1, 1, 1)
        dims, coords = ("seed", *dims), coords | {"seed": np.arange(seeds)}
        evidence = {"kind": "simulation", "size": 784}
    data = xr.Dataset({"F": (dims, F, {"long_name": "function F", "units": "m"})}, coords)
    return Solution(data, problems.two_layer(time=10.0), evidence)


def maps(figure):
    return [panel for panel in figure.axes if panel.get_label() != "<colorbar>"]


def values(panel):
    (mesh,) = panel.collections
    return np.ma.filled(mesh.get_array(), np.nan)


def test_the_first_time_is_upward_and_the_second_to_the_right():
    figure = plot(make(), observables="F")
    (panel,) = maps(figure)
    assert len(figure.axes) == 2
    np.testing.assert_array_equal(values(panel), 1 + TIMES[:, None] + 2 * TIMES[None, :])
    assert panel.get_title() == "F: function F [m]"
    assert panel.get_xlabel() == "second time"
    assert panel.get_ylabel() == "theory, N → ∞\ntime"


def test_below_the_theory_is_the_mean_of_the_runs_minus_the_theory():
    above, below = maps(plot(make(), make(seeds=3, shift=0.5), observables="F"))
    np.testing.assert_allclose(values(below), 1.5)
    assert below.get_ylabel() == "runs − theory\ntime"
    assert above.get_xlabel() == ""
    (mesh,) = below.collections
    assert (mesh.norm.vmin, mesh.norm.vmax) == pytest.approx((-1.5, 1.5))


def test_runs_at_other_times_are_shown_as_they_are():
    runs = make(seeds=2, times=np.linspace(0.0, 10.0, 6))
    _, below = maps(plot(make(), runs, observables="F"))
    assert values(below)[0, 0] == 1.5
    assert below.get_ylabel() == "N = 784, 2 seeds\ntime"


def test_runs_alone_are_shown_as_their_mean():
    (panel,) = maps(plot(runs=make(seeds=3), observables="F"))
    assert values(panel)[0, 0] == 2.0


def test_of_many_components_a_few_with_equal_units_are_shown():
    titles = [panel.get_title() for panel in maps(plot(make(units=2), observables="F"))]
    assert [title[:7] for title in titles] == ["F[0, 0]", "F[0, 1]", "F[1, 0]", "F[1, 1]"]
    titles = [panel.get_title() for panel in maps(plot(make(units=7), observables="F"))]
    assert [title[:7] for title in titles] == ["F[0, 0]", "F[2, 2]", "F[4, 4]", "F[6, 6]"]


def test_logarithmic_times_have_logarithmic_axes_without_time_zero():
    times = log_times(10.0, 20)
    (panel,) = maps(plot(make(times=times), observables="F"))
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert values(panel).shape == (len(times) - 1, len(times) - 1)
    (panel,) = maps(plot(make(times=times), observables="F", log=""))
    assert panel.get_xscale() == "linear"


def test_colours_suit_the_values():
    def norm(function):
        (panel,) = maps(plot(make(function=function), observables="F"))
        (mesh,) = panel.collections
        return mesh.norm

    assert isinstance(norm(lambda t, s: np.exp(-t - s)), LogNorm)
    signed = norm(lambda t, s: t - 2 * s)
    assert (signed.vmin, signed.vmax) == (-20, 20)
    spike = norm(lambda t, s: np.where(t + s == 0, -1000.0, 1.0 + 0 * t * s))
    assert (spike.vmin, spike.vmax) == (-1, 1)
    assert norm(lambda t, s: np.nan * t * s).vmin == 0


def test_nan_after_a_divergence_is_left_blank():
    (panel,) = maps(
        plot(make(function=lambda t, s: np.where(t + s > 9, np.nan, 1)), observables="F")
    )
    assert np.isnan(values(panel)[-1, -1])
    FigureCanvasAgg(figure_of(panel)).draw()


def test_axes_of_the_user_hold_one_map():
    figure = Figure()
    panel = figure.subplots()
    assert plot(make(units=2), make(seeds=2, units=2), observables="F", ax=panel) is figure
    assert maps(figure) == [panel]
    assert panel.get_title().startswith("F[0, 0]")
