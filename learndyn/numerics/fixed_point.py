"""Accelerated iteration of several arrays to a fixed point, each to an accuracy relative to its size."""

from collections.abc import Callable, Sequence

import numpy as np

from learndyn.numerics.anderson import accelerate, empty_history

Arrays = Sequence[np.ndarray]


def fixed_point(
    image_of: Callable[[list[np.ndarray]], Arrays],
    start: Arrays,
    sizes: Sequence[float],
    tolerance: float = 1e-13,
    rounding: float = 1e-8,
    most: int = 60,
    patience: int = 2,
) -> int:
    """Iterate until nothing changes; the number of calls of `image_of`, or 0 if they do not converge.

    The last call was at a point that is fixed to `tolerance`, relative to the largest entry of each array and to
    `sizes`; or to `rounding`, if the change has not halved in `patience` calls: the rest is rounding.
    """
    first = image_of(list(start))
    pairs = zip(start, first, strict=True)
    scales = [
        max(size, *(float(np.max(np.abs(x), initial=1e-300)) for x in pair))
        for size, pair in zip(sizes, pairs, strict=True)
    ]
    shapes = [x.shape for x in start]
    x, image = _packed(start, scales), _packed(first, scales)
    history, changes = empty_history(x.size), []
    for number in range(most):
        if not np.all(np.isfinite(image)):
            return 0
        changes.append(float(np.max(np.abs(image - x), initial=0.0)))
        if _settled(changes, tolerance, rounding, patience):
            return number + 1
        accelerate(number, x, image, x.size, history)
        x = image
        image = _packed(image_of(_unpacked(x, scales, shapes)), scales)
    return 0


def _settled(changes: list[float], tolerance: float, rounding: float, patience: int) -> bool:
    if changes[-1] < tolerance:
        return True
    if changes[-1] > rounding or len(changes) <= patience:
        return False
    return min(changes[-patience:]) > 0.5 * min(changes[:-patience])


def _packed(arrays: Arrays, scales: list[float]) -> np.ndarray:
    return np.concatenate([x.ravel() / scale for x, scale in zip(arrays, scales, strict=True)])


def _unpacked(x: np.ndarray, scales: list[float], shapes: list[tuple]) -> list[np.ndarray]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(x, ends[:-1])
    return [s * part.reshape(shape) for part, s, shape in zip(parts, scales, shapes, strict=True)]
