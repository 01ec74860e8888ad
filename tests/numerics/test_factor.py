"""The triangular factor of a covariance matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learndyn.numerics.factor import psd_factor
from learndyn.numerics.precision import float64

factor = jax.jit(psd_factor)


@given(n=st.integers(1, 8), rank=st.integers(0, 8), seed=st.integers(0, 10**6), zero=st.booleans())
def test_the_factor_reproduces_any_semidefinite_matrix(n, rank, seed, zero):
    rng = np.random.default_rng(seed)
    A = rng.integers(-4, 5, (n, rank)) / 4
    if zero:
        A[rng.integers(n)] = 0.0
    C = A @ A.T
    with float64():
        L = np.asarray(factor(jnp.asarray(C)))
    assert np.array_equal(L, np.tril(L))
    # n roundings per entry, each of the size of the diagonal, and amplified where a small pivot
    # divides. Quantised entries keep the pivots either zero or far above rounding.
    size = max(np.max(C), 1.0)
    kept = np.diagonal(L)[np.diagonal(L) > 1e-5]
    growth = size / min(np.min(kept**2, initial=1.0), 1.0)
    assert np.max(np.abs(L @ L.T - C)) <= 4 * n * np.finfo(float).eps * size * growth


def test_a_dependent_field_has_a_zero_column():
    A = np.array([[1.0, 0.0], [0.3, 0.7], [1.3, 0.7], [-0.3, -0.7]])
    with float64():
        L = np.asarray(factor(jnp.asarray(A @ A.T)))
    assert np.all(L[:, 2:] == 0)


def test_it_is_the_cholesky_factor_of_a_regular_matrix():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 9))
    with float64():
        L = np.asarray(factor(jnp.asarray(A @ A.T)))
    np.testing.assert_allclose(L, np.linalg.cholesky(A @ A.T), atol=1e-13)


@pytest.mark.parametrize("reverse", [True, False])
def test_gradients_are_right_if_regular_and_finite_if_singular(reverse):
    rng = np.random.default_rng(1)
    A, V = rng.standard_normal((2, 4, 4))
    C, V = A @ A.T, V + V.T
    jacobian = jax.jacrev if reverse else jax.jacfwd
    with float64():
        slope = jacobian(psd_factor)(jnp.asarray(C))
        h = 1e-6
        difference = (psd_factor(jnp.asarray(C + h * V)) - psd_factor(jnp.asarray(C - h * V))) / (
            2 * h
        )
        singular = jacobian(psd_factor)(jnp.asarray(A[:, :2] @ A[:, :2].T))
    # Central differences: h² times a third derivative, and rounding over h, both about 1e-9.
    np.testing.assert_allclose(np.einsum("abcd,cd->ab", slope, V), difference, atol=1e-7)
    assert np.all(np.isfinite(singular))
