"""Double precision inside the library, without touching the caller's JAX settings."""

import jax


def float64():
    """A context in which JAX makes 64-bit arrays: `with float64(): ...`."""
    return jax.enable_x64(True)
