"""An activation with its derivatives at many points, compiled."""

import functools
from collections.abc import Callable, Hashable

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


def curvature_function(
    activation: Activation,
) -> Callable[[Float[np.ndarray, "..."]], list[np.ndarray]]:
    """`with_curvature` of one activation, for many calls: each takes a quarter of the time on a thousand points."""
    numbers, rest = eqx.partition(activation, lambda x: isinstance(x, (jax.Array, np.ndarray)))
    leaves, structure = jax.tree.flatten(rest)
    return lambda h: [np.asarray(x) for x in _of_parts((structure, *leaves), numbers, h)]


@functools.partial(jax.jit, static_argnums=0)
def _of_parts(
    rest: tuple[Hashable, ...], numbers: Activation, h: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    structure, *leaves = rest
    activation = eqx.combine(numbers, jax.tree.unflatten(structure, leaves))
    slope, curvature = jax.jvp(activation.derivative, (h,), (jnp.ones_like(h),))
    return activation(h), slope, curvature
