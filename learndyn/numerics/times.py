"""Linear and logarithmic grids of times at which to record."""

import numpy as np

from learndyn.errors import ProblemError
from learndyn.memory import require_memory

DEFAULT_COUNT = 201
BYTES_OF_STATE = 100
"""What a recorded state needs at least: its time, a few losses, and copies of them."""


def linear_times(end: float, count: int = DEFAULT_COUNT) -> np.ndarray:
    """`count` equally spaced times from 0 to `end`."""
    _require_memory_of(count)
    return np.linspace(0.0, end, count)


def log_times(end: float, count: int = DEFAULT_COUNT, first: float | None = None) -> np.ndarray:
    """0, then `count − 1` times from `first` (`end`/10⁴ unless given) to `end`, equally spaced in the logarithm."""
    _require_memory_of(count)
    first = end * 1e-4 if first is None else first
    times = np.concatenate([[0.0], np.geomspace(first, end, count - 1)])
    times[-1] = end
    return times


def _require_memory_of(count: int) -> None:
    """Refuse more times than the machine has memory for."""
    if count > DEFAULT_COUNT:
        purpose = f"save_at = {count}: recording at so many times"
        require_memory(BYTES_OF_STATE * count, purpose, "record fewer")


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
