"""Normals whose sample covariance is exactly the identity, column after column."""

import numpy as np

from learndyn.numerics.normals import QuasiNormals


class MatchedNormals:
    """Columns of `samples` quasi-random normals with ⟨ε_a ε_b⟩ = δ_ab exactly, by Gram–Schmidt.

    Means are not matched: signed copies of the samples do that. Columns beyond the first `samples` cannot be matched,
    and stay as drawn.
    """

    def __init__(self, samples: int, seed: np.random.SeedSequence):
        self._normals = QuasiNormals(samples, seed)
        self._columns = np.zeros((0, samples))

    def columns(self, count: int) -> np.ndarray:
        """The first `count` columns, as rows (count × samples)."""
        have, samples = self._columns.shape
        if count > have:
            room = np.zeros((max(count, 2 * have, 64), samples))
            room[:have] = self._columns
            new = self._normals.columns(have, len(room)).T
            for k, x in enumerate(new, start=have):
                room[k] = _matched(x, room[:k]) if k < samples else x
            self._columns = room
        return self._columns[:count]


def _matched(x: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """x made orthogonal to the basis and scaled to mean square one; done twice against rounding."""
    x = x.copy()
    for _ in range(2):
        x -= (basis @ x / len(x)) @ basis
        x /= np.sqrt(np.mean(x * x))
    return x
