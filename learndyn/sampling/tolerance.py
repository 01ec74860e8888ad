"""Sampling until the standard error is small enough: a pilot, a forecast, then more samples and more batches.

The error falls as samples^(−a), with a = ½ for independent samples and up to 1 for quasi-random ones; a is measured
from one number of samples to the next. More samples are better than more batches, because the bias falls too. So
batches are added only if memory does not allow more samples.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import psutil

from learndyn.core.curves import Curves
from learndyn.core.progress import note
from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.sampling.batches import FULLEST, Sampling, Setting, sampled
from learndyn.sampling.forecast import COPIED

if TYPE_CHECKING:
    from learndyn.sampling.method import SampledMethod

GROWTH = 8
"""The largest factor from one number of samples to the next: the exponent is not known well enough for more."""
MOST_BATCHES = 4096
"""Batches after which the tolerance counts as out of reach."""
SHARE_OF_MEMORY = 0.5
"""Of the free memory, what batches may fill."""
SPARE = 1.1
"""More samples than the forecast says, because the spread of few batches is not known well."""


def sampled_to_tolerance(
    method: "SampledMethod", setting: Setting, tolerance: float, report: Report
) -> Curves:
    """The limit with standard errors of at most `tolerance` times the largest value, if that is above 1."""
    judge = method.judges_bias
    sampling = method.pilot(setting, method.batches, judge, lambda done: report(0.1 * done))
    exponent, reached = 0.5, 0.1
    while True:
        curves = sampling.curves(method.extrapolates(sampling), tolerance=tolerance)
        excess = _excess(curves, setting, tolerance)
        if excess <= 1:
            return curves
        samples, before = _next_samples(method, sampling, excess, exponent), len(sampling.batches)
        larger = samples > sampling.samples
        first = 0 if larger else before
        last = method.batches if larger else max(before + 1, math.ceil(SPARE * before * excess**2))
        _forecast(sampling, samples, last - first, tolerance * excess, tolerance)
        if last > MOST_BATCHES:
            raise _out_of_reach(sampling, last, tolerance * excess, tolerance)
        halves = judge and _bias_matters(sampling, samples, tolerance)
        start, reached = reached, reached + (1 - reached) / 2

        def advance(done: float, start: float = start, end: float = reached) -> None:
            report(start + (end - start) * done)

        fresh = sampled(setting, samples, range(first, last), halves, advance)
        if larger:
            after = _excess(fresh.curves(method.extrapolates(fresh)), setting, tolerance)
            gained = math.log(max(excess / max(after, 1e-12), 1.0))
            exponent = float(np.clip(gained / math.log(samples / sampling.samples), 0.5, 1.0))
        sampling = fresh if larger else sampling.joined(fresh)


def _excess(curves: Curves, setting: Setting, tolerance: float) -> float:
    """The largest standard error in units of the tolerance."""
    shares = [
        np.max(error, initial=0.0) / _scale(curves[name])
        for name, error in curves.errors.items()
        if name not in setting.doubtful
    ]
    return float(max(shares, default=0.0)) / tolerance


def _scale(values: np.ndarray) -> float:
    return max(1.0, float(np.max(np.abs(values), initial=0.0)))


def _next_samples(
    method: "SampledMethod", sampling: Sampling, excess: float, exponent: float
) -> int:
    """The number of samples that should reach the tolerance with the same batches, within growth and memory."""
    if method.samples is not None:
        return sampling.samples
    wanted = sampling.samples * min(GROWTH, SPARE * excess ** (1 / exponent))
    wanted = max(wanted, sampling.directions / FULLEST)
    each = COPIED * sampling.cost(1, method.batches)[1]
    room = SHARE_OF_MEMORY * psutil.virtual_memory().available / max(each, 1.0)
    samples = 2 ** math.ceil(math.log2(wanted))
    while samples > max(room, sampling.samples):
        samples //= 2
    return max(samples, sampling.samples)


def _bias_matters(sampling: Sampling, samples: int, tolerance: float) -> bool:
    """Whether the bias with so many samples may exceed half of the tolerance, by what is known of it now."""
    bias = sampling.bias()
    if not bias:
        return False
    ratio = sampling.samples / samples
    return any(
        np.max((np.abs(b) + 2 * error) * ratio, initial=0.0)
        > 0.5 * tolerance * _scale(sampling.batches[0].curves[name])
        for name, (b, error) in bias.items()
    )


def _forecast(
    sampling: Sampling, samples: int, batches: int, error: float, tolerance: float
) -> None:
    """Say what the tolerance will cost, by what the last batches cost."""
    seconds, memory = sampling.cost(samples, batches)
    note(
        f"standard error {error:.2g}; for {tolerance:g} next {batches} batches of {samples} samples: about "
        f"{seconds:.2g} s, {memory / 2**20:.3g} MB"
    )


def _out_of_reach(sampling: Sampling, batches: int, error: float, tolerance: float) -> NotConverged:
    return NotConverged(
        f"the standard error is {error:.2g} after {len(sampling.batches)} batches of {sampling.samples} samples, and "
        f"{tolerance:g} would take {batches} batches. Use a larger tolerance, or more samples if memory allows"
    )
