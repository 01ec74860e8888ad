"""Sampled theories: numbers of samples, and functions of the means of independent batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from learndyn.errors import ProblemError
from learndyn.problem.checks import whole


def power_of_two(value: Any, name: str) -> int:
    """A check: a power of two of at least 16, as quasi-random samples need."""
    value = whole(16)(value, name)
    if value & (value - 1):
        raise ProblemError(name, value, "must be a power of two")
    return value


def pseudovalues(
    function: Callable[[np.ndarray], dict[str, np.ndarray]],
    values: Float[np.ndarray, "batches ..."],
) -> dict[str, np.ndarray]:
    """Jackknife pseudo-values of the named arrays that `function` computes from a mean over batches (the first axis).

    A curved function of noisy batches is biased, as a squared error is by half the variance. The mean of the
    pseudo-values, B x(mean of all) − (B − 1) x(mean of all but one), lacks this bias, and their spread gives its error.
    The pseudo-values of a linear function are the values of the batches.
    """
    count, total = len(values), values.sum(axis=0)
    together = function(total / count)
    without = [function((total - value) / (count - 1)) for value in values]
    return {
        name: np.stack([count * x - (count - 1) * part[name] for part in without])
        for name, x in together.items()
    }
