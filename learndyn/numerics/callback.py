"""Compiled code outside JAX, called from JAX functions."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def float64_callback(
    function: Callable[..., tuple], shapes: Sequence[tuple[int, ...]], *arguments: Array
) -> tuple[Float[Array, "..."], ...]:
    """`function` of float64 arrays, with float64 results of the given shapes (a tuple of arrays), as a JAX operation.

    JAX may call back from a thread without 64-bit numbers, which would round them to 32 bits. So they are passed as
    pairs of 32-bit words.
    """

    def on_words(*words: Array) -> tuple[np.ndarray, ...]:
        results = function(*(_numbers(np.asarray(word)) for word in words))
        return tuple(_words(np.asarray(result, dtype=np.float64)) for result in results)

    out = tuple(jax.ShapeDtypeStruct((*shape, 2), jnp.uint32) for shape in shapes)
    words = [jax.lax.bitcast_convert_type(jnp.asarray(x), jnp.uint32) for x in arguments]
    results = jax.pure_callback(on_words, out, *words, vmap_method="sequential")
    return tuple(jax.lax.bitcast_convert_type(word, jnp.float64) for word in results)


def _numbers(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float64)[..., 0]


def _words(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers)[..., None].view(np.uint32)
