"""Finite neural ODEs, trained for real; the model is in `NeuralODE`'s docstring, and the size is the dimension d.

d_θ is the whole number nearest to σd. The training of one system is in `training_run.py`.
"""

from learndyn.core.method import Ensemble, Simulator
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.finite.tensor_field import entries
from learndyn.families.neural_ode.finite.training_run import (
    TEST_TRAJECTORIES,
    FiniteNeuralODE,
    FiniteSetup,
    coefficients_of,
)
from learndyn.families.neural_ode.observables import inference_steps, labels, within_training
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.problem.checks import boolean
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset


def memory(problem: Problem, d: int, d_theta: int, count: int, method: "AdjointDescent") -> float:
    """The bytes that one system needs, if it is recorded at `count` states."""
    network, data, pair = problem.network, problem.data, FlowPair.of(problem)
    shape = pair.shape
    times = network.steps + shape.teacher_steps + 2
    batch = max(data.batch or data.examples, TEST_TRAJECTORIES)
    taught = data.examples or 0 if isinstance(data, Dataset) else batch
    rows = max(batch, taught, 2 * times if method.responses else 0)
    fields, systems = coefficients_of(network, shape), shape.systems
    # Drifts of the teacher, and of the student before and after a step; those of the summed neurons, and one product.
    neurons = 0 if pair.one_unit else max(shape.neurons, shape.teacher_neurons)
    drifts = shape.teacher_windows + 2 * network.windows + neurons + 1
    total = 0.0
    for system in range(systems):
        tensors, shared = entries(
            fields[system * len(fields) // systems],
            d,
            d_theta,
            rows=rows,
            states=network.steps * batch,
            drifts=drifts,
            copied=not pair.one_unit,
        )
        total += tensors * len(fields) / systems + shared
    units = len(pair.start().a)
    total += count * units * (2 * count * units + d_theta)
    # Sources, states and adjoints of a batch, its test trajectories, and copies with joined axes; masks.
    total += (6 if pair.teacher.observations is None else 8) * times * systems * batch * d
    if isinstance(data, Dataset):
        total += 2 * times * systems * taught * d
    if method.responses:
        total += 2 * times * 6 * times * d
    return 8.0 * (total + len(method.inference_steps) * 6 * times**2)


class AdjointDescent(Simulator):
    """Descent on the control of a finite system, by its adjoint.

    - `inference_steps`: training steps before which correlations along the flow are recorded, as means over the
      trajectories of the step. Default: none.
    - `responses`: whether R_yy, R_py and, for fresh trajectories, R_px are recorded there too, along one random
      direction for every trajectory and source. Default: false.
    """

    inference_steps: tuple[int, ...] = field(inference_steps, default=())
    responses: bool = field(boolean, default=False)

    def validate(self) -> None:
        if self.responses and not self.inference_steps:
            allowed = "needs inference_steps: the training steps at which to measure them"
            raise ProblemError("AdjointDescent.responses", True, allowed)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        within_training(self, problem)
        setup = FiniteSetup.of(problem, size)
        d, d_theta, start = size, setup.d_theta, setup.start
        units = len(start.a) + len(start.teacher_a)
        if d_theta < units:
            allowed = (
                f"must be larger: there would be {d_theta} controls, and at least {units} are needed, as many as "
                "student and teacher have units"
            )
            raise ProblemError("size", size, allowed)
        return Ensemble(
            lambda seed: FiniteNeuralODE(problem, setup, seed, self, record),
            record,
            memory(problem, d, d_theta, len(record), self),
            f"training neural ODEs with states of dimension d = {d} and {d_theta} controls",
            "use a smaller d, or a field of lower order",
            labels=labels(FlowPair.of(problem), self.inference_steps)
            if self.inference_steps
            else {},
        )
