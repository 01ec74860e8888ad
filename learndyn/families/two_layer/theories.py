"""The theories of two-layer networks: which problems they are for, and where their methods are."""

from typing import ClassVar

from learndyn.core.blueprint import Blueprint
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.symmetry import SymmetricStart
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.two_layer.blueprint import blueprint
from learndyn.families.two_layer.facts import FACTS
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.observables import TABLE
from learndyn.families.two_layer.online.finite import SGD, OverlapChain, PopulationDescent
from learndyn.families.two_layer.online.solve import OrderParameterODE
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.families.two_layer.reused.implicit_sampling import ImplicitSampling
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.two_layer.reused.time_grid import automatic_step
from learndyn.families.two_layer.symmetries import symmetric_start
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent

MANY_STEPS = 300
"""Gradient flow that would take more explicit steps is followed in implicit ones."""


class _OfTwoLayers(Theory):
    network = TwoLayer
    task = Teacher
    training = GradientDescent
    table = TABLE

    def symmetries(self, problem: Problem) -> SymmetricStart | None:
        return symmetric_start(problem)

    def blueprint(self, problem: Problem, size: int) -> Blueprint:
        return blueprint(problem, size)

    def check(self, problem: Problem) -> None:
        rate = problem.training.readout_learning_rate
        if rate is not None and not problem.network.train_readout:
            allowed = "has no effect on a fixed readout; set network.train_readout = true, or leave it out"
            raise ProblemError("training.readout_learning_rate", rate, allowed)


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
        "network",
        "data.noise",
        "data.ratio",
        "data.batch_ratio",
        "data.task",
        "training.time",
        "training.steps",
        "training.momentum",
        "training.weight_decay",
        "training.readout_learning_rate",
    )
    methods = (CausalSampling, ImplicitSampling)
    simulators = (FullBatch,)
    demo_size = 1000
    demo_seeds = 6
    size_symbol = "D"
    time_words = "time t"
    former_names: ClassVar = {"A": "R"}
    former_factors: ClassVar = {"test_loss": 0.5, "train_loss": 0.5, "leading_gap": 0.5}

    def automatic(self, problem: Problem, record: Record) -> Method:
        if not ImplicitSampling.suits(problem) or record.last < MANY_STEPS * automatic_step(
            problem
        ):
            return CausalSampling()
        return ImplicitSampling()

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.training.time is None:
            return
        # In gradient flow steps are a means, on whose length nothing may depend.
        unset = {
            "training.momentum": (problem.training.momentum, 0),
            "data.batch_ratio": (problem.data.batch_ratio, None),
        }
        for name, (value, default) in unset.items():
            if value != default:
                allowed = (
                    f"needs training.steps, because steps in training.time only follow gradient flow; leave it at "
                    f"{default}, or give steps"
                )
                raise ProblemError(name, value, allowed)
