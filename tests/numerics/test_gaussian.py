"""The averages that the order-parameter equations use."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.errors import ProblemError
from learndyn.numerics.gaussian import (
    I2,
    I3,
    I4,
    J2,
    closed_form,
    error_moments,
    loss,
    rule_moments,
)
from learndyn.numerics.precision import float64
from learndyn.numerics.rules import gaussian_rule
from learndyn.problem.activations import Erf, Formula, Linear, Named, Polynomial, Relu

pytestmark = pytest.mark.compiles

CUBIC = Polynomial([0.3, -0.5, 0.7, 0.2])
QUADRATIC = Polynomial([-0.2, 0.4, 0.5])
CLOSED = [Erf(), Relu(), Linear(), CUBIC]
EACH = [Erf(), Relu(), pytest.param(Linear(), marks=pytest.mark.slow), CUBIC]
"""A linear unit is a polynomial, like the cubic one."""


def covariance_and_weights(K, M, seed=0, rank=None):
    """A covariance of K + M fields and weights s."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((K + M, rank or K + M + 1)) / np.sqrt(K + M)
    return A @ A.T, rng.standard_normal(K + M)


def degenerate():
    """Two students equal to a teacher and to minus another, one of zero variance, one in their span."""
    A = np.array([[0.6, 0.8], [-0.9, 0.1], [0, 0], [1.5, 0.7], [0.6, 0.8], [0.9, -0.1]])
    return A @ A.T, np.array([0.7, -1.1, 0.4, 0.9, -1.0, -0.8])


def moments(student, teacher, C, s, K, rule=None, second_order=True):
    with float64():
        compute = jax.jit(error_moments, static_argnums=(4, 6))
        return jax.device_get(compute(student, teacher, C, s, K, rule, second_order))


def replicates(student, teacher, C, s, K, rule):
    """Mean and standard error over the replicates of a rule."""
    compute = jax.jit(rule_moments, static_argnums=4)
    return jax.device_get(compute(student, teacher, C, s, K, rule))


@functools.cache
def compiled(function, fields):
    """An average over so many fields, of a stack of their covariances."""
    places = range(fields)
    return jax.jit(
        jax.vmap(lambda activation, C: function(activation, C, *places), in_axes=(None, 0))
    )


def averages(function, activation, C, indices):
    """An average at several indices. A field that is met twice counts as two: one compilation serves all."""
    indices = np.asarray(indices)
    covariances = C[indices[:, :, None], indices[:, None, :]]
    return np.asarray(compiled(function, indices.shape[1])(activation, covariances))


@pytest.mark.parametrize("activation", EACH)
@pytest.mark.parametrize("case", [pytest.param("regular", marks=pytest.mark.slow), "degenerate"])
def test_the_moments_are_the_sums_of_the_averages(activation, case):
    C, s = covariance_and_weights(2, 2) if case == "regular" else degenerate()
    n = len(s)
    K = n - 2
    got = moments(activation, activation, C, s, K)

    def table(function, *index):
        """The average with two more indices that run over all fields."""
        indices = [(*index, c, d) for c in range(n) for d in range(n)]
        return averages(function, activation, C, indices).reshape(n, n)

    with float64():
        # One student, one pair and one index of each kind suffice.
        two, three, (slope,) = table(I2), table(I3, 0), averages(J2, activation, C, [(0, 1)])
        four, single = table(I4, 0, 1), table(I4, 1, 1)
    # Rounding of sums of tens of terms of order one.
    np.testing.assert_allclose(got.force[0], three @ s, atol=1e-13)
    np.testing.assert_allclose(got.slope[0, 1], slope, atol=1e-14)
    np.testing.assert_allclose(got.readout, (two @ s)[:K], atol=1e-13)
    np.testing.assert_allclose(got.loss, s @ two @ s / 2, atol=1e-13)
    np.testing.assert_allclose(got.square[0, 1], s @ four @ s, atol=1e-12)
    np.testing.assert_allclose(got.square[1, 1], s @ single @ s, atol=1e-12)
    np.testing.assert_allclose(got.square, got.square.T, atol=1e-13)


