"""Tables of observables, and curves: what a theory or a finite network gives, on labelled axes.

A theory declares its observables in one table of `Quantity`. Solvers hand over `{name: array}` against it; cutting at
divergence, averaging over batches, extrapolating and restricting happen here, by the names of the axes.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from learndyn.core.record import Record
from learndyn.errors import UnknownObservable, nearest
from learndyn.numerics.richardson import richardson
from learndyn.numerics.statistics import mean_and_error

MAIN, SECOND = "step", "step2"
"""In a table these axes stand for the record's own: time and time2 where training is measured in time."""


class Convention(NamedTuple):
    """How a loss is counted: what a reader must know to compare it with another loss.

    - `words`: the convention in words. Empty for what is not a loss.
    - `half`: whether it has the factor ½. None if that is as in the criterion of training.
    - `noise`: whether the noise of labels is in it. None if the labels are given as they are.
    """

    words: str = ""
    half: bool | None = None
    noise: bool | None = None


class Quantity(NamedTuple):
    """One line of a theory's table of observables.

    - `name`: the name of the observable, such as "R".
    - `axes`: the names of its axes; "step" (and "step2", for functions of two times) stands for the states of training.
    - `words`: what it is, with its symbol and, for losses, every factor.
    - `judged`: whether `compare` includes it in its verdict. False for a quantity with a kink, such as a maximum, in
      which finite networks deviate from the limit by more than O(1/N). True unless given.
    - `convention`: how it is counted, if it is a loss. Empty unless given.
    """

    name: str
    axes: tuple[str, ...]
    words: str
    judged: bool = True
    convention: Convention = Convention()


