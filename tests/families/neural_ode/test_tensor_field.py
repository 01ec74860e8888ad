"""Drawn fields: monomials whose products are powers, the covariance that was asked for, and the derivatives."""

import itertools
import math

import numpy as np
import pytest

from learndyn.families.neural_ode.finite.monomials import monomials
from learndyn.families.neural_ode.finite.tensor_field import CHUNK, TensorField, weighted
from tests.problems import PAPER

EPS = np.finfo(float).eps
MIXED = np.array([[0.1, 0.3, 0.0], [0.0, 0.8, 0.5], [0.4, 0.6, 0.0]])
"""A constant part, one without state, q m, q m², q² and q² m."""
CUBIC = np.array([[0, 0, 0, 0.2], [0.3, 0, 0, 0], [0, 0, 0, 0], [0, 0.7, 0, 0]])
TWO_STATES = np.array(
    [
        [[0.1, 0.3, 0.0], [0.0, 0.8, 0.0], [0.4, 0.0, 0.0]],
        [[0.0, 0.5, 0.0], [0.7, 0.0, 0.2], [0.0, 0.6, 0.0]],
        [[0.3, 0.0, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 0.0]],
    ]
)
"""Parts of one state, of the other, of none, and products of different orders in both, with and without control."""
ALL = pytest.mark.parametrize(
    "coefficients", [MIXED, CUBIC, TWO_STATES], ids=["mixed", "cubic", "two states"]
)


def plain_monomials(x, order):
    """x^α √(k!/α!)/n^{k/2}, with k!/α! the number of distinct orders of the letters of α."""
    letters = list(itertools.combinations_with_replacement(range(len(x)), order))
    counts = [len(set(itertools.permutations(one))) for one in letters]
    products = np.prod(x[np.array(letters, dtype=int)], axis=1)
    return np.sqrt(np.array(counts, float)) * products / len(x) ** (order / 2)


def plain_field(field, theta, *states):
    """r(x, θ) or r(x, z, θ) from the tensors, as the sum over their orders."""
    total = np.zeros(field.d, dtype=complex)
    parts = [((*orders, 0), T) for orders, T in field.fixed.items()]
    parts += [((*orders, j), T) for (orders, j), T in field.tensors.items()]
    for orders, T in parts:
        factors = [plain_monomials(v, k) for v, k in zip((*states, theta), orders, strict=True)]
        tensor = T.reshape(field.d, *map(len, factors))
        for one in reversed(factors):
            tensor = tensor @ one
        total += tensor
    return total


def gradient(function, x):
    """∇function(x) by a step i·10⁻³⁰ along every component: no difference is taken, so only rounding errs."""
    return np.array([function(x + 1e-30j * one).imag for one in np.eye(len(x))]) / 1e-30


def drawn(coefficients, d=4, d_theta=3, rows=3):
    rng = np.random.default_rng(1)
    field = TensorField.draw(coefficients, d, d_theta, rng)
    x, p, theta = (rng.standard_normal(shape) for shape in ((rows, d), (rows, d), (d_theta,)))
    states = [x] if coefficients.ndim == 2 else [x, rng.standard_normal((rows, d))]
    return field, theta, p, states


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


@ALL
@pytest.mark.parametrize("rows", [1, 3, 6])
def test_drift_and_derivatives_are_those_of_the_sum_over_tensors(coefficients, rows):
    field, theta, p, states = drawn(coefficients, rows=rows)
    drift = [np.real(plain_field(field, theta, *some)) for some in zip(*states, strict=True)]
    of_states = []
    for k in range(len(states)):

        def paired(x, p, others, k=k):
            return p @ plain_field(field, theta, *others[:k], x, *others[k + 1 :])

        of_states.append(
            [
                gradient(lambda x, p=one, others=some: paired(x, p, others), some[k])
                for one, *some in zip(p, *states, strict=True)
            ]
        )
    frozen = field.at(theta)
    np.testing.assert_allclose(frozen.drift(*states), drift, **rounding(100))
    np.testing.assert_allclose(frozen.pullback(p, *states), of_states, **rounding(100))

    def total(theta):
        uses = zip(p, *states, strict=True)
        return sum(p @ plain_field(field, theta, *some) for p, *some in uses)

    S = field.moments(p, *states, fixed=True)
    value, found = field.value_and_gradient(theta, S)
    np.testing.assert_allclose(value, total(theta).real, **rounding(100 * rows))
    np.testing.assert_allclose(found, gradient(total, theta), **rounding(100 * rows))
    without_fixed = field.value_and_gradient(theta, field.moments(p, *states))[1]
    np.testing.assert_array_equal(without_fixed, found)


