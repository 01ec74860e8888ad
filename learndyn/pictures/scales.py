"""Labels and scales of axes, and legends: shared by all pictures."""

import textwrap
from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from learndyn.errors import LearndynError

LEGEND_ROW = 0.17
"""Height of one row of a legend, in inches."""
LETTERS_PER_INCH = 15
"""About as many letters of a legend fit in one inch."""


def figure_of(panel: Axes) -> Figure:
    """The figure that a panel belongs to."""
    figure = panel.get_figure(root=True)
    if figure is None:
        raise LearndynError("ax has been removed from its figure")
    return figure


def words_of(array: xr.DataArray, name: str, width: int = 40) -> str:
    """An axis label from the attributes, in lines of at most `width` characters; `name` if they say nothing."""
    text = textwrap.fill(str(array.attrs.get("long_name", name)), width)
    units = array.attrs.get("units", "1")
    return text if units in ("1", "") else f"{text} [{units}]"


def set_scales(
    panel: Axes, times: Float[np.ndarray, " T"], values: Float[np.ndarray, " n"], log: str | None
) -> None:
    """Make the axes named in `log` logarithmic; if it is None, those that the times and values suggest."""
    values = values[np.isfinite(values)]
    positive = values.size > 0 and values.min() > 0
    if log is None:
        log = "x" * is_logarithmic(times)
        log += "y" * bool(positive and np.log10(values.max() / values.min()) > 1.5)
    if "x" in log:
        panel.set_xscale("log", nonpositive="mask")
    if "y" in log:
        panel.set_yscale("log", nonpositive="clip")
        above = values[values > 0]
        if above.size:
            # A band that reaches zero must not stretch the axis to minus infinity.
            panel.set_ylim(above.min() / 3, above.max() * 3)


def is_logarithmic(times: Float[np.ndarray, " T"]) -> bool:
    """Whether times are closer to equally spaced in the logarithm than in themselves."""
    times = times[times > 0]
    if len(times) < 5 or times[-1] < 30 * times[0]:
        return False
    uneven = [np.std(steps) / np.mean(steps) for steps in (np.diff(times), np.diff(np.log(times)))]
    return bool(uneven[1] < uneven[0])


def add_legend(panel: Axes, handles: Mapping[str, Artist]) -> int:
    """Put a legend below the panel, where it covers no curve; returns its number of rows.

    A figure without a layout engine makes no room below its panels: there the legend stays inside.
    """
    style = {"frameon": False, "fontsize": 8, "handlelength": 2.2}
    figure, labels = figure_of(panel), list(handles)
    if not labels:
        return 0
    if figure.get_layout_engine() is None:
        columns = 1 + (len(labels) > 5)
        panel.legend(list(handles.values()), labels, ncols=columns, **style)
        return 0
    place = panel.get_subplotspec()
    width = figure.get_figwidth() / (place.get_gridspec().ncols if place else 1)
    letters = round(LETTERS_PER_INCH * width)
    columns = min(3, len(labels), max(1, letters // (max(map(len, labels)) + 9)))
    # Below the tick labels and the lines of the axis label, whatever the height of the panel.
    points = 24 + 11 * len(panel.get_xlabel().splitlines())
    below = panel.transAxes + ScaledTranslation(0, -points / 72, figure.dpi_scale_trans)
    panel.legend(
        list(handles.values()),
        labels,
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        borderaxespad=0,
        **style,
    )
    return -(-len(labels) // columns)
