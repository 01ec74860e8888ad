"""Drawn fields: monomials whose products are powers, the covariance that was asked for, and the derivatives."""

import itertools
import math

import numpy as np
import pytest

from learndyn.neural_ode.tensor_field import CHUNK, TensorField, monomials

EPS = np.finfo(float).eps
MIXED = np.array([[0.1, 0.3, 0.0], [0.0, 0.8, 0.5], [0.4, 0.6, 0.0]])
"""A constant part, one without state, q m, q m², q² and q² m."""
CUBIC = np.array([[0, 0, 0, 0.2], [0.3, 0, 0, 0], [0, 0, 0, 0], [0, 0.7, 0, 0]])


def plain_monomials(x, order):
    """x^α √(k!/α!)/n^{k/2}, with k!/α! the number of distinct orders of the letters of α."""
    letters = list(itertools.combinations_with_replacement(range(len(x)), order))
    counts = [len(set(itertools.permutations(one))) for one in letters]
    products = np.prod(x[np.array(letters, dtype=int)], axis=1)
    return np.sqrt(np.array(counts, float)) * products / len(x) ** (order / 2)


def plain_field(field, x, theta):
    """r(x, θ) from the tensors, as the sum over ij."""
    total = np.zeros(field.d, dtype=complex)
    for i, T in field.fixed.items():
        total += T @ plain_monomials(x, i)
    for (i, j), T in field.tensors.items():
        cube = T.reshape(field.d, -1, T.shape[1])
        total += np.einsum("ans,n,s->a", cube, plain_monomials(x, i), plain_monomials(theta, j))
    return total


def gradient(function, x):
    """∇function(x) by a step i·10⁻³⁰ along every component: no difference is taken, so only rounding errs."""
    return np.array([function(x + 1e-30j * one).imag for one in np.eye(len(x))]) / 1e-30


def drawn(coefficients, d=4, d_theta=3, rows=3):
    rng = np.random.default_rng(1)
    field = TensorField.draw(coefficients, d, d_theta, rng)
    x, p, theta = (rng.standard_normal(shape) for shape in ((rows, d), (rows, d), (d_theta,)))
    return field, x, p, theta


def rounding(n):
    """Errors of sums of n terms of order one, each a product of a few factors."""
    return {"rtol": 0, "atol": 100 * n * EPS}


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_products_of_monomials_are_powers_of_overlaps(order):
    n = 7
    x, z = np.random.default_rng(0).standard_normal((2, 5, n))
    psi = monomials(n, order)
    assert psi.size == psi(x).shape[1] == math.comb(n + order - 1, order)
    # Each sum is rounded relative to the norms |ψ(x)||ψ(z)| = (|x||z|/n)^k, which are of order one here.
    np.testing.assert_allclose(psi(x) @ psi(z).T, (x @ z.T / n) ** order, **rounding(psi.size))


def test_monomials_of_order_two_are_squares_and_products():
    x = np.array([[2.0, 3.0, 5.0]])
    root = math.sqrt(2)
    expected = [[4, 6 * root, 10 * root, 9, 15 * root, 25]]
    np.testing.assert_allclose(monomials(3, 2)(x), np.array(expected) / 3, rtol=10 * EPS)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_pullback_is_the_gradient_of_monomials(order):
    rng = np.random.default_rng(2)
    psi, x = monomials(4, order), rng.standard_normal((3, 4))
    c = rng.standard_normal((3, psi.size))
    rows = list(zip(x, c, strict=True))
    values = np.stack([plain_monomials(one, order) for one in x])
    expected = [gradient(lambda x, c=c: c @ plain_monomials(x, order), one) for one, c in rows]
    np.testing.assert_allclose(psi(x), values, **rounding(1))
    np.testing.assert_allclose(psi.pullback(x, c), expected, **rounding(psi.size))


@pytest.mark.parametrize("coefficients", [MIXED, CUBIC], ids=["mixed", "cubic"])
@pytest.mark.parametrize("rows", [1, 3, 6])
def test_drift_and_derivatives_are_those_of_the_sum_over_tensors(coefficients, rows):
    field, x, p, theta = drawn(coefficients, rows=rows)
    rows_of_both = list(zip(x, p, strict=True))
    drift = np.stack([plain_field(field, one, theta).real for one in x])
    of_state = [
        gradient(lambda x, p=p: p @ plain_field(field, x, theta), y) for y, p in rows_of_both
    ]

    def paired(theta):
        return sum(p @ plain_field(field, y, theta) for y, p in rows_of_both)

    frozen = field.at(theta)
    np.testing.assert_allclose(frozen.drift(x), drift, **rounding(100))
    np.testing.assert_allclose(frozen.pullback(x, p), of_state, **rounding(100))
    found = field.control_gradient(theta, field.moments(x, p))
    np.testing.assert_allclose(found, gradient(paired, theta), **rounding(100 * rows))


def test_moments_are_sums_over_all_states_however_many():
    field, x, p, _ = drawn(MIXED, rows=2 * CHUNK + 3)
    S = field.moments(x, p)
    assert sorted(S) == [0, 1, 2]
    for i, found in S.items():
        expected = np.einsum("sa,sn->an", p, monomials(4, i)(x))
        np.testing.assert_allclose(found, expected, **rounding(len(x)))


def test_a_part_without_control_is_not_copied():
    field, _, _, theta = drawn(np.array([[0, 0], [0, 0.8], [0.4, 0]]))
    parts = field.at(theta).A
    assert np.shares_memory(parts[monomials(4, 2)], field.fixed[2])


@pytest.mark.parametrize("coefficients", [MIXED, CUBIC], ids=["mixed", "cubic"])
def test_many_draws_have_the_covariance_and_independent_components(coefficients):
    d, d_theta, draws = 3, 2, 5000
    rng = np.random.default_rng(3)
    x, thetas = rng.standard_normal((2, d)), rng.standard_normal((2, d_theta))
    r = np.empty((draws, 2, d))
    for one in r:
        field = TensorField.draw(coefficients, d, d_theta, rng)
        for a in range(2):
            one[a] = field.at(thetas[a]).drift(x[a : a + 1])[0]
    q, m = x @ x.T / d, thetas @ thetas.T / d_theta
    G = np.polynomial.polynomial.polyval2d(q, m, coefficients)
    expected = np.kron(G, np.eye(d))
    flat = r.reshape(draws, -1)
    # ⟨uv⟩ of Gaussians varies by ⟨u²⟩⟨v²⟩ + ⟨uv⟩²; 21 different entries, so 4.5 deviations.
    power = np.diag(expected)
    error = np.sqrt((np.outer(power, power) + expected**2) / draws)
    assert np.max(np.abs(flat.T @ flat / draws - expected) / error) < 4.5
    assert np.max(np.abs(flat.mean(0)) / np.sqrt(power / draws)) < 4.5
