"""Comparisons of sampled means."""

import numpy as np
import scipy.stats


def check_within_errors(one, other, error, other_error):
    """Means over eight batches agree: the largest of all entries in Student's distribution, at the level 1e-3."""
    error = np.hypot(error, other_error)
    moving = error > 1e-12
    ratio = (one - other)[moving] / error[moving]
    assert np.abs(ratio).max() < scipy.stats.t.ppf(1 - 5e-4 / ratio.size, 7)
    np.testing.assert_allclose(one[~moving], other[~moving], rtol=0, atol=1e-9)
