"""Functions of two times as maps: colours over t and t′, the theory above its deviation from the runs."""

import dataclasses
import itertools
import textwrap
from collections.abc import Iterable
from typing import Literal

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from learndyn.core.solution import Solution
from learndyn.numerics.statistics import mean_and_error
from learndyn.pictures.scales import figure_of, is_logarithmic

COLUMNS = 4
"""Number of maps side by side."""
MAP = (2.75, 2.3)
"""Width and height of one map with its colour bar, in inches."""
ALL_MAPS = 16
"""About as many columns of maps in one picture; an observable has at least two, and at most four."""
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
NOT_A_NUMBER = "0.85"
ROUND_STEPS = [1, 2, 5, 10]
SPIKE = 4.0
"""If a map reaches this many times as far as 99 % of its values do, its colours end at those."""


@dataclasses.dataclass(frozen=True)
class TimeMap:
    """The values F(t, t′) of one solution, or of the runs minus the theory.

    - `label`: which solution it is.
    - `times`: the times t and t′, T of them each.
    - `values`: F, with t along the first axis.
    - `signed`: whether zero is in the middle of the colours.
    """

    label: str
    axis: str
    times: tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T2"]]
    values: Float[np.ndarray, "T T2"]
    signed: bool


@dataclasses.dataclass(frozen=True)
class MapColumn:
    """The maps of one component of an observable, one above the other."""

    title: str
    maps: tuple[TimeMap, ...]


def has_two_times(array: xr.DataArray, axis: str) -> bool:
    """Whether an observable is a function of two times (or steps) of training."""
    return {axis, f"{axis}2"} <= set(array.dims)


def map_columns(
    names: Iterable[str], solutions: list[Solution], labels: list[str]
) -> list[MapColumn]:
    """The columns of maps of these observables; of one with many components, only a few of them."""
    names = list(names)
    limit = min(4, max(2, ALL_MAPS // len(names)))
    columns = []
    for name in names:
        pairs = [(s, text) for s, text in zip(solutions, labels, strict=True) if name in s]
        for component in _shown_components(pairs[0][0], name, limit):
            maps = _maps_of_component(name, component, pairs)
            columns.append(MapColumn(_title(pairs[0][0][name], component), maps))
    return columns


def bands_of(columns: list[MapColumn]) -> list[list[MapColumn]]:
    """The columns in bands, at most `COLUMNS` side by side; those of one band show the same solutions."""

    def solutions_shown(column: MapColumn) -> tuple[str, ...]:
        return tuple(time_map.label for time_map in column.maps)

    bands = []
    for kind in dict.fromkeys(map(solutions_shown, columns)):
        alike = [column for column in columns if solutions_shown(column) == kind]
        bands += [alike[first : first + COLUMNS] for first in range(0, len(alike), COLUMNS)]
    return bands


def size_of(bands: list[list[MapColumn]]) -> tuple[float, float]:
    """Width and height of a figure of these bands, in inches."""
    rows = sum(len(band[0].maps) for band in bands)
    titles = sum(max(column.title.count("\n") + 1 for column in band) for band in bands)
    # The label of the axis t stands only once, at the left.
    width = MAP[0] * max(map(len, bands)) + 0.5
    return width, MAP[1] * rows + 0.15 * titles + 0.25 * len(bands)


def draw_bands(
    figure: Figure | SubFigure, bands: list[list[MapColumn]], log: str | None = None
) -> None:
    """Draw the bands one below the other."""
    rows = sum(len(band[0].maps) for band in bands)
    grid = figure.add_gridspec(rows, max(map(len, bands)))
    top = 0
    for band in bands:
        for place, column in enumerate(band):
            for row, time_map in enumerate(column.maps):
                panel = figure.add_subplot(grid[top + row, place])
                draw_time_map(panel, time_map, log)
                if row == 0:
                    panel.set_title(column.title, fontsize=8)
                if row < len(column.maps) - 1:
                    panel.set_xlabel("")
                if place == 0:
                    panel.set_ylabel(f"{time_map.label}\n{time_map.axis}", fontsize=8)
                else:
                    panel.set_ylabel("")
        top += len(band[0].maps)


def draw_time_map(panel: Axes, time_map: TimeMap, log: str | None = None) -> None:
    """Draw one map with its colour bar; `log` makes both times logarithmic if it contains "x"."""
    t, t2 = time_map.times
    values = time_map.values
    if is_logarithmic(t) if log is None else "x" in log:
        # A logarithmic axis has no place for time zero.
        values = values[t > 0][:, t2 > 0]
        t, t2 = t[t > 0], t2[t2 > 0]
        panel.set(xscale="log", yscale="log")
    norm, beyond = _norm_of(values, time_map.signed)
    signed = norm.vmin is not None and norm.vmin < 0
    panel.set_facecolor(NOT_A_NUMBER)
    mesh = panel.pcolormesh(
        t2,
        t,
        np.ma.masked_invalid(values),
        shading="nearest",
        cmap=DIVERGING if signed else SEQUENTIAL,
        norm=norm,
        rasterized=True,
    )
    panel.set_box_aspect(1)
    panel.tick_params(labelsize=7)
    if panel.get_xscale() == "linear":
        panel.xaxis.set_major_locator(MaxNLocator(4, steps=ROUND_STEPS))
        panel.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND_STEPS))
    panel.spines[:].set_linewidth(0.5)
    panel.set_xlabel(f"second {time_map.axis}", fontsize=8)
    panel.set_ylabel(time_map.axis, fontsize=8)
    bar = figure_of(panel).colorbar(mesh, ax=panel, fraction=0.06, pad=0.03, extend=beyond)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(labelsize=7, which="both")
    bar.ax.yaxis.get_offset_text().set_fontsize(7)
    if not isinstance(norm, LogNorm):
        bar.locator = MaxNLocator(4, steps=ROUND_STEPS)
        bar.formatter = ScalarFormatter()
        bar.formatter.set_powerlimits((-2, 3))
        bar.update_ticks()


