"""The row recursion on its way through training, and what is read off it; the same for all depths."""

import numpy as np

from learndyn.core.progressing import Progressing, Report
from learndyn.deep_linear import residual, rows
from learndyn.deep_linear.functions import Functions
from learndyn.deep_linear.setting import Setting, same_data
from learndyn.divergence import diverged
from learndyn.training import PerStepRule, impulse_response


def told(problem, form: str, made: Setting, edge: int | None) -> dict:
    """The evidence that all methods give."""
    found = {"form": form, "modes": len(made.lam), "edge_of_stability": edge}
    if problem.data.spectrum is not None:
        found["exactness"] = "mean-field approximation at finite width and data"
    if edge is not None:
        text = (
            f"training is at the edge of stability from step {edge}: its gradients turn round and hardly shrink, and "
            "finite networks approach the limit slowly; a smaller learning rate avoids it"
        )
        found["warnings"] = [text]
    return found


def layers_of(made: Setting) -> dict[str, np.ndarray]:
    """The labels of the layers."""
    return {"layer": np.arange(1, made.depth + 1)}


def memory(made: Setting, steps: int, ensembles: bool = False) -> float:
    """Bytes that a recursion of so many steps needs, and what is read off it."""
    needed = (2.3 if ensembles else 1.3) * rows.memory(made, steps)
    return needed + (0.0 if made.branch is None else residual.memory(made, steps))


class RowRecursion(Progressing):
    """The rows of all steps so far; there is room for `steps` of them, those of the training unless given."""

    now: int = 0

    def __init__(self, problem, made: Setting, steps: int | None = None, rule=None):
        self.problem, self.made = problem, made
        self.room = problem.training.steps if steps is None else steps
        self.rule = PerStepRule.of(problem.training)
        kappa, d = (
            impulse_response(problem.training, problem.training.steps) if rule is None else rule
        )
        self._take(kappa[: self.room + 1, : self.room + 1], d[: self.room + 1])
        self.found = rows.empty_rows(made, self.room)
        self.blocks = None if made.branch is None else residual.empty_blocks(self.found)
        self.finished, self.error = 0, 0.0
        self.kept: list[int] = []

    def _take(self, kappa, d) -> None:
        self.w = rows.weights(self.made, kappa, d)

    def again(self, problem, made: Setting, rule) -> None:
        """Start anew with another problem of the same shape, in the same memory."""
        self.problem, self.made = problem, made
        self._take(*(x[: self.room + 1] for x in (rule[0][:, : self.room + 1], rule[1])))
        # Every entry on and below a diagonal is written again, and none above one was.
        self.finished, self.error, self.kept, self.now = 0, 0.0, [], 0

    def _rows(self, first: int, last: int) -> None:
        if self.blocks is None:
            rows.advance(first, last, self.found, self.w)
        else:
            branch = float(self.made.branch or 0.0)
            residual.advance_residual(first, last, self.found, self.blocks, self.w, branch)

    def advance(self, states, report):
        states = np.asarray(states)
        reached = advance_rows(
            self._rows, self.found, self.w, self.finished, int(states[-1]) + 1, self.error, report
        )
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

    def read(self, states, wanted=None, ensembles: bool = False) -> dict[str, np.ndarray]:
        """The wanted observables (all of them for None) at some of the finished steps."""
        return read_off(self.found, self.w, self.made, np.asarray(states, int), ensembles, wanted)

    def edge(self) -> int | None:
        """The step from which training is at the edge of stability, or None."""
        last = max(self.kept, default=0)
        return Functions(self.found, self.w, self.made, np.array([last])).edge()

    def after(self):
        return self.now + 1

    def change(self, problem):
        """Other rates, momentum or decay from now on; all else is frozen into the data and the weights."""
        same_data(self.problem, problem)
        self.rule = self.rule.until(self.now, problem.training)
        self.problem, steps = problem, problem.training.steps
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
        kappa, d = self.rule.impulse_response(self.room)
        self._take(kappa, d)


def _copy(small, large) -> None:
    """Square arrays (their last two axes) into the corner of larger ones."""
    for before, after in zip(small, large, strict=True):
        n = before.shape[-1]
        after[..., :n, :n] = before


def read_off(
    found: rows.Rows,
    w: rows.Weights,
    made: Setting,
    states: np.ndarray,
    ensembles=False,
    wanted=None,
) -> dict[str, np.ndarray]:
    """The wanted observables (all of them for None) of a row recursion at some of its finished steps."""
    functions = Functions(found, w, made, states if len(states) else np.zeros(1, dtype=int))
    arrays = functions.some(wanted)
    return arrays | functions.overlaps() if ensembles else arrays


def advance_rows(
    advance, found: rows.Rows, w: rows.Weights, first: int, count: int, start: float, report: Report
) -> int:
    """Compute the rows `first` … `count` − 1 by `advance(first, last)`; the number of rows before training diverged.

    `advance` returns the number of rows that it finished, or None for all of them. `start` is the error at step 0,
    where that is not among these rows.
    """
    while first < count:
        # Equal work in each piece: the cost of a row grows with its square.
        last = min(count, max(first + 16, int(first * 1.05)))
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
