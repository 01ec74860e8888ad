"""The theory of wide networks: which problems it is for, and where its methods are."""

import math

from learndyn.core.blueprint import Blueprint
from learndyn.core.curves import Table
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.wide import solve
from learndyn.families.wide.blueprint import blueprint
from learndyn.families.wide.facts import FACTS
from learndyn.families.wide.finite import WideDescent
from learndyn.families.wide.infinite_depth import DepthExtrapolation
from learndyn.families.wide.network import Wide
from learndyn.families.wide.observables import INFINITE_TABLE, TABLE
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent


@register
class WideOnPoints(Theory, facts=FACTS["wide/points"]):
    network = Wide
    task = Points
    supply = Points
    training = GradientDescent
    understands = (
        "network",
        "data",
        "training.steps",
        "training.time",
        "training.momentum",
        "training.weight_decay",
        "training.momentum_rule",
        "training.noise",
        "training.loss",
        "training.criterion",
    )
    table = TABLE
    methods = (
        solve.SampledLayers,
        solve.LinearRows,
        solve.LinearInnovation,
        solve.LinearPanels,
        solve.GradientIndependence,
        solve.StaticKernel,
        solve.Perturbative,
        DepthExtrapolation,
    )
    simulators = (WideDescent,)
    demo_size = 1000
    demo_seeds = 6
    time_words = "time t (gradient flow)"

    def table_of(self, problem: Problem) -> Table:
        return INFINITE_TABLE if math.isinf(problem.network.depth) else TABLE

    def automatic(self, problem: Problem, record: Record) -> Method:
        if math.isinf(problem.network.depth):
            return DepthExtrapolation()
        return solve.automatic(problem, record)

    def blueprint(self, problem: Problem, size: int) -> Blueprint:
        return blueprint(problem, size)

    def check(self, problem: Problem) -> None:
        _check_options(problem)
        points, criterion = problem.data, problem.training.criterion
        y = points.targets
        if criterion == "logistic" and (points.outputs != 1 or (abs(y) != 1).any()):
            allowed = "the logistic loss needs one output and targets ±1"
            raise ProblemError("data.targets", y.tolist(), allowed)
        if criterion == "cross_entropy" and (
            points.outputs < 2
            or y.min() < 0
            or y.max() > 1 + 1e-9
            or abs(y.sum(1) - 1).max() > 1e-9
        ):
            allowed = "cross_entropy needs two outputs or more, and targets that are probabilities of the classes"
            raise ProblemError("data.targets", y.tolist(), allowed)


def _check_options(problem: Problem) -> None:
    """Refuse what networks with options beyond plain layers have no theory for."""
    network, training = problem.network, problem.training
    if network.plain:
        return
    words = "must be {} for networks with a convolution, learning rule, skip or norm"
    if training.time is not None:
        raise ProblemError(
            "training.time", training.time, words.format("left out, and steps given,")
        )
    if training.noise:
        raise ProblemError("training.noise", training.noise, words.format("0"))
