"""Extrapolation to vanishing step."""

import itertools
from typing import NamedTuple

import numpy as np


class Extrapolated(NamedTuple):
    """The value at step 0, and how much the finest step changed it."""

    values: np.ndarray
    error: np.ndarray


def richardson(sequence: list[np.ndarray]) -> Extrapolated:
    """The limit of values found with steps h, h/2, h/4, …, whose error is a series in whole powers of h.

    Each further value removes one more power. The error stated is the difference from the limit without the finest
    step: above the true error if that step halved it at least. The difference from one order less with the finest
    steps is smaller by 2^order, and was found to be below the error where the series converges slowly.
    """
    table = [np.asarray(values) for values in sequence]
    before = table[-1]
    for order in range(1, len(sequence)):
        before = table[0]
        scale = 2.0**order
        table = [
            (scale * fine - coarse) / (scale - 1) for coarse, fine in itertools.pairwise(table)
        ]
    return Extrapolated(table[-1], np.abs(table[-1] - before))
