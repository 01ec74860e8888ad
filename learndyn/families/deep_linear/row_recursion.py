"""`RowRecursion`: the row recursion on its way through training, with or without skip connections."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.divergence import diverged
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.families.deep_linear.equations import feedforward, residual
from learndyn.families.deep_linear.limit_numbers import RULE, LimitNumbers
from learndyn.families.deep_linear.observables import TABLE, axis_labels, common_evidence
from learndyn.families.deep_linear.row_observables import RowObservables
from learndyn.memory import require_memory
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import PerStepRule, impulse_response

SHORT_WORK = 2e7
"""Up to this much work (about 20 ms) the preparation of a recursion takes a noticeable part of its time."""
PIECE = 16
"""Steps between two looks at the progress of a long recursion, at least."""
ImpulseResponse = tuple[Any, Any]
"""The impulse response κ(t, s) of a weight to its force, and the decay d(t) of an undriven weight."""


def memory(numbers: LimitNumbers, steps: int, ensembles: bool = False) -> float:
    """Bytes that a recursion of this many steps and its observables need."""
    needed = (2.3 if ensembles else 1.3) * feedforward.memory(numbers, steps)
    return needed + (0.0 if numbers.branch is None else residual.memory(numbers, steps))


class RowRecursion(Progressing):
    """The functions of all steps so far.

    - `problem`: the problem
    - `numbers`: its limit numbers
    - `steps`: the number of steps for which there is memory
    - `ensembles`: whether the observables include the overlaps of networks that share the data or the weights only
    - `response`: κ and d of the training rule, if they are already known
    """

    now: int = 0
    changeable = RULE

    def __init__(
        self,
        problem: Problem,
        numbers: LimitNumbers,
        steps: int,
        ensembles: bool = False,
        response: ImpulseResponse | None = None,
    ):
        self.capacity, self.ensembles = steps, ensembles
        require_memory(
            memory(numbers, steps, ensembles),
            f"a row recursion of {steps} steps",
            "use Innovation or fewer steps",
        )
        self.rows = feedforward.empty_rows(numbers, steps)
        self.blocks = None if numbers.branch is None else residual.empty_blocks(self.rows)
        self.begin(problem, numbers, response)

    def begin(
        self, problem: Problem, numbers: LimitNumbers, response: ImpulseResponse | None = None
    ) -> None:
        """Start with a problem, or start again in the same memory with another problem of the same shape."""
        self.problem, self.numbers = problem, numbers
        self.rule: PerStepRule | None = None
        if response is None:
            response = impulse_response(problem.training, problem.training.steps)
        (kappa, d), count = response, self.capacity + 1
        self.const = feedforward.recursion_constants(numbers, kappa[:count, :count], d[:count])
        # The memory needs no clearing: all entries on and below a diagonal are overwritten, and those above are zero.
        self.finished, self.error, self.now = 0, 0.0, 0
        self.recorded: list[int] = []

    def _compute_rows(self, first: int, last: int) -> None:
        if self.blocks is None:
            feedforward.advance(first, last, self.rows, self.const)
        else:
            branch = float(self.numbers.branch or 0.0)
            residual.advance_residual(first, last, self.rows, self.blocks, self.const, branch)

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        states = np.asarray(states)
        count = int(states[-1]) + 1
        # A short recursion ends before a look at its progress would pay.
        short = work(self.numbers, count - 1) <= SHORT_WORK
        reached = advance_rows(
            self._compute_rows,
            self.rows,
            self.const,
            self.finished,
            count,
            self.error,
            report,
            piece=count if short else PIECE,
        )
        if self.finished == 0 and reached:
            self.error = float(feedforward.errors(self.rows, self.const, 0, 1)[0])
        self.finished = max(self.finished, reached)
        states_reached = states[states < reached].tolist()
        self.recorded += states_reached
        self.now = states_reached[-1] if states_reached else self.now
        return len(states_reached)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.read(self.recorded)

    def observe(self) -> dict[str, np.ndarray]:
        return self.read([self.now])

    def read(
        self, states: Sequence[int] | np.ndarray, wanted: Iterable[str] | None = None
    ) -> dict[str, np.ndarray]:
        """The wanted observables (all of them for None) at some of the finished steps."""
        return self.observables(states).read(wanted, self.ensembles)

    def observables(self, states: Sequence[int] | np.ndarray) -> RowObservables:
        """The observables at some of the finished steps; at step 0 if there are none."""
        states = np.asarray(states if len(states) else [0], int)
        return RowObservables(self.rows, self.const, self.numbers, states)

    def labels(self) -> dict[str, np.ndarray]:
        return axis_labels(self.numbers)

    def evidence(self) -> dict[str, Any]:
        edge = self.observables(self.recorded).edge()
        return common_evidence(self.problem, "rows", self.numbers, edge)

    def curves(self, record: Record, report: Report, wanted: Iterable[str] | None = None) -> Curves:
        """Run a recursion that has just begun to its end: the wanted observables (all of them for None)."""
        reached = self.advance(record.at, report)
        observables = self.observables(record.at[:reached])
        arrays = observables.read(wanted, self.ensembles)
        evidence = common_evidence(self.problem, "rows", self.numbers, observables.edge())
        evidence["accuracy"] = {}
        return Curves(TABLE, record, arrays, reached, labels=self.labels(), evidence=evidence)

    def after(self) -> int:
        return self.now + 1

    def change(self, problem: Problem) -> None:
        training, steps = problem.training, problem.training.steps
        if steps > self.capacity:
            needed = memory(self.numbers, steps, self.ensembles)
            require_memory(needed, f"a row recursion of {steps} steps", "use fewer steps")
        rule = self.rule or PerStepRule.of(self.problem.training)
        self.rule, self.problem = rule.until(self.now, training), problem
        # Rows that were computed beyond `now` followed the old rule.
        self.finished = min(self.finished, self.now + 1)
        self.recorded = [step for step in self.recorded if step < self.finished]
        if steps > self.capacity:
            larger = feedforward.empty_rows(self.numbers, steps)
            _copy(self.rows, larger)
            self.rows, self.capacity = larger, steps
            if self.blocks is not None:
                blocks = residual.empty_blocks(larger)
                _copy(self.blocks, blocks)
                self.blocks = blocks
        self.const = feedforward.recursion_constants(
            self.numbers, *self.rule.impulse_response(self.capacity)
        )


def _copy(small: Iterable[np.ndarray], large: Iterable[np.ndarray]) -> None:
    """Copy square arrays (in their last two axes) into the corner of larger arrays."""
    for before, after in zip(small, large, strict=True):
        n = before.shape[-1]
        after[..., :n, :n] = before


def advance_rows(
    compute_rows: Callable[[int, int], int | None],
    rows: feedforward.RecursionRows,
    const: feedforward.RecursionConstants,
    first: int,
    count: int,
    start: float,
    report: Report,
    piece: int = PIECE,
) -> int:
    """Compute the rows of steps `first` … `count` − 1; returns the number of steps before training diverged.

    - `compute_rows(first, last)`: computes the rows of steps `first` … `last` − 1, and returns the number of finished
      steps, or None if all are finished
    - `rows`, `const`: the functions and constants of the recursion
    - `start`: the error Σ_c C_v(0, 0), used if step 0 is not among these rows
    - `report`: takes the last finished step, after every piece
    - `piece`: the number of steps between two reports and looks for divergence, at least
    """
    while first < count:
        # Equal work in each piece: the cost of a row grows with its square.
        last = min(count, max(first + piece, int(first * 1.05)))
        finished = compute_rows(first, last)
        finished = last if finished is None else finished
        loss = feedforward.errors(rows, const, first, finished)
        start = loss[0] if first == 0 and finished else start
        bad = diverged(loss, max(start, 1e-300))
        if bad.any():
            return first + int(np.argmax(bad))
        if finished < last:
            return finished
        first = last
        report(first - 1)
    return count


def work(numbers: LimitNumbers, steps: int) -> float:
    """(layers + modes) × rows³, to which the time that a recursion takes is proportional."""
    return (numbers.depth + len(numbers.lam)) * float((steps + 1) * numbers.outputs) ** 3
