"""The row recursion on its way through training, and what is read off it; the same for all depths."""

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.divergence import diverged
from learndyn.core.memory import require_memory
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.families.deep_linear.equations import feedforward as rows
from learndyn.families.deep_linear.equations import residual
from learndyn.families.deep_linear.functions import Functions
from learndyn.families.deep_linear.observables import TABLE, layers_of, told
from learndyn.families.deep_linear.setting import RULE, Setting
from learndyn.problem.weight_response import PerStepRule, impulse_response

SHORT_WORK = 2e7
"""Up to this much work, about 20 ms, what surrounds the recursion is worth saving."""


def memory(made: Setting, steps: int, ensembles: bool = False) -> float:
    """Bytes that a recursion of so many steps needs, and what is read off it."""
    needed = (2.3 if ensembles else 1.3) * rows.memory(made, steps)
    return needed + (0.0 if made.branch is None else residual.memory(made, steps))


class RowRecursion(Progressing):
    """The rows of all steps so far; there is room for `steps` of them.

    `ensembles` adds the overlaps of networks that share something to what is read off.
    """

    now: int = 0
    changeable = RULE

    def __init__(self, problem, made: Setting, steps: int, ensembles: bool = False, response=None):
        self.room, self.ensembles = steps, ensembles
        require_memory(
            memory(made, steps, ensembles),
            f"a row recursion of {steps} steps",
            "use Innovation or fewer steps",
        )
        self.found = rows.empty_rows(made, steps)
        self.blocks = None if made.branch is None else residual.empty_blocks(self.found)
        self.begin(problem, made, response)

    def begin(self, problem, made: Setting, response=None) -> None:
        """Start with a problem, or anew with another one of the same shape, in the same memory.

        `response` is the impulse response of its training, where it is known.
        """
        self.problem, self.made, self.rule = problem, made, None
        training, room = problem.training, self.room + 1
        kappa, d = impulse_response(training, training.steps) if response is None else response
        self.w = rows.weights(made, kappa[:room, :room], d[:room])
        # Every entry on and below a diagonal is written again, and none above one was.
        self.finished, self.error, self.now = 0, 0.0, 0
        self.kept: list[int] = []

    def _rows(self, first: int, last: int) -> None:
        if self.blocks is None:
            rows.advance(first, last, self.found, self.w)
        else:
            branch = float(self.made.branch or 0.0)
            residual.advance_residual(first, last, self.found, self.blocks, self.w, branch)

    def advance(self, states, report):
        states = np.asarray(states)
        count = int(states[-1]) + 1
        given = self._rows, self.found, self.w, self.finished, count, self.error, report
        # A short recursion is over before a look at it pays.
        short = work(self.made, count - 1) <= SHORT_WORK
        reached = advance_rows(*given, piece=count) if short else advance_rows(*given)
        if self.finished == 0 and reached:
            self.error = float(rows.errors(self.found, self.w, 0, 1)[0])
        self.finished = max(self.finished, reached)
        kept = states[states < reached].tolist()
        self.kept += kept
        self.now = kept[-1] if kept else self.now
        return len(kept)

    def arrays(self):
        return self.read(self.kept)

    def observe(self):
        return self.read([self.now])

    def read(self, states, wanted=None) -> dict[str, np.ndarray]:
        """The wanted observables (all of them for None) at some of the finished steps."""
        return self.functions(states).read(wanted, self.ensembles)

    def functions(self, states) -> Functions:
        """The functions at some of the finished steps; at step 0 for none."""
        states = np.asarray(states if len(states) else [0], int)
        return Functions(self.found, self.w, self.made, states)

    def labels(self):
        return layers_of(self.made)

    def evidence(self):
        return told(self.problem, "rows", self.made, self.functions(self.kept).edge())

    def curves(self, record: Record, report: Report, wanted=None) -> Curves:
        """The wanted observables (all of them for None) of a whole recursion that has just begun."""
        reached = self.advance(record.at, report)
        functions = self.functions(record.at[:reached])
        arrays = functions.read(wanted, self.ensembles)
        evidence = told(self.problem, "rows", self.made, functions.edge()) | {"accuracy": {}}
        return Curves(TABLE, record, arrays, reached, labels=self.labels(), evidence=evidence)

    def after(self):
        return self.now + 1

    def change(self, problem):
        steps = problem.training.steps
        if steps > self.room:
            needed = memory(self.made, steps, self.ensembles)
            require_memory(needed, f"a row recursion of {steps} steps", "use fewer steps")
        rule = self.rule or PerStepRule.of(self.problem.training)
        self.rule, self.problem = rule.until(self.now, problem.training), problem
        # Rows that were computed ahead of now followed the old rule.
        self.finished = min(self.finished, self.now + 1)
        self.kept = [step for step in self.kept if step < self.finished]
        if steps > self.room:
            larger = rows.empty_rows(self.made, steps)
            _copy(self.found, larger)
            self.found, self.room = larger, steps
            if self.blocks is not None:
                blocks = residual.empty_blocks(larger)
                _copy(self.blocks, blocks)
                self.blocks = blocks
        self.w = rows.weights(self.made, *self.rule.impulse_response(self.room))


def _copy(small, large) -> None:
    """Square arrays (their last two axes) into the corner of larger ones."""
    for before, after in zip(small, large, strict=True):
        n = before.shape[-1]
        after[..., :n, :n] = before


def advance_rows(
    advance,
    found: rows.Rows,
    w: rows.Weights,
    first: int,
    count: int,
    start: float,
    report: Report,
    piece: int = 16,
) -> int:
    """Compute the rows `first` … `count` − 1 by `advance(first, last)`; the number of rows before training diverged.

    `advance` returns the number of rows that it finished, or None for all of them. `start` is the error at step 0,
    where that is not among these rows. There is a report, and a look for divergence, after a `piece` of rows.
    """
    while first < count:
        # Equal work in each piece: the cost of a row grows with its square.
        last = min(count, max(first + piece, int(first * 1.05)))
        finished = advance(first, last)
        finished = last if finished is None else finished
        loss = rows.errors(found, w, first, finished)
        start = loss[0] if first == 0 and finished else start
        bad = diverged(loss, max(start, 1e-300))
        if bad.any():
            return first + int(np.argmax(bad))
        if finished < last:
            return finished
        first = last
        report(first - 1)
    return count


def work(made: Setting, steps: int) -> float:
    """(layers + modes) × rows³, to which the time of a recursion is proportional."""
    return (made.depth + len(made.lam)) * float((steps + 1) * made.outputs) ** 3
