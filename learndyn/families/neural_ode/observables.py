"""The observables of neural ODEs, for the limit and for finite systems alike, and checks of `inference_steps`."""

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from learndyn.core.curves import Convention, Quantity, Table
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.problem.checks import whole
from learndyn.problem.problem import Problem

STUDENT = ("inference_step", "inference_time", "inference_time2")
MIXED = ("inference_step", "inference_time", "teacher_time")
TEACHER = ("inference_step", "teacher_time", "teacher_time2")

HALF = Convention("half of the squared distance for each dimension", half=True)

TABLE: Table = (
    Quantity("Q", ("step", "unit", "unit2"), "overlaps of the controls Q = θ_u·θ_u'/d_θ"),
    Quantity(
        "m",
        ("step", "unit", "teacher_unit"),
        "overlaps with the teacher's controls m = θ_u·θ*_v/d_θ",
    ),
    Quantity(
        "C_theta",
        ("step", "unit", "step2", "unit2"),
        "correlation of the controls C_θ(a, b) = θ_u(a)·θ_u'(b)/d_θ",
    ),
    Quantity("a", ("step", "unit"), "amplitudes a of the student's neurons"),
    Quantity(
        "train_loss",
        ("step",),
        "loss |y − x|²/(2d) of the trajectories that the step uses, before the step",
        convention=HALF,
    ),
    Quantity("test_loss", ("step",), "loss |y − x|²/(2d) of fresh trajectories", convention=HALF),
    Quantity("C_yy", STUDENT, "correlation of the student's states y_n·y_n'/d"),
    Quantity("C_yx", MIXED, "correlation of the student's and the teacher's states y_n·x_n'/d"),
    Quantity("C_xx", TEACHER, "correlation of the teacher's states x_n·x_n'/d"),
    Quantity("C_pp", STUDENT, "correlation of the adjoint p_n·p_n'/d"),
    Quantity("C_py", STUDENT, "correlation of the adjoint with the student's states p_n·y_n'/d"),
    Quantity("C_px", MIXED, "correlation of the adjoint with the teacher's states p_n·x_n'/d"),
    Quantity("R_xx", TEACHER, "response of x_n to what produces x_n'"),
    Quantity("R_yy", STUDENT, "response of y_n to what produces y_n'"),
    Quantity("R_py", STUDENT, "response of the adjoint p_n to what produces y_n'"),
    Quantity("R_px", MIXED, "response of the adjoint p_n to what produces x_n'"),
)
ALONG: Table = tuple(quantity for quantity in TABLE if "inference_step" in quantity.axes)
"""The observables along the flow, recorded at the `inference_steps` of a method."""


def none_reached(units: int, teacher_units: int) -> dict[str, np.ndarray]:
    """The observables of a training that diverges before its first state: arrays over no steps."""
    sizes = {"step": 0, "step2": 0, "unit": units, "unit2": units, "teacher_unit": teacher_units}
    of_training = [quantity for quantity in TABLE if quantity not in ALONG]
    return {
        quantity.name: np.zeros([sizes[axis] for axis in quantity.axes]) for quantity in of_training
    }


def labels(pair: FlowPair, inference_steps: Sequence[int]) -> dict[str, np.ndarray]:
    """Labels of the axes along the flow: training steps, and the times nh of the student and the teacher."""
    h = float(pair.student.step)
    student, teacher = (h * np.arange(n + 1) for n in (pair.student.steps, pair.teacher_steps))
    return {
        "inference_step": np.asarray(inference_steps, dtype=int),
        "inference_time": student,
        "inference_time2": student,
        "teacher_time": teacher,
        "teacher_time2": teacher,
    }


def inference_steps(value: Any, name: str) -> tuple[int, ...]:
    """Check the field `inference_steps`: training steps in increasing order."""
    allowed = "must be a list of training steps in increasing order, whole numbers of at least 0"
    if isinstance(value, str) or not np.iterable(value):
        raise ProblemError(name, value, allowed)
    try:
        steps = tuple(whole(0)(step, name) for step in value)
    except ProblemError:
        raise ProblemError(name, value, allowed) from None
    if any(b <= a for a, b in itertools.pairwise(steps)):
        raise ProblemError(name, value, allowed)
    return steps


class RecordsInference(Protocol):
    """A method with a field `inference_steps`."""

    @property
    def inference_steps(self) -> tuple[int, ...]: ...


def within_training(method: RecordsInference, problem: Problem) -> None:
    """Refuse `inference_steps` that lie after the end of training, and any for stacked systems."""
    steps, training = method.inference_steps, problem.training
    if steps and problem.network.driven is not None:
        name = f"{type(method).__name__}.inference_steps"
        raise ProblemError(name, list(steps), "must be left out if a second system is driven")
    if steps and steps[-1] > training.steps:
        name = f"{type(method).__name__}.inference_steps"
        allowed = f"must lie between 0 and {training.steps}, the length of the training"
        raise ProblemError(name, list(steps), allowed)
