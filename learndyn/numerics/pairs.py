"""Loops over pairs and sets of fields."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def pairs(K: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs i ≤ k below K, as two index arrays."""
    return np.triu_indices(K)


def symmetric(values: Float[Array, " p"], K: int) -> Float[Array, "K K"]:
    """The symmetric matrix whose entries at `pairs(K)` are `values`."""
    where = np.zeros((K, K), dtype=int)
    where[pairs(K)] = np.arange(len(values))
    return values[np.maximum(where, where.T)]


def chunked(
    function: Callable[..., Array], indices: tuple[np.ndarray, ...], chunk: int
) -> Float[Array, "*axes P"]:
    """`function(*indices)` for arrays of P indices, at most `chunk` at a time, so that memory stays bounded.

    `function` returns an array whose last axis has one entry per index.
    """
    P = len(indices[0])
    if chunk >= P:
        return function(*indices)
    count = -(-P // chunk)
    chunk = -(-P // count)
    padded = [np.concatenate([x, np.zeros(count * chunk - P, x.dtype)]) for x in indices]
    blocks = tuple(jnp.asarray(x.reshape(count, chunk)) for x in padded)
    values = jnp.moveaxis(jax.lax.map(lambda block: function(*block), blocks), 0, -2)
    return values.reshape(*values.shape[:-2], count * chunk)[..., :P]
