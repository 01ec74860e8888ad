"""An activation with its derivatives at many points, compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.problem.activations.base import Activation


@eqx.filter_jit
def with_slope(
    activation: Activation, h: Float[np.ndarray | Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """φ and φ' at h."""
    h = jnp.asarray(h)
    return activation(h), activation.derivative(h)


@eqx.filter_jit
def with_curvature(
    activation: Activation, h: Float[np.ndarray | Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """φ, φ' and φ'' at h."""
    h = jnp.asarray(h)
    slope, curvature = jax.jvp(activation.derivative, (h,), (jnp.ones_like(h),))
    return activation(h), slope, curvature
