"""Work on all cores of this machine: one pool of threads for networks, batches of samples and points of a sweep."""

import concurrent.futures
import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import threadpoolctl

from learndyn.core.progressing import Report
from learndyn.numerics.precision import float64

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class _Stop(BaseException):
    """Raised inside a piece of work to end it."""


def workers(count: int) -> int:
    """How many of `count` pieces of work run at a time."""
    return min(count, os.cpu_count() or 1)


def in_threads(
    work: Callable[[Item, Report], Outcome],
    items: Iterable[Item],
    report: Report | None = None,
    at_once: int | None = None,
) -> Iterator[tuple[Item, Outcome]]:
    """Run `work(item, advance)` for every item; yield (item, outcome) as each is finished, in the caller's thread.

    `advance` takes the fraction done of one item, and `report` is called with that of all items. An exception ends
    everything, and so does Ctrl-C, which raises `KeyboardInterrupt` here. Items not begun by then never begin.
    """
    items = list(items)
    count = min(at_once or workers(len(items)), len(items))
    stop, fractions = threading.Event(), [0.0] * len(items)

    def run_item(number: int) -> Outcome:
        def advance(fraction: float) -> None:
            if stop.is_set():
                raise _Stop
            fractions[number] = fraction
            if report is not None:
                report(sum(fractions) / len(items))

        with float64():
            return work(items[number], advance)

    numbers, pending = iter(range(len(items))), {}
    # One thread of BLAS for each item: faster than many that compete, and the same sums for every number of items.
    single = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    with single, concurrent.futures.ThreadPoolExecutor(max(count, 1)) as pool, _ctrl_c_sets(stop):
        try:
            while True:
                for number in itertools.islice(numbers, count - len(pending)):
                    pending[pool.submit(run_item, number)] = number
                if not pending:
                    return
                done, _ = concurrent.futures.wait(pending, 0.2, "FIRST_COMPLETED")
                if stop.is_set():
                    # Each ends when it next reports; what was finished by then counts.
                    done, _ = concurrent.futures.wait(pending)
                for future in done:
                    number = pending.pop(future)
                    if isinstance(future.exception(), _Stop):
                        continue
                    outcome, fractions[number] = future.result(), 1.0
                    yield items[number], outcome
                if stop.is_set():
                    raise KeyboardInterrupt
        finally:
            stop.set()


@contextlib.contextmanager
def _ctrl_c_sets(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets `stop` instead of raising: an exception may be raised, and lost, inside a callback of JAX."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
