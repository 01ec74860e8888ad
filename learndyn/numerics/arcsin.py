"""Inverse sines that vectorise: ten times faster on a CPU than `jnp.arcsin`, and with finite gradients.

Both functions reduce to asin(√z) = √z + z√z p(z) on 0 ≤ z ≤ ¼, through asin x = π/2 − 2 asin √((1−x)/2) where x > ½.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

# The minimax polynomial (relative error 4e-18) of (asin(√z)/√z − 1)/z on [0, ¼], constant term first.
COEFFICIENTS = (
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)


def _assemble(
    root: Float[Array, "..."], z: Float[Array, "..."], large: Bool[Array, "..."]
) -> Float[Array, "..."]:
    """asin(root), or π/2 − 2 asin(root) where `large`, for root = √z."""
    p = COEFFICIENTS[-1]
    for c in COEFFICIENTS[-2::-1]:
        p = p * z + c
    tail = root * (z * p)
    return jnp.where(large, (np.pi / 2 - 2 * root) - 2 * tail, root + tail)


@jax.custom_jvp
def arcsin(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """asin x to 2 units in the last place; arguments beyond ±1 count as ±1. The slope at ±1 is given as 0."""
    a = jnp.minimum(jnp.abs(x), 1.0)
    large = a > 0.5
    z = jnp.where(large, 0.5 - 0.5 * a, a * a)
    return jnp.copysign(_assemble(jnp.where(large, jnp.sqrt(z), a), z, large), x)


@arcsin.defjvp
def _arcsin_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return arcsin(x), dx * safe_inverse_root((1 - x) * (1 + x))


@jax.custom_jvp
def angle(x: Float[Array, "..."], w: Float[Array, "..."]) -> Float[Array, "..."]:
    """atan2(x, √w) = asin(x/√(x² + w)) for w ≥ 0, without loss where the sine is near ±1. angle(0, 0) = 0.

    The slope at w = 0 is given as 0.
    """
    a = jnp.abs(x)
    square = a * a
    total = square + w
    large = 4 * square > total
    top = jnp.where(large, 0.5 * w, square)
    bottom = total + jnp.where(large, a * jnp.sqrt(total), 0.0)
    # The bound matters where x is rounding noise that the compiler evaluates twice, and differently.
    z = jnp.minimum(top / jnp.where(bottom > 0, bottom, 1.0), 0.25)
    return jnp.copysign(_assemble(jnp.sqrt(z), z, large), x)


@angle.defjvp
def _angle_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x, w), (dx, dw) = primals, tangents
    safe = jnp.where(w > 0, w, 1.0)
    root = jnp.sqrt(safe)
    slope = jnp.where(w > 0, (root * dx - 0.5 * x * dw / root) / (x * x + safe), 0.0)
    return angle(x, w), slope


def root(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """√x, and 0 with slope 0 where x ≤ 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def inverse_root(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1/√x for x > 0. Written so that it vectorises: a quotient by a square root becomes `rsqrt`, which does not."""
    return jnp.sqrt(1 / x)


def safe_inverse_root(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1/√x, and 0 with slope 0 where x ≤ 0."""
    return jnp.where(x > 0, inverse_root(jnp.where(x > 0, x, 1.0)), 0.0)
