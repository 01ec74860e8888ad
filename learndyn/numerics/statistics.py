"""Means of samples and their standard errors."""

import numpy as np
from numpy.typing import ArrayLike


def mean_and_error(samples: ArrayLike, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The mean over samples x_1 … x_n along an axis, and its standard error √(Σ(x − mean)²/(n(n − 1))).

    The error is NaN for a single sample, which has no spread.
    """
    samples = np.asarray(samples)
    mean, count = samples.mean(axis=axis), samples.shape[axis]
    if count < 2:
        return mean, np.full(mean.shape, np.nan)
    return mean, samples.std(axis=axis, ddof=1) / np.sqrt(count)
