"""Settings shared by all tests: repeatable examples, no display, no leaked precision."""

import contextlib
import gc
import os
import signal
from pathlib import Path

from learndyn import xla_flags

os.environ["MPLBACKEND"] = "Agg"
# Tests compile much and compute little.
os.environ.setdefault(
    xla_flags.VARIABLE, xla_flags.as_text(xla_flags.QUICK_TO_COMPILE | xla_flags.ONE_CORE)
)
# Each worker has one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compilation is most of the time of a first run; workers and later runs share it.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
# Where in the source an operation stands is looked up for each of them, a tenth of compiling, and never read.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

import jax
import psutil
import pytest
from hypothesis import settings

# In the background of a shell it would be ignored, and tests that send it would wait for minutes.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


LINES = (Path(__file__).parent / "slow_cases.txt").read_text(encoding="utf-8").splitlines()
SLOW_CASES = {line for line in LINES if not line.startswith("#")}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases of slow_cases.txt as slow; refuse one that does not exist."""
    for item in items:
        if item.nodeid in SLOW_CASES:
            item.add_marker(pytest.mark.slow)
    if any("::" in argument for argument in config.args):
        return
    names = {item.nodeid for item in items}
    files = {name.partition("::")[0] for name in names}
    lost = {case for case in SLOW_CASES - names if case.partition("::")[0] in files}
    if lost:
        raise pytest.UsageError(f"slow_cases.txt has cases that do not exist: {sorted(lost)}")


def pytest_collection_finish():
    """Look for cycles of objects less often: tracing makes so many objects that it takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


GROWN = 2**30
"""Bytes by which a worker may grow until it forgets what it compiled."""


@pytest.fixture(scope="session")
def memory_after_forgetting() -> dict[str, int]:
    """The bytes of this worker at the start, and after it forgot what it compiled."""
    return {"bytes": psutil.Process().memory_info().rss}


@pytest.fixture(autouse=True, scope="module")
def what_was_compiled_is_forgotten_if_it_is_much(memory_after_forgetting: dict[str, int]):
    """JAX never forgets what it compiled; of that, files share little. Longer compilations are in the cache."""
    yield
    if psutil.Process().memory_info().rss > memory_after_forgetting["bytes"] + GROWN:
        jax.clear_caches()
        gc.collect()
        memory_after_forgetting["bytes"] = psutil.Process().memory_info().rss


@pytest.fixture(autouse=True, scope="module")
def optimisation(request: pytest.FixtureRequest):
    """Files marked `compiles` do without most of XLA's optimisation; where networks are trained it pays."""
    compiles = request.node.get_closest_marker("compiles") is not None
    jax.config.update("jax_disable_most_optimizations", compiles)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


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
