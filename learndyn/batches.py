"""Sampled theories: independent batches of samples on all cores, their mean and its standard error."""

import concurrent.futures
import os
import threading
from collections.abc import Callable

import numpy as np
import threadpoolctl

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.part import whole


def power_of_two(value, name: str) -> int:
    """A check: a power of two, as quasi-random samples need."""
    value = whole(16)(value, name)
    if value & (value - 1):
        raise ProblemError(name, value, "must be a power of two")
    return value


def workers(count: int) -> int:
    """How many of `count` batches run at a time."""
    return min(count, os.cpu_count() or 1)


def in_threads(run: Callable, count: int, report) -> list:
    """`run(index, advance)` for every index below `count`, on threads; an exception ends them all.

    `advance` takes the fraction done of its batch; `report` is called with that of all.
    """
    stop, done = threading.Event(), np.zeros(count)

    def one(index: int):
        def advance(fraction: float):
            if stop.is_set():
                raise concurrent.futures.CancelledError
            done[index] = fraction
            report(float(np.mean(done)))

        with float64():
            return run(index, advance)

    # The products of one batch are small: one thread for each batch is faster than many for each product.
    single = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    with single, concurrent.futures.ThreadPoolExecutor(workers(count)) as pool:
        try:
            return [future.result() for future in [pool.submit(one, i) for i in range(count)]]
        finally:
            stop.set()


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
