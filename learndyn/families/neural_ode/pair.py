"""Student and teacher together: the counts of their common Euler grid, their initial overlaps, and checks of both."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from learndyn.errors import ProblemError
from learndyn.families.neural_ode.units import FlowShape, InitialOverlaps, matching_units
from learndyn.problem.checks import room, semidefinite
from learndyn.problem.part import traced
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset
from learndyn.problem.tasks import TeacherFlow

if TYPE_CHECKING:
    from learndyn.families.neural_ode.network import NeuralODE


class ObservedSteps(NamedTuple):
    """The steps that the loss sees.

    - `weights`: 1 if the student's step n is observed, else 0, for every set of observation times
    - `teacher_steps`: the teacher's step n' that is compared with the student's step n
    """

    weights: Float[np.ndarray, "sets times"]
    teacher_steps: Int[np.ndarray, " times"]


class FlowPair(NamedTuple):
    """A `NeuralODE` and the `TeacherFlow` that it learns."""

    student: "NeuralODE"
    teacher: TeacherFlow

    @classmethod
    def of(cls, problem: Problem) -> "FlowPair":
        """The student and the teacher of a problem."""
        return cls(problem.network, problem.task)

    @property
    def teacher_steps(self) -> int:
        """N_t: Euler steps of the teacher."""
        if self.teacher.time is None:
            return self.student.steps
        return round(float(self.teacher.time) * self.student.steps / float(self.student.time))

    @property
    def teacher_windows(self) -> int:
        """W_t: windows of the teacher."""
        return self.student.windows if self.teacher.windows is None else self.teacher.windows

    @property
    def shape(self) -> FlowShape:
        """The counts of both flows."""
        student = self.student
        return FlowShape(
            systems=1 if student.driven is None else 2,
            neurons=student.neurons,
            teacher_neurons=self.teacher.neurons,
            own_fields=student.own_fields,
            windows=student.windows,
            teacher_windows=self.teacher_windows,
            steps=student.steps,
            teacher_steps=self.teacher_steps,
            delay=None if student.delay is None else student.delay_steps,
        )

    @property
    def one_unit(self) -> bool:
        """Whether student and teacher have one control each, without amplitudes, so that overlaps are numbers."""
        student = self.student
        several = student.amplitudes is not None or self.teacher.amplitudes is not None
        several = several or student.driven is not None or student.train_amplitudes
        return not several and student.windows == self.teacher_windows == 1

    def start(self) -> InitialOverlaps:
        """Amplitudes and overlaps before training.

        If Q is one number, it is the norm of every control, and the controls are orthogonal. If M is one number, it is
        the overlap of a student's and a teacher's unit of the same neuron and system whose windows overlap in time.
        """
        shape, student = self.shape, self.student
        self._require_room(shape)
        U = shape.systems * shape.windows * shape.neurons
        V = shape.systems * shape.teacher_windows * shape.teacher_neurons
        a = np.ones(1) if student.amplitudes is None else student.amplitudes
        teacher_a = np.ones(1) if self.teacher.amplitudes is None else self.teacher.amplitudes
        Q, M, T = student.initial_norm, student.initial_overlap, self.teacher.overlaps
        return InitialOverlaps(
            a=a[np.arange(U) % len(a)],
            Q=Q * np.eye(U) if np.ndim(Q) == 0 else Q,
            M=M * matching_units(shape) if np.ndim(M) == 0 else M,
            T=np.eye(V) if T is None else T,
            teacher_a=teacher_a[np.arange(V) % len(teacher_a)],
        )

    def _require_room(self, shape: FlowShape) -> None:
        """Refuse numbers of windows for which there is no memory."""
        for name, windows, neurons in (
            ("network.windows", shape.windows, shape.neurons),
            ("data.task.windows", shape.teacher_windows, shape.teacher_neurons),
        ):
            units = shape.systems * windows * neurons
            room(name, windows, units, units)

    def observed(self) -> ObservedSteps:
        """The steps that the loss sees: the end, or those of the teacher's `observations`."""
        N, N_t, h = self.student.steps, self.teacher_steps, self.student.step
        observations = self.teacher.observations
        sets = 1 if observations is None else len(observations.times)
        room("network.steps", N, sets + 1, N + 1)
        weights = np.zeros((sets, N + 1))
        if observations is None:
            weights[0, -1] = 1.0
            return ObservedSteps(weights, np.full(N + 1, N_t))
        teacher_steps = np.zeros(N + 1, dtype=int)
        for row, times in zip(weights, observations.times, strict=True):
            for t in times:
                n = float(t) / float(h)
                n_t = n * N_t / N
                if n > N + 0.5 or max(abs(n - round(n)), abs(n_t - round(n_t))) > 1e-9 * n:
                    allowed = (
                        f"must be whole numbers of Euler steps {float(h):g} of student and teacher, at most "
                        f"{float(self.student.time):g}"
                    )
                    raise ProblemError("data.task.observations.times", t, allowed)
                row[round(n)], teacher_steps[round(n)] = 1.0, round(n_t)
        return ObservedSteps(weights, teacher_steps)

    def check(self) -> None:
        """Refuse teachers whose times are not on the student's Euler grid, and overlaps that do not fit."""
        if self.teacher.time is not None:
            self.student.on_grid("data.task.time", self.teacher.time, 1)
        if self.teacher_steps % self.teacher_windows:
            allowed = f"must divide the number of Euler steps of the teacher, {self.teacher_steps}"
            raise ProblemError("data.task.windows", self.teacher_windows, allowed)
        self.observed()
        self._check_overlaps()

    def _check_overlaps(self) -> None:
        """Refuse overlaps of a wrong shape, and overlaps that no vectors have."""
        student = self.student
        if any(map(traced, (student.initial_overlap, student.initial_norm, self.teacher.overlaps))):
            return
        start = self.start()
        U, V = len(start.a), len(start.teacher_a)
        for name, matrix, shape in (
            ("network.initial_norm", start.Q, (U, U)),
            ("network.initial_overlap", start.M, (U, V)),
            ("data.task.overlaps", start.T, (V, V)),
        ):
            if np.shape(matrix) != shape:
                allowed = f"must have the shape {shape}: the student has {U} units, the teacher {V}"
                raise ProblemError(name, np.asarray(matrix).tolist(), allowed)
        if self.one_unit and self.teacher.overlaps is None:
            if abs(start.M[0, 0]) > math.sqrt(start.Q[0, 0]) * (1 + 1e-12):
                allowed = (
                    f"must be at most √initial_norm = {math.sqrt(start.Q[0, 0]):g} in size: "
                    "the teacher's control has norm 1"
                )
                raise ProblemError("network.initial_overlap", student.initial_overlap, allowed)
            return
        semidefinite("network.initial_norm", start.Q)
        semidefinite("data.task.overlaps", start.T)
        semidefinite(
            "the overlaps of all units, network.initial_norm, network.initial_overlap and data.task.overlaps",
            np.block([[start.Q, start.M], [start.M.T, start.T]]),
        )


def steps_are_correlated(problem: Problem) -> bool:
    """Whether training steps are correlated, so that the theory needs all pairs of steps."""
    if isinstance(problem.data, Dataset):
        return True
    network = problem.network
    driven = network.driven is not None and network.driven.without_state
    return problem.task.chained or network.field.without_state or driven
