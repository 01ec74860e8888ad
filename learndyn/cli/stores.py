"""How the command compiles with JAX, and where it stores that. The library itself leaves JAX's settings alone."""

import os
import sys
from pathlib import Path

from learndyn import xla_flags

FOLDER = "LEARNDYN_CACHE_DIR"
"""The environment variable that names another folder."""
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
JAX_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
JAX_LOCATIONS = "JAX_TRACEBACK_IN_LOCATIONS_LIMIT"
"""How many lines of the source JAX notes for every operation it compiles; noting none takes a tenth off compiling."""
EQUINOX_ERRORS = "EQX_ON_ERROR"
"""What a failed check of Equinox or diffrax does in compiled code. JAX stores no function that calls back to Python,
as an exception must; "nan" puts NaN into the result instead."""


def folder() -> Path:
    """The folder for what is compiled: `LEARNDYN_CACHE_DIR`, or learndyn's place among the user's caches."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "learndyn" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "learndyn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "learndyn"


def compile_quickly() -> None:
    """Let this process, and those that it starts, compile quickly, unless the user has set flags."""
    if xla_flags.VARIABLE not in os.environ:
        os.environ[xla_flags.VARIABLE] = xla_flags.as_text(xla_flags.QUICK_TO_COMPILE)
    os.environ.setdefault(JAX_LOCATIONS, "0")


def store_compiled() -> None:
    """Let JAX store all that this process compiles, unless the user has told it where to store things.

    Processes that this one starts do the same, through the environment.
    """
    if JAX_FOLDER in os.environ:
        return
    settings = {JAX_FOLDER: str(folder() / "jax"), JAX_LEAST_SECONDS: "0"}
    os.environ.update(settings)
    # The only such checks are those of diffrax on times, which learndyn has checked before.
    os.environ.setdefault(EQUINOX_ERRORS, "nan")
    if "jax" in sys.modules:
        # It has read the environment already.
        import jax

        jax.config.update("jax_compilation_cache_dir", settings[JAX_FOLDER])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
