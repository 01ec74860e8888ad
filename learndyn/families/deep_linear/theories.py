"""The theories of deep linear networks: which problems they are for, and where their methods are."""

import itertools
import math

import jax

from learndyn.core.blueprint import Blueprint
from learndyn.core.curves import Table
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.deep_linear import solve
from learndyn.families.deep_linear.blueprint import blueprint
from learndyn.families.deep_linear.facts import FEEDFORWARD, RESIDUAL
from learndyn.families.deep_linear.finite import Descent
from learndyn.families.deep_linear.network import DeepLinear, label_noise, sizes
from learndyn.families.deep_linear.observables import INFINITE_TABLE, TABLE
from learndyn.problem.examples import Examples
from learndyn.problem.part import traced
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import LinearMap
from learndyn.problem.training import GradientDescent

_AMOUNTS = {Stream: ("batch_ratio", "batch"), Dataset: ("ratio", "examples")}
"""How many examples: per input dimension, and as a count."""


class _Feedforward(Theory):
    network = DeepLinear
    task = LinearMap
    training = GradientDescent
    understands = (
        "network",
        "data.noise",
        "data.task",
        "training.steps",
        "training.time",
        "training.momentum",
        "training.weight_decay",
        "training.momentum_rule",
    )
    table = TABLE
    methods = (solve.Rows, solve.Innovation, solve.Panels)
    simulators = (Descent,)
    demo_size = 400
    demo_seeds = 10
    size_symbol = "D"
    time_words = "time t (gradient flow)"

    def applies(self, problem: Problem) -> bool:
        return problem.network.skip is None

    def label_noise(self, problem: Problem) -> float:
        return label_noise(problem)

    def multiply_adds(self, problem: Problem) -> float:
        """Three for each weight and example: one forward, two backward."""
        spectrum = problem.task.spectrum
        if spectrum is None:
            allowed = "give the task a spectrum: without one sizes are ratios, and the work of a step is infinite"
            raise ProblemError("data.task.spectrum", None, allowed)
        if isinstance(problem.data, Population):
            allowed = (
                "a step on the population uses infinitely many examples; use a Stream or a Dataset"
            )
            raise ProblemError("data", "Population", allowed)
        D, N, examples = sizes(problem, len(spectrum.arrays()[0]))
        outputs = problem.network.outputs
        return 3.0 * examples * sum(n * m for n, m in itertools.pairwise([D, *N, outputs]))

    def automatic(self, problem: Problem, record: Record) -> Method:
        return solve.automatic(problem, record)

    def blueprint(self, problem: Problem, size: int) -> Blueprint:
        return blueprint(problem, size)

    def check(self, problem: Problem) -> None:
        network, data = problem.network, problem.data
        if any(map(traced, jax.tree.leaves((network, data)))):
            allowed = "derivatives are known with respect to the training rule only"
            raise ProblemError("network, data", "traced", allowed)
        if isinstance(data, Stream) and isinstance(problem.task.spectrum, Examples):
            allowed = "real examples come to an end, and a stream does not; reuse them in a Dataset"
            raise ProblemError("data", "Stream", allowed)
        flow = problem.training.time
        if flow is not None and not solve.Panels.suits(problem):
            allowed = "give steps instead: gradient flow is solved for a dataset or the population, without momentum"
            raise ProblemError("training.time", flow, allowed)
        if type(data) not in _AMOUNTS:
            return
        ratio, count = _AMOUNTS[type(data)]
        structured = problem.task.spectrum is not None
        if not structured and getattr(data, ratio) is None:
            allowed = (
                f"give {ratio}, the number per input dimension, unless the task has a spectrum"
            )
            raise ProblemError(f"data.{count}", getattr(data, count), allowed)
        if structured and getattr(data, count) is None:
            allowed = f"give {count}, a number of examples, where the task has a spectrum"
            raise ProblemError(f"data.{ratio}", getattr(data, ratio), allowed)


class _Residual(_Feedforward):
    methods = (solve.Rows, solve.Innovation, solve.Panels, solve.LayerNodes)
    demo_size = 300

    def applies(self, problem: Problem) -> bool:
        return problem.network.skip is not None

    def table_of(self, problem: Problem) -> Table:
        return INFINITE_TABLE if math.isinf(problem.network.depth) else TABLE


for _supply in (Dataset, Population, Stream):
    _amounts = tuple(f"data.{amount}" for amount in _AMOUNTS.get(_supply, ()))
    _fields = {"supply": _supply, "understands": (*_Feedforward.understands, *_amounts)}
    _name = _supply.__name__
    register(type("Feedforward", (_Feedforward,), _fields, facts=FEEDFORWARD[_name]))
    register(type("Residual", (_Residual,), _fields, facts=RESIDUAL[_name]))
