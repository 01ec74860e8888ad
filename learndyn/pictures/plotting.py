"""Pictures of any solution: `plot`, `agreement_panel`, `save_figure`; and parts of the pictures of papers.

A theory is a thin line, in a band of two standard errors to both sides if it was sampled. Runs are
a broad pale line, their mean, in a band of one standard error to both sides, with the single seeds
faint around it. Nothing here touches the state of pyplot.
"""

import io
import itertools
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from learndyn.core.compare import Comparison
from learndyn.core.solution import Solution
from learndyn.errors import FileError, LearndynError, UnknownObservable, nearest, shown
from learndyn.files import write_atomically
from learndyn.numerics.statistics import mean_and_error

THEORY_COLOUR = "#1a1a1a"
RUNS_COLOUR = "#0072B2"
# Told apart with every common colour blindness (Okabe and Ito 2008), dark enough for thin lines.
COLOURS = (RUNS_COLOUR, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", "--", ":", "-.")
THEORY_LINE: dict[str, Any] = {"lw": 1.3}
RUNS_LINE: dict[str, Any] = {"lw": 2.8, "alpha": 0.5}
SAMPLED_BAND: dict[str, Any] = {"alpha": 0.2, "lw": 0, "zorder": 1.5}
ENDINGS = ("png", "svg", "pdf")
PANEL = (4.8, 3.4)
"""Width and height of one panel, in inches."""


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
    """Draw solutions over time, one panel for each of `observables` (the test loss unless given).

    Any number of theories and simulations, in any order. An observable with several components
    has one line for each, and a function of two times one for each of a few second times. `ax` or
    `figure` says where to draw. `log` names the logarithmic axes: "", "x", "y" or "xy"; unless
    given, time is logarithmic if the times are, and the other axis if the curves are positive and
    span more than one and a half decades.
    """
    solutions = [s for s in (theory, runs, *others) if s is not None]
    _check(solutions, log)
    names = _chosen(solutions, observables)
    if ax is not None:
        panels = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax)))
        if len(panels) != len(names):
            raise LearndynError(f"ax has {len(panels)} axes for {len(names)} observables")
        figure = figure_of(panels[0])
    else:
        columns = min(len(names), 3)
        rows = -(-len(names) // columns)
        if figure is None:
            shape = (PANEL[0] * columns, PANEL[1] * rows)
            figure = Picture(figsize=shape, layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for spare in panels[len(names) :]:
            spare.remove()
    labels = _labels(solutions)
    for panel, name in zip(panels, names, strict=False):
        _draw(panel, name, solutions, labels, log)
    if title is not None:
        (panels[0].set_title if len(names) == 1 else figure.suptitle)(title)
    return figure


def agreement_panel(comparison: Comparison, *, ax: Axes | None = None) -> Figure:
    """Draw the deviation of the runs from the theory in standard errors, one line per observable.

    Where an observable has components, the line is the component that deviates most.
    """
    axis = comparison.axis
    if ax is None:
        ax = Picture(figsize=PANEL, layout="constrained").subplots()
    ax.axhspan(-2, 2, color="0.9", lw=0, label="± 2")
    ax.axhline(0, color="0.6", lw=0.8)
    times = np.empty(0)
    styles = itertools.product(STYLES, COLOURS)
    for name, (style, colour) in zip(comparison.table.index, styles, strict=False):
        array = comparison.deviations[f"{name}_in_errors"]
        if axis not in array.dims:
            continue
        times = array[axis].values
        curves = _components(array.rename(name), axis, slices=None)
        label, line = max(curves, key=lambda curve: np.max(np.abs(curve[1])))
        label = name if len(curves) == 1 else f"{label}, the worst of {len(curves)}"
        ax.plot(times, np.where(np.isfinite(line), line, np.nan), style, color=colour, label=label)
    if _logarithmic(times):
        ax.set_xscale("log")
    ax.set_xlabel(words_of(comparison.deviations[axis], axis))
    ax.set_ylabel("mean of runs − theory\n[standard errors]")
    _finish(ax)
    return figure_of(ax)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file; the ending, .png, .svg or .pdf, says in which format."""
    ending = Path(path).suffix.lower().lstrip(".")
    if ending not in ENDINGS:
        allowed = ", ".join(f".{known}" for known in ENDINGS)
        raise FileError(f"cannot write {path}: its ending must be one of {allowed}")
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=ending, dpi=200))


def draw_points(axes: Axes, x, runs: np.ndarray, colour: str, **look) -> None:
    """Means over the seeds (the first axis of `runs`) with standard deviations, if there are several."""
    spread = runs.std(axis=0, ddof=1) if len(runs) > 1 else None
    look = {"fmt": "o", "ms": 3.5, "mfc": "white", "color": colour, "elinewidth": 1} | look
    axes.errorbar(x, runs.mean(axis=0), spread, **look)


def finish_panel(axes: Axes, title: str, legend: dict | None = None, **settings) -> None:
    """Give a panel its title, `settings` such as labels and scales, and a legend unless that is None."""
    axes.set_title(title, fontsize=10)
    axes.set(**settings)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)
    if legend is not None:
        axes.legend(**({"frameon": False, "fontsize": 8, "handlelength": 2.2} | legend))


def figure_of(panel: Axes) -> Figure:
    figure = panel.get_figure(root=True)
    if figure is None:
        raise LearndynError("ax has been removed from its figure")
    return figure


def _check(solutions: list, log: str | None) -> None:
    if not solutions:
        raise LearndynError("nothing to plot: give a theory, runs or both")
    for solution in solutions:
        if not isinstance(solution, Solution):
            raise LearndynError(f"cannot plot {shown(solution)}: it must be a Solution")
    if len({solution.axis for solution in solutions}) > 1:
        raise LearndynError("cannot plot solutions over time and over steps in one picture")
    if log not in (None, "", "x", "y", "xy"):
        raise LearndynError(f"log = {shown(log)}: must be '', 'x', 'y', 'xy' or None")


def _chosen(solutions: list[Solution], observables) -> list[str]:
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
            known = {other for solution in solutions for other in solution.observables}
            raise UnknownObservable(f"no observable {name!r}; {nearest(name, known)}")
    return names


def _labels(solutions: list[Solution]) -> list[str]:
    """What each solution is called in the legend: told apart by what differs between them."""
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


def _numbers(values: dict, path: str = "") -> dict:
    """The single numbers and words in nested plain data, by dotted path."""
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _numbers(value, f"{path}{key}.")
        elif not isinstance(value, list):
            found[f"{path}{key}"] = value
    return found


def _draw(panel: Axes, name: str, solutions: list[Solution], labels: list[str], log) -> None:
    drawn = [(s, text) for s, text in zip(solutions, labels, strict=True) if name in s.observables]
    axis = drawn[0][0].axis
    several = len(_components(drawn[0][0][name], axis)) > 1
    looks = _looks([solution for solution, _ in drawn], several)
    handles, centres = {}, []
    for (solution, label), (colour, style) in zip(drawn, looks, strict=True):
        components = _components(solution[name], axis)
        errors = _sampling_errors(solution, name)
        for number, (component, values) in enumerate(components):
            shade = _shade(number, len(components)) if several else colour
            times = solution.data[axis].values
            draw = _draw_runs if solution.is_simulation else _draw_theory
            centres.append(draw(panel, times, values, shade, style, len(components)))
            if number < len(errors):
                error = 2 * errors[number][1]
                panel.fill_between(
                    times, values - error, values + error, **SAMPLED_BAND, color=shade
                )
            if several and len(components) <= len(COLOURS):
                handles.setdefault(component, Line2D([], [], color=shade, lw=2))
        line = RUNS_LINE if solution.is_simulation else THEORY_LINE
        handles[label] = Line2D([], [], color=colour, ls=style, **line)
        if solution.diverged_at is not None:
            panel.axvline(solution.diverged_at, color="0.5", lw=0.8, ls=(0, (1, 3)))
            handles["diverged"] = Line2D([], [], color="0.5", lw=0.8, ls=(0, (1, 3)))
    first = drawn[0][0]
    set_scales(panel, first.data[axis].values, np.concatenate(centres), log)
    panel.set_xlabel(words_of(first.data[axis], axis))
    panel.set_ylabel(words_of(first[name], name))
    _finish(panel, handles)


def _looks(solutions: list[Solution], several: bool) -> list[tuple[str, str]]:
    """Colour and line style of each solution.

    Where `several` components take the colours, solutions differ by style. Else, of one problem,
    theories are black and differ by style, runs by colour; several problems have a colour each.
    """
    problems, looks, seen = [], [], {}
    for solution in solutions:
        if solution.problem not in problems:
            problems.append(solution.problem)
    for solution in solutions:
        problem = 0 if several else problems.index(solution.problem)
        key = (problem, solution.is_simulation)
        number = seen[key] = seen.get(key, -1) + 1
        colour, style = COLOURS[problem % len(COLOURS)], STYLES[number % len(STYLES)]
        if several:
            colour = "0.3"
        elif len(problems) == 1 and solution.is_simulation:
            colour, style = COLOURS[number % len(COLOURS)], "-"
        elif len(problems) == 1:
            colour = THEORY_COLOUR
        looks.append((colour, style))
    return looks


def _components(array: xr.DataArray, axis: str, slices: int | None = 5) -> list:
    """The curves of an observable: names, and arrays over time with the seeds in front if any.

    Of a function of two times, the curves at up to so many second times (`slices`; None for all).
    """
    second = f"{axis}2"
    if second in array.dims and slices is not None:
        # No more curves than have a colour and a place in the legend, where that is possible.
        lines = array.size // np.prod(
            [array.sizes[d] for d in ("seed", axis, second) if d in array.dims]
        )
        slices = max(1, min(slices, len(COLOURS) // int(lines)))
        chosen = np.linspace(0, array.sizes[second] - 1, slices).round().astype(int)
        array = array.isel({second: np.unique(chosen)})
    front = [dim for dim in ("seed", axis) if dim in array.dims]
    # An axis of one component says nothing about it.
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


def _sampling_errors(solution: Solution, name: str) -> list:
    """The standard errors of the curves of a sampled theory; none of a function of two times."""
    error = None if solution.is_simulation else solution.standard_error(name)
    if error is None or f"{solution.axis}2" in error.dims:
        return []
    return _components(error, solution.axis)


def _shade(number: int, count: int):
    if count <= len(COLOURS):
        return COLOURS[number]
    return matplotlib.colormaps["viridis"](0.9 * number / (count - 1))


def _draw_theory(panel: Axes, times, values, colour, style: str, count: int):
    panel.plot(times, values, color=colour, ls=style, zorder=3, **THEORY_LINE)
    return values


def _draw_runs(panel: Axes, times, values, colour, style: str, count: int):
    mean, error = mean_and_error(values)
    # With hundreds of faint lines there would be nothing to see but them.
    if 1 < len(values) <= 200 // count:
        panel.plot(times, values.T, color=colour, lw=0.5, alpha=0.25, zorder=1)
    if len(values) > 1:
        band = {"color": colour, "alpha": 0.3, "lw": 0, "zorder": 1.5}
        panel.fill_between(times, mean - error, mean + error, **band)
    panel.plot(times, mean, color=colour, ls=style, zorder=2, **RUNS_LINE)
    return mean


def set_scales(panel: Axes, times, values, log: str | None) -> None:
    values = values[np.isfinite(values)]
    positive = values.size > 0 and values.min() > 0
    if log is None:
        log = "x" * _logarithmic(times)
        log += "y" * bool(positive and np.log10(values.max() / values.min()) > 1.5)
    if "x" in log:
        panel.set_xscale("log", nonpositive="mask")
    if "y" in log:
        panel.set_yscale("log", nonpositive="clip")
        above = values[values > 0]
        if above.size:
            # A band that reaches zero must not stretch the axis to minus infinity.
            panel.set_ylim(above.min() / 3, above.max() * 3)


def _logarithmic(times) -> bool:
    """Whether times are closer to equally spaced in the logarithm than in themselves."""
    times = times[times > 0]
    if len(times) < 5 or times[-1] < 30 * times[0]:
        return False
    uneven = [np.std(steps) / np.mean(steps) for steps in (np.diff(times), np.diff(np.log(times)))]
    return bool(uneven[1] < uneven[0])


def words_of(array: xr.DataArray, name: str) -> str:
    """An axis label from the attributes."""
    text = textwrap.fill(str(array.attrs.get("long_name", name)), 40)
    units = array.attrs.get("units", "1")
    return text if units in ("1", "") else f"{text} [{units}]"


def _finish(panel: Axes, handles: dict | None = None) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25, lw=0.5)
    style = {"frameon": False, "fontsize": 8, "handlelength": 2.2}
    if handles is None:
        panel.legend(**style)
    else:
        panel.legend(list(handles.values()), list(handles), ncols=1 + (len(handles) > 5), **style)
