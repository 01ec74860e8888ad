"""A triangular factor of a sample covariance, one row after the other."""

import numpy as np

NEGLIGIBLE = 1e-13
"""A sample vector adds no direction if its new part has less than this fraction of its square.

It is smaller than `covariance.NEGLIGIBLE`, because the vectors themselves are exact to rounding and a dropped part is
an error of L Lᵀ: for 80 vectors along a smooth path it is 1e-9 with 1e-13, 6e-9 with 1e-12.
"""


class CausalFactor:
    """L, lower triangular, with ⟨x_a x_b⟩ = Σ_k L_ak L_bk for sample vectors x_0, x_1, … given one at a time.

    Gram–Schmidt of the vectors themselves, twice, in the inner product ⟨xy⟩ (the mean over samples): it stays accurate
    where the covariance is nearly singular, as that of a slow process always is.
    """

    def __init__(self, count: int, samples: int):
        self.L = np.zeros((count, count))
        self._basis = np.zeros((count, samples))
        self._filled = 0

    def append(self, vector: np.ndarray) -> np.ndarray:
        """The next row of L."""
        k, samples = self._filled, len(vector)
        basis, rest = self._basis[:k], vector.copy()
        row = self.L[k]
        for _ in range(2):
            part = basis @ rest / samples
            rest -= part @ basis
            row[:k] += part
        square = rest @ rest / samples
        if square > NEGLIGIBLE * (vector @ vector) / samples:
            row[k] = np.sqrt(square)
            self._basis[k] = rest / row[k]
        self._filled += 1
        return row

    def keep(self, count: int) -> None:
        """Take all rows but the first `count` away."""
        self.L[count : self._filled] = 0.0
        self._basis[count : self._filled] = 0.0
        self._filled = min(count, self._filled)
