"""Programs that advance state by state: one network, or one batch of samples of the limit."""

from collections.abc import Callable
from typing import Any

import numpy as np

from learndyn.core.progressing import Diverged, Report, Trainee
from learndyn.core.record import Record
from learndyn.errors import LearndynError, ProgramError
from learndyn.memory import require_memory
from learndyn.programs.backends import Backend, Dense, Lazy
from learndyn.programs.net import Net
from learndyn.programs.run import ProgramRun, SteppedProgram
from learndyn.sampling.rules import times_of

Loop = Callable[[Net], None]
"""A training loop with its data and rule inside."""
NOTICED = 2**27
"""Bytes from which a program that grows is checked against the free memory."""


class ProgramTrainee(Trainee):
    """A program in training, in any back end."""

    now: int = 0

    def __init__(
        self, loop: Loop, backend: Backend, names: list[str], record: Record | None = None
    ):
        super().__init__(0 if record is None else len(record))
        self._times, keep = None, None
        if record is not None and record.axis == "time":
            # In gradient flow the states of the program are the recorded times.
            self._times = times_of(record)
        elif record is not None:
            keep = frozenset(record.at.tolist())
        self._state = 0
        self._program, self._names = SteppedProgram(loop, None, backend, keep), names
        self.records: dict[str, np.ndarray] = {}
        self._checked = NOTICED

    def __del__(self) -> None:
        self._program.close()

    @property
    def _dense(self) -> bool:
        backend = self._program.net.backend
        return isinstance(backend, Dense) and not isinstance(backend, Lazy)

    @property
    def net(self) -> Net:
        """The net that the program was handed."""
        return self._program.net

    @property
    def outcome(self) -> ProgramRun:
        """What was recorded so far, and how the matrices were represented."""
        return self._program.so_far

    def begin(self) -> None:
        self._next()

    def by_hand(self) -> None:
        net = self._program.net
        net.keep = None
        net.keep_weights = self._dense

    def move(self, until: float, report: Report) -> None:
        while self._reached() < until:
            self._next()
            self._state += 1
            report(self._reached())

    def _reached(self) -> float:
        """The step or time of the program's state."""
        return self._state if self._times is None else float(self._times[self._state])

    def after(self) -> int:
        return self.now + 1

    def measure(self) -> dict[str, Any]:
        missing = [name for name in self._names if name not in self.records]
        if missing:
            raise ProgramError(
                f"{missing[0]} was recorded in the first state, but not in state {self.now}: a program records the "
                "same things in every state that is kept (net.kept tells which are)",
                self.outcome,
            )
        return {name: self.records[name] for name in self._names}

    def weights(self) -> dict[str, np.ndarray]:
        if not self._dense:
            raise LearndynError(
                "matrices that are revealed as far as they are asked cannot be shown; start a dense network: "
                "method=ld.ProgramNetwork('dense')"
            )
        return self._program.net.weights()

    def _next(self) -> None:
        """Go on by one state."""
        records = self._program.advance()
        if records is None:
            outcome = self.outcome
            if outcome.diverged_at is not None:
                raise Diverged
            raise ProgramError(
                f"the program left its loop after state {self.now}, before the last one of net.steps",
                outcome,
            )
        self.records = records
        if self._program.net.bytes > 2 * self._checked:
            self._checked = self._program.net.bytes
            # Arrays that grow are copied into larger ones.
            require_memory(2 * self._checked, "the program", "use a smaller size or fewer samples")
