"""Every closed form against quadrature, at random covariances, degenerate ones included.

The references share nothing with the library: they integrate over the fields themselves, and each
is computed at two resolutions that must agree.
"""

import functools
import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf, ndtr

from learndyn.numerics.gaussian import I2, I3, I4, J2
from learndyn.numerics.precision import float64
from learndyn.problem.activations import Erf, Linear, Polynomial, Relu

pytestmark = pytest.mark.compiles

CUBIC = Polynomial([0.3, -0.5, 0.7, 0.2])
QUARTIC = Polynomial([0.1, 1.0, -0.4, 0.3, 0.2])


@functools.cache
def compiled(function, fields):
    return jax.jit(lambda activation, C: function(activation, C, *range(fields)))


def ours(function, activation, C, *indices):
    """The library's value. A field that is met twice counts as two that are equal: one compilation serves all."""
    with float64():
        return float(compiled(function, len(indices))(activation, C[np.ix_(indices, indices)]))


def agree(value, coarse, fine, scale=1.0):
    """The reference has converged, and the closed form equals it, to 1e-10 of the scale."""
    assert abs(coarse - fine) <= 2e-11 * scale, "the reference has not converged"
    assert abs(value - fine) <= 1e-10 * scale


@st.composite
def factors(draw, fields=4, rank=None):
    """Rows whose Gram matrix is the covariance: any rank, with equal, opposite and zero rows.

    Entries are multiples of 1/4, so that fields are exactly collinear or clearly not.
    """
    rank = draw(st.integers(1, 3)) if rank is None else rank
    entry = st.integers(-4, 4).map(lambda k: k / 4)
    rows = draw(
        st.lists(st.lists(entry, min_size=rank, max_size=rank), min_size=fields, max_size=fields)
    )
    A = np.array(rows)
    kind = draw(st.sampled_from(["any", "equal", "opposite", "zero"]))
    if kind == "equal":
        A[1] = 1.5 * A[2]
    elif kind == "opposite":
        A[0] = -A[3]
    elif kind == "zero":
        A[draw(st.integers(0, fields - 1))] = 0.0
    return A


indices = st.lists(st.integers(0, 3), min_size=4, max_size=4).map(tuple)


# Reference for functions of the fields that are smooth: normal coordinates of the distinct fields,
# from the eigenvectors of their covariance, with a product rule.


def normal_coordinates(A, nodes, weights):
    """Fields at the points of a product rule over the directions in which they vary."""
    values, vectors = np.linalg.eigh(A @ A.T)
    keep = values > 1e-12 * max(values[-1], 1e-300)
    L = vectors[:, keep] * np.sqrt(values[keep])
    grids = np.meshgrid(*[nodes] * L.shape[1], indexing="ij")
    z = np.stack([g.ravel() for g in grids]) if grids else np.zeros((0, 1))
    w = functools.reduce(np.multiply.outer, [weights] * L.shape[1], np.array(1.0)).ravel()
    return L @ z, w


def trapezoid(count, end=8.5):
    z = np.linspace(-end, end, count)
    w = np.exp(-0.5 * z * z)
    return z, w / w.sum()


def hermite(count):
    z, w = np.polynomial.hermite_e.hermegauss(count)
    return z, w / w.sum()


def smooth_reference(kernel, A, resolution, rule):
    u, w = normal_coordinates(A, *rule(resolution))
    return w @ kernel(*u)


def erf_value(z):
    return erf(z / np.sqrt(2))


def erf_slope(z):
    return np.sqrt(2 / np.pi) * np.exp(-0.5 * z * z)


