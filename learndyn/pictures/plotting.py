"""Pictures of any solution: `plot`, `agreement_panel`, `save_figure`.

Lines and circles as in `style`: a theory is a line; of runs, about a dozen means are circles with their standard
errors, in a band of the middle two thirds of the seeds. Functions of two times are maps (see `two_times`). Nothing
here changes the state of pyplot.
"""

import io
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType

from learndyn.core.compare import Comparison
from learndyn.core.solution import Solution
from learndyn.errors import FileError, LearndynError, UnknownObservable, nearest, shown
from learndyn.files import write_atomically
from learndyn.pictures.scales import (
    LEGEND_ROW,
    add_legend,
    figure_of,
    is_logarithmic,
    set_scales,
    words_of,
)
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    THEORY_COLOUR,
    THEORY_LINE,
    a_few,
    draw_band,
    draw_networks,
    draw_theory,
    finish,
)
from learndyn.pictures.two_times import (
    bands_of,
    draw_bands,
    draw_time_map,
    has_two_times,
    map_columns,
    size_of,
)

STYLES = ("-", "--", ":", "-.")
MARKS: dict[str, str] = dict(zip(STYLES, "os^D", strict=True))
"""The mark of runs where theories have a line style."""
ENDINGS = ("png", "svg", "pdf")
RESOLUTION = 200
"""Dots per inch of images that are not drawn by lines."""
PANEL = (4.8, 3.4)
"""Width and height of one panel of curves without its legend, in inches."""


class Picture(Figure):
    """A matplotlib figure that shows itself in a notebook without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def plot(
    theory: Solution | None = None,
    runs: Solution | None = None,
    *others: Solution,
    observables: str | Iterable[str] | None = None,
    ax: Axes | Iterable[Axes] | None = None,
    figure: Figure | None = None,
    log: str | None = None,
    title: str | None = None,
) -> Figure:
    """Draw solutions over time, with one panel for each observable; returns the figure.

    - `theory`, `runs`, `others`: any number of theories and simulations, in any order.
    - `observables`: the names of those to draw; default: the test loss. An observable with several components has
      one line for each. A function of two times is drawn as maps over both: the theory, and below it the mean of the
      runs minus the theory. If it has many components, a few of them are shown.
    - `ax`, `figure`: where to draw; default: a new figure. `ax` is one axes for each observable; in it, a function
      of two times is a single map, of the first solution and component.
    - `log`: the logarithmic axes: "", "x", "y" or "xy". By default, time is logarithmic if the times are spaced that
      way, and the other axis if the curves are positive and span more than one and a half decades. Maps have both
      times logarithmic, or neither.
    - `title`: the title of the panel, or of the figure if there are several panels.
    """
    solutions = [s for s in (theory, runs, *others) if s is not None]
    _check(solutions, log)
    names = _chosen(solutions, observables)
    labels = _labels(solutions)
    if ax is not None:
        panels = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax)))
        if len(panels) != len(names):
            raise LearndynError(f"ax has {len(panels)} axes for {len(names)} observables")
        for panel, name in zip(panels, names, strict=True):
            _draw_in(panel, name, solutions, labels, log)
        figure = figure_of(panels[0])
    else:
        figure = _draw_figure(figure, names, solutions, labels, log)
        panels = figure.axes
    if title is not None:
        (panels[0].set_title if len(names) == 1 else figure.suptitle)(title)
    return figure


def agreement_panel(comparison: Comparison, *, ax: Axes | None = None) -> Figure:
    """Draw the deviation of the runs from the theory in standard errors, with one line per observable.

    If an observable has several components, the line shows the one that deviates most.
    """
    axis, own_figure = comparison.axis, ax is None
    if ax is None:
        ax = Picture(figsize=(1.5 * PANEL[0], PANEL[1]), layout="constrained").subplots()
    handles: dict[str, Artist] = {"± 2": ax.axhspan(-2, 2, color="0.9", lw=0, label="± 2")}
    ax.axhline(0, color="0.6", lw=0.8)
    times = np.empty(0)
    styles = itertools.product(STYLES, COLOURS)
    for name, (style, colour) in zip(comparison.table.index, styles, strict=False):
        array = comparison.deviations[f"{name}_in_errors"]
        if axis not in array.dims:
            continue
        times = array[axis].values
        curves = _components(array.rename(name), axis)
        label, values = max(curves, key=lambda curve: np.max(np.abs(curve[1])))
        label = name if len(curves) == 1 else f"{label}, the worst of {len(curves)}"
        values = np.where(np.isfinite(values), values, np.nan)
        (handles[label],) = ax.plot(times, values, style, color=colour, label=label)
    if is_logarithmic(times):
        ax.set_xscale("log")
    ax.set_xlabel(words_of(comparison.deviations[axis], axis))
    ax.set_ylabel("mean of runs − theory\n[standard errors]")
    rows = _finish(ax, handles)
    if own_figure:
        _grow(figure_of(ax), rows)
    return figure_of(ax)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file, in the format of its ending: .png, .svg or .pdf."""
    ending = Path(path).suffix.lower().lstrip(".")
    if ending not in ENDINGS:
        allowed = ", ".join(f".{ending}" for ending in ENDINGS)
        raise FileError(f"cannot write {path}: its ending must be one of {allowed}")
    # The same picture gives the same file: no date, no random names of parts.
    dated = {"svg": "Date", "pdf": "CreationDate"}
    settings: dict[str, Any] = {"metadata": {dated[ending]: None}} if ending in dated else {}

    def write(temporary: Path) -> None:
        figure.savefig(temporary, format=ending, dpi=RESOLUTION, **settings)
        if ending == "svg":
            temporary.write_text(
                _shortened(temporary.read_text(encoding="utf-8")), encoding="utf-8"
            )

    with matplotlib.rc_context({"svg.hashsalt": "learndyn"}):
        write_atomically(path, write)


