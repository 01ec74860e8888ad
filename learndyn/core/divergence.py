"""When training counts as diverged."""

import numpy as np

DIVERGED = 1e10
"""What is followed, a loss or an overlap or an output, counts as diverged beyond this many times its scale."""


def diverged(size, scale=1.0) -> np.ndarray:
    """True where `size` is not finite, or |size| > DIVERGED · scale; number by number."""
    return ~np.isfinite(size) | (np.abs(size) > DIVERGED * scale)