@pytest.mark.parametrize("activation", [Erf(), Relu(), CUBIC])
def test_large_and_small_problems_use_the_same_formula(activation, monkeypatch):
    C, s = covariance_and_weights(4, 2, seed=4)
    whole = moments(activation, activation, C, s, 4)
    for module in ("erf", "relu", "polynomial"):
        monkeypatch.setattr(f"learndyn.numerics.{module}.CHUNK", 2)
    monkeypatch.setattr("learndyn.numerics.erf.FEWEST", 2)
    with float64():
        # A new function, which is traced anew with the small chunks.
        pieces = jax.jit(lambda C: error_moments(activation, activation, C, s, 4))(C)
    np.testing.assert_allclose(pieces.square, whole.square, atol=1e-13)


def test_student_and_teacher_may_be_different_polynomials():
    C, s = covariance_and_weights(2, 2, seed=5)
    got = moments(CUBIC, QUADRATIC, C, s, 2)
    z, w = np.polynomial.hermite_e.hermegauss(8)
    w = w / w.sum()
    grid = np.stack(np.meshgrid(z, z, z, z, indexing="ij")).reshape(4, -1)
    weights = np.einsum("a,b,c,d->abcd", w, w, w, w).ravel()
    u = np.linalg.cholesky(C) @ grid
    f, g = (np.polynomial.Polynomial(p.coefficients) for p in (CUBIC, QUADRATIC))
    values = np.concatenate([f(u[:2]), g(u[2:])])
    slope, error = f.deriv()(u[:2]), s @ values
    # The degree is 10 at most, for which 8 nodes per dimension are exact: rounding only.
    np.testing.assert_allclose(got.force, (slope * error * weights) @ u.T, atol=1e-12)
    np.testing.assert_allclose(got.square, (slope * error**2 * weights) @ slope.T, atol=1e-12)
    np.testing.assert_allclose(got.loss, error**2 @ weights / 2, atol=1e-12)


@pytest.mark.parametrize("activation", EACH)
def test_a_perfect_student_has_no_error(activation):
    """Two students are the teachers; two more are not read."""
    C, v = covariance_and_weights(4, 0, seed=6)
    fields = [0, 1, 2, 3, 0, 1]
    s = np.concatenate([v[:2], [0, 0], -v[:2]])
    got = moments(activation, activation, C[np.ix_(fields, fields)], s, 4)
    # Differences of terms of order one: rounding of a few tens of them.
    for value in (got.force, got.square, got.readout, got.loss):
        assert np.max(np.abs(value)) < 1e-13


def test_gradient_flow_skips_the_square():
    C, s = covariance_and_weights(4, 2)
    full, flow = moments(Erf(), Erf(), C, s, 4), moments(Erf(), Erf(), C, s, 4, second_order=False)
    assert np.all(flow.square == 0)
    assert np.array_equal(flow.force, full.force)


@pytest.mark.parametrize("activation", EACH)
def test_loss_is_that_of_the_moments(activation):
    C, s = covariance_and_weights(4, 2)
    with float64():
        alone = float(jax.jit(loss, static_argnums=4)(activation, activation, C, s, 4))
    assert abs(alone - moments(activation, activation, C, s, 4).loss) < 1e-14


