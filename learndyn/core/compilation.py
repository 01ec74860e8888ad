"""How long compilation takes, and what is being compiled now.

Both libraries announce when they compile, by public interfaces: `jax.monitoring` and `numba.core.event`. The listeners
are registered once and stay, because JAX calls them while other threads may be registering theirs. Numba announces the
beginning and the end; JAX announces each stage when it has ended, and what was lowered is compiled next.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import jax.monitoring
from numba.core import event as numba_events

JAX_COMPILATION = "/jax/core/compile/"
"""Events of JAX whose names begin so are tracing, lowering and compiling."""
JAX_LOWERED = JAX_COMPILATION + "jaxpr_to_mlir_module_duration"
"""Announced by JAX just before it compiles."""


class Compilation(NamedTuple):
    """A compilation that is going on: when it began, in seconds since the epoch, and whether it is stored on disk."""

    start: float
    stored: bool

    @property
    def words(self) -> str:
        """What is going on, and how often."""
        return f"compiling, once {'on this machine' if self.stored else 'in this process'}"


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
    def seconds_so_far(self) -> float:
        """`seconds`, and those of the compilation that is going on."""
        current = running()
        return self.seconds + (0.0 if current is None else time.time() - current.start)

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
        if not _open_clocks:
            # What was lowered and never compiled would seem to be compiling for ever.
            _lowered.clear()


def running() -> Compilation | None:
    """The compilation that is going on, in whichever thread; the oldest if there are several."""
    current = [*_lowered.copy().values(), *(stack[0] for stack in _stacks.copy().values() if stack)]
    return min(current, default=None)


_open_clocks: list[CompileClock] = []
_lowered: dict[int, Compilation] = {}
"""What JAX is compiling in each thread."""
_stacks: dict[int, list[Compilation]] = {}
"""What numba is compiling in each thread; functions that are called by others are compiled within these."""


@functools.cache
def _listen() -> None:
    """Register the listeners, the first time."""
    jax.monitoring.register_event_time_span_listener(_on_jax_event)
    numba_events.register("numba:compile", _NumbaListener())


def _on_jax_event(event: str, start_time: float, end_time: float, **details: str | int) -> None:
    """Add a time span that JAX announces, if it is one of compilation."""
    if not event.startswith(JAX_COMPILATION):
        return
    _add_to_open_clocks(start_time, end_time)
    if event == JAX_LOWERED and _open_clocks:
        # JAX does not say whether it will store this: even with a folder to store in, it leaves out some functions.
        _lowered[threading.get_ident()] = Compilation(end_time, stored=False)
    else:
        _lowered.pop(threading.get_ident(), None)


class _NumbaListener(numba_events.Listener):
    """Adds the time spans in which numba compiles."""

    def on_start(self, event: numba_events.Event) -> None:
        details = event.data or {}
        stored = details["dispatcher"].stats.cache_path is not None
        stack = _stacks.setdefault(threading.get_ident(), [])
        stack.append(Compilation(time.time(), stored))

    def on_end(self, event: numba_events.Event) -> None:
        stack = _stacks.get(threading.get_ident())
        if stack:
            _add_to_open_clocks(stack.pop().start, time.time())
            if not stack:
                del _stacks[threading.get_ident()]


def _add_to_open_clocks(start: float, end: float) -> None:
    for clock in tuple(_open_clocks):
        clock.add(start, end)
