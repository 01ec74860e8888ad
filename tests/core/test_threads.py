"""One pool of threads: results as they come, progress of all, exceptions and Ctrl-C that end everything."""

import os
import signal
import threading
import time

import jax.numpy as jnp
import pytest
import threadpoolctl

from learndyn.core.threads import in_threads, workers


def nothing(fraction: float) -> None:
    pass


def test_every_item_has_its_outcome():
    found = dict(in_threads(lambda item, report: item**2, range(20)))
    assert found == {item: item**2 for item in range(20)}
    assert list(in_threads(lambda item, report: item, [])) == []


def test_no_more_run_at_a_time_than_are_asked_for():
    running, most, lock = 0, 0, threading.Lock()

    def work(item, report):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    list(in_threads(work, range(12), at_once=3))
    assert most == 3
    assert workers(1) == 1
    assert workers(10**6) == os.cpu_count()


def test_progress_is_that_of_all_items():
    seen = []

    def work(item, report):
        for fraction in (0.5, 1.0):
            report(fraction)

    list(in_threads(work, range(4), seen.append, at_once=1))
    assert seen == [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]


def test_work_is_in_64_bits_with_one_thread_of_blas():
    def work(item, report):
        limits = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        return jnp.ones(1).dtype, limits

    (_, (kind, limits)) = next(in_threads(work, [0]))
    assert kind == jnp.float64
    assert 1 in limits


def test_an_exception_ends_the_others_and_what_has_not_begun():
    begun = []

    def work(item, report):
        begun.append(item)
        if item == 1:
            raise ZeroDivisionError
        for _ in range(10_000):
            report(0.5)
            time.sleep(0.001)

    start = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        list(in_threads(work, range(50), nothing, at_once=2))
    assert len(begun) <= 3
    assert time.monotonic() - start < 5


def test_ctrl_c_ends_the_work_and_keeps_what_was_finished():
    begun = []

    def work(item, report):
        begun.append(item)
        if item < 2:
            return item
        if item == 2:
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10_000):
            report(0.5)
            time.sleep(0.001)

    finished: dict = {}
    with pytest.raises(KeyboardInterrupt):
        finished |= in_threads(work, range(50), nothing, at_once=2)
    assert finished == {0: 0, 1: 1}
    assert len(begun) <= 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
