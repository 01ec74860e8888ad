"""How long compilation takes: the seconds in which JAX traces or compiles, or numba compiles.

Both libraries announce when they compile, by public interfaces: `jax.monitoring` and `numba.core.event`. The listeners
are registered once and stay, because JAX calls them while other threads may be registering theirs.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Iterator

import jax.monitoring
from numba.core import event as numba_events

JAX_COMPILATION = "/jax/core/compile/"
"""Events of JAX whose names begin so are tracing, lowering and compiling."""


class CompileClock:
    """Collects the time spans of compilation, in seconds since the epoch; `seconds` is their total.

    Spans may nest or overlap, since compiled functions call each other and several threads may compile at a time. A
    moment counts once, so that the total never exceeds the time on the clock.
    """

    def __init__(self) -> None:
        self._opened, self._closed = time.time(), float("inf")
        self._spans: list[tuple[float, float]] = []

    def add(self, start: float, end: float) -> None:
        """Add the time span from `start` to `end`."""
        self._spans.append((start, end))

    def close(self) -> None:
        """Ignore what is compiled from now on."""
        self._closed = time.time()

    @property
    def seconds(self) -> float:
        """The total length of the union of the spans, while the clock was open."""
        total, reached = 0.0, self._opened
        for start, end in sorted(self._spans):
            start, end = max(start, reached), min(end, self._closed)
            if end > start:
                total, reached = total + end - start, end
        return total


@contextlib.contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """A clock that runs whenever this process compiles while the context is open.

    It counts the compilation of all threads, since solving and training use several. So if two threads solve
    at the same time, each clock also counts what the other compiles meanwhile.
    """
    _listen()
    clock = CompileClock()
    _open_clocks.append(clock)
    try:
        yield clock
    finally:
        _open_clocks.remove(clock)
        clock.close()


_open_clocks: list[CompileClock] = []


@functools.cache
def _listen() -> None:
    """Register the listeners, the first time."""
    jax.monitoring.register_event_time_span_listener(_on_jax_event)
    numba_events.register("numba:compile", _NumbaListener())


def _on_jax_event(event: str, start_time: float, end_time: float, **details: str | int) -> None:
    """Add a time span that JAX announces, if it is one of compilation."""
    if event.startswith(JAX_COMPILATION):
        _add_to_open_clocks(start_time, end_time)


class _NumbaListener(numba_events.Listener):
    """Adds the time spans in which numba compiles; the start times are a stack for each thread."""

    def __init__(self) -> None:
        self._local = threading.local()

    def on_start(self, event: numba_events.Event) -> None:
        self._starts().append(time.time())

    def on_end(self, event: numba_events.Event) -> None:
        starts = self._starts()
        if starts:
            _add_to_open_clocks(starts.pop(), time.time())

    def _starts(self) -> list[float]:
        if not hasattr(self._local, "starts"):
            self._local.starts = []
        return self._local.starts


def _add_to_open_clocks(start: float, end: float) -> None:
    for clock in tuple(_open_clocks):
        clock.add(start, end)
