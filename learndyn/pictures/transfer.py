"""Pictures of `Transfer`: one page that says which rate to take."""

from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from learndyn.analyses.transfer import TOLERATED, Transfer
from learndyn.errors import LearndynError, shown
from learndyn.pictures.plotting import PANEL, STYLES, Picture
from learndyn.pictures.style import CIRCLES, COLOURS, RUNS_COLOUR, THEORY_COLOUR, finish, legend_of

SPAN = 30
"""Losses are drawn up to this many times the best one of the worst value."""
MANY = 100
"""Logarithmic axes of more than this ratio need no ticks between decades."""
SMALLEST = 1e-4
"""Losses lost below this part are drawn at this height."""


def plot_transfer(transfer: Transfer) -> Figure:
    """Draw a transfer over one field (curves, rates, and what is lost) or over two (maps of rate and loss lost).

    Over one field there is a row for each parameterisation. Doubtful optima are open circles; crosses are trained
    networks with bars of one standard error.
    """
    if not isinstance(transfer, Transfer):
        raise LearndynError(f"cannot plot {shown(transfer)}: it must be a Transfer")
    sides = transfer.sides()
    one = len(transfer.fields) == 1
    columns = 3 if one else 2
    size = (columns * 0.8 * PANEL[0], 0.3 + len(sides) * 0.95 * PANEL[1])
    figure = Picture(figsize=size, layout="constrained")
    panels = figure.subplots(len(sides), columns, squeeze=False)
    for row, side in zip(panels, sides, strict=True):
        if one:
            _draw_curves(row[0], side, transfer)
            _draw_rates(row[1], side, transfer.fields[0])
            _draw_lost(row[2], side, transfer.fields[0])
        else:
            _draw_map(figure, row[0], side["best_rate"], transfer, "best learning rate η", 1.0)
            _draw_map(
                figure,
                row[1],
                side["lost"],
                transfer,
                "loss lost by keeping the first rate, %",
                100.0,
            )
    figure.suptitle("\n".join(transfer.statements), fontsize=9)
    return figure


def _colours(count: int) -> list[Any]:
    return [matplotlib.colormaps["viridis"](x) for x in np.linspace(0, 0.85, count)]


def _draw_curves(panel: Axes, side: xr.Dataset, transfer: Transfer) -> None:
    """The loss at the end against the rate, a line for each value."""
    name = transfer.fields[0]
    finite = side["loss"].values[np.isfinite(side["loss"].values)]
    for k, colour in enumerate(_colours(side.sizes[name])):
        cell = side.isel({name: k})
        rate, loss = cell["rate"].values, cell["loss"].values
        panel.plot(
            rate,
            np.where(np.isfinite(loss), loss, np.nan),
            color=colour,
            lw=1.3,
            label=_word(cell[name].item()),
        )
        doubtful = cell["flags"].item() != ""
        face = "none" if doubtful else colour
        panel.plot(cell["best_rate"], cell["best_loss"], "o", color=colour, mfc=face, ms=5)
    panel.set_xscale("log")
    panel.set_yscale("log")
    lowest = float(side["best_loss"].min())
    top = min(finite.max(), SPAN * float(side["best_loss"].max()))
    panel.set_ylim(lowest / 1.15, top * 1.1)
    drawn = side["rate"].values[side["loss"].values <= top]
    panel.set_xlim(drawn.min() / 1.2, drawn.max() * 1.2)
    _few_ticks(panel.xaxis)
    panel.set_xlabel("learning rate η")
    panel.set_ylabel(f"{transfer.observable} at the end")
    finish(panel)
    legend_of(panel, title=name)


def _draw_rates(panel: Axes, side: xr.Dataset, name: str) -> None:
    """Best and largest stable rates along the field."""
    places = _places(panel, side[name].values)
    panel.plot(
        places,
        side["largest_stable_rate"],
        "s" + STYLES[1],
        color="0.5",
        ms=4,
        lw=1,
        label="largest stable",
    )
    colours = _colours(len(places))
    panel.plot(places, side["best_rate"], "-", color="0.2", lw=1, label="best")
    for k, place in enumerate(places):
        doubtful = side["flags"].values[k] != ""
        panel.errorbar(
            place,
            side["best_rate"].values[k],
            side["best_rate_error"].values[k],
            fmt="o",
            color=colours[k],
            mfc="none" if doubtful else colours[k],
            ms=6,
        )
    panel.axhline(float(side["best_rate"][0]), color="0.2", lw=0.8, ls=":", label="kept")
    panel.set_yscale("log")
    low, high = float(side["best_rate"].min()), float(side["largest_stable_rate"].max())
    panel.set_ylim(low / 2, high * 2)
    _few_ticks(panel.yaxis)
    panel.set_xlabel(str(side[name].attrs["long_name"]))
    panel.set_ylabel("learning rate η")
    finish(panel)
    legend_of(panel)


