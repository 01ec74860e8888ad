"""Training with correlated steps: reused or chained trajectories, or a field with a part that has no state.

Trajectories of different steps then act on each other through the field and the control, and the theory keeps the
correlations and responses of all steps (`linear_process.py`, `memory.py`). Every step adds the teacher, the student,
the adjoint, the controls and the amplitudes, in this order.
"""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Progressing, Report
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit.flow_numbers import RULE
from learndyn.families.neural_ode.limit.memory import Memory, NumberedControls, ScalarPath
from learndyn.families.neural_ode.limit.overlap_map import both_rates, loss_of
from learndyn.families.neural_ode.units import fields_of
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset


class StepRecord(NamedTuple):
    """A recorded training step: the student's units before it, and its losses."""

    controls: NumberedControls
    train_loss: float
    test_loss: float


class MemoryTraining(Progressing):
    """The process of correlated steps, which advances through training.

    - `steps`: training steps for which there is memory
    - `inferred`: training steps at which correlations and responses along the flow are recorded; none by default
    """

    now: int = 0
    changeable = RULE

    def __init__(self, problem: Problem, steps: int, inferred: tuple[int, ...] = ()):
        self.problem, self.inferred, self.room = problem, inferred, steps
        self.memory = Memory(problem, steps)
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))
        self.own_test = isinstance(problem.data, Dataset) or problem.task.chained
        self.all_weights = np.max(self.memory.observed, axis=0)
        self.records: list[StepRecord] = []
        self.along_flow: dict[str, list[np.ndarray]] = {}
        self.begun = False

    def _look(self, step: int) -> None:
        """Add the trajectories of a step, and measure their losses; raises `Diverged`."""
        memory = self.memory
        self.taught = memory.teach(step)
        self.students = [memory.student(x) for x in self.taught]
        self.pairs = list(zip(self.students, self.taught, strict=True))
        step_weights = memory.visible * memory.observed[step % len(memory.observed)]
        self.train_loss, self.full_loss = (
            float(np.mean([memory.loss(y, x, weights) for y, x in self.pairs]))
            for weights in (step_weights, self.all_weights)
        )
        numbers = memory.students[-1].numbers
        norm = np.max(np.abs(memory.engine.controls.C[numbers, numbers]))
        if diverged(max(abs(self.train_loss), abs(self.full_loss), norm)):
            raise Diverged
        self.adjoints: list[list[list[int]]] | None = None
        if step in self.inferred:
            p = self._adjoint(step)[0][0]
            rows = _along_flow(memory, self.students[0][0], self.taught[0][0], p)
            for name, values in rows.items():
                self.along_flow.setdefault(name, []).append(values)

    def _adjoint(self, step: int) -> list[list[list[int]]]:
        """The scalars p_0 … p_N of each trajectory and system of a step; they are added once."""
        if self.adjoints is None:
            self.adjoints = [self.memory.adjoint(y, x, step) for y, x in self.pairs]
        return self.adjoints

    def _step(self) -> None:
        """One training step, with the trajectories of the next one; raises `Diverged`."""
        self._adjoint(self.now)
        eta, eta_a = self.etas[self.now].tolist()
        self.memory.update(self.students, eta, eta_a)
        self._look(self.now + 1)
        self.now += 1

    def _record(self) -> StepRecord:
        """The units and losses of the present step."""
        memory = self.memory
        test = _test_loss(memory, self.all_weights) if self.own_test else self.full_loss
        return StepRecord(memory.students[self.now], self.train_loss, test)

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        for number, state in enumerate(states):
            try:
                if not self.begun:
                    self._look(0)
                    self.begun = True
                while self.now < state:
                    self._step()
                    report(self.now)
            except Diverged:
                return number
            self.records.append(self._record())
        return len(states)

    def arrays(self) -> dict[str, np.ndarray]:
        return self._arrays(self.records)

    def observe(self) -> dict[str, np.ndarray]:
        return self._arrays([self._record()])

    def _arrays(self, records: list[StepRecord]) -> dict[str, np.ndarray]:
        """The observables at these records."""
        arrays = _overlaps(self.memory, [record.controls for record in records])
        arrays["test_loss"] = np.array([record.test_loss for record in records])
        if self.own_test or self.problem.task.observations is not None:
            arrays["train_loss"] = np.array([record.train_loss for record in records])
        return arrays

    def go_on(self, last: int) -> None:
        """Train up to a step without recording it, for the observables along the flow on the way."""
        with contextlib.suppress(Diverged):
            while self.now < last:
                self._step()

    def along(self) -> dict[str, np.ndarray]:
        """Correlations and responses along the flow, at those of the `inferred` steps that were reached."""
        return {name: np.stack(rows) for name, rows in self.along_flow.items()}

    def after(self) -> int:
        return self.now + 1

    def change(self, problem: Problem) -> None:
        """Go on with another problem, for at most as many steps as there is memory for."""
        steps = problem.training.steps
        if steps > self.room:
            allowed = f"must be at most {self.room}: the run has no memory for more steps"
            raise ProblemError("training.steps", steps, allowed)
        self.problem, self.memory.training = problem, problem.training
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))


def _overlaps(memory: Memory, steps: list[NumberedControls]) -> dict[str, np.ndarray]:
    """Amplitudes and overlaps of the units at several steps."""
    C, units = memory.engine.controls.C, len(memory.students[0].a)
    numbers = np.array([controls.numbers for controls in steps], dtype=int).reshape(-1, units)
    flat = numbers.ravel()
    C_theta = C[np.ix_(flat, flat)].reshape(len(steps), units, len(steps), units)
    Q = C[numbers[:, :, None], numbers[:, None]]
    m = C[numbers[:, :, None], memory.teachers.numbers]
    a = np.array([controls.a for controls in steps]).reshape(-1, units)
    return {"Q": Q, "m": m, "C_theta": C_theta, "a": a}


def _test_loss(memory: Memory, weights: Float[np.ndarray, " N_s+1"]) -> float:
    """The loss on a fresh trajectory: from the overlaps alone, unless a part of a field has no state."""
    engine = memory.engine
    if any(field.without_state for field in fields_of(memory.network, memory.pair.shape)):
        mark = engine.mark()
        x = memory.teacher(memory.starts())
        loss = memory.loss(memory.student(x), x, weights)
        engine.rewind(mark)
        return loss
    C, now = engine.controls.C, memory.students[-1]
    student, teacher = np.array(now.numbers), np.array(memory.teachers.numbers)
    return loss_of(memory.flow, now.a, C[np.ix_(student, student)], C[np.ix_(student, teacher)])


def _along_flow(
    memory: Memory, y: ScalarPath, x: ScalarPath, p: list[int]
) -> dict[str, np.ndarray]:
    """The correlations and responses of one trajectory."""
    scalars = memory.engine.scalars
    rows = {"x": x.states, "y": y.states, "p": p}
    arrays = {
        name: (scalars.C if name[0] == "C" else scalars.R)[np.ix_(rows[name[2]], rows[name[3]])]
        for name in ("C_xx", "R_xx", "C_yy", "R_yy", "C_yx", "C_pp", "C_py", "C_px", "R_py", "R_px")
    }
    # A source in x_0 moves y_0 too: the response through x alone is the difference.
    arrays["R_px"][:, 0] -= arrays["R_py"][:, 0]
    return arrays
