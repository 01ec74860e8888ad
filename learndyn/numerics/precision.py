"""Double precision inside the library, without touching the caller's JAX settings."""

import importlib
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def float64() -> AbstractContextManager[object]:
    """A context in which JAX makes 64-bit arrays: `with ld.float64(): ...`. The global setting is left alone."""
    # Releases before JAX 0.8 have the switch in another place.
    place = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return place.enable_x64(True)


def leaves_as_arrays(tree: Any) -> Any:
    """The same tree with every float and array leaf as a float64 JAX array, so that no number is compiled in."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, float | np.ndarray | jax.Array):
            return jnp.asarray(leaf, dtype=jnp.float64)
        return leaf

    return jax.tree.map(convert, tree)
