"""Inner products of many vectors."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from learndyn.numerics.products import sums


def gram(
    vectors: np.ndarray, *, mean: bool = False, weights: Float[np.ndarray, " x"] | None = None
) -> np.ndarray:
    """G_ab = Σ_x v_ax v_bx over the last axis, for all pairs of vectors: the other axes twice, (a …, b …).

    With `mean` it is the mean over x; with `weights` the sum of w_x v_ax v_bx. Sums are in double precision.
    """
    *axes, length = vectors.shape
    rows = vectors.reshape(math.prod(axes), length)
    products = sums(rows if weights is None else rows * weights, rows)
    if mean:
        products /= length
    return products.reshape((*axes, *axes))


def stacked(vectors: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Arrays of `rows` vectors, recorded while their space grew, as (array, row, component), padded with zeros."""
    length = max((x.shape[1] for x in vectors), default=0)
    stack = np.zeros((len(vectors), rows, length))
    for padded, x in zip(stack, vectors, strict=True):
        padded[:, : x.shape[1]] = x
    return stack
