"""Which states of training are kept: `save_at`, made into a `Record` once for each call."""

import contextlib
import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from learndyn.errors import ProblemError
from learndyn.numerics.times import DEFAULT_COUNT, linear_times
from learndyn.problem.training import GradientDescent

SaveAt = ArrayLike | None
"""How users choose the states to record: None, a number of them, or a list of times or steps."""


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """The states of training that are kept.

    - `axis`: "time" or "step", whichever the length of training is measured in.
    - `at`: the times or steps, increasing.
    - `chosen`: whether the user chose these states; False for the usual ones. True unless given.
    """

    axis: str
    at: np.ndarray
    chosen: bool = True

    @classmethod
    def of(cls, training: GradientDescent, save_at: SaveAt = None) -> "Record":
        """The states that `save_at` describes: None (the usual ones), their number, or the times or steps."""
        chosen = save_at is not None
        if training.time is None:
            assert training.steps is not None
            return cls("step", _steps(save_at, training.steps), chosen)
        return cls("time", _times(save_at, training.time), chosen)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def last(self) -> Any:
        """The last state: a time, or a whole step."""
        return self.at[-1]

    def moved_to(self, at: np.ndarray) -> "Record":
        """The same record at other values of the axis."""
        return dataclasses.replace(self, at=np.asarray(at))

    def on_whole_steps(self, size: int) -> "Record":
        """The times rounded to whole steps of 1/`size`, without repetition."""
        return self.moved_to(np.unique(np.rint(self.at * size).astype(np.int64)) / size)

    def nearest(self, grid: np.ndarray) -> np.ndarray:
        """The indices of the states of a `grid` that are nearest to those of this record, without repetition."""
        if self.axis == "step":
            return self.at
        middle = 0.5 * (grid[1:] + grid[:-1])
        return np.unique(np.searchsorted(middle, self.at))

    @functools.cached_property
    def wanted(self) -> frozenset[float]:
        """The states as a set."""
        return frozenset(self.at.tolist())


def _times(save_at: SaveAt, end: float) -> Float[np.ndarray, " T"]:
    """The times that `save_at` describes, checked."""
    if save_at is None:
        return linear_times(end)
    if isinstance(save_at, int | np.integer) and not isinstance(save_at, bool):
        if save_at < 2:
            raise ProblemError("save_at", save_at, "the number of times must be at least 2")
        return linear_times(end, int(save_at))
    try:
        times = np.asarray(save_at, dtype=float)
    except (TypeError, ValueError):
        times = None
    if times is None or times.ndim != 1 or times.size == 0:
        raise ProblemError("save_at", save_at, "must be a number of times or a list of times")
    if not np.all(np.isfinite(times)) or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ProblemError("save_at", save_at, "times must be at least 0, finite and increasing")
    if times[-1] > end * (1 + 1e-12):
        raise ProblemError(
            "save_at", save_at, f"must not go beyond the end of training at time {end:g}"
        )
    if times[-1] == 0:
        raise ProblemError("save_at", save_at, "must contain a time after 0")
    return np.minimum(times, end)


def _steps(save_at: SaveAt, steps: int) -> Int[np.ndarray, " T"]:
    """The steps that `save_at` describes, checked; a number means equally spaced steps, rounded to whole ones."""
    count = DEFAULT_COUNT if save_at is None else save_at
    if isinstance(count, int | np.integer) and not isinstance(count, bool):
        if count < 2:
            raise ProblemError("save_at", save_at, "the number of steps must be at least 2")
        return np.rint(linear_times(steps, min(int(count), steps + 1))).astype(np.int64)
    array = None
    if not isinstance(count, bool | str):
        with contextlib.suppress(TypeError, ValueError):
            array = np.asarray(count)
    if array is None or array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ProblemError("save_at", save_at, "must be a number of steps or a list of steps")
    if not np.all(np.isfinite(array)) or np.any(array != np.rint(array)):
        raise ProblemError("save_at", save_at, "steps must be whole numbers")
    if array[0] < 0 or array[-1] > steps or np.any(array[1:] <= array[:-1]):
        allowed = f"steps must increase and lie between 0 and {steps}, the length of the training"
        raise ProblemError("save_at", save_at, allowed)
    return array.astype(np.int64)
