"""Small matrices of many samples: the closed forms are those of the general routine."""

import numpy as np
import pytest

from learndyn.numerics.sample_matrices import inverses, products


@pytest.mark.parametrize("size", [1, 2, 3])
def test_inverses_and_products_of_each_sample(size):
    A = np.random.default_rng(0).standard_normal((size, size, 50))
    expected = np.linalg.inv(A.transpose(2, 0, 1)).transpose(1, 2, 0)
    np.testing.assert_allclose(inverses(A), expected, rtol=1e-9, atol=1e-9)
    B = np.random.default_rng(1).standard_normal((size, 4, 50))
    np.testing.assert_allclose(
        products(A, B), np.einsum("ijs,jns->ins", A, B), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_singular_sample_is_not_finite(size):
    A = np.stack([np.eye(size), np.zeros((size, size))], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert not np.all(np.isfinite(inverses(A)[..., 1]))
