"""Pictures of sweeps: `plot_sweep`.

A theory is a line; runs are points with bars of one standard error over the seeds. Points that diverged or
failed are never left out silently: they are grey or crossed, and named in the legend.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.errors import LearndynError, ProblemError, UnknownObservable, nearest, shown
from learndyn.pictures.panels.lines import draw_curves, draw_line
from learndyn.pictures.panels.maps import draw_best, draw_map
from learndyn.pictures.panels.places import Places, places_of
from learndyn.pictures.panels.readings import Measured, measured
from learndyn.pictures.plotting import PANEL, Picture, figure_of
from learndyn.sweeps.sweep import Sweep

KINDS = ("curves", "map", "best", "line")
PANELS = 6
"""The largest number of panels of curves in one picture."""


def plot_sweep(
    sweep: Sweep,
    observable: str = "test_loss",
    kind: str | None = None,
    *,
    x: str | None = None,
    colour: str | None = None,
    at: float | None = None,
    select: Mapping[str, Any] | None = None,
    ax: Axes | Iterable[Axes] | None = None,
) -> Figure:
    """Draw an observable of a sweep.

    `kind` says how:

    - "curves": the learning curves, coloured by the swept field `colour`; with a second swept field of at most six
      values, one panel for each of them. The default for one swept field.
    - "map": colours for the value at `at` against two swept fields, one of them along `x`. The default for two. Runs
      are dots in the cells of the theory.
    - "best": for each value of one swept field the value of another, `x` (the learning rate unless given), at which
      the observable at `at` is smallest; and in a second panel that smallest value. Where the best value is at the
      end of those swept it is drawn open: the optimum may lie outside.
    - "line": the value at `at` against the swept field `x`, with one line for each value of another, `colour`. The
      default for one swept field if the observable depends on no step or time.

    `at` is a recorded step or time, or near one; unless given, the end of training. `select` fixes further swept
    fields, and the components of an observable that has several: {"width": 2.0, "student": 0}. `ax` says where to
    draw; "best" needs two axes. Losses that vanish up to rounding, 10⁻¹³ of the initial ones, are drawn at that height;
    of several values that are equally good in this sense, the middle one is the best.
    """
    if not isinstance(sweep, Sweep):
        raise LearndynError(f"cannot plot {shown(sweep)}: it must be a Sweep")
    if kind is not None and kind not in KINDS:
        raise ProblemError("kind", kind, f"must be one of {', '.join(KINDS)}, or None")
    measured_values, names = _selected(sweep, observable, select or {})
    if kind is None:
        kind = "map" if len(names) > 1 else "line" if measured_values.axis is None else "curves"
    if kind == "curves" and measured_values.axis is None:
        raise ProblemError("kind", kind, "needs an observable that depends on the step or time")
    places = {name: places_of(sweep.data[name]) for name in names}
    first, second = _roles(kind, places, x, colour)
    label = _label(measured_values.sides[0].values, observable)
    if kind == "curves":
        return _curves(
            measured_values.lifted(), label, places[first], places[second] if second else None, ax
        )
    final, when = measured_values.read(at)
    final = final.lifted()
    label = f"{label}, {when}" if when else label
    panels = _given_panels(ax, 1 + (kind == "best")) or _new_panels(
        1 + (kind == "best"), 1, sharex=True
    )
    if kind == "line":
        draw_line(panels[0], final, label, places[first], places[second] if second else None)
    elif kind == "map":
        draw_map(panels[0], final, label, places[first], places[second or ""])
    else:
        draw_best(panels, final, label, places[second or ""], places[first])
    return figure_of(panels[0])


def _selected(
    sweep: Sweep, observable: str, select: Mapping[str, Any]
) -> tuple[Measured, list[str]]:
    """The observable where `select` fixes some of its axes, and the names of the swept axes that are left."""
    data, names = sweep.data, sweep.axes
    known = {name.removesuffix("_runs") for name in sweep.observables}
    if observable not in known:
        hint = nearest(observable, known) if known else "every point failed; see failures"
        raise UnknownObservable(f"no observable {observable!r}; {hint}")
    selection = measured(data, observable).map(lambda array: _without_single(array, names))
    dims = [str(dim) for dim in selection.sides[0].values.dims if dim != selection.axis]
    for name, value in select.items():
        if name not in dims:
            allowed = f"is not an axis of {observable} that can be fixed; {nearest(name, dims)}"
            raise ProblemError("select", name, allowed)
        selection = _fixed(selection, name, _index_of(data[name].values.tolist(), name, value))
    inner = [dim for dim in dims if dim not in (*names, *select)]
    if inner:
        sizes = ", ".join(f"{dim} ({data.sizes[dim]})" for dim in inner)
        allowed = f"has components along {sizes}; fix each of them{_example(data, inner[0])}"
        raise ProblemError("observable", observable, allowed)
    left = [name for name in names if name not in select]
    if not left:
        raise ProblemError("select", dict(select), "must leave a swept field to draw")
    return selection, left


def _index_of(labels: list, name: str, value: Any) -> int:
    """The index of a value on an axis. For a number, the four digits that pictures show are enough."""
    if value in labels:
        return labels.index(value)
    if all(isinstance(known, int | float) for known in [value, *labels]):
        near = np.flatnonzero(np.isclose(labels, value, rtol=1e-3, atol=0))
        if len(near) == 1:
            return int(near[0])
    raise ProblemError(f"select[{name!r}]", value, f"must be one of {shown(labels)}")


def _label(array: xr.DataArray, name: str) -> str:
    """What an observable is, with its units; `name` if its attributes do not say it."""
    text, units = str(array.attrs.get("long_name", name)), array.attrs.get("units", "1")
    return text if units in ("1", "") else f"{text} [{units}]"


def _without_single(array: xr.DataArray, swept: list[str]) -> xr.DataArray:
    """The array without axes of length one, which need no label."""
    always_shown = {*swept, "seed", "time", "step"}
    return array.squeeze(
        [d for d, n in array.sizes.items() if n == 1 and d not in always_shown], drop=True
    )


def _fixed(measurement: Measured, name: str, index: int) -> Measured:
    """The measurement at one index of the axis `name`."""

    def fixed(array: xr.DataArray) -> xr.DataArray:
        return array.isel({name: index}, drop=True) if name in array.dims else array

    return measurement.map(fixed)


def _example(data: xr.Dataset, name: str) -> str:
    """How to fix the axis `name`, for a message."""
    return f", for example with select={{{name!r}: {data[name].values[0].item()!r}}}"


def _roles(
    kind: str, places: dict[str, Places], x: str | None, colour: str | None
) -> tuple[str, str | None]:
    """The two swept fields that a picture shows, as asked for or as is usual; the second may be missing.

    The first is the colour of curves, the x of lines and maps, and the field whose best value is sought.
    """
    names = list(places)
    for argument, name, kinds in (
        ("x", x, ("map", "best", "line")),
        ("colour", colour, ("curves", "line")),
    ):
        if name is not None and name not in names:
            raise ProblemError(
                argument, name, f"is not one of the swept fields; {nearest(name, names)}"
            )
        if name is not None and kind not in kinds:
            allowed = f"must be None for the kind {kind!r}; it is for {' and '.join(kinds)}"
            raise ProblemError(argument, name, allowed)
    if x is not None and x == colour:
        raise ProblemError("colour", colour, "must be another field than x")
    if kind == "curves":
        first = colour or max(names, key=lambda name: len(places[name].values))
    elif kind == "best":
        rates = [name for name in names if name.rpartition(".")[2] == "learning_rate"]
        if x is None and not rates:
            allowed = f"must name the field whose best value is sought: {' or '.join(names)}"
            raise ProblemError("x", x, allowed)
        first = x or rates[0]
    else:
        first = x or next(name for name in names if name != colour or len(names) == 1)
    others = [name for name in names if name != first]
    if colour in others:
        others = [colour, *(name for name in others if name != colour)]
    if kind in ("map", "best") and not others:
        raise ProblemError("kind", kind, f"needs two swept fields, but there is only {first}")
    if len(others) > 1:
        raise _too_many(kind, places, others[1:])
    return first, others[0] if others else None


def _too_many(kind: str, places: dict[str, Places], extra: list[str]) -> ProblemError:
    """The refusal of swept fields for which a picture has no room."""
    values = "; ".join(f"{name} = {', '.join(places[name].texts)}" for name in extra)
    example = {extra[0]: places[extra[0]].values[0].item()}
    allowed = (
        f"cannot show further swept fields ({values}); fix them, for example with select={example}"
    )
    return ProblemError("kind", kind, allowed)


def _curves(
    measurement: Measured,
    label: str,
    field: Places,
    second: Places | None,
    ax: Axes | Iterable[Axes] | None,
) -> Figure:
    """Curves in one panel, or in one for each value of the second field."""
    if second is None:
        panels = _given_panels(ax, 1) or _new_panels(1, 1)
        draw_curves(panels, [measurement], label, field, [""])
        return figure_of(panels[0])
    count = len(second.values)
    if ax is None and count > PANELS:
        raise _too_many("curves", {second.name: second}, [second.name])
    columns = min(count, 3)
    panels = _given_panels(ax, count) or _new_panels(
        -(-count // columns), columns, sharex=True, sharey=True
    )
    for spare in panels[count:]:
        spare.remove()
    parts = [_fixed(measurement, second.name, index) for index in second.order]
    titles = [f"{second.label} = {text}" for text in second.texts]
    draw_curves(panels[:count], parts, label, field, titles)
    for above in panels[count - columns : len(panels) - columns]:
        # The panel below is not there to carry the labels.
        above.xaxis.set_tick_params(labelbottom=True)
        above.set_xlabel(panels[0].get_xlabel() or panels[count - 1].get_xlabel())
    return figure_of(panels[0])


def _given_panels(ax: Axes | Iterable[Axes] | None, count: int) -> list[Axes]:
    """The user's axes as a list of `count`; an empty list if there are none."""
    if ax is None:
        return []
    panels = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax)))
    if len(panels) != count:
        raise LearndynError(f"ax has {len(panels)} axes; this picture needs {count}")
    return panels


def _new_panels(rows: int, columns: int, **options: Any) -> list[Axes]:
    """The panels of a new figure."""
    # Beside a panel there is a colour bar; small multiples are narrower.
    width = PANEL[0] + 0.7 if columns == 1 else 2.9 * columns + 1.2
    height = PANEL[1] if rows == 1 else 2.7 * rows
    figure = Picture(figsize=(width, height), layout="constrained")
    return list(figure.subplots(rows, columns, squeeze=False, **options).flat)
