"""Grokking: how long after the train loss the test loss drops."""

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from learndyn.core.solution import Solution
from learndyn.errors import LearndynError
from learndyn.problem.checks import number

LEVEL = 0.1
"""A loss has dropped once it is below this fraction of its first value."""


def drop_time(times: ArrayLike, loss: ArrayLike, level: float = LEVEL) -> float:
    """When `loss` first falls below `level` times its first value, interpolated linearly; NaN if it never does."""
    times, loss = np.asarray(times, dtype=float), np.asarray(loss, dtype=float)
    bound = level * loss[0] if len(loss) else np.nan
    below = np.flatnonzero(loss < bound)
    if not len(below):
        return float("nan")
    k = int(below[0])
    share = (loss[k - 1] - bound) / (loss[k - 1] - loss[k])
    return float(times[k - 1] + share * (times[k] - times[k - 1]))


def grokking_delay(solution: Solution, level: float = LEVEL) -> xr.Dataset:
    """`train_drop`, `test_drop` and their ratio `grokking_delay` = test_drop/train_drop.

    A drop is the first time (or step) at which a loss falls below `level` times its first value, between recorded
    times by linear interpolation; NaN where it never does. A simulation has one value for each seed.
    """
    level = number(above=0, below=1)(level, "level")
    for name in ("train_loss", "test_loss"):
        if name not in solution:
            known = ", ".join(solution.observables)
            raise LearndynError(f"the grokking delay needs {name}, but the solution has {known}")
    axis = solution.axis
    times = solution[axis].values

    def drop(name: str) -> xr.DataArray:
        return xr.apply_ufunc(
            lambda loss: drop_time(times, loss, level),
            solution[name],
            input_core_dims=[[axis]],
            vectorize=True,
        )

    drops = xr.Dataset({"train_drop": drop("train_loss"), "test_drop": drop("test_loss")})
    return drops.assign(grokking_delay=drops["test_drop"] / drops["train_drop"])
