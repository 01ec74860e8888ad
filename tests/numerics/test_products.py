"""Sums over long rows: of single-precision rows in double precision, by BLAS and compiled."""

import numpy as np
import pytest

from learndyn.numerics import products


@pytest.mark.parametrize("large", [0, 2**60], ids=["compiled", "BLAS"])
@pytest.mark.parametrize(("few", "many", "length"), [(1, 4, 7), (2, 5, 1024), (5, 11, 3000)])
def test_sums_of_single_precision_rows(monkeypatch, large, few, many, length):
    """Rounding of 1024 products in single precision, 6e-8 √1024 of a unit at most, for every chunk."""
    monkeypatch.setattr(products, "LARGE", large)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, length)).astype(np.float32) for n in (few, many))
    found = products.sums(x, y)
    assert found.dtype == np.float64
    exact = x.astype(float) @ y.astype(float).T
    np.testing.assert_allclose(found, exact, rtol=0, atol=6e-8 * 32 * np.sqrt(length))


def test_rows_that_are_not_side_by_side_in_memory_are_summed_too(monkeypatch):
    monkeypatch.setattr(products, "LARGE", 0)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2000, n)).astype(np.float32).T for n in (3, 6))
    np.testing.assert_allclose(products.sums(x, y), x @ y.T, rtol=0, atol=1e-3)