def _norm_of(
    values: Float[np.ndarray, "T T2"], signed: bool
) -> tuple[Normalize, Literal["neither", "max", "both"]]:
    """The range of colours, and at which of its ends values lie beyond it.

    It is symmetric about zero if there are negative values or `signed` says so. Positive values that span more than two
    decades have a logarithmic scale. On a linear scale, single spikes do not count, or all else would look alike.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Normalize(0.0, 1.0), "neither"
    low, high = finite.min(), finite.max()
    if signed or low < 0:
        largest, usual = max(-low, high), np.quantile(np.abs(finite), 0.99)
        if 0 < SPIKE * usual < largest:
            return Normalize(-usual, usual), "both"
        return Normalize(-largest, largest), "neither"
    if low > 0 and high > 100 * low:
        return LogNorm(low, high), "neither"
    usual = np.quantile(finite, 0.99)
    if 0 < SPIKE * (usual - low) < high - low:
        return Normalize(low, usual), "max"
    return Normalize(low, high), "neither"


def _shown_components(solution: Solution, name: str, limit: int) -> list[dict[str, int]]:
    """The indices of at most `limit` components, along the axes that are not times.

    If there are more, those with equal indices along both axes of a pair ("unit" and "unit2") are preferred, evenly
    spaced among them.
    """
    array = solution[name]
    times = ("seed", solution.axis, f"{solution.axis}2")
    axes = [str(dim) for dim in array.dims if dim not in times]
    components = [
        dict(zip(axes, indices, strict=True))
        for indices in itertools.product(*(range(array.sizes[dim]) for dim in axes))
    ]
    if len(components) > limit:
        equal = [
            component
            for component in components
            if all(component.get(f"{dim}2", index) == index for dim, index in component.items())
        ]
        components = equal or components
    places = np.linspace(0, len(components) - 1, min(limit, len(components)))
    return [components[place] for place in np.unique(places.round().astype(int))]


def _maps_of_component(
    name: str, component: dict[str, int], pairs: list[tuple[Solution, str]]
) -> tuple[TimeMap, ...]:
    """One map for each solution; runs are shown minus the theory of the same problem and times."""
    maps, theory = [], None
    single = sum(solution.is_simulation for solution, _ in pairs) == 1
    for solution, label in sorted(pairs, key=lambda pair: pair[0].is_simulation):
        axis = solution.axis
        array = solution[name].isel(component)
        times = (array[axis].values, array[f"{axis}2"].values)
        values = array.transpose("seed", ..., axis, f"{axis}2", missing_dims="ignore").values
        if solution.is_simulation:
            values = mean_and_error(values)[0]
        signed = False
        if theory is not None and _comparable(solution, theory, times, maps[0].times):
            label = "runs − theory" if single else f"{label}, minus theory"
            values, signed = values - maps[0].values, True
        elif theory is None and not solution.is_simulation:
            theory = solution
        maps.append(TimeMap(textwrap.fill(label, 30), axis, times, values, signed))
    return tuple(maps)


def _comparable(
    solution: Solution,
    theory: Solution,
    times: tuple[np.ndarray, np.ndarray],
    theory_times: tuple[np.ndarray, np.ndarray],
) -> bool:
    """Whether `solution` is of runs that the theory describes, at the theory's times."""
    return (
        solution.is_simulation
        and solution.problem == theory.problem
        and all(map(np.array_equal, times, theory_times))
    )


def _title(array: xr.DataArray, component: dict[str, int]) -> str:
    """The name of a component, such as C_h[2], and what the observable is."""
    labels = [
        str(array[dim].values[index]) if dim in array.coords else str(index)
        for dim, index in component.items()
        if array.sizes[dim] > 1
    ]
    name = f"{array.name}[{', '.join(labels)}]" if labels else str(array.name)
    units = array.attrs.get("units", "1")
    words = str(array.attrs.get("long_name", ""))
    words = words if units in ("1", "") else f"{words} [{units}]".lstrip()
    return textwrap.fill(f"{name}: {words}" if words else name, 36)
