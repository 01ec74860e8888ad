"""Small matrices, one for each of many samples, stored with the samples last: (rows, columns, S)."""

import numpy as np
from jaxtyping import Float


def inverses(A: Float[np.ndarray, "K K S"]) -> Float[np.ndarray, "K K S"]:
    """The inverse of each matrix; in closed form up to 2×2, where the general routine takes ten times as long.

    A singular matrix has entries that are not finite.
    """
    if len(A) == 1:
        return 1 / A
    if len(A) > 2:
        try:
            inverse = np.linalg.inv(A.transpose(2, 0, 1))
        except np.linalg.LinAlgError:
            return np.full(A.shape, np.nan)
        return np.ascontiguousarray(inverse.transpose(1, 2, 0))
    (a, b), (c, d) = A
    inverse = np.array([[d, -b], [-c, a]])
    inverse /= a * d - b * c
    return inverse


def products(
    A: Float[np.ndarray, "K J S"], B: Float[np.ndarray, "J N S"]
) -> Float[np.ndarray, "K N S"]:
    """A B of each sample."""
    total = A[:, 0, None] * B[0]
    for j in range(1, A.shape[1]):
        total += A[:, j, None] * B[j]
    return total
