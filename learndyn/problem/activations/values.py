"""An activation with its derivatives at many points, compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp


@eqx.filter_jit
def with_slope(activation, h):
    """φ and φ' at h."""
    return activation(h), activation.derivative(h)


@eqx.filter_jit
def with_curvature(activation, h):
    """φ, φ' and φ'' at h."""
    slope, curvature = jax.jvp(activation.derivative, (h,), (jnp.ones_like(h),))
    return activation(h), slope, curvature
