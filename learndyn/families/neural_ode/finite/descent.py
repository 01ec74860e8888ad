"""Finite neural ODEs, trained for real; the model is in `NeuralODE`'s docstring, and the size is the dimension d.

d_θ is the whole number nearest to σd. How one system is trained is in `training_run.py`.
"""

from learndyn.core.method import Ensemble, Simulator
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
from learndyn.problem.supplies import Dataset


def memory(problem, d: int, d_theta: int, count: int, method: "AdjointDescent") -> float:
    """Bytes for one system recorded at `count` states."""
    network, data, pair = problem.network, problem.data, FlowPair.of(problem)
    shape = pair.shape
    times = network.steps + shape.teacher_steps + 2
    batch = max(data.batch or data.examples, TEST_TRAJECTORIES)
    together = data.examples or 0 if isinstance(data, Dataset) else batch
    rows = max(batch, together, 2 * times if method.responses else 0)
    fields, systems = coefficients_of(network, shape), shape.systems
    # Drifts of the teacher, of the student before and after a step; the neurons that are summed, and one product.
    neurons = 0 if pair.one_unit else max(shape.neurons, shape.teacher_neurons)
    drifts = shape.teacher_windows + 2 * network.windows + neurons + 1
    total = 0.0
    for system in range(systems):
        given = (rows, network.steps * batch, drifts, not pair.one_unit)
        some = fields[system * len(fields) // systems]
        tensors, shared = entries(some, d, d_theta, *given)
        total += tensors * len(fields) / systems + shared
    units = len(pair.start().a)
    total += count * units * (2 * count * units + d_theta)
    # Sources, states and adjoints of a batch, of its test trajectories, and copies of them in one axis; masks.
    total += (6 if pair.teacher.observations is None else 8) * times * systems * batch * d
    if isinstance(data, Dataset):
        total += 2 * times * systems * together * d
    if method.responses:
        total += 2 * times * 6 * times * d
    return 8.0 * (total + len(method.inference_steps) * 6 * times**2)


class AdjointDescent(Simulator):
    """Descent on the control of a finite system, by its adjoint.

    Before each of the training steps `inference_steps`, correlations within a trajectory are recorded, as means over
    the trajectories of the step; with `responses` also R_yy, R_py and, of fresh trajectories, R_px, along
    one random direction for every trajectory and source.
    """

    inference_steps: tuple[int, ...] = field(inference_steps, default=())
    responses: bool = field(boolean, default=False)

    def validate(self):
        if self.responses and not self.inference_steps:
            allowed = "needs inference_steps: the training steps at which to measure them"
            raise ProblemError("AdjointDescent.responses", True, allowed)

    def ensemble(self, problem, size, record):
        within_training(self, problem)
        setting = FiniteSetup.of(problem, size)
        d, d_theta, start = size, setting.d_theta, setting.start
        units = len(start.a) + len(start.teacher_a)
        if d_theta < units:
            allowed = (
                f"must be larger: there would be {d_theta} controls, and at least {units} are needed, as many as "
                "student and teacher have units"
            )
            raise ProblemError("size", size, allowed)
        return Ensemble(
            lambda seed: FiniteNeuralODE(problem, setting, seed, self, record),
            record,
            memory(problem, d, d_theta, len(record), self),
            f"training neural ODEs with states of dimension d = {d} and {d_theta} controls",
            "use a smaller d, or a field of lower order",
            labels=labels(FlowPair.of(problem), self.inference_steps)
            if self.inference_steps
            else {},
        )
