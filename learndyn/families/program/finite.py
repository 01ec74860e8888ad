"""Programs that advance state by state: one network, or one batch of samples of the limit."""

from typing import Any

import numpy as np

from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Report, Trainee
from learndyn.core.record import Record
from learndyn.errors import LearndynError, ProgramError
from learndyn.families.program.loop import PROBED_SIZE, Loop, loop_of, probe_of
from learndyn.memory import require_memory
from learndyn.problem.checks import choice, number
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Dense, Lazy, ProgramRun, SteppedProgram
from learndyn.programs.backends import Backend

LAZY_FROM = 1500
"""The size from which matrices are lazy: from about here on arrays take longer."""
COPIES = 4
"""Arrays of the size of the matrices that training needs: gradients, momentum, the second moments of Adam."""
NOTICED = 2**27
"""Bytes from which a program that grows is checked against the free memory."""


class ProgramTrainee(Trainee):
    """A program in training, in any back end."""

    now: int = 0

    def __init__(
        self, loop: Loop, backend: Backend, names: list[str], record: Record | None = None
    ):
        super().__init__(0 if record is None else len(record))
        keep = None if record is None else frozenset(record.at.tolist())
        self._program, self._names = SteppedProgram(loop, None, backend, keep), names
        self._records: dict[str, np.ndarray] = {}
        self._checked = NOTICED

    def __del__(self) -> None:
        self._program.close()

    @property
    def _dense(self) -> bool:
        backend = self._program.net.backend
        return isinstance(backend, Dense) and not isinstance(backend, Lazy)

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
        while self.now < until:
            self._next()
            self.now += 1
            report(self.now)

    def after(self) -> int:
        return self.now + 1

    def measure(self) -> dict[str, Any]:
        missing = [name for name in self._names if name not in self._records]
        if missing:
            raise ProgramError(
                f"{missing[0]} was recorded in the first state, but not in state {self.now}: a program records the "
                "same things in every state that is kept (net.kept tells which are)",
                self.outcome,
            )
        return {name: self._records[name] for name in self._names}

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
        self._records = records
        if self._program.net.bytes > 2 * self._checked:
            self._checked = self._program.net.bytes
            # Arrays that grow are copied into larger ones.
            require_memory(2 * self._checked, "the program", "use a smaller size or fewer samples")


class ProgramNetwork(Simulator):
    """Networks of a program, trained for real.

    - `matrices`: "dense" for arrays, "lazy" for matrices that are revealed as far as they are asked, which has exactly
      the same law and costs less in large networks. "automatic", lazy from a size of 1500 on, unless given.
    - `drop`: a lazy matrix leaves out what is shorter than this part of a vector. 1e-7 unless given.
    """

    matrices: str = field(choice("automatic", "dense", "lazy"), default="automatic")
    drop: float = field(number(minimum=0, below=0.1), default=1e-7)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        loop, probe = loop_of(problem), probe_of(problem)
        names = list(probe.shapes)
        lazy = self.matrices == "lazy" or (self.matrices == "automatic" and size >= LAZY_FROM)

        def draw(seed: int) -> ProgramTrainee:
            backend = Lazy(size, seed, drop=self.drop) if lazy else Dense(size, seed)
            return ProgramTrainee(loop, backend, names, record)

        # A lazy network grows while it is trained, and is checked then.
        power = 1 if lazy else 2
        return Ensemble(
            draw,
            record,
            bytes=COPIES * probe.bytes * (size / PROBED_SIZE) ** power,
            what=f"a network of size {size} with {'lazy' if lazy else 'dense'} matrices",
            advice="use a smaller size" if lazy else "use a smaller size, or matrices='lazy'",
            evidence={
                "limiting_size": max(1, round(probe.smallest * size)),
                "matrices": "lazy" if lazy else "dense",
            },
        )
