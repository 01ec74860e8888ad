"""When to record: linear and logarithmic grids of times."""

import contextlib

import numpy as np

from learndyn.errors import ProblemError

DEFAULT_COUNT = 201


def linear_times(end: float, count: int = DEFAULT_COUNT) -> np.ndarray:
    """`count` equally spaced times from 0 to `end`."""
    return np.linspace(0.0, end, count)


def log_times(end: float, count: int = DEFAULT_COUNT, first: float | None = None) -> np.ndarray:
    """0, then `count − 1` times from `first` (`end`/10⁴ unless given) to `end`, equally spaced in the logarithm."""
    first = end * 1e-4 if first is None else first
    times = np.concatenate([[0.0], np.geomspace(first, end, count - 1)])
    times[-1] = end
    return times


def resolve_times(save_at, end: float) -> np.ndarray:
    """The times that `save_at` means: None (a linear grid), a number of times, or the times themselves."""
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


def resolve_steps(save_at, steps: int) -> np.ndarray:
    """The steps that `save_at` means: a number of steps (`DEFAULT_COUNT` for None), or the steps themselves.

    A number stands for equally spaced steps, up to rounding, from 0 to `steps`; for all of them if there are not more.
    """
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


def parse_times(text: str, end: float) -> np.ndarray:
    """The grid that « linear:200 », « log:200 » or « log:200:0.01 » (first time after 0) names."""
    words = text.split(":")
    try:
        if words[0] == "linear" and len(words) == 2:
            return linear_times(end, _count(words[1]))
        if words[0] == "log" and len(words) in (2, 3):
            first = float(words[2]) if len(words) == 3 else None
            if first is None or 0 < first < end:
                return log_times(end, _count(words[1]), first)
    except ValueError:
        pass
    raise ProblemError("save_at", text, "must look like linear:200, log:200 or log:200:0.01")


def _count(word: str) -> int:
    count = int(word)
    if count < 2:
        raise ValueError
    return count
