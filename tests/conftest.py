"""Settings shared by all tests: repeatable examples, no display, no leaked precision."""

import contextlib
import importlib.util
import mmap
import os
from pathlib import Path


def known_to_xla(flag: str) -> bool:
    """Whether the installed XLA has a flag; one that it does not have would end the process."""
    package = importlib.util.find_spec("jaxlib")
    assert package is not None
    assert package.origin is not None
    for library in Path(package.origin).parent.glob("libjax_common*"):
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(flag.encode()) >= 0
    return False


os.environ["MPLBACKEND"] = "Agg"
# Tests compile much and compute little: without these, compiling takes twice as long. Each worker has one core.
QUICK_TO_COMPILE = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_multi_thread_eigen": "false",
}
os.environ.setdefault(
    "XLA_FLAGS",
    " ".join(f"--{flag}={value}" for flag, value in QUICK_TO_COMPILE.items() if known_to_xla(flag)),
)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compilation is most of the time of a first run; workers and later runs share it.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import jax
import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def x64_flag_is_left_alone():
    """Fails a test after which JAX's x64 flag differs from before, and restores the flag."""
    before = jax.config.read("jax_enable_x64")
    yield
    after = jax.config.read("jax_enable_x64")
    if after != before:
        jax.config.update("jax_enable_x64", before)
        pytest.fail(f"the test left jax_enable_x64 at {after}; it was {before}")


@pytest.fixture
def stand_in():
    """Put a fake in the place of theories until the test ends: stand_in("two_layer/stream", way="alone").

    Without names it is in the place of all of them.
    """
    # Not at the top: the types of what is imported before the tests begin would not be checked.
    from learndyn.core.theory import registered, theories
    from tests.fakes import Fake

    with contextlib.ExitStack() as stack:

        def put(*names: str, **switches) -> Fake:
            known = {theory.name: theory for theory in theories()}
            fake = Fake(**switches)
            some = [fake.in_place_of(known[name]) for name in names or known]
            stack.enter_context(registered(*some))
            return fake

        yield put
