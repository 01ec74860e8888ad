"""Which states of training are kept: `save_at`, made into a `Record` once for each call."""

import contextlib
import dataclasses
import functools

import numpy as np

from learndyn.errors import ProblemError
from learndyn.numerics.times import DEFAULT_COUNT, linear_times


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """The states of training that are kept.

    `axis` is "time" or "step", the measure of the training; `at` are the values on it, increasing. `chosen` says
    whether someone asked for these states, or they are the usual ones.
    """

    axis: str
    at: np.ndarray
    chosen: bool = True

    @classmethod
    def of(cls, training, save_at=None) -> "Record":
        """The states that `save_at` means: None (the usual ones), how many, or the times or steps themselves."""
        chosen = save_at is not None
        if training.time is None:
            return cls("step", _steps(save_at, training.steps), chosen)
        return cls("time", _times(save_at, training.time), chosen)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def last(self):
        """The last of the states."""
        return self.at[-1]

    def moved_to(self, at: np.ndarray) -> "Record":
        """The same record at other values of the axis."""
        return dataclasses.replace(self, at=np.asarray(at))

    def on_whole_steps(self, size: int) -> "Record":
        """Times as whole numbers of steps of 1/`size`, each once."""
        return self.moved_to(np.unique(np.rint(self.at * size).astype(np.int64)) / size)

    def nearest(self, grid: np.ndarray) -> np.ndarray:
        """The indices of the states of a `grid` that are nearest to this record, each once."""
        if self.axis == "step":
            return self.at
        middle = 0.5 * (grid[1:] + grid[:-1])
        return np.unique(np.searchsorted(middle, self.at))

    @functools.cached_property
    def wanted(self) -> frozenset:
        """The states as a set."""
        return frozenset(self.at.tolist())


def _times(save_at, end: float) -> np.ndarray:
    if save_at is None:
        return linear_times(end)
    if isinstance(save_at, int | np.integer) and not isinstance(save_at, bool):
        if save_at < 2:
            raise ProblemError("save_at", save_at, "must be at least 2 times")
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
        raise ProblemError("save_at", save_at, f"ends after the training, whose time is {end:g}")
    if times[-1] == 0:
        raise ProblemError("save_at", save_at, "must have a time after 0")
    return np.minimum(times, end)


def _steps(save_at, steps: int) -> np.ndarray:
    """A number stands for equally spaced steps, up to rounding; for all of them if there are not more."""
    count = DEFAULT_COUNT if save_at is None else save_at
    if isinstance(count, int | np.integer) and not isinstance(count, bool):
        if count < 2:
            raise ProblemError("save_at", save_at, "must be at least 2 steps")
        return np.rint(np.linspace(0, steps, min(int(count), steps + 1))).astype(np.int64)
    given = None
    if not isinstance(count, bool | str):
        with contextlib.suppress(TypeError, ValueError):
            given = np.asarray(count)
    if given is None or given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuf":
        raise ProblemError("save_at", save_at, "must be a number of steps or a list of steps")
    if not np.all(np.isfinite(given)) or np.any(given != np.rint(given)):
        raise ProblemError("save_at", save_at, "steps must be whole numbers")
    if given[0] < 0 or given[-1] > steps or np.any(given[1:] <= given[:-1]):
        allowed = f"steps must increase and lie between 0 and {steps}, the length of the training"
        raise ProblemError("save_at", save_at, allowed)
    return given.astype(np.int64)
