"""Sampled theories: numbers of samples, and functions of the means of independent batches."""

from collections.abc import Callable

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import whole


def power_of_two(value, name: str) -> int:
    """A check: a power of two, as quasi-random samples need."""
    value = whole(16)(value, name)
    if value & (value - 1):
        raise ProblemError(name, value, "must be a power of two")
    return value


def pseudovalues(function: Callable, values: np.ndarray) -> dict[str, np.ndarray]:
    """The jackknife's pseudo-values of the named arrays that `function` makes of a mean over batches (the first axis).

    A curved function of noisy batches is biased, as a squared error is by half the variance. Pseudo-values,
    B x(mean of all) − (B − 1) x(mean of all but one), have a mean without that bias, and their spread is its error.
    Those of a linear function are the values of the batches.
    """
    count, total = len(values), values.sum(axis=0)
    together = function(total / count)
    without = [function((total - value) / (count - 1)) for value in values]
    return {
        name: np.stack([count * x - (count - 1) * part[name] for part in without])
        for name, x in together.items()
    }