Table = tuple[Quantity, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Curves:
    """Observables at the first `reached` states of a record, all of them unless training diverged.

    - `table`: the theory's table of observables.
    - `record`: the states of training that were asked for.
    - `arrays`: the observables by name. They may go on beyond the states that were reached; they are cut here.
    - `reached`: how many states of the record were reached. All of them unless given.
    - `errors`: standard errors, by observable. None unless given.
    - `batches`: the values of every batch of samples, for observables that are averages over batches; the batches are
      an extra first axis. None unless given.
    - `labels`: the labels of axes that are not numbered from 0.
    - `evidence`: how the numbers were obtained.
    """

    table: Table
    record: Record
    arrays: dict[str, np.ndarray]
    reached: int | None = None
    errors: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    batches: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    labels: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        reached = len(self.record) if self.reached is None else int(self.reached)
        known = {quantity.name: quantity for quantity in self.table}
        for name in self.arrays:
            if name not in known:
                raise UnknownObservable(f"the table of this theory has no observable {name!r}")
        # In the order of the table.
        arrays = {name: self.arrays[name] for name in known if name in self.arrays}
        cut = {
            "reached": reached,
            "arrays": {n: _cut(known[n], x, reached, 0) for n, x in arrays.items()},
            "errors": {n: _cut(known[n], x, reached, 0) for n, x in self.errors.items()},
            "batches": {n: _cut(known[n], x, reached, 1) for n, x in self.batches.items()},
        }
        for name, value in cut.items():
            object.__setattr__(self, name, value)
        for name, error in self.errors.items():
            if error.shape != self.arrays[name].shape:
                raise ValueError(
                    f"the error of {name} has the shape {error.shape}; it must be {self.arrays[name].shape}"
                )

    @property
    def count(self) -> int:
        """How many states of the record were reached."""
        assert self.reached is not None
        return self.reached

    @property
    def axis(self) -> str:
        """The main axis: "time" or "step"."""
        return self.record.axis

    @property
    def times(self) -> np.ndarray:
        """The states that were reached."""
        return self.record.at[: self.count]

    @property
    def diverged_at(self) -> float | None:
        """The first state of the record that was not reached because training diverged, or None."""
        at = self.record.at
        return float(at[self.count]) if self.count < len(at) else None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def cut(self, count: int) -> "Curves":
        """The first `count` states only."""
        return dataclasses.replace(self, reached=min(count, self.count))

    def at(self, record: Record) -> "Curves":
        """The states of a smaller record."""
        places = np.searchsorted(self.record.at, record.at)
        count = int(np.count_nonzero(places < self.count))
        known = {quantity.name: quantity for quantity in self.table}

        def taken(arrays: dict[str, np.ndarray], extra: int) -> dict[str, np.ndarray]:
            return {n: _taken(known[n], x, places[:count], extra) for n, x in arrays.items()}

        return dataclasses.replace(
            self,
            record=record,
            reached=count,
            arrays=taken(self.arrays, 0),
            errors=taken(self.errors, 0),
            batches=taken(self.batches, 1),
        )

    def restricted(self, names: Iterable[str] | None) -> "Curves":
        """Only the observables with these names; all of them for None."""
        if names is None:
            return self
        names = tuple(names)
        for name in names:
            if name not in self.arrays:
                raise UnknownObservable(f"no observable {name!r}; {nearest(name, self.arrays)}")

        def chosen(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: x for name, x in arrays.items() if name in names}

        return dataclasses.replace(
            self,
            arrays=chosen(self.arrays),
            errors=chosen(self.errors),
            batches=chosen(self.batches),
        )

    def told(self, **evidence: Any) -> "Curves":
        """The same curves with more evidence."""
        return dataclasses.replace(self, evidence=self.evidence | evidence)

    def differences(self, other: "Curves") -> dict[str, float]:
        """The largest difference of every observable from other curves, at the states that both reached."""
        count = min(self.count, other.count)
        mine, theirs = self.cut(count), other.cut(count)
        return {
            name: float(np.max(np.abs(values - theirs[name]), initial=0.0))
            for name, values in mine.arrays.items()
            if name in theirs.arrays
        }

    def variables(self, time_words: str) -> tuple[dict[str, xr.Variable], dict[str, xr.Variable]]:
        """The observables with their standard errors, and the labels of their axes; `time_words` say what time is."""
        known = {quantity.name: quantity for quantity in self.table}
        arrays: dict[str, xr.Variable] = {}
        sizes: dict[str, int] = {}
        for name, values in self.arrays.items():
            quantity = known[name]
            axes = self._named(quantity.axes)
            attributes: dict[str, Any] = {"long_name": quantity.words}
            if quantity.convention.words:
                attributes["convention"] = quantity.convention.words
            if not quantity.judged:
                attributes["judged"] = 0
            arrays[name] = labelled(axes, values, attributes)
            sizes |= dict(zip(axes, values.shape, strict=True))
            if name in self.errors:
                words = {
                    "long_name": f"standard error of {quantity.words}",
                    "standard_error_of": name,
                }
                arrays[f"{name}_standard_error"] = labelled(axes, self.errors[name], words)
        own = {self.axis: self.times, f"{self.axis}2": self.times} | self.labels
        labels = {
            axis: axis_labels(axis, np.asarray(own.get(axis, np.arange(size))))
            for axis, size in sizes.items()
        }
        words = {"long_name": time_words if self.axis == "time" else "training step"}
        labels[self.axis] = axis_labels(self.axis, self.times, words)
        return arrays, labels

    def _named(self, axes: Sequence[str]) -> tuple[str, ...]:
        names = {MAIN: self.axis, SECOND: f"{self.axis}2"}
        return tuple(names.get(axis, axis) for axis in axes)


def labelled(
    axes: tuple[str, ...], values: np.ndarray, attributes: dict[str, Any] | None = None
) -> xr.Variable:
    """The array with names of its axes.

    For an array of NumPy xarray need not find out what it is; that would import dask, if it is installed.
    """
    return xr.Variable(axes, values, attributes, fastpath=isinstance(values, np.ndarray))


def axis_labels(
    axis: str, values: np.ndarray, attributes: dict[str, Any] | None = None
) -> xr.Variable:
    """The labels of an axis; numbers as an index already, because xarray imports dask to make one."""
    if values.dtype.kind not in "iuf":
        return labelled((axis,), values, attributes)
    return xr.IndexVariable((axis,), pd.Index(values), attributes)


def side_by_side(runs: dict[int, Curves], time_words: str) -> xr.Dataset:
    """The curves of several seeds with the axis "seed" in front; a seed that diverged early is NaN from there on."""
    longest = max(runs.values(), key=lambda curves: (curves.count, len(curves.arrays)))
    known = {quantity.name: quantity for quantity in longest.table}
    arrays, labels = longest.variables(time_words)
    joined: dict[str, xr.Variable] = {}
    for name, variable in arrays.items():
        values = np.full((len(runs), *variable.shape), np.nan)
        for number, curves in enumerate(runs.values()):
            if name in curves.arrays:
                values[(number, *_states(known[name], curves.count))] = curves[name]
        joined[name] = labelled(("seed", *map(str, variable.dims)), values, variable.attrs)
    seeds = axis_labels("seed", np.array(list(runs)), {"long_name": "seed"})
    return xr.Dataset(joined, labels | {"seed": seeds})


def _states(quantity: Quantity, count: int) -> tuple[slice, ...]:
    """The index of the first `count` states of an observable."""
    return tuple(slice(count if axis in (MAIN, SECOND) else None) for axis in quantity.axes)


def _cut(quantity: Quantity, array: ArrayLike, count: int, extra: int) -> np.ndarray:
    """The first `count` states of an array with `extra` axes in front of the axes of the quantity."""
    values = np.asarray(array)
    if values.ndim != len(quantity.axes) + extra:
        raise ValueError(
            f"{quantity.name} has the shape {values.shape}, which does not fit its axes {quantity.axes}"
        )
    for axis, length in zip(quantity.axes, values.shape[extra:], strict=True):
        if axis in (MAIN, SECOND) and length < count:
            raise ValueError(f"{quantity.name} has only {length} of {count} states along {axis}")
    return values[(slice(None),) * extra + _states(quantity, count)]


def _taken(quantity: Quantity, values: np.ndarray, places: np.ndarray, extra: int) -> np.ndarray:
    """The states at `places` of an array with `extra` axes in front of the axes of the quantity."""
    for number, axis in enumerate(quantity.axes, extra):
        if axis in (MAIN, SECOND):
            values = np.take(values, places, axis=number)
    return values


def averaged(batches: Sequence[Curves], evidence: dict[str, Any] | None = None) -> Curves:
    """The mean over independent batches of samples, with standard errors, at the states that all reached."""
    count = min(batch.count for batch in batches)
    first = batches[0]
    stacked = {
        name: np.stack([batch.cut(count)[name] for batch in batches]) for name in first.arrays
    }
    return of_batches(first, stacked, count, evidence)


def of_batches(
    like: Curves,
    batches: dict[str, np.ndarray],
    count: int,
    evidence: dict[str, Any] | None = None,
) -> Curves:
    """Curves with the table and record of others, averaged over batches (the first axis of every array)."""
    averages = {name: mean_and_error(values) for name, values in batches.items()}
    return dataclasses.replace(
        like,
        arrays={name: mean for name, (mean, _) in averages.items()},
        errors={name: error for name, (_, error) in averages.items()},
        batches=batches,
        reached=count,
        evidence=like.evidence if evidence is None else evidence,
    )


class ExtrapolatedCurves(NamedTuple):
    """Curves extrapolated to vanishing steps, and estimates of their errors by observable.

    - `change`: the difference from the extrapolation of one order less.
    - `noise`: the standard error of `change`, from the batches; 0 if there are none.
    - `error`: the absolute difference from the extrapolation without the finest grid.
    """

    curves: Curves
    change: dict[str, np.ndarray]
    noise: dict[str, np.ndarray]
    error: dict[str, np.ndarray]


def extrapolated(grids: Sequence[Curves], aside: Iterable[str] = ()) -> ExtrapolatedCurves:
    """Extrapolate curves with steps h, h/2, h/4, … to vanishing steps, at the states that all of them reached.

    Sampled curves are extrapolated batch by batch, so that fluctuations that the batches of all grids share cancel in
    the differences. Observables named in `aside` are not extrapolated, but taken from the finest grid.
    """
    count = min(grid.count for grid in grids)
    cut = [grid.cut(count) for grid in grids]
    finest, aside = cut[-1], set(aside)
    values: dict[str, np.ndarray] = {n: x for n, x in finest.arrays.items() if n in aside}
    errors, batches, change, noise, error = {}, {}, {}, {}, {}
    for name in [name for name in finest.arrays if name not in aside]:
        if name not in finest.batches:
            sequence = [grid[name] for grid in cut]
            values[name], error[name] = richardson(sequence)
            change[name] = values[name] - richardson(sequence[1:]).values if len(cut) > 1 else 0.0
            noise[name] = np.zeros_like(values[name])
            continue
        sequence = [grid.batches[name] for grid in cut]
        batches[name] = richardson(sequence).values
        values[name], errors[name] = mean_and_error(batches[name])
        less = richardson(sequence[1:]).values
        change[name], noise[name] = mean_and_error(batches[name] - less)
        error[name] = np.abs(values[name] - richardson(sequence[:-1]).values.mean(axis=0))
    curves = dataclasses.replace(finest, arrays=values, errors=errors, batches=batches)
    return ExtrapolatedCurves(curves, change, noise, error)