def _draw_lost(panel: Axes, side: xr.Dataset, name: str) -> None:
    """What is lost by keeping the first rate, in per cent."""
    places = _places(panel, side[name].values)
    lost = side["lost"].values
    finite = np.isfinite(lost)
    heights = 100 * np.where(finite, np.maximum(lost, SMALLEST), np.nan)
    panel.plot(places, heights, ".-", color=THEORY_COLOUR, lw=1.4, label="theory")
    if not finite.all():
        top = np.nanmax([100.0, *heights])
        where = np.asarray(places)[~finite]
        panel.plot(
            where, np.full(len(where), 3 * top), "^", color=COLOURS[1], ms=7, label="diverges"
        )
    if "network_lost" in side:
        networks, errors = (
            100 * side["network_lost"].values,
            100 * side["network_lost_error"].values,
        )
        drawn = np.isfinite(networks) & (errors > 0)
        panel.errorbar(
            np.asarray(places)[drawn],
            np.maximum(networks[drawn], 100 * SMALLEST),
            errors[drawn],
            color=RUNS_COLOUR,
            label="networks",
            **CIRCLES,
        )
    panel.axhline(100 * TOLERATED, color=COLOURS[1], lw=0.8, ls=":", label=f"{100 * TOLERATED:g} %")
    panel.set_yscale("log")
    panel.set_ylim(bottom=50 * SMALLEST)
    panel.set_xlabel(str(side[name].attrs["long_name"]))
    panel.set_ylabel("loss lost by keeping the first rate, %")
    finish(panel)
    legend_of(panel)


def _draw_map(
    figure: Figure, panel: Axes, values: xr.DataArray, transfer: Transfer, words: str, factor: float
) -> None:
    """A number for each pair of values, written into its cell."""
    first, second = transfer.fields
    table = factor * values.transpose(second, first).values
    finite = np.isfinite(table)
    positive = table[finite & (table > 0)]
    norm: Any = Normalize()
    if len(positive) and positive.max() > 10 * positive.min():
        norm = LogNorm(max(positive.min(), positive.max() * 1e-4), positive.max())
    mesh = panel.imshow(
        np.where(finite, np.maximum(table, 1e-300), np.nan),
        origin="lower",
        aspect="auto",
        norm=norm,
    )
    for (row, column), value in np.ndenumerate(table):
        text, colour = (f"{value:.3g}", "white") if np.isfinite(value) else ("diverges", "#1a1a1a")
        # A dark edge makes white digits readable on the bright end of the colours.
        label = panel.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        if colour == "white":
            label.set_path_effects([withStroke(linewidth=2, foreground="0.25")])
    panel.set_xticks(range(table.shape[1]), [_word(x) for x in values[first].values])
    panel.set_yticks(range(table.shape[0]), [_word(x) for x in values[second].values])
    panel.set_xlabel(str(values[first].attrs["long_name"]))
    panel.set_ylabel(str(values[second].attrs["long_name"]))
    figure.colorbar(mesh, ax=panel, label=words)


def _places(panel: Axes, labels: np.ndarray) -> Any:
    """Where the values stand along x: numbers on their scale, words side by side."""
    if labels.dtype.kind not in "iuf" or not np.isfinite(labels).all():
        panel.set_xticks(range(len(labels)), [_word(label) for label in labels])
        return np.arange(len(labels))
    if labels.min() > 0 and labels.max() >= 5 * labels.min():
        panel.set_xscale("log")
        if len(labels) <= 8:
            panel.set_xticks(labels, [f"{label:g}" for label in labels])
            panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_minor_formatter(NullFormatter())
    return labels


def _few_ticks(axis: Axis) -> None:
    """Ticks at 1, 2 and 5, if there are few decades."""
    low, high = axis.get_view_interval()
    if high < MANY * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)
