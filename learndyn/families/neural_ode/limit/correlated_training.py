"""Neural ODEs whose training steps are correlated: reused or chained trajectories, fields with a part without state.

Trajectories of different steps then feel each other through the field and the control, and the theory keeps all
correlations and responses of all steps (`linear_process.py`, `memory.py`). On each step: teacher, student, adjoint, controls,
amplitudes.
"""

import contextlib

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Progressing
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit.flow_numbers import RULE
from learndyn.families.neural_ode.limit.memory import Memory, NumberedControls, ScalarPath
from learndyn.families.neural_ode.limit.overlap_map import both_rates, loss_of
from learndyn.families.neural_ode.units import fields_of
from learndyn.problem.supplies import Dataset


class MemoryTraining(Progressing):
    """The correlated process on its way through training; there is memory for so many `steps`.

    Correlations and responses along the flow are kept at the training steps `inferred`.
    """

    now: int = 0
    changeable = RULE

    def __init__(self, problem, steps: int, inferred: tuple[int, ...] = ()):
        self.problem, self.inferred, self.room = problem, inferred, steps
        self.made = Memory(problem, steps)
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))
        self.own_test = isinstance(problem.data, Dataset) or problem.task.chained
        self.every = np.max(self.made.observed, axis=0)
        self.kept: list[tuple[NumberedControls, float, float]] = []
        self.within: dict[str, list] = {}
        self.begun = False

    def _look(self, step: int) -> None:
        """The trajectories of a step and their losses; raises `Diverged`."""
        made = self.made
        self.taught = made.teach(step)
        self.students = [made.student(x) for x in self.taught]
        self.pairs = list(zip(self.students, self.taught, strict=True))
        seen = made.visible * made.observed[step % len(made.observed)]
        self.train, self.fresh = (
            float(np.mean([made.loss(y, x, weights) for y, x in self.pairs]))
            for weights in (seen, self.every)
        )
        numbers = made.students[-1].numbers
        norm = np.max(np.abs(made.engine.controls.C[numbers, numbers]))
        if diverged(max(abs(self.train), abs(self.fresh), norm)):
            raise Diverged
        self.adjoints: list | None = None
        if step in self.inferred:
            first = self._adjoint(step)[0][0]
            look(made, self.students[0][0], self.taught[0][0], first, self.within)

    def _adjoint(self, step: int) -> list:
        """The adjoints of a step, made once."""
        if self.adjoints is None:
            self.adjoints = [self.made.adjoint(y, x, step) for y, x in self.pairs]
        return self.adjoints

    def _step(self) -> None:
        self._adjoint(self.now)
        self.made.update(self.students, *self.etas[self.now].tolist())
        self._look(self.now + 1)
        self.now += 1

    def advance(self, states, report):
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
            test = _test_loss(self.made, self.every) if self.own_test else self.fresh
            self.kept.append((self.made.students[self.now], self.train, test))
        return len(states)

    def arrays(self):
        return self._arrays(self.kept)

    def observe(self):
        test = _test_loss(self.made, self.every) if self.own_test else self.fresh
        return self._arrays([(self.made.students[self.now], self.train, test)])

    def _arrays(self, kept: list) -> dict[str, np.ndarray]:
        controls, train, test = zip(*kept, strict=True) if kept else ((), (), ())
        found = _overlaps(self.made, list(controls)) | {"test_loss": np.array(test)}
        if self.own_test or self.problem.task.observations is not None:
            found["train_loss"] = np.array(train)
        return found

    def go_on(self, last: int) -> None:
        """Train up to a step without keeping it, for what is measured along the flow on the way."""
        with contextlib.suppress(Diverged):
            while self.now < last:
                self._step()

    def along(self) -> dict[str, np.ndarray]:
        """Correlations and responses along the flow, at those of the `inferred` steps that were reached."""
        return {name: np.stack(rows) for name, rows in self.within.items()}

    def after(self):
        return self.now + 1

    def change(self, problem):
        """For at most as many steps as there is memory for."""
        steps = problem.training.steps
        if steps > self.room:
            allowed = f"must be at most {self.room}: the run has no memory for more steps"
            raise ProblemError("training.steps", steps, allowed)
        self.problem, self.made.training = problem, problem.training
        self.etas = np.asarray(both_rates(problem.training, problem.training.steps))


def _overlaps(made: Memory, kept: list[NumberedControls]) -> dict:
    """Amplitudes and overlaps of the recorded units."""
    C, units = made.engine.controls.C, len(made.students[0].a)
    numbers = np.array([one.numbers for one in kept], dtype=int).reshape(-1, units)
    flat = numbers.ravel()
    C_theta = C[np.ix_(flat, flat)].reshape(len(kept), units, len(kept), units)
    Q, m = C[numbers[:, :, None], numbers[:, None]], C[numbers[:, :, None], made.teachers.numbers]
    a = np.array([one.a for one in kept]).reshape(-1, units)
    return {"Q": Q, "m": m, "C_theta": C_theta, "a": a}


def _test_loss(made: Memory, every) -> float:
    """The loss on a fresh trajectory: from the overlaps alone, unless a part of a field lacks the state."""
    engine = made.engine
    if any(field.without_state for field in fields_of(made.network, made.pair.shape)):
        mark = engine.mark()
        x = made.teacher(made._starts())
        loss = made.loss(made.student(x), x, every)
        engine.rewind(mark)
        return loss
    C, now = engine.controls.C, made.students[-1]
    student, teacher = np.array(now.numbers), np.array(made.teachers.numbers)
    return loss_of(made.flow, now.a, C[np.ix_(student, student)], C[np.ix_(student, teacher)])


def look(made: Memory, y: ScalarPath, x: ScalarPath, p: list[int], within: dict) -> None:
    """Add the correlations and responses of one trajectory."""
    scalars = made.engine.scalars
    rows = {"x": x.states, "y": y.states, "p": p}
    found = {
        name: (scalars.C if name[0] == "C" else scalars.R)[np.ix_(rows[name[2]], rows[name[3]])]
        for name in ("C_xx", "R_xx", "C_yy", "R_yy", "C_yx", "C_pp", "C_py", "C_px", "R_py", "R_px")
    }
    # A source in x_0 moves y_0 too: what it does through x alone is the difference.
    found["R_px"][:, 0] -= found["R_py"][:, 0]
    for name, values in found.items():
        within.setdefault(name, []).append(values)
