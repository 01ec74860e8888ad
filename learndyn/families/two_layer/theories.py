"""The theories of two-layer networks: which problems they are for, and where their methods are."""

from typing import ClassVar

from learndyn.core.symmetry import SymmetricStart
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.two_layer.facts import FACTS
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.observables import TABLE
from learndyn.families.two_layer.online.finite import SGD, OverlapChain, PopulationDescent
from learndyn.families.two_layer.online.solve import OrderParameterODE
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.families.two_layer.reused.fixed_point import FixedPoint
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.two_layer.symmetries import symmetric_start
from learndyn.problem.activations import Relu
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent


class _OfTwoLayers(Theory):
    network = TwoLayer
    task = Teacher
    training = GradientDescent
    table = TABLE

    def symmetries(self, problem: Problem) -> SymmetricStart | None:
        return symmetric_start(problem)


class _Online(_OfTwoLayers):
    understands = (
        "network",
        "data.noise",
        "data.task",
        "training.time",
        "training.weight_decay",
        "training.readout_learning_rate",
    )
    methods = (OrderParameterODE,)
    demo_size = 784

    def check(self, problem: Problem) -> None:
        rate = problem.training.readout_learning_rate
        if rate is not None and not problem.network.train_readout:
            allowed = "has no effect on a fixed readout; set network.train_readout = true, or leave it out"
            raise ProblemError("training.readout_learning_rate", rate, allowed)


@register
class TwoLayerOnStream(_Online, facts=FACTS["two_layer/stream"]):
    supply = Stream
    understands = (*_Online.understands, "data.batch")
    simulators = (SGD, OverlapChain)
    demo_seeds = 10


@register
class TwoLayerOnPopulation(_Online, facts=FACTS["two_layer/population"]):
    supply = Population
    simulators = (PopulationDescent,)
    demo_seeds = 2


@register
class TwoLayerOnDataset(_OfTwoLayers, facts=FACTS["two_layer/dataset"]):
    supply = Dataset
    understands = (
        "network.readout",
        "data.noise",
        "data.ratio",
        "data.task",
        "training.time",
        "training.steps",
        "training.weight_decay",
    )
    methods = (CausalSampling, FixedPoint)
    simulators = (FullBatch,)
    demo_size = 1000
    demo_seeds = 6
    size_symbol = "D"
    time_words = "time t"
    former_names: ClassVar = {"A": "R"}
    former_factors: ClassVar = {"test_loss": 0.5, "train_loss": 0.5, "leading_gap": 0.5}

    def check(self, problem: Problem) -> None:
        if isinstance(problem.network.activation, Relu):
            allowed = (
                "must be smooth on a Dataset: the response functions need its second derivative"
            )
            raise ProblemError("network.activation", "relu", allowed)
