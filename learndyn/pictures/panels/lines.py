"""Pictures of a sweep as lines: learning curves, and an observable against a swept field."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType

from learndyn.pictures.panels.marks import (
    NEUTRAL,
    add_legend,
    dot_entry,
    draw_band,
    draw_dots,
    draw_missing,
    runs_text,
    theory_entry,
    word_entries,
    wrapped,
)
from learndyn.pictures.panels.places import FEW, Hues, Places
from learndyn.pictures.panels.readings import Measured, Side
from learndyn.pictures.plotting import set_scales, words_of
from learndyn.pictures.style import RUNS_COLOUR, THEORY_COLOUR, THEORY_LINE, finish

POINTS = 12
"""About how many points of every simulated curve are drawn."""


def draw_curves(
    panels: list[Axes], parts: list[Measured], label: str, field: Places, titles: list[str]
) -> None:
    """Learning curves, one for each value of `field`, in one panel for each of `parts`."""
    hues = Hues(field)
    handles: dict[str, Any] = {}
    drawn: list[tuple[Axes, Side, ColorType]] = []
    axis = parts[0].axis or ""
    time = parts[0].sides[0].values[axis]
    for panel, part, title in zip(panels, parts, titles, strict=True):
        part = part.ordered(field.name, axis)
        for number, index in enumerate(field.order):
            measurement = part.map(lambda array, k=index: array[k])
            for side in measurement.sides:
                dots = side is measurement.runs and measurement.theory is not None
                _curve(panel, time.values, side, hues[number], dots, handles)
                drawn.append((panel, side, hues[number]))
        finish(panel, title, xlabel=words_of(time, axis))
    _limits(panels, time.values, [side for _, side, _ in drawn])
    for panel, side, colour in drawn:
        if bool(side.diverged):
            _end(panel, time.values, side, colour, handles)
    rows = 1
    for panel in panels:
        place = panel.get_subplotspec()
        if len(panels) > 1 and place is not None:
            # Panels that share their axes share the labels as well.
            rows = place.get_gridspec().nrows
            panel.label_outer()
        if len(panels) == 1 or place is None or place.is_first_col():
            panel.set_ylabel(wrapped(label, rows))
    hues.bar(panels)
    failed = sum(int(side.failed.sum()) for part in parts for side in part.sides)
    if failed:
        handles[f"{failed} failed: not drawn"] = Line2D([], [], ls="")
    add_legend(panels, word_entries(field, hues) | handles, min(2 + len(panels), 4))


def _curve(
    panel: Axes,
    times: Float[np.ndarray, " T"],
    side: Side,
    colour: ColorType,
    dots: bool,
    handles: dict[str, Any],
) -> None:
    """One curve, as `dots` or as a line."""
    values, there = side.finite, np.flatnonzero(np.isfinite(side.values.values))
    if not len(there):
        return
    if dots:
        few = there[np.unique(np.linspace(0, len(there) - 1, POINTS).round().astype(int))]
        bars = None if side.bars is None else side.bars[few]
        draw_dots(panel, times[few], values[few], bars, colour)
        handles[runs_text(side)] = dot_entry()
    else:
        panel.plot(times, values, color=colour, **THEORY_LINE)
        handles[runs_text(side) if side.seeds else "theory"] = theory_entry()
        draw_band(panel, times, side, colour, handles)


def _end(
    panel: Axes,
    times: Float[np.ndarray, " T"],
    side: Side,
    colour: ColorType,
    handles: dict[str, Any],
) -> None:
    """A cross where a curve diverged, or on the upper edge if it left the panel before."""
    there = np.flatnonzero(np.isfinite(side.values.values))
    if not len(there):
        return
    end, top = there[-1], panel.get_ylim()[1]
    look = {"marker": "x", "ls": "", "ms": 6, "mew": 1.5}
    height = min(side.finite[end], top)
    panel.plot(times[end], height, color=colour, zorder=5, clip_on=False, **look)
    handles["diverged"] = Line2D([], [], color=NEUTRAL, **look)


def _limits(panels: list[Axes], times: Float[np.ndarray, " T"], sides: list[Side]) -> None:
    """Scales for all panels; curves on their way to infinity must not press the others onto the axis."""
    diverged = any(bool(side.diverged) for side in sides)
    tame = [side.finite[:1] if bool(side.diverged) else side.finite for side in sides]
    values = np.concatenate(tame)
    for panel in panels:
        set_scales(panel, times, values, None)
        if diverged and np.isfinite(values).any():
            log = panel.get_yscale() == "log"
            low, top = np.nanmin(values), np.nanmax(values)
            panel.set_ylim(top=10 * top if log else top + 0.5 * ((top - low) or abs(top)))


def draw_line(panel: Axes, final: Measured, label: str, x: Places, field: Places | None) -> None:
    """The observable against one swept field; one line for each value of another."""
    final = final.ordered(*([field.name] if field else []), x.name)
    hues = Hues(field) if field else None
    handles: dict[str, Any] = {}
    drawn = []
    for number, index in enumerate(field.order if field else [None]):
        measurement = final if index is None else final.map(lambda array, k=index: array[k])
        measurement = measurement.map(lambda array: array[x.order])
        for side in measurement.sides:
            usual = RUNS_COLOUR if side.seeds else THEORY_COLOUR
            colour = usual if hues is None else hues[number]
            entry = usual if hues is None else NEUTRAL
            if side.seeds:
                draw_dots(panel, x.at, side.finite, side.bars, colour)
                handles[runs_text(side)] = dot_entry(entry)
            else:
                # Words have no order in which a line could join them.
                mark = (
                    "." if not x.numbers or (len(x.at) <= FEW and measurement.runs is None) else ""
                )
                look = {"ls": "-" if x.numbers else "", "marker": mark, **THEORY_LINE}
                panel.plot(x.at, side.finite, color=colour, **look)
                handles["theory"] = Line2D([], [], color=entry, **look)
                draw_band(panel, x.at, side, colour, handles)
            draw_missing(panel, side, x, handles)
            drawn.append(side.finite)
    finish(panel, "", ylabel=wrapped(label))
    set_scales(panel, x.at, np.concatenate(drawn), None)
    panel.set_xscale("linear")
    x.put_on(panel, "x")
    if hues is not None and field is not None:
        hues.bar([panel])
        handles = word_entries(field, hues) | handles
    add_legend([panel], handles)
