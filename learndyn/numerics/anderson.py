"""Anderson's acceleration of a fixed-point iteration x ← G(x), compiled.

Past steps are combined so that the residual G(x) − x is smallest in the least-squares sense. For a linear G this is
GMRES, which converges even where the iteration itself diverges.
"""

import numpy as np

from learndyn.numerics.lower import compiled

WINDOW = 20
"""Number of past steps that are combined; then the history starts again."""


def empty_history(size: int) -> np.ndarray:
    """Zeros for the history of vectors of `size` numbers."""
    return np.zeros((WINDOW + 1, 2, size))


@compiled
def _dot(x: np.ndarray, y: np.ndarray, size: int) -> float:
    """x·y over the first `size` entries."""
    total = 0.0
    for j in range(size):
        total += x[j] * y[j]
    return total


@compiled
def _subtract(x: np.ndarray, factor: float, y: np.ndarray, size: int) -> None:
    """x ← x − factor·y, in the first `size` entries."""
    for j in range(size):
        x[j] -= factor * y[j]


@compiled
def accelerate(
    count: int, x: np.ndarray, image: np.ndarray, size: int, history: np.ndarray
) -> None:
    """Replace G(x), given as `image`, by a better next point; `count` numbers the calls of one iteration from 0.

    `history` holds orthonormal differences of residuals with the differences of images that belong to them and, in its
    last place, the latest residual and image.
    """
    residual, before = history[WINDOW, 0], history[WINDOW, 1]
    slot = (count - 1) % WINDOW
    direction, shift = history[slot, 0], history[slot, 1]
    for j in range(size):
        latest = image[j] - x[j]
        if count > 0:
            direction[j] = latest - residual[j]
            shift[j] = image[j] - before[j]
        residual[j], before[j] = latest, image[j]
    if count == 0:
        return
    for other in range(slot):
        overlap = _dot(direction, history[other, 0], size)
        _subtract(direction, overlap, history[other, 0], size)
        _subtract(shift, overlap, history[other, 1], size)
    norm = np.sqrt(_dot(direction, direction, size))
    inverse = 1.0 / norm if norm > 0.0 else 0.0
    for j in range(size):
        direction[j] *= inverse
        shift[j] *= inverse
    for other in range(slot + 1):
        _subtract(image, _dot(residual, history[other, 0], size), history[other, 1], size)
