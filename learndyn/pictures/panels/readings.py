"""What a sweep measured of one observable: along training, and at one moment of it."""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr

from learndyn.errors import ProblemError
from learndyn.numerics.statistics import mean_and_error

ROUNDING = 1e-13
"""Values below this part of the largest initial one are taken to be rounding errors."""


@dataclasses.dataclass(frozen=True)
class Side:
    """An observable by the theory, or by runs (`seeds` of them).

    - `values`: an array over the swept axes and the step or time; for runs, the mean over the seeds.
    - `error`: the standard error of the values, or None.
    - `diverged`: for every point, whether training diverged.
    - `failed`: for every point, whether computing it failed.
    - `seeds`: the number of runs; 0 for the theory.
    """

    values: xr.DataArray
    error: xr.DataArray | None
    diverged: xr.DataArray
    failed: xr.DataArray
    seeds: int = 0

    def map(self, change: Callable[[xr.DataArray], xr.DataArray]) -> "Side":
        """The same with every array changed."""
        error = None if self.error is None else change(self.error)
        arrays = (self.values, self.diverged, self.failed)
        values, diverged, failed = map(change, arrays)
        return Side(values, error, diverged, failed, self.seeds)

    @property
    def finite(self) -> np.ndarray:
        """The values, NaN where they are infinite."""
        return np.where(np.isfinite(self.values.values), self.values.values, np.nan)

    @property
    def bars(self) -> np.ndarray | None:
        """The standard errors, NaN where they are infinite."""
        return None if self.error is None else _finite(self.error.values)

    def reason(self, *index: int | np.integer) -> str:
        """Why a point has no value."""
        if self.failed.values[index]:
            return "failed"
        return "diverged" if self.diverged.values[index] else "no value"


@dataclasses.dataclass(frozen=True)
class Measured:
    """An observable by the theory and by runs, one of which may be missing; `axis` is "step", "time" or None.

    `rounding` is the size of rounding errors to expect.
    """

    theory: Side | None
    runs: Side | None
    axis: str | None
    rounding: float = 0.0

    @property
    def sides(self) -> list[Side]:
        """The theory and the runs, as far as they exist; the theory comes first."""
        return [side for side in (self.theory, self.runs) if side is not None]

    def map(self, change: Callable[[xr.DataArray], xr.DataArray]) -> "Measured":
        """The same with every array changed."""
        theory, runs = (side and side.map(change) for side in (self.theory, self.runs))
        return dataclasses.replace(self, theory=theory, runs=runs)

    def lifted(self) -> "Measured":
        """The same with values that vanish up to rounding raised to the size of rounding errors.

        A loss that has fallen to zero then has a place on a logarithmic axis. If an observable can be negative, nothing
        is changed.
        """
        values = np.concatenate([side.finite.ravel() for side in self.sides])
        if not (values[np.isfinite(values)] >= -self.rounding).all():
            return self
        raised = [
            side and dataclasses.replace(side, values=side.values.clip(min=self.rounding))
            for side in (self.theory, self.runs)
        ]
        return dataclasses.replace(self, theory=raised[0], runs=raised[1])

    def ordered(self, *names: str) -> "Measured":
        """The same with the axes in this order, as far as an array has them."""
        return self.map(lambda array: array.transpose(*(n for n in names if n in array.dims)))

    def read(self, at: float | None) -> tuple["Measured", str]:
        """The values at one step or time, and the words that say which one.

        Unless given, it is the end of training: the last value of every point, which may have trained for less
        time than others. A training that diverged has no value at its end.
        """
        axis = self.axis
        if axis is None:
            if at is not None:
                allowed = "must be None, because the observable does not depend on the step or time"
                raise ProblemError("at", at, allowed)
            return self, ""
        times = self.sides[0].values[axis].values
        if at is not None:
            if not times[0] <= at <= times[-1]:
                raise ProblemError("at", at, f"must be a {axis} from {times[0]:g} to {times[-1]:g}")
            nearest = int(np.abs(times - at).argmin())
            there = self.map(lambda array: _at_index(array, axis, nearest))
            return dataclasses.replace(there, axis=None), f"at {axis} {times[nearest]:g}"
        theory, runs = (side and _at_end(side, axis) for side in (self.theory, self.runs))
        when = f"at {axis} {times[-1]:g}"
        if any(_shorter(side, axis) for side in self.sides):
            when = "at the end of training"
        return dataclasses.replace(self, theory=theory, runs=runs, axis=None), when


def measured(data: xr.Dataset, name: str) -> Measured:
    """The observable `name` of the data of a sweep."""
    theory = runs = None
    if name in data:
        errors = (a for a in data.data_vars.values() if a.attrs.get("standard_error_of") == name)
        theory = Side(data[name], next(errors, None), *_ends(data, ""))
    if f"{name}_runs" in data:
        array = data[f"{name}_runs"]
        count = array.sizes["seed"]
        # Runs that diverged are infinite or missing, and so is their mean.
        with np.errstate(invalid="ignore", over="ignore"):
            mean, error = xr.apply_ufunc(
                mean_and_error,
                array,
                input_core_dims=[["seed"]],
                output_core_dims=[[], []],
                kwargs={"axis": -1},
                keep_attrs=True,
            )
        runs = Side(mean, error if count > 1 else None, *_ends(data, "_runs"), count)
    both = Measured(theory, runs, None)
    dims = both.sides[0].values.dims
    axis = next((axis for axis in ("time", "step") if axis in dims), None)
    if axis is None:
        return both
    starts = [np.abs(_at_index(side.values, axis, 0).values) for side in both.sides]
    known = np.concatenate([start[np.isfinite(start)] for start in starts])
    return dataclasses.replace(both, axis=axis, rounding=ROUNDING * known.max(initial=0.0))


def _ends(data: xr.Dataset, ending: str) -> tuple[xr.DataArray, xr.DataArray]:
    """For every point, whether training diverged, and whether computing it failed."""
    return data[f"diverged_at{ending}"].notnull(), data[f"error{ending}"] != ""


def _at_index(array: xr.DataArray, axis: str, index: int) -> xr.DataArray:
    return array.isel({axis: index}, drop=True) if axis in array.dims else array


def _shorter(side: Side, axis: str) -> bool:
    """Whether a point that is fine has no value at the very end."""
    missing = side.values.isel({axis: -1}).isnull() & ~side.diverged & ~side.failed
    return bool(missing.any())


def _at_end(side: Side, axis: str) -> Side:
    """The last values that are there; where training diverged, those at the very end, if any."""

    def last(array: xr.DataArray) -> xr.DataArray:
        if axis not in array.dims:
            return array
        backwards = array.notnull().isel({axis: slice(None, None, -1)})
        index = array.sizes[axis] - 1 - backwards.argmax(axis)
        values = array.isel({axis: index}).drop_vars(axis, errors="ignore")
        return values.where(~side.diverged, _at_index(array, axis, -1))

    return side.map(last)


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)
