"""Inner products of a few rows with many, in single precision, compiled.

BLAS copies the many rows into an order of its own, which does not pay for few products with each of them.
"""

import numpy as np

from learndyn.numerics.lower import in_place
from learndyn.numerics.products import CHUNK


@in_place
def add_sums(x: np.ndarray, y: np.ndarray, total: np.ndarray) -> None:
    """Add Σ_i x_ki y_li to `total`, for all rows k and l: two rows of x and four of y at a time."""
    few, length = x.shape
    many = y.shape[0]
    for start in range(0, length, CHUNK):
        part = min(CHUNK, length - start)
        l = 0
        while l < many:
            # At the end some rows are taken a second time, and left out of the sum.
            first = min(l, many - 4)
            y0, y1 = y[first, start : start + part], y[first + 1, start : start + part]
            y2, y3 = y[first + 2, start : start + part], y[first + 3, start : start + part]
            k = 0
            while k < few:
                a, b = x[k, start : start + part], x[min(k + 1, few - 1), start : start + part]
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
                for i in range(part):
                    a0 += a[i] * y0[i]
                    a1 += a[i] * y1[i]
                    a2 += a[i] * y2[i]
                    a3 += a[i] * y3[i]
                    b0 += b[i] * y0[i]
                    b1 += b[i] * y1[i]
                    b2 += b[i] * y2[i]
                    b3 += b[i] * y3[i]
                for j, value in enumerate((a0, a1, a2, a3)):
                    if first + j >= l:
                        total[k, first + j] += value
                if k + 1 < few:
                    for j, value in enumerate((b0, b1, b2, b3)):
                        if first + j >= l:
                            total[k + 1, first + j] += value
                k += 2
            l += 4
