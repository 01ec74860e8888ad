"""Orthonormal directions for what is new in a block of vectors.

⟨x, y⟩ = scale · Σ x y. The rests R of k vectors, what is left of them outside known directions, are taken together:

    choose rows p of R, each time the one with the longest part outside those chosen before, while that is not short
    q = C^{-1} R_p,           C C^⊤ = ⟨R_p, R_p⟩         (orthonormal, up to rounding)
    q ← q − its part in all directions, old and new
    q ← C^{-1} q,             C C^⊤ = ⟨q, q⟩
    R ← R − ⟨R, q⟩ q,         and again while a rest is not short.

A row of which less than 0.7 is left by the second projection was rounding along known directions, and is left out. A
Gram matrix does not see lengths below the root of rounding, so that a round goes down to `REACH` of the longest rest.
All of it is in double precision but for the products with known directions.
"""

from collections.abc import Callable

import numpy as np

from learndyn.numerics.products import squares

LEFT = 0.7
"""The length that a true direction keeps, at least, when it is projected again."""
REACH = 1e-3
"""Rests shorter than this part of the longest one wait for the next round."""

Projection = Callable[[np.ndarray], np.ndarray]


def orthonormal(rows: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """The rows made orthonormal, each from itself and those before; `gram` is ⟨rows, rows⟩."""
    return np.linalg.inv(np.linalg.cholesky(gram)) @ rows


def chosen(gram: np.ndarray, short: np.ndarray, most: int) -> list[int]:
    """The rows that span a block with this Gram matrix, up to lengths `short` and REACH, the longest first."""
    left = np.diag(gram).copy()
    enough = np.maximum(short**2, REACH**2 * left.max(initial=0.0))
    factor, rows = np.zeros((len(gram), min(most, len(gram)))), []
    while len(rows) < factor.shape[1]:
        excess = np.where(left > enough, left, 0.0)
        if not excess.any():
            break
        # Of equal lengths the first, however they are rounded.
        k = int((excess > 0.999 * excess.max()).argmax())
        before = factor[:, : len(rows)]
        column = (gram[:, k] - before @ before[k]) / np.sqrt(left[k])
        factor[:, len(rows)] = column
        left -= column**2
        left[k] = 0
        rows.append(k)
    return rows


def new_directions(
    rest: np.ndarray, short: np.ndarray, project: Projection, scale: float, most: int
) -> tuple[np.ndarray, float]:
    """Orthonormal directions, at most `most`, for rests longer than `short`; and the longest part left out.

    `project` takes from rows their part in the known directions.
    """
    rest = rest.astype(np.float64)
    fresh, dropped = np.zeros((0, rest.shape[1])), 0.0
    left = np.sqrt(scale * squares(rest))
    while len(fresh) < most and np.any(left > short):
        gram = scale * (rest @ rest.T)
        pivots = chosen(gram, short, most - len(fresh))
        if not pivots:
            break
        q = orthonormal(rest[pivots], gram[np.ix_(pivots, pivots)])
        q = project(q)
        q -= scale * (q @ fresh.T) @ fresh
        true = np.sqrt(scale * squares(q)) >= LEFT
        dropped = max(dropped, left[pivots][~true].max(initial=0.0))
        q = q[true]
        q = orthonormal(q, scale * (q @ q.T))
        fresh = np.concatenate([fresh, q])
        rest -= scale * (rest @ q.T) @ q
        rest[pivots] = 0
        left = np.sqrt(scale * squares(rest))
    return fresh, max(dropped, float(left.max(initial=0.0)))