def _shortened(svg: str) -> str:
    """An SVG without digits beyond a hundredth of a point, but for the scale of letters, and without indentation."""
    rounded = re.sub(r"scale\([^)]*\)|(\d\.\d\d)\d+", lambda found: found[1] or found[0], svg)
    return re.sub(r" *\n *", "\n", rounded)


def _draw_figure(
    figure: Figure | None,
    names: list[str],
    solutions: list[Solution],
    labels: list[str],
    log: str | None,
) -> Figure:
    """Draw the curves in a grid of panels, and below it the maps of functions of two times."""
    maps = [name for name in names if _is_map(name, solutions)]
    curves = [name for name in names if name not in maps]
    bands = bands_of(map_columns(maps, solutions, labels)) if maps else []
    columns = max(1, min(len(curves), 3))
    rows = -(-len(curves) // columns)
    sizes = [(PANEL[0] * columns, PANEL[1] * rows)] if curves else []
    sizes += [size_of(bands)] if bands else []
    new = figure is None
    if figure is None:
        shape = (max(width for width, _ in sizes), sum(height for _, height in sizes))
        figure = Picture(figsize=shape, layout="constrained")
    parts = [figure]
    if len(sizes) == 2:
        heights = [height for _, height in sizes]
        parts = list(np.ravel(figure.subfigures(2, 1, squeeze=False, height_ratios=heights)))
    if curves:
        panels = list(parts[0].subplots(rows, columns, squeeze=False).flat)
        for spare in panels[len(curves) :]:
            spare.remove()
        legend_rows = [
            _draw(panel, name, solutions, labels, log)
            for panel, name in zip(panels, curves, strict=False)
        ]
        if new:
            _grow(
                figure,
                sum(max(legend_rows[i : i + columns]) for i in range(0, len(curves), columns)),
            )
    if bands:
        draw_bands(parts[-1], bands, log)
    return figure


def _draw_in(
    panel: Axes, name: str, solutions: list[Solution], labels: list[str], log: str | None
) -> None:
    """Draw an observable into one panel: all its curves, or a single map."""
    if not _is_map(name, solutions):
        _draw(panel, name, solutions, labels, log)
        return
    column = map_columns([name], solutions, labels)[0]
    draw_time_map(panel, column.maps[0], log)
    panel.set_title(column.title, fontsize=8)


def _is_map(name: str, solutions: list[Solution]) -> bool:
    """Whether an observable is a function of two times."""
    first = next(solution for solution in solutions if name in solution.observables)
    return has_two_times(first[name], first.axis)


def _grow(figure: Figure, legend_rows: int) -> None:
    """Make a figure taller by the height of its legends."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LEGEND_ROW * legend_rows)


def _check(solutions: Sequence[object], log: str | None) -> None:
    """Refuse to plot anything but solutions over the same axis."""
    if not solutions:
        raise LearndynError("nothing to plot: give a theory, runs or both")
    axes = set()
    for solution in solutions:
        if not isinstance(solution, Solution):
            raise LearndynError(f"cannot plot {shown(solution)}: it must be a Solution")
        axes.add(solution.axis)
        if not solution.data.sizes[solution.axis]:
            raise LearndynError(
                f"nothing to plot: training diverged before any recorded {solution.axis}; see save_at"
            )
    if len(axes) > 1:
        raise LearndynError("cannot plot solutions over time and over steps in one picture")
    if log not in (None, "", "x", "y", "xy"):
        raise LearndynError(f"log = {shown(log)}: must be '', 'x', 'y', 'xy' or None")


def _chosen(solutions: list[Solution], observables: str | Iterable[str] | None) -> list[str]:
    """The observables to draw; by default the test loss, or else the simplest curve."""
    if observables is None:
        first = solutions[0]
        if "test_loss" in first:
            return ["test_loss"]
        curves = [name for name in first.observables if first.axis in first[name].dims]
        return [min(curves or first.observables, key=lambda name: first[name].ndim)]
    names = [observables] if isinstance(observables, str) else list(observables)
    if not names:
        raise LearndynError("observables is empty: name at least one")
    for name in names:
        if all(name not in solution.observables for solution in solutions):
            existing = {other for solution in solutions for other in solution.observables}
            raise UnknownObservable(f"no observable {name!r}; {nearest(name, existing)}")
    return names


def _labels(solutions: list[Solution]) -> list[str]:
    """The name of each solution in the legend, with the settings in which they differ."""
    labels = []
    for solution in solutions:
        count = solution.data.sizes.get("seed", 0)
        size = solution.evidence.get("size_symbol", "N")
        run = f"{size} = {solution.size}, {count} seed{'s' * (count != 1)}"
        labels.append(run if solution.is_simulation else f"theory, {size} → ∞")
    problems = [_numbers(solution.problem.to_dict()) for solution in solutions]
    keys = dict.fromkeys(key for problem in problems for key in problem)
    for key in [key for key in keys if len({p.get(key) for p in problems}) > 1][:2]:
        word = key.rpartition(".")[2].replace("_", " ")
        labels = [f"{a}, {word} {p.get(key)}" for a, p in zip(labels, problems, strict=True)]
    methods = [solution.evidence.get("method") for solution in solutions]
    kinds = [m.get("kind") if isinstance(m, dict) else m for m in methods]
    if len(set(labels)) < len(labels):
        labels = [f"{a}, {kind}" if kind else a for a, kind in zip(labels, kinds, strict=True)]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({number})" for number, label in enumerate(labels, 1)]
    return labels


def _numbers(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The single numbers and words in nested plain data, by dotted path."""
    settings = {}
    for key, value in values.items():
        if isinstance(value, dict):
            settings |= _numbers(value, f"{path}{key}.")
        elif not isinstance(value, list):
            settings[f"{path}{key}"] = value
    return settings


def _draw(
    panel: Axes, name: str, solutions: list[Solution], labels: list[str], log: str | None
) -> int:
    """Draw the curves of an observable in all solutions that have it; returns the rows of the legend."""
    drawn = [(s, text) for s, text in zip(solutions, labels, strict=True) if name in s.observables]
    axis = drawn[0][0].axis
    several = len(_components(drawn[0][0][name], axis)) > 1
    looks = _looks([solution for solution, _ in drawn], several)
    handles: dict[str, Artist] = {}
    centres = []
    for (solution, label), (colour, style) in zip(drawn, looks, strict=True):
        components = _components(solution[name], axis)
        errors = _sampling_errors(solution, name)
        for number, (component, values) in enumerate(components):
            shade = _shade(number, len(components)) if several else colour
            times = solution.data[axis].values
            if solution.is_simulation:
                centres.append(_draw_runs(panel, times, values, shade, MARKS[style]))
            else:
                error = errors[number][1] if number < len(errors) else None
                draw_theory(panel, times, values, shade, error=error, ls=style)
                centres.append(values)
            if several and len(components) <= len(COLOURS):
                handles.setdefault(component, Line2D([], [], color=shade, lw=2))
        look: dict[str, Any] = THEORY_LINE | {"ls": style}
        if solution.is_simulation:
            look = CIRCLE | {"marker": MARKS[style]}
        handles[label] = Line2D([], [], color=colour, **look)
        if solution.diverged_at is not None:
            panel.axvline(solution.diverged_at, color="0.5", lw=0.8, ls=(0, (1, 3)))
            handles["diverged"] = Line2D([], [], color="0.5", lw=0.8, ls=(0, (1, 3)))
    first = drawn[0][0]
    set_scales(panel, first.data[axis].values, np.concatenate(centres), log)
    panel.set_xlabel(words_of(first.data[axis], axis))
    panel.set_ylabel(words_of(first[name], name, width=32))
    return _finish(panel, handles)


def _looks(solutions: list[Solution], several: bool) -> list[tuple[str, str]]:
    """Colour and line style of each solution.

    If the colours stand for `several` components, solutions differ by line style. Otherwise, if all solve one
    problem, theories are black and differ by style, and runs differ by colour; if not, each problem has a colour.
    """
    problems, looks, counts = [], [], {}
    for solution in solutions:
        if solution.problem not in problems:
            problems.append(solution.problem)
    for solution in solutions:
        problem = 0 if several else problems.index(solution.problem)
        key = (problem, solution.is_simulation)
        number = counts[key] = counts.get(key, -1) + 1
        colour, style = COLOURS[problem % len(COLOURS)], STYLES[number % len(STYLES)]
        if several:
            colour = "0.3"
        elif len(problems) == 1 and solution.is_simulation:
            colour, style = COLOURS[number % len(COLOURS)], "-"
        elif len(problems) == 1:
            colour = THEORY_COLOUR
        looks.append((colour, style))
    return looks


def _components(array: xr.DataArray, axis: str) -> list[tuple[str, np.ndarray]]:
    """The curves of an observable: names, and arrays over time, with the axis of the seeds in front if there is one."""
    second = f"{axis}2"
    front = [dim for dim in ("seed", axis) if dim in array.dims]
    # An axis of length one needs no label.
    single = [dim for dim, size in array.sizes.items() if size == 1 and dim not in front]
    array = array.squeeze(single, drop=True)
    if axis not in front:
        raise LearndynError(f"{array.name} does not depend on {axis}: there is no curve to plot")
    others = [dim for dim in array.dims if dim not in front]
    labels = [
        [f"{second} = {label:.4g}" if dim == second else str(label) for label in array[dim].values]
        for dim in others
    ]
    names = [
        f"{array.name}[{', '.join(label)}]" if label else str(array.name)
        for label in itertools.product(*labels)
    ]
    values = array.transpose(*others, *front).values
    return list(zip(names, values.reshape(-1, *values.shape[len(others) :]), strict=True))


def _sampling_errors(solution: Solution, name: str) -> list[tuple[str, np.ndarray]]:
    """The standard errors of the curves of a sampled theory; an empty list if it was not sampled."""
    error = None if solution.is_simulation else solution.standard_error(name)
    if error is None:
        return []
    return _components(error, solution.axis)


def _shade(number: int, count: int) -> ColorType:
    """The colour of component `number` of `count`."""
    if count <= len(COLOURS):
        return COLOURS[number]
    return matplotlib.colormaps["viridis"](0.9 * number / (count - 1))


def _draw_runs(
    panel: Axes,
    times: Float[np.ndarray, " T"],
    values: Float[np.ndarray, "seeds T"],
    colour: ColorType,
    mark: str,
) -> Float[np.ndarray, " T"]:
    """Draw the mean at a few times, in the band of the seeds; a single run is a thin line. Returns the mean."""
    few = a_few(times)
    if len(values) > 1:
        draw_band(panel, times, values, colour)
    else:
        panel.plot(times, values[0], color=colour, lw=0.8, alpha=0.5, zorder=1)
    draw_networks(panel, times[few], values[:, few], colour, marker=mark)
    return values.mean(axis=0)


def _finish(panel: Axes, handles: dict[str, Artist]) -> int:
    """Draw the grid and the legend; returns the number of rows of the legend."""
    finish(panel)
    return add_legend(panel, handles)
