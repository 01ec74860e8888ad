"""Inner products of stacked vectors."""

import numpy as np
import pytest

from learndyn.numerics.gram import gram, stacked


@pytest.mark.parametrize("shape", [(6,), (3, 6), (3, 2, 6), (2, 3, 1, 5), (0, 2, 4), (3, 0)])
def test_products_of_all_pairs(shape):
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal(shape), rng.random(shape[-1])
    a, b = "abc"[: len(shape) - 1], "def"[: len(shape) - 1]
    expected = np.einsum(f"{a}x,{b}x,x->{a}{b}", v, v, w)
    np.testing.assert_allclose(gram(v, weights=w), expected, atol=1e-14)
    expected = np.einsum(f"{a}x,{b}x->{a}{b}", v, v)
    np.testing.assert_allclose(gram(v), expected, atol=1e-14)
    if shape[-1]:
        np.testing.assert_allclose(gram(v, mean=True), expected / shape[-1], atol=1e-14)


def test_the_vectors_stay_as_they_are():
    v = np.random.default_rng(1).standard_normal((3, 4))
    before = v.copy()
    gram(v, mean=True, weights=np.ones(4))
    np.testing.assert_array_equal(v, before)


def test_vectors_of_a_growing_space_are_padded_with_zeros():
    rng = np.random.default_rng(2)
    vectors = [rng.standard_normal((2, length)) for length in (3, 3, 5)]
    found = stacked(vectors, 2)
    assert found.shape == (3, 2, 5)
    products = gram(found)
    for i, x in enumerate(vectors):
        for j, y in enumerate(vectors):
            shared = min(x.shape[1], y.shape[1])
            expected = x[:, :shared] @ y[:, :shared].T
            np.testing.assert_allclose(products[i, :, j], expected, atol=1e-14)


def test_no_vectors_have_no_products():
    assert gram(stacked([], 2)).shape == (0, 2, 0, 2)
