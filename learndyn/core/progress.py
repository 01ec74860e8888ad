"""Progress on standard error: a bar on a terminal, and what is being compiled."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from learndyn.core.compilation import CompileClock, compile_clock, running

WORTH_SAYING = 1.0
"""Seconds of compilation from which it is mentioned in a file or a pipe."""


@contextlib.contextmanager
def progress_bar(visible: bool, label: str) -> Iterator[Callable[[float], None]]:
    """Yields a function to call with the fraction done.

    On a terminal it draws a bar, with the seconds of compiling while something is compiled. Elsewhere it writes two
    lines if compiling takes over a second, and nothing else.
    """
    if not visible:
        yield lambda fraction: None
        return
    with compile_clock() as clock, _show_notes():
        if not sys.stderr.isatty():
            with _lines_on_compiling(label, clock):
                yield lambda fraction: None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            _CompilingColumn(clock),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=1.0)
            lock = threading.Lock()

            def report(fraction: float) -> None:
                with lock:
                    bar.update(task, completed=fraction)

            yield report


_shown = threading.local()
"""Whether a progress bar of this thread shows notes."""


@contextlib.contextmanager
def _show_notes() -> Iterator[None]:
    before = notes_are_shown()
    _shown.notes = True
    try:
        yield
    finally:
        _shown.notes = before


def notes_are_shown() -> bool:
    """Whether this thread has a visible progress bar."""
    return getattr(_shown, "notes", False)


def note(text: str) -> None:
    """Write a line on standard error if this thread has a visible progress bar."""
    if notes_are_shown():
        print(text, file=sys.stderr, flush=True)


class _CompilingColumn(ProgressColumn):
    """What is being compiled, with the seconds so far; empty while nothing is."""

    def __init__(self, clock: CompileClock) -> None:
        super().__init__()
        self._clock = clock

    def render(self, task: Task) -> Text:
        current = running()
        if current is None:
            return Text("")
        return Text(f"{current.words}: {self._clock.seconds_so_far:.0f} s", style="dim")


@contextlib.contextmanager
def _lines_on_compiling(label: str, clock: CompileClock) -> Iterator[None]:
    """Write a line when compiling has taken a second, and one with its whole time in the end."""
    ended, written = threading.Event(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            current = running()
            if current is not None and clock.seconds_so_far >= WORTH_SAYING:
                print(f"{label}: {current.words}", file=sys.stderr, flush=True)
                written.set()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        if written.is_set():
            print(f"{label}: compiled in {clock.seconds:.0f} s", file=sys.stderr, flush=True)
