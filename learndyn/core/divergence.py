"""When training counts as diverged."""

import numpy as np

DIVERGED = 1e10
"""A loss, an overlap or an output counts as diverged if it exceeds its scale by this factor."""


def diverged(size: float | np.ndarray, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """True where `size` is not finite, or |size| > DIVERGED · scale; entry by entry."""
    return ~np.isfinite(size) | (np.abs(size) > DIVERGED * scale)