@pytest.mark.parametrize(
    # Four fields are averaged with scattered points, like six.
    ("K", "M"),
    [(1, 1), (2, 1), pytest.param(2, 2, marks=pytest.mark.slow), (3, 3)],
)
def test_a_rule_agrees_with_the_closed_form_within_its_error(K, M):
    C, s = covariance_and_weights(K, M, seed=7)
    exact = moments(Erf(), Erf(), C, s, K)
    with float64():
        rule = gaussian_rule(K + M, 2**12, 8, seed=2)
        mean, error = replicates(Erf(), Erf(), C, s, K, rule)
        single = float(jax.jit(loss, static_argnums=4)(Erf(), Erf(), C, s, K, rule.replicate(0)))
    for name in exact._fields:
        deviation = np.abs(getattr(mean, name) - getattr(exact, name))
        # Seven degrees of freedom: |t| > 8 has probability 1e-4. Grids also cut the tails: by less
        # than 1e-9 in two dimensions, and 1e-4 with the 16 points per axis that three allow.
        floor = 1e-4 if K + M == 3 and name == "square" else 1e-9
        assert np.all(deviation <= 8 * getattr(error, name) + floor), name
        # Only the average over four fields is left to scattered points.
        assert np.all(getattr(error, name) < (3e-3 if name == "square" else 1e-8)), name
    assert abs(single - exact.loss) < 1e-8


@pytest.mark.parametrize("case", ["regular", "degenerate"])
def test_a_rule_works_on_singular_covariances(case):
    C, s = covariance_and_weights(4, 2, rank=2, seed=8) if case == "regular" else degenerate()
    with float64():
        rule = gaussian_rule(6, 2**13, 8, seed=3)
        mean, error = replicates(Erf(), Erf(), C, s, 4, rule)
    exact = moments(Erf(), Erf(), C, s, 4)
    for name in exact._fields:
        deviation = np.abs(getattr(mean, name) - getattr(exact, name))
        # Grids cut the tails, by less than 1e-9.
        assert np.all(deviation <= 8 * getattr(error, name) + 1e-9), name


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        # Each activation is there; those with a closed form as students, relu as a teacher, too.
        pytest.param(Relu(), Erf(), marks=pytest.mark.slow),
        (Erf(), Relu()),
        (Relu(), Named("tanh")),
        pytest.param(Named("tanh"), Erf(), marks=pytest.mark.slow),
    ],
    ids=["relu of erf", "erf of relu", "relu of tanh", "tanh of erf"],
)
def test_mixed_pairs_agree_with_plain_sampling(student, teacher):
    """A million independent samples; the sum of eight errors of the rule and five of the sampling."""
    K, M = 2, 2
    C, s = covariance_and_weights(K, M, seed=11)
    u = np.random.default_rng(0).multivariate_normal(np.zeros(K + M), C, 10**6)
    with float64():
        rule = gaussian_rule(K + M, 2**12, 8, seed=2)
        mean, error = replicates(student, teacher, C, s, K, rule)
        g = np.concatenate([student(u[:, :K]), teacher(u[:, K:])], axis=1)
        slope = np.asarray(student.derivative(u[:, :K]))
    epsilon = g @ s
    samples = {
        "force": slope[:, :, None] * u[:, None, :] * epsilon[:, None, None],
        "square": slope[:, :, None] * slope[:, None, :] * epsilon[:, None, None] ** 2,
        "slope": slope[:, :, None] * slope[:, None, :],
        "readout": g[:, :K] * epsilon[:, None],
        "loss": epsilon**2 / 2,
    }
    for name, values in samples.items():
        allowed = 8 * getattr(error, name) + 5 * values.std(0) / 1e3
        assert np.all(np.abs(getattr(mean, name) - values.mean(0)) <= allowed), name


@functools.cache
def value_and_slopes():
    """A sum of all moments of four students and two teachers, with the given weights, and its derivatives by C and s.

    Regular and degenerate covariances share what is compiled.
    """

    def total(C, s, weights, activation, rule):
        got = error_moments(activation, activation, C, s, 4, rule)
        return sum(jnp.sum(w * x) for w, x in zip(weights, got, strict=True))

    return jax.jit(jax.value_and_grad(total, argnums=(0, 1)))


def rule_for(activation):
    """A rule of six fields for an activation without closed forms."""
    return gaussian_rule(6, 2**6, 1, seed=0).replicate(0) if isinstance(activation, Named) else None


