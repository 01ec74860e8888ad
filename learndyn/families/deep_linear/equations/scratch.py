"""`work`, the scratch array (rows, n) that the compiled recursions pass on, and the names of its rows.

It is a single array rather than a tuple of named ones, because a call that passes many arrays takes longer than a short
row of the recursion. Every purpose has a row of its own, so that no row is overwritten while it is still needed.
"""

import numpy as np

IMAGE, FIELD, PRODUCT, SECOND_PRODUCT, UNUSED = range(5)
"""Temporaries of a single product routine: a triangle times the noise, a field that the routine adds to, products of
these with the kernels, and a result that is not read."""
FULL, ERROR_SOURCE, FEEDBACK = range(5, 8)
"""C_g without increments; C_v + σ² and R_vu/α of the data."""
MODE_KERNEL, MODE_NOISE, H_TOTAL, C_TOTAL = range(8, 12)
"""K and S_r of one input mode; H_r and C_h of all input modes together, or of the layer below."""
BACK_KERNEL, BACK_NOISE, FORTH_NOISE, BRANCH_NOISE = range(12, 16)
"""K, S_r and S_u of the current layer, which are passed from layer to layer; the noise of a residual block."""
NODE_VALUE = 16
"""A new row at a node of the layer time, before it replaces that of the last sweep."""
ROWS = 17
"""Number of rows of `work`."""

IMAGE_BAR, FIELD_BAR, KERNEL_BAR, SOURCE_BAR, FEEDBACK_BAR, FULL_BAR = range(ROWS, ROWS + 6)
MODE_KERNEL_BAR, MODE_NOISE_BAR, H_TOTAL_BAR, C_TOTAL_BAR = range(ROWS + 6, ROWS + 10)
BACK_KERNEL_BAR, BACK_NOISE_BAR, FORTH_NOISE_BAR = range(ROWS + 10, ROWS + 13)
"""Derivatives of the result with respect to these, in `feedforward_adjoint`."""
ROWS_WITH_BARS = ROWS + 13
"""Number of rows of `work` in `feedforward_adjoint`."""


def empty(n: int, rows: int = ROWS) -> np.ndarray:
    """The scratch array for n composite steps."""
    return np.zeros((rows, n))