@given(factors(), indices)
@settings(max_examples=25)
def test_erf_averages_equal_quadrature(A, index):
    a, b, c, d = index
    C = A @ A.T
    kernels = {
        (I2, a, b): lambda u: erf_value(u[a]) * erf_value(u[b]),
        (J2, a, b): lambda u: erf_slope(u[a]) * erf_slope(u[b]),
        (I3, a, b, c): lambda u: erf_slope(u[a]) * u[b] * erf_value(u[c]),
        (I4, a, b, c, d): lambda u: (
            erf_slope(u[a]) * erf_slope(u[b]) * erf_value(u[c]) * erf_value(u[d])
        ),
    }
    for (function, *at), kernel in kernels.items():
        # Three dimensions at most. The integrand grows along the imaginary axis as exp(λy²/2), with
        # λ < 13 the sum of the variances; the step h = 0.22 then leaves exp(−2π²/(13h²)) = 2e-14.
        coarse, fine = (
            smooth_reference(lambda *u, f=kernel: f(u), A, count, trapezoid) for count in (68, 77)
        )
        agree(ours(function, Erf(), C, *at), coarse, fine, scale=1 + abs(C).max())


@given(factors(rank=4))
@settings(max_examples=15)
def test_erf_fourth_average_equals_quadrature_in_four_dimensions(A):
    # The last field is averaged analytically given the other three:
    # ⟨erf((m + τz)/√2)⟩ = erf(m/√(2(1 + τ²))).
    C = A @ A.T
    solve = np.linalg.pinv(A[:3] @ A[:3].T) @ C[:3, 3]
    rest = max(C[3, 3] - C[3, :3] @ solve, 0.0)

    def kernel(u, v, w):
        mean = solve[0] * u + solve[1] * v + solve[2] * w
        return erf_slope(u) * erf_slope(v) * erf_value(w) * erf_value(mean / np.sqrt(1 + rest))

    coarse, fine = (smooth_reference(kernel, A[:3], count, trapezoid) for count in (68, 77))
    agree(ours(I4, Erf(), C, 0, 1, 2, 3), coarse, fine)


@given(factors(rank=4), indices, st.sampled_from([Linear(), CUBIC, QUARTIC]))
@settings(max_examples=20)
def test_polynomial_averages_equal_quadrature(A, index, activation):
    a, b, c, d = index
    C = A @ A.T
    p = np.polynomial.Polynomial(activation.coefficients)
    q = p.deriv()
    kernels = {
        (I2, a, b): lambda u: p(u[a]) * p(u[b]),
        (J2, a, b): lambda u: q(u[a]) * q(u[b]),
        (I3, a, b, c): lambda u: q(u[a]) * u[b] * p(u[c]),
        (I4, a, b, c, d): lambda u: q(u[a]) * q(u[b]) * p(u[c]) * p(u[d]),
    }
    for (function, *at), kernel in kernels.items():
        # Total degree 14 at most: 8 nodes are exact, what remains is rounding of the terms.
        coarse, fine = (
            smooth_reference(lambda *u, f=kernel: f(u), A, count, hermite) for count in (8, 10)
        )
        size = smooth_reference(lambda *u, f=kernel: np.abs(f(u)), A, 10, hermite)
        agree(ours(function, activation, C, *at), coarse, fine, scale=1 + size)


# Reference for relu in up to three dimensions: great circles through a pole. The integrand is
# homogeneous, so that the average is one over directions; on each circle, and from circle to
# circle, it is smooth between the points where a field, or two fields, vanish.


def legendre(points, low, high):
    x, w = np.polynomial.legendre.leggauss(points)
    half = (np.asarray(high) - np.asarray(low))[..., None] / 2
    return np.asarray(low)[..., None] + half * (x + 1), half * w