def generic_weights(rng):
    """Weights for the moments of four students among six fields."""
    return [rng.standard_normal(shape) for shape in ((4, 6), (4, 4), (4, 4), (4,), ())]


@pytest.mark.parametrize("activation", [*EACH, Named("tanh")])
def test_gradients_equal_finite_differences(activation):
    rng = np.random.default_rng(9)
    C, s = covariance_and_weights(4, 2, seed=9)
    V = rng.standard_normal(C.shape)
    V = V + V.T
    with float64():
        numbers = (s, generic_weights(rng), activation, rule_for(activation))
        both, h = value_and_slopes(), 1e-4
        slope = float(np.sum(both(C, *numbers)[1][0] * V))
        near, far = (
            float(both(C + k * h * V, *numbers)[0] - both(C - k * h * V, *numbers)[0])
            for k in (1, 2)
        )
    difference = (8 * near - far) / (12 * h)
    # Fourth-order differences: rounding 1e-14/h and h⁴ times a fifth derivative, both about 1e-10;
    # relu adds the error 1e-12 of its 48-node rule, over h.
    assert abs(slope - difference) < 1e-6 * max(1.0, abs(slope))


@pytest.mark.parametrize("activation", [*EACH, Named("tanh")])
def test_gradients_are_finite_at_degenerate_covariances(activation):
    C, s = degenerate()
    with float64():
        weights = [np.ones_like(w) for w in generic_weights(np.random.default_rng(0))]
        _, slopes = value_and_slopes()(C, s, weights, activation, rule_for(activation))
        for slope in slopes:
            assert np.all(np.isfinite(slope))


def test_a_relu_student_of_zero_variance_feels_no_force():
    C, s = degenerate()
    got = moments(Relu(), Relu(), C, s, 4)
    for value in (got.force[2], got.square[2], got.slope[2], got.readout[2:3]):
        assert np.all(value == 0)


def test_new_numbers_do_not_recompile():
    count = 0

    def traced(activation, C, s):
        nonlocal count
        count += 1
        return error_moments(activation, activation, C, s, 2)

    compute = jax.jit(traced)
    with float64():
        for seed, polynomial in enumerate([[0.0, 1.0, 0.5], [0.3, 2.0, -0.1]]):
            compute(Polynomial(polynomial), *covariance_and_weights(2, 2, seed))
    assert count == 1


def test_moments_can_be_batched():
    first, second = covariance_and_weights(4, 2, 1), covariance_and_weights(4, 2, 2)
    C, s = (np.stack(pair) for pair in zip(first, second, strict=True))
    # A linear unit is a polynomial, like the cubic one.
    for activation in (Erf(), Relu(), CUBIC):
        with float64():
            batch = jax.jit(jax.vmap(lambda C, s, g=activation: error_moments(g, g, C, s, 4)))(C, s)
        one = moments(activation, activation, *second, 4)
        np.testing.assert_allclose(batch.square[1], one.square, atol=1e-13)


def test_which_pairs_are_closed():
    assert all(closed_form(g, g) for g in CLOSED)
    assert closed_form(Linear(), CUBIC)
    assert not closed_form(Erf(), Relu())
    assert not closed_form(Erf(), Linear())
    assert not closed_form(Named("tanh"), Named("tanh"))
    assert not closed_form(Polynomial(np.ones(10)), Linear())


@pytest.mark.parametrize("student", [Named("tanh"), Formula("z**2"), Polynomial(np.ones(10))])
def test_pairs_without_closed_form_ask_for_a_rule(student):
    C, s = covariance_and_weights(1, 1)
    with float64(), pytest.raises(ProblemError, match="gaussian_rule"):
        error_moments(student, Linear(), C, s, 1)


def test_a_standard_error_needs_two_replicates():
    C, s = covariance_and_weights(1, 1)
    with float64(), pytest.raises(ProblemError, match="at least 2"):
        replicates(Erf(), Erf(), C, s, 1, gaussian_rule(2, 64, 1, seed=0))