@ALL
def test_moments_are_sums_over_all_states_however_many(coefficients):
    field, _, p, states = drawn(coefficients, rows=2 * CHUNK + 3)
    ones = np.ones((len(p), 1))
    for orders, found in field.moments(p, *states, fixed=True).items():
        values = [monomials(4, k)(x) for k, x in zip(orders, states, strict=True)]
        product = np.einsum("sn,sm->snm", values[0], values[-1] if values[1:] else ones)
        expected = np.einsum("sa,snm->anm", p, product).reshape(4, -1)
        np.testing.assert_allclose(found, expected, **rounding(len(p)))


def test_moments_are_those_of_the_orders_that_come_with_a_control():
    field, _, p, states = drawn(np.array(PAPER))
    assert list(field.moments(p, *states)) == [(1,)]
    assert list(field.moments(p, *states, fixed=True)) == [(1,), (2,)]
    field, _, p, states = drawn(np.array([[[0, 0], [0, 0.8]], [[0, 0.3], [0.4, 0]]]))
    assert list(field.moments(p, *states)) == [(0, 1), (1, 0)]
    assert list(field.moments(p, *states, fixed=True)) == [(0, 1), (1, 0), (1, 1)]


@ALL
def test_a_weighted_sum_of_fields_is_one_field(coefficients):
    field, theta, _, states = drawn(coefficients)
    parts = [field.at(theta), field.at(-0.5 * theta)]
    expected = 0.3 * parts[0].drift(*states) - 1.7 * parts[1].drift(*states)
    found = weighted([0.3, -1.7], parts)
    np.testing.assert_allclose(found.drift(*states), expected, **rounding(100))
    assert weighted([1.0], parts[:1]) is parts[0]
    half = weighted([0.5], parts[:1]).drift(*states)
    np.testing.assert_array_equal(half, 0.5 * parts[0].drift(*states))


def test_a_part_without_control_is_not_copied():
    field, theta, _, _ = drawn(np.array(PAPER))
    assert np.shares_memory(field.at(theta).A[(2,)], field.fixed[(2,)])


@ALL
def test_many_draws_have_the_covariance_and_independent_components(coefficients):
    d, d_theta, draws = 3, 2, 5000 if coefficients.ndim == 2 else 1500
    rng = np.random.default_rng(3)
    x, thetas = rng.standard_normal((2, d)), rng.standard_normal((2, d_theta))
    states = [x] if coefficients.ndim == 2 else [x, rng.standard_normal((2, d))]
    r = np.empty((draws, 2, d))
    for one in r:
        field = TensorField.draw(coefficients, d, d_theta, rng)
        for a in range(2):
            one[a] = field.at(thetas[a]).drift(*(x[a : a + 1] for x in states))[0]
    q, m = x @ x.T / d, thetas @ thetas.T / d_theta
    lists = coefficients[None] if coefficients.ndim == 2 else coefficients
    s = states[-1] @ states[-1].T / d
    G = sum(s**k * np.polynomial.polynomial.polyval2d(q, m, c) for k, c in enumerate(lists))
    expected = np.kron(G, np.eye(d))
    flat = r.reshape(draws, -1)
    # ⟨uv⟩ of Gaussians varies by ⟨u²⟩⟨v²⟩ + ⟨uv⟩²; 21 different entries, so 4.5 deviations.
    power = np.diag(expected)
    error = np.sqrt((np.outer(power, power) + expected**2) / draws)
    assert np.max(np.abs(flat.T @ flat / draws - expected) / error) < 4.5
    assert np.max(np.abs(flat.mean(0)) / np.sqrt(power / draws)) < 4.5
