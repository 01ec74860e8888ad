"""Roots of covariance matrices, of full and of lower rank."""

import numpy as np
import pytest

from learndyn.numerics.covariance import NEGLIGIBLE, covariance_root, lower_root, whitener

CASES = [(1, 1), (4, 4), (4, 2), (7, 1), (5, 0)]


def covariance(size: int, rank: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((size, rank))
    return A @ A.T


@pytest.mark.parametrize(("size", "rank"), CASES)
@pytest.mark.parametrize("root", [covariance_root, lower_root])
def test_a_root_squares_to_the_covariance(root, size, rank):
    for seed in range(10):
        C = covariance(size, rank, seed)
        F = root(C)
        assert F.shape == C.shape
        np.testing.assert_allclose(F @ F.T, C, rtol=0, atol=1e-13 * max(np.max(C), 1.0))
        assert np.sum(np.any(F != 0, axis=0)) == rank


@pytest.mark.parametrize(("size", "rank"), CASES)
def test_the_rank_is_the_number_of_columns_on_demand(size, rank):
    C = covariance(size, rank, 0)
    F = covariance_root(C, rank=True)
    assert F.shape == (size, rank)
    np.testing.assert_allclose(F @ F.T, C, rtol=0, atol=1e-13 * max(np.max(C), 1.0))


@pytest.mark.parametrize(("size", "rank"), CASES)
def test_the_whitener_is_a_root_of_the_pseudo_inverse(size, rank):
    C = covariance(size, rank, 1)
    W = whitener(covariance_root(C))
    np.testing.assert_allclose(W @ W.T, np.linalg.pinv(C, 1e-10), atol=1e-10)


def test_several_covariances_have_their_roots_side_by_side():
    C = np.stack([covariance(3, rank, rank) for rank in (3, 2, 1)])
    for F, one in zip(covariance_root(C), C, strict=True):
        np.testing.assert_array_equal(F, covariance_root(one))


def test_lower_roots_are_lower_triangular_and_those_of_cholesky():
    C = covariance(5, 5, 2)
    np.testing.assert_allclose(lower_root(C), np.linalg.cholesky(C), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("root", [covariance_root, lower_root])
def test_what_is_below_the_cut_off_is_dropped(root):
    small = np.diag([1.0, NEGLIGIBLE / 10])
    assert np.count_nonzero(covariance_root(small)) == 1
    correlated = np.array([[1.0, 1.0], [1.0, 1.0 + NEGLIGIBLE / 10]])
    assert np.count_nonzero(np.any(root(correlated) != 0, axis=0)) == 1
    kept = np.array([[1.0, 1.0], [1.0, 1.0 + 10 * NEGLIGIBLE]])
    assert np.count_nonzero(np.any(root(kept) != 0, axis=0)) == 2
    negative = np.array([[1.0, 1.0], [1.0, 1.0 - NEGLIGIBLE / 10]])
    assert np.all(np.isfinite(root(negative)))
