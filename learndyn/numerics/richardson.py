"""Extrapolation to vanishing step."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class RichardsonLimit(NamedTuple):
    """The limit of vanishing step, and its error: how much the finest step changed it."""

    values: np.ndarray
    error: np.ndarray


def richardson(sequence: Sequence, orders: Sequence[int] | None = None) -> RichardsonLimit:
    """The limit of values computed with steps h, h/2, h/4, …, whose error is a series in the powers h^`orders`.

    Each further value removes one more power p, x ← (2^p x(h/2) − x(h))/(2^p − 1); the powers are 1, 2, 3, … unless
    given, and one fewer than the values. The error stated is the difference from the limit without the finest
    step: above the true error if that step at least halved it. The difference from one order less with the finest
    steps is smaller by 2^order, and was below the true error where the series converged slowly.
    """
    orders = range(1, len(sequence)) if orders is None else orders
    if len(orders) != len(sequence) - 1:
        count = len(sequence)
        raise ValueError(
            f"orders must have {count - 1} entries for {count} values, but is {orders}"
        )
    table = [np.asarray(values) for values in sequence]
    before = table[-1]
    for order in orders:
        before = table[0]
        scale = 2.0**order
        table = [
            (scale * fine - coarse) / (scale - 1) for coarse, fine in itertools.pairwise(table)
        ]
    return RichardsonLimit(table[-1], np.abs(table[-1] - before))
