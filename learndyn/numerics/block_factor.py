"""A factor of a growing covariance matrix that may be singular, one block row after the other."""

import numpy as np

NEGLIGIBLE = 1e-10
"""Directions with less than this fraction of the largest variance so far are dropped.

It is larger than `covariance.NEGLIGIBLE`, because the part of a block that the past does not explain is a difference
that accumulates rounding from all earlier blocks: in two linear layers over 60 steps the outputs are
2e-10 off with 1e-10, 9e-10 with 1e-12.
"""


class BlockFactor:
    """F with F Fᵀ = C, for a covariance C whose block rows C(t, s ≤ t) come one at a time.

    A block holds the variables that are new at a time t. The part that the past does not explain,
    C(t, t) − F(t, ·)F(t, ·)ᵀ, is diagonalised; each of its directions above `NEGLIGIBLE` gets a column of its own.
    """

    def __init__(self):
        self._rows: list[np.ndarray] = []
        self._whiteners: list[np.ndarray] = []
        self._columns = [0]
        self._largest = 0.0

    @property
    def rank(self) -> int:
        """The number of columns so far."""
        return self._columns[-1]

    def append(self, covariance: list[np.ndarray]) -> np.ndarray:
        """The rows of F of the next block, from its covariances with all blocks so far and, last, with itself."""
        size = len(covariance[-1])
        row = np.zeros((size, self.rank))
        for s, past in enumerate(self._rows):
            begin, end = self._columns[s], self._columns[s + 1]
            if end > begin:
                rest = covariance[s] - row[:, :begin] @ past[:, :begin].T
                row[:, begin:end] = rest @ self._whiteners[s]
        rest = covariance[-1] - row @ row.T
        values, vectors = np.linalg.eigh(0.5 * (rest + rest.T))
        self._largest = max(self._largest, float(np.max(np.diagonal(covariance[-1]))))
        significant = values > NEGLIGIBLE * self._largest
        roots = np.sqrt(values[significant])
        self._whiteners.append(vectors[:, significant] / roots)
        self._columns.append(self.rank + int(significant.sum()))
        self._rows.append(np.concatenate([row, vectors[:, significant] * roots], axis=1))
        return self._rows[-1]
