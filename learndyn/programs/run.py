"""Run a program: at once, state by state, or as independent replicates.

A program is a plain function with a loop over `net.steps`. To stop between its states it runs in a thread of its own,
which waits inside `net.steps` until the next state is asked for; only one of the two threads runs at a time.
"""

import concurrent.futures
import dataclasses
import os
import queue
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import threadpoolctl

from learndyn.errors import LearndynError, ProgramError
from learndyn.numerics.statistics import mean_and_error
from learndyn.programs.backends import Backend
from learndyn.programs.dims import NotFinite
from learndyn.programs.lines import PACKAGE, Line
from learndyn.programs.net import Net

TrainingLoop = Callable[..., Any]
"""A function of a net and parameters, with a loop over `net.steps`."""
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """What a program recorded, and how its matrices were represented.

    - `records`: arrays with the states as first axis; NaN where a state has no record of that name
    - `diverged_at`: the state at which a scalar was no longer finite, or None; `reason` says which
    - `ranks`: by matrix, how many directions were asked of W and of W^⊤
    - `dropped`: the largest length that was left out of a vector
    - `orthonormality`: the largest deviation of ⟨U_i, U_k⟩ from δ_ik
    - `fullness`: directions per sample of the fullest dimension in the limit; the bias grows with it, keep it below 0.2
    - `bytes`: memory of matrices and dimensions at most
    - `nodes`: forward and backward passes that gradient flow took
    """

    records: dict[str, np.ndarray]
    diverged_at: int | None
    reason: str
    ranks: dict[str, tuple[int, int]]
    dropped: float
    orthonormality: float
    fullness: float
    bytes: int
    nodes: int = 0


class _Stopped(BaseException):
    """Ends a program that is not to be continued."""


def run(
    program: TrainingLoop,
    parameters: Mapping[str, Any] | None = None,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> ProgramRun:
    """Run `program(net, **parameters)` to its end. `progress(state, last)` is called after each state."""
    if backend is None:
        raise ProgramError("no back end: choose Dense, Lazy, Limit or Coordinates")
    net = Net(backend, progress)
    return _carried_out(program, dict(parameters or {}), net)


def _carried_out(program: TrainingLoop, parameters: dict[str, Any], net: Net) -> ProgramRun:
    diverged_at, reason = None, ""
    # What overflows is seen by the check of scalars, which names the line.
    with np.errstate(all="ignore"):
        try:
            program(net, **parameters)
            net.end_state()
        except NotFinite as error:
            diverged_at, reason = net.state or 0, str(error)
        except LearndynError as error:
            if isinstance(error, ProgramError):
                error.run = _outcome(net, None, "")
            raise
        except Exception as error:
            place = "before the first state" if net.state is None else f"in state {net.state}"
            text = f"{_place(error, program)}\n  the program raised {type(error).__name__} {place}: {error}"
            raise ProgramError(text, _outcome(net, None, "")) from error
    if not net.records and diverged_at is None:
        name = getattr(program, "__name__", "the program")
        raise ProgramError(f"{name} has no loop over net.steps(…), so that nothing is recorded")
    return _outcome(net, diverged_at, reason)


def _place(error: Exception, program: TrainingLoop) -> str:
    """The user's innermost line in an exception's history; where the program begins if there is none."""
    frames = [
        Line(frame.filename, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(PACKAGE)
    ]
    if frames:
        return str(frames[-1])
    code = getattr(program, "__code__", None)
    return repr(program) if code is None else str(Line(code.co_filename, code.co_firstlineno))


def _outcome(net: Net, diverged_at: int | None, reason: str) -> ProgramRun:
    rows = list(net.records)
    if rows and not rows[-1]:
        rows.pop()
    records: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        shape = next(row[name].shape for row in rows if name in row)
        missing = np.full(shape, np.nan)
        records[name] = np.array([row.get(name, missing) for row in rows])
    return ProgramRun(
        records,
        diverged_at,
        reason,
        dict(net.ranks),
        net.dropped,
        net.orthonormality,
        net.fullness,
        net.bytes,
        net.nodes,
    )


class SteppedProgram:
    """A program in the caller's hands: `advance` goes on by one state, `close` ends it.

    Use it in a `with` block, or call `close`. `outcome` is there when the program has ended.
    """

    def __init__(
        self,
        program: TrainingLoop,
        parameters: Mapping[str, Any] | None,
        backend: Backend,
        keep: Collection[int] | None = None,
    ):
        self.outcome: ProgramRun | None = None
        self._net = Net(backend, self._wait, keep)
        self._go, self._news = queue.Queue(), queue.Queue()
        arguments = program, dict(parameters or {})
        self._thread = threading.Thread(target=self._work, args=arguments, daemon=True)
        self._started = False

    def _work(self, program: TrainingLoop, parameters: dict[str, Any]) -> None:
        try:
            if self._go.get():
                self.outcome = _carried_out(program, parameters, self._net)
            self._news.put(None)
        except _Stopped:
            self.outcome = _outcome(self._net, None, "")
            self._news.put(None)
        except BaseException as error:
            self._news.put(error)

    def _wait(self, state: int, last: int) -> None:
        """In the program's thread, after each state."""
        self._news.put(state)
        if not self._go.get():
            raise _Stopped

    def advance(self) -> dict[str, np.ndarray] | None:
        """The records of the next state, or None if the program has ended."""
        if not self._started:
            self._started = True
            self._thread.start()
        if not self._thread.is_alive() and self._news.empty():
            return None
        self._go.put(True)
        news = self._news.get()
        if isinstance(news, BaseException):
            self._thread.join()
            raise news
        if news is None:
            self._thread.join()
            return None
        return dict(self._net.records[news])

    @property
    def net(self) -> Net:
        """The net that the program was handed."""
        return self._net

    @property
    def so_far(self) -> ProgramRun:
        """What was recorded by now; the outcome if the program has ended."""
        return self.outcome or _outcome(self._net, None, "")

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        while (records := self.advance()) is not None:
            yield records

    def close(self) -> None:
        """End the program where it is."""
        if self._started and self._thread.is_alive():
            self._go.put(False)
            self._thread.join()

    def __enter__(self) -> "SteppedProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclasses.dataclass(frozen=True)
class Replicates:
    """Independent runs: mean and standard error of each record, up to where the first of them diverged."""

    mean: dict[str, np.ndarray]
    error: dict[str, np.ndarray]
    runs: tuple[ProgramRun, ...]


def replicates(
    program: TrainingLoop,
    parameters: Mapping[str, Any] | None,
    backend: Backend,
    count: int = 8,
    threads: int | None = None,
) -> Replicates:
    """Run a program with `count` seeds, from the back end's on, in threads of one BLAS thread each."""
    first = getattr(backend, "seed", 0)
    seeds = range(first, first + count)
    with (
        threadpoolctl.threadpool_limits(limits=1, user_api="blas"),
        concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool,
    ):
        waiting = [pool.submit(run, program, parameters, backend.reseeded(seed)) for seed in seeds]
        runs = tuple(future.result() for future in waiting)
    means, errors = {}, {}
    for name in runs[0].records:
        if any(name not in outcome.records for outcome in runs):
            continue
        curves = [outcome.records[name] for outcome in runs]
        states = min(map(len, curves))
        means[name], errors[name] = mean_and_error([curve[:states] for curve in curves])
    return Replicates(means, errors, runs)
