"""Pictures of a sweep over two fields: colours over both, and the best value of one against the other."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from learndyn.pictures.panels.marks import add_legend, runs_text, wrapped
from learndyn.pictures.panels.places import SHADES, Places
from learndyn.pictures.panels.readings import Measured, Side
from learndyn.pictures.plotting import figure_of, set_scales
from learndyn.pictures.style import RUNS_COLOUR, THEORY_COLOUR, THEORY_LINE, finish

HATCHES = {"diverged": "////", "failed": "xxxx", "no value": ""}
LOGARITHMIC = 5
"""Colours of positive values that span more than this factor are logarithmic."""
MANY_CELLS = 200
OPEN = "open: at the end of the values swept, the optimum may lie outside"


def draw_map(panel: Axes, final: Measured, label: str, x: Places, y: Places) -> None:
    """Colours for the observable against two swept fields; runs are dots in the theory's cells."""
    final = final.ordered(y.name, x.name).map(lambda array: array[y.order][:, x.order])
    known = np.concatenate([side.finite.ravel() for side in final.sides])
    known = known[np.isfinite(known)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    # On a linear scale a few large values would leave one shade for all others.
    norm = (LogNorm if low > 0 and high > LOGARITHMIC * low else Normalize)(low, high)
    first, handles = final.sides[0], {}
    cells = np.ma.masked_invalid(first.finite)
    # In files drawn by lines, many cells are one image.
    mesh = panel.pcolormesh(
        x.edges, y.edges, cells, norm=norm, cmap=SHADES, rasterized=cells.size > MANY_CELLS
    )
    for row, column in np.argwhere(np.isnan(first.finite)):
        why = first.reason(row, column)
        look = {"facecolor": "0.85", "edgecolor": "0.5", "hatch": HATCHES[why], "lw": 0}
        left, right = x.edges[column : column + 2]
        bottom, top = y.edges[row : row + 2]
        panel.add_patch(Rectangle((left, bottom), right - left, top - bottom, **look))
        handles[why] = Patch(**look)
    if final.theory is not None and final.runs is not None:
        across, along = np.meshgrid(x.at, y.at)
        look = {"edgecolors": "white", "linewidths": 0.8, "s": 26}
        panel.scatter(across, along, c=final.runs.finite, norm=norm, cmap=SHADES, **look)
        dot = Line2D([], [], ls="", marker="o", mfc="0.6", mec="white", ms=6)
        count = final.runs.seeds
        handles = {f"dots: mean of {count} run{'s' * (count != 1)}": dot} | handles
        gone = np.isnan(final.runs.finite) & ~np.isnan(first.finite)
        if gone.any():
            cross: dict[str, Any] = {"ls": "", "marker": "x", "ms": 6}
            panel.plot(across[gone], along[gone], color="white", **cross)
            handles["runs diverged or failed"] = Line2D([], [], color="0.5", **cross)
    x.put_on(panel, "x")
    y.put_on(panel, "y")
    panel.set(xlim=x.edges[[0, -1]], ylim=y.edges[[0, -1]])
    if known.size:
        figure_of(panel).colorbar(mesh, ax=panel, label=wrapped(label), pad=0.02)
    add_legend([panel], handles)


def draw_best(panels: list[Axes], final: Measured, label: str, x: Places, over: Places) -> None:
    """The value of `over` at which the observable is smallest, against x; below, that smallest value."""
    final = final.ordered(x.name, over.name).map(lambda array: array[x.order][:, over.order])
    top, bottom = panels
    handles: dict[str, Any] = {}
    smallest = [_best_of(panels, side, x, over, handles) for side in final.sides]
    for side in final.sides:
        lost = np.flatnonzero(np.isnan(side.finite).all(axis=1))
        if len(lost):
            texts = ", ".join(x.texts[k] for k in lost)
            what = "mean of runs" if side.seeds else "theory"
            handles[f"no {what} at {x.label} {texts}"] = Line2D([], [], ls="")
    for panel in panels:
        finish(panel, "")
        if x.log:
            panel.set_xscale("log")
    top.set_ylim(*over.edges[[0, -1]])
    over.put_on(top, "y")
    top.set_ylabel(f"best {over.label}")
    set_scales(bottom, x.at, np.concatenate(smallest), None)
    bottom.set_xscale("linear")
    bottom.set_ylabel(wrapped(f"smallest {label}", rows=2))
    x.put_on(bottom, "x")
    add_legend(panels, handles, 1)


def _best_of(
    panels: list[Axes], side: Side, x: Places, over: Places, handles: dict[str, Any]
) -> np.ndarray:
    """Draw the best values by the theory or by runs; returns the smallest values of the observable."""
    # Smaller marks lie on top of larger ones, where theory and runs agree.
    colour, mark, size = (RUNS_COLOUR, "s", 4) if side.seeds else (THEORY_COLOUR, "o", 6.5)
    rows = np.flatnonzero(np.isfinite(side.finite).any(axis=1))
    best = np.array([_middle_of_least(side.finite[row]) for row in rows], dtype=int)
    least = side.finite[rows, best]
    bars = None if side.bars is None else side.bars[rows, best]
    joined = "-" if x.numbers and not side.seeds else ""
    line: dict[str, Any] = {"color": colour, "ls": joined, "ms": size, **THEORY_LINE}
    name = runs_text(side) if side.seeds else "theory"
    top, bottom = panels
    top.plot(x.at[rows], over.at[best], **line)
    handles[name] = Line2D([], [], marker=mark, **line)
    # Words have no ends beyond which one could look.
    ends = np.isin(best, [0, len(over.at) - 1]) & over.numbers
    for which, face in ((~ends, colour), (ends, "white")):
        if which.any():
            look = {"ls": "", "marker": mark, "color": colour, "mfc": face, "ms": size}
            top.plot(x.at[rows][which], over.at[best][which], **look)
    if ends.any():
        handles[OPEN] = Line2D([], [], ls="", marker="o", color="0.3", mfc="white", ms=5)
    bottom.errorbar(x.at[rows], least, bars, marker=mark, elinewidth=1, **line)
    return least


def _middle_of_least(values: np.ndarray) -> int:
    """The index of the smallest value; if several are equally small, of the middle one."""
    least = np.flatnonzero(values == np.nanmin(values))
    return int(least[(len(least) - 1) // 2])
