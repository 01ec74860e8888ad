"""Settings shared by all tests: repeatable examples, no display, no leaked precision."""

import os

os.environ["MPLBACKEND"] = "Agg"

import jax
import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def x64_flag_is_left_alone():
    """Fails a test after which JAX's x64 flag differs from before, and restores the flag."""
    before = jax.config.jax_enable_x64
    yield
    after = jax.config.jax_enable_x64
    if after != before:
        jax.config.update("jax_enable_x64", before)
        pytest.fail(f"the test left jax_enable_x64 at {after}; it was {before}")
