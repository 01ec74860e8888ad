"""The time of compilation, apart from that of computing."""

import threading
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import learndyn as ld
from learndyn.core.compilation import CompileClock, compile_clock
from learndyn.core.theory import registered, theory_for
from tests import problems
from tests.fakes import Fake


def test_overlapping_and_nested_spans_count_once_and_only_while_the_clock_is_open():
    clock = CompileClock()
    now = time.time()
    clock.add(now + 1, now + 2)
    clock.add(now + 1.2, now + 1.4)
    clock.add(now + 1.5, now + 3)
    clock.add(now + 5, now + 5.5)
    clock.add(now - 7, now - 6)
    assert clock.seconds == pytest.approx(2.5)
    clock.close()
    assert clock.seconds == 0


def test_the_first_call_of_a_jax_function_compiles_and_the_second_does_not():
    @jax.jit
    def function(x):
        for _ in range(100):
            x = jnp.sin(x) @ x
        return x

    matrix = jnp.eye(3)
    start = time.perf_counter()
    with compile_clock() as first:
        function(matrix).block_until_ready()
    assert 0 < first.seconds <= time.perf_counter() - start
    with compile_clock() as second:
        function(matrix).block_until_ready()
    assert second.seconds == 0


def test_the_first_call_of_a_numba_function_compiles_in_whichever_thread_it_is():
    @numba.njit
    def inner(x):
        return x**2

    @numba.njit
    def outer(x):
        return inner(x) + 1

    start = time.perf_counter()
    with compile_clock() as first:
        thread = threading.Thread(target=outer, args=(2.0,))
        thread.start()
        thread.join()
    assert 0 < first.seconds <= time.perf_counter() - start
    with compile_clock() as second:
        outer(2.0)
    assert second.seconds == 0


def test_a_numba_function_that_cannot_be_compiled_does_not_confuse_the_clock():
    @numba.njit
    def wrong(x):
        return x.nothing

    with compile_clock() as clock, pytest.raises(numba.TypingError):
        wrong(1.0)
    assert clock.seconds > 0


def test_compiling_is_part_of_the_wall_time_of_a_solution():
    """A theory that is nothing but a compiled formula."""

    @jax.jit
    def formula(times):
        for _ in range(100):
            times = jnp.sin(times)
        return times

    def curve(problem, times):
        return {"test_loss": np.asarray(formula(times)) + 2}

    problem, times = problems.two_layer(time=1.0), np.linspace(0, 1, 7)
    theory = Fake(curve).in_place_of(theory_for(problem))
    with registered(theory, alone=True):
        first = ld.solve(problem, save_at=times).evidence
        second = ld.solve(problem, save_at=times).evidence
    assert 0.3 * first["wall_time"] < first["compile_time"] <= first["wall_time"]
    assert second["compile_time"] == 0


@pytest.mark.slow
def test_solving_a_new_shape_is_mostly_compiling_and_solving_it_again_is_not():
    problem, times = problems.two_layer(units=4, time=1.0), np.linspace(0, 1, 7)
    jax.clear_caches()
    first = ld.solve(problem, save_at=times).evidence
    second = ld.solve(problem, save_at=times).evidence
    assert 0.8 * first["wall_time"] < first["compile_time"] <= first["wall_time"]
    assert second["compile_time"] < 0.01 * first["compile_time"]


def test_training_records_its_compile_time():
    problem = problems.two_layer(time=1.0)
    first = ld.simulate(problem, 20, 2).evidence
    second = ld.simulate(problem, 20, 2).evidence
    assert 0 <= first["compile_time"] <= first["wall_time"]
    assert second["compile_time"] == 0
