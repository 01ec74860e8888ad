"""The vectorised inverse sines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.numerics.arcsin import angle, arcsin, root, safe_inverse_root
from learndyn.numerics.precision import float64

EVERYWHERE = np.concatenate(
    [
        np.linspace(-1, 1, 20001),
        0.5 + np.linspace(-1e-4, 1e-4, 2001),
        1 - np.geomspace(1e-16, 0.1, 500),
        np.geomspace(1e-300, 0.1, 500),
    ]
)


def test_arcsin_is_within_two_units_in_the_last_place():
    with float64():
        ours = np.asarray(jax.jit(arcsin)(EVERYWHERE))
    exact = np.arcsin(EVERYWHERE)
    # 2 units for arcsin plus half a unit for the reference.
    assert np.all(np.abs(ours - exact) <= 2.5 * np.spacing(np.abs(exact)))


def test_arguments_beyond_one_count_as_one():
    with float64():
        assert np.asarray(arcsin(jnp.array([1.0 + 1e-12, -3.0]))).tolist() == [
            np.pi / 2,
            -np.pi / 2,
        ]


def test_angle_keeps_its_accuracy_near_a_right_angle():
    w = np.geomspace(1e-30, 1e3, 400)
    x = np.where(np.arange(400) % 2, 1.0, -0.7)
    with float64():
        ours = np.asarray(jax.jit(angle)(x, w))
        small = np.asarray(angle(jnp.asarray(1e-9 * x), jnp.asarray(w)))
    # The distance from ±π/2 is what a plain arcsine would lose below 1e-8. Three roundings of the
    # argument and two units of the arcsine: 1e-15.
    assert np.max(np.abs(ours - np.arctan2(x, np.sqrt(w)))) < 1e-15
    np.testing.assert_allclose(small, np.arctan2(1e-9 * x, np.sqrt(w)), rtol=2e-15)


def test_angle_of_nothing_is_nothing():
    with float64():
        assert float(angle(jnp.array(0.0), jnp.array(0.0))) == 0.0


def test_derivatives_are_those_of_the_inverse_sine():
    x = np.linspace(-0.99, 0.99, 41)
    with float64():
        slope = jax.vmap(jax.grad(arcsin))(jnp.asarray(x))
        curvature = jax.vmap(jax.grad(jax.grad(arcsin)))(jnp.asarray(x))
        of_x, of_w = jax.vmap(jax.grad(angle, argnums=(0, 1)))(
            jnp.asarray(x), jnp.asarray(x**2 + 0.1)
        )
    w = x**2 + 0.1
    # Rounding only: a few operations, amplified by 1/(1−x²) < 51.
    np.testing.assert_allclose(slope, 1 / np.sqrt(1 - x**2), rtol=1e-13)
    np.testing.assert_allclose(curvature, x / (1 - x**2) ** 1.5, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(of_x, np.sqrt(w) / (x**2 + w), rtol=1e-13)
    np.testing.assert_allclose(of_w, -x / (2 * np.sqrt(w) * (x**2 + w)), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (arcsin, 1.0),
        (arcsin, -1.0),
        (lambda x: angle(x, x - 1), 1.0),
        (lambda x: angle(0 * x, 0 * x), 0.0),
        (root, 0.0),
        (safe_inverse_root, 0.0),
    ],
)
def test_gradients_are_finite_at_the_ends(function, point):
    with float64():
        assert np.isfinite(jax.grad(function)(jnp.array(point)))
        assert np.isfinite(jax.grad(jax.grad(function))(jnp.array(point)))
