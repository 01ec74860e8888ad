"""A progress bar on standard error, shown only on a terminal."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def progress_bar(visible: bool, label: str) -> Iterator[Callable[[float], None]]:
    """Yields a function to call with the fraction done; it draws only on a terminal."""
    if not visible or not sys.stderr.isatty():
        yield lambda fraction: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        lock = threading.Lock()

        def report(fraction: float) -> None:
            with lock:
                bar.update(task, completed=fraction)

        yield report
