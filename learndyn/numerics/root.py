"""A root between two points."""

from collections.abc import Callable

from numpy.typing import ArrayLike
from scipy.optimize import root_scalar


def root_between(function: Callable, low: ArrayLike, high: ArrayLike) -> float:
    """Where a continuous function with opposite signs at `low` and `high` is zero, to rounding."""
    solution = root_scalar(function, bracket=(low, high), method="brentq", xtol=1e-15, rtol=1e-14)
    return float(solution.root)
