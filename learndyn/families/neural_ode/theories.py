"""The theories of neural ODEs: which problems they are for, and where their methods are."""

from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.symmetry import SymmetricStart
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.facts import FACTS
from learndyn.families.neural_ode.finite.descent import AdjointDescent
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.observables import TABLE
from learndyn.families.neural_ode.solve import OverlapMap, TrainingMemory, automatic
from learndyn.families.neural_ode.symmetries import symmetric_start
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import TeacherFlow
from learndyn.problem.training import GradientDescent

_TEACHER = ("time", "noise", "amplitudes", "windows", "overlaps", "observations")


class _OfNeuralODE(Theory):
    network = NeuralODE
    task = TeacherFlow
    training = GradientDescent
    understands = (
        "network",
        "data.batch",
        *(f"data.task.{name}" for name in _TEACHER),
        "training.steps",
        "training.weight_decay",
        "training.readout_learning_rate",
    )
    table = TABLE
    simulators = (AdjointDescent,)
    demo_size = 100
    demo_seeds = 8
    size_symbol = "d"
    why_no_recipe = (
        "what is trained is the control of a flow through a random field, not layers of weights; "
        "AdjointDescent trains it"
    )

    def automatic(self, problem: Problem, record: Record) -> Method:
        return automatic(problem, record)

    def symmetries(self, problem: Problem) -> SymmetricStart | None:
        return symmetric_start(problem)

    def check(self, problem: Problem) -> None:
        rate = problem.training.readout_learning_rate
        if rate is not None and not problem.network.train_amplitudes:
            allowed = (
                "must be left out where the amplitudes are not trained (network.train_amplitudes)"
            )
            raise ProblemError("training.readout_learning_rate", rate, allowed)


@register
class NeuralODEOnStream(_OfNeuralODE, facts=FACTS["neural_ode/stream"]):
    supply = Stream
    understands = (*_OfNeuralODE.understands, "data.task.chained")
    methods = (OverlapMap, TrainingMemory)


@register
class NeuralODEOnDataset(_OfNeuralODE, facts=FACTS["neural_ode/dataset"]):
    supply = Dataset
    understands = (*_OfNeuralODE.understands, "data.examples")
    methods = (TrainingMemory,)