def relu_reference(kernel, degree, A, points):
    """⟨kernel(u)⟩, u = A z, for a kernel that is homogeneous of this degree and piecewise smooth."""
    # A rotation in general position, so that no field vanishes along a whole circle.
    rotation, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))
    B = np.pad(A, ((0, 0), (0, 3 - A.shape[1]))) @ rotation
    rows = B[np.abs(B).sum(axis=1) > 0]
    breaks = [0.0, 2 * np.pi]
    for f, g in itertools.combinations(rows, 2):
        x, y, _ = np.cross(f, g)
        if np.hypot(x, y) > 1e-9:
            breaks += [np.arctan2(y, x) % (2 * np.pi), np.arctan2(-y, -x) % (2 * np.pi)]
    # Where the line of zeros of one field is steepest, the distance between breaks varies fast.
    breaks += [
        t % (2 * np.pi) for f in rows for t in (np.arctan2(f[1], f[0]) + np.pi / 2 * np.arange(4))
    ]
    breaks = np.unique(breaks)
    theta, outer = (x.ravel() for x in legendre(points, breaks[:-1], breaks[1:]))
    cosine, sine = np.cos(theta), np.sin(theta)
    zeros = np.sort(
        [-np.pi / 2 + 0 * theta, np.pi / 2 + 0 * theta]
        + [np.arctan(-(f[0] * cosine + f[1] * sine) / f[2]) for f in rows],
        axis=0,
    )
    psi, inner = legendre(points, zeros[:-1], zeros[1:])
    z = np.stack([np.cos(psi) * cosine[:, None], np.cos(psi) * sine[:, None], np.sin(psi)])
    values = kernel(np.tensordot(B, z, axes=1)) * np.cos(psi)
    total = np.sum(outer * np.sum(values * inner, axis=(0, 2))) / (4 * np.pi)
    return total * {0: 1.0, 2: 3.0}[degree]


def step(u):
    return (u > 0).astype(float)


def positive(u):
    return np.maximum(u, 0.0)


@given(factors(), indices)
@settings(max_examples=40)
def test_relu_averages_equal_quadrature(A, index):
    a, b, c, d = index
    C = A @ A.T
    kernels = {
        (I2, a, b): (2, lambda u: positive(u[a]) * positive(u[b])),
        (J2, a, b): (0, lambda u: step(u[a]) * step(u[b])),
        (I3, a, b, c): (2, lambda u: step(u[a]) * u[b] * positive(u[c])),
        (I4, a, b, c, d): (2, lambda u: step(u[a]) * step(u[b]) * positive(u[c]) * positive(u[d])),
    }
    for (function, *at), (degree, kernel) in kernels.items():
        coarse, fine = (relu_reference(kernel, degree, A, points) for points in (16, 20))
        agree(ours(function, Relu(), C, *at), coarse, fine, scale=1 + abs(C).max())


@pytest.mark.slow
@given(factors(rank=4))
@settings(max_examples=15)
def test_relu_fourth_average_equals_quadrature_in_four_dimensions(A):
    # Three positive fields as coordinates, and the fourth averaged analytically given them.
    A = A + 1.5 * np.eye(4)
    C = A @ A.T
    if np.linalg.eigvalsh(C)[0] < 0.05:
        return
    inverse = np.linalg.inv(C[:3, :3])
    slope, tau = C[3, :3] @ inverse, np.sqrt(C[3, 3] - C[3, :3] @ inverse @ C[:3, 3])
    norm = np.sqrt(np.linalg.det(inverse) / (2 * np.pi) ** 3)

    def reference(points):
        axes, weights = zip(
            *(legendre(points, 0.0, 9 * np.sqrt(C[i, i])) for i in range(3)), strict=True
        )
        u = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(3, -1)
        w = functools.reduce(np.multiply.outer, weights).ravel()
        density = norm * np.exp(-0.5 * np.einsum("ix,ij,jx->x", u, inverse, u))
        m = slope @ u
        last = tau * np.exp(-0.5 * (m / tau) ** 2) / np.sqrt(2 * np.pi) + m * ndtr(m / tau)
        return np.sum(w * density * u[2] * last)

    agree(ours(I4, Relu(), C, 0, 1, 2, 3), reference(70), reference(90), scale=1 + abs(C).max())


