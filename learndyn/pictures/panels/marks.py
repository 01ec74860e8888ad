"""Marks that the pictures of sweeps share, with their entries in the legend."""

import textwrap
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.typing import ColorType

from learndyn.pictures.panels.places import Hues, Places
from learndyn.pictures.panels.readings import Side
from learndyn.pictures.plotting import Picture
from learndyn.pictures.style import SAMPLED_BAND, THEORY_LINE

DOT: dict[str, Any] = {"marker": "o", "ms": 4, "mfc": "white", "ls": ""}
NO_BREAK = "\u00a0"
NEUTRAL = "0.3"
"""The colour of legend entries of lines that have many colours."""
CROSSES = {"diverged": "x", "failed": "+", "no value": "|"}


def theory_entry(colour: ColorType = NEUTRAL) -> Line2D:
    """The legend entry of a theory."""
    return Line2D([], [], color=colour, **THEORY_LINE)


def dot_entry(colour: ColorType = NEUTRAL) -> Line2D:
    """The legend entry of runs."""
    return Line2D([], [], color=colour, **DOT)


def draw_dots(
    panel: Axes,
    x: Float[np.ndarray, " n"],
    values: Float[np.ndarray, " n"],
    bars: Float[np.ndarray, " n"] | None,
    colour: ColorType,
) -> None:
    """Draw runs: points with error bars."""
    look = DOT | {"elinewidth": 1, "zorder": 4, "color": colour}
    panel.errorbar(x, values, bars, **look)


def draw_band(
    panel: Axes,
    x: Float[np.ndarray, " n"],
    side: Side,
    colour: ColorType,
    handles: dict[str, Any],
) -> None:
    """Draw two standard errors to both sides of a sampled theory, one to both sides of the mean of runs."""
    if side.bars is None:
        return
    half = side.bars if side.seeds else 2 * side.bars
    panel.fill_between(x, side.finite - half, side.finite + half, color=colour, **SAMPLED_BAND)
    if not side.seeds:
        handles["± 2 standard errors"] = Patch(color=NEUTRAL, alpha=0.2, lw=0)


def draw_missing(panel: Axes, side: Side, x: Places, handles: dict[str, Any]) -> None:
    """Draw a cross on the lower edge of a panel for every point without a value."""
    for index in np.flatnonzero(~np.isfinite(side.values.values)):
        why = side.reason(index)
        look = {"ls": "", "marker": CROSSES[why], "color": "0.5", "ms": 6}
        edge = panel.get_xaxis_transform()
        panel.plot(x.at[index], 0.02, transform=edge, clip_on=False, **look)
        handles[why] = Line2D([], [], **look)


def runs_text(side: Side) -> str:
    """What runs are called in a legend."""
    return "one run" if side.seeds < 2 else f"runs, mean of {side.seeds} seeds ± standard error"


def word_entries(field: Places, hues: Hues) -> dict[str, Any]:
    """Entries for the values of a field that has no colour bar."""
    if hues.scale:
        return {}
    texts = [f"{field.label} = {text}" for text in field.texts]
    return {text: Line2D([], [], color=hues[k], lw=2) for k, text in enumerate(texts)}


def add_legend(panels: list[Axes], handles: dict[str, Any], columns: int = 3) -> None:
    """Draw a legend above the panels, unless it is empty; entries for missing points come last."""
    if not handles:
        return
    texts = sorted(handles, key=lambda text: text in CROSSES or text.startswith(("open", "no ")))
    entries = [handles[text] for text in texts]
    style = {"frameon": False, "fontsize": 8, "handlelength": 2.0, "ncols": columns}
    figure = panels[0].get_figure()
    if isinstance(figure, Picture):
        figure.legend(entries, texts, loc="outside upper left", **style)
    else:
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
        panels[0].legend(entries, texts, **place, **style)


def wrapped(text: str, rows: int = 1) -> str:
    """A label that fits beside a panel, one of `rows` above each other."""
    for whole in (" − ", " + ", " = ", "at step ", "at time "):
        text = text.replace(whole, whole.replace(" ", NO_BREAK))
    return textwrap.fill(text, 36 if rows == 1 else 27).replace(NO_BREAK, " ")