def four_relus(u):
    return step(u[0]) * step(u[1]) * positive(u[2]) * positive(u[3])


@given(factors())
@settings(max_examples=40)
def test_relu_fourth_average_of_linearly_dependent_fields_equals_quadrature(A):
    coarse, fine = (relu_reference(four_relus, 2, A, points) for points in (16, 20))
    agree(ours(I4, Relu(), A @ A.T, 0, 1, 2, 3), coarse, fine, scale=1 + abs(A @ A.T).max())


@pytest.mark.parametrize(
    "gap",
    [
        *(1e-2, 1e-6, 3e-8, 1e-12),
        *(pytest.param(gap, marks=pytest.mark.slow) for gap in (1e-4, 1e-7, 1e-8)),
    ],
)
def test_nearly_dependent_relu_fields_lose_no_more_than_rounding_of_the_covariance(gap):
    rng = np.random.default_rng(3)
    for _ in range(6):
        plane = np.pad(rng.standard_normal((4, 2)), ((0, 0), (0, 1)))
        near = gap * rng.standard_normal((4, 3))
        # Rounding of C moves nearly coplanar fields by √eps = 1.5e-8, to which their average is
        # insensitive; what is left are the 48 nodes. The angle of collinear fields enters directly.
        triple = np.outer([1.0, -1.0, 1.0, 0.0], rng.standard_normal(3))
        triple[3] = rng.standard_normal(3)
        two = plane.copy()
        two[1], two[3] = -two[0], two[2]
        for A, tolerance in ((plane + near, 3e-10), (triple + near, 5e-8), (two + near, 5e-8)):
            value = ours(I4, Relu(), A @ A.T, 0, 1, 2, 3)
            scale = 1 + abs(A @ A.T).max()
            assert abs(value - relu_reference(four_relus, 2, A, 32)) < tolerance * scale


@pytest.mark.parametrize("activation", [Erf(), Relu(), CUBIC])
def test_averages_do_not_depend_on_the_order_of_their_factors(activation):
    C = np.cov(np.random.default_rng(2).standard_normal((4, 9)))
    value = ours(I4, activation, C, 0, 1, 2, 3)
    for index in [(1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)]:
        # Rounding; for relu also the 48-node rule, whose nodes see another order.
        assert abs(ours(I4, activation, C, *index) - value) < 1e-12


@pytest.mark.parametrize(
    "activation",
    # Polynomials are averaged by one formula, whichever fields are equal.
    [Erf(), Relu(), pytest.param(CUBIC, marks=pytest.mark.slow)],
)
def test_a_field_that_is_met_twice_is_two_that_are_equal(activation):
    """Relu averages of fewer distinct fields have formulas of their own."""
    C = np.cov(np.random.default_rng(4).standard_normal((4, 9)))
    indices = [(0, 0, 0, 0), (1, 1, 0, 0), (0, 1, 0, 1), (0, 1, 1, 1), (2, 2, 0, 1), (0, 1, 3, 3)]
    indices += [(0, 1, 1, 2), (3, 0, 2, 3)]
    with float64():
        once = jax.jit(lambda g, C: [I4(g, C, *index) for index in indices])(activation, C)
        once = jax.device_get(once)
    for value, index in zip(once, indices, strict=True):
        # Rounding; for relu also the 48-node rule of four fields.
        assert abs(value - ours(I4, activation, C, *index)) < 1e-12


def test_known_values():
    C = np.array([[1.0, 0.5], [0.5, 1.0]])
    # With erf(z) for g(z) instead of erf(z/√2) it would be 0.2163.
    assert abs(ours(I2, Erf(), C, 0, 1) - 2 / np.pi * np.arcsin(0.25)) < 1e-15
    assert abs(ours(I4, Relu(), C, 0, 0, 0, 0) - 0.5) < 1e-15
    assert abs(ours(I4, Linear(), C, 0, 1, 0, 1) - 0.5) < 1e-15
