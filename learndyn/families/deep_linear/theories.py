"""The theories of deep linear networks: which problems they are for, and where their methods are."""

import math
from pathlib import Path

import jax

from learndyn.core.curves import Table
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import Theory, register
from learndyn.errors import ProblemError
from learndyn.families.deep_linear import solve
from learndyn.families.deep_linear.finite import Descent
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.observables import INFINITE_TABLE, TABLE
from learndyn.problem.part import traced
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import LinearMap
from learndyn.problem.training import GradientDescent

_FOLDER = Path(__file__).parent
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
        "training.momentum",
        "training.weight_decay",
    )
    exactness = "exact as D → ∞"
    reference = "Bordelon & Pehlevan 2025"
    table = TABLE
    methods = (solve.Rows, solve.Innovation)
    simulators = (Descent,)
    demo_size = 400
    demo_seeds = 10
    size_symbol = "D"

    def applies(self, problem: Problem) -> bool:
        return problem.network.skip is None

    def automatic(self, problem: Problem, record: Record) -> Method:
        return solve.automatic(problem, record)

    def check(self, problem: Problem) -> None:
        network, data = problem.network, problem.data
        if any(map(traced, jax.tree.leaves((network, data)))):
            allowed = "derivatives are known with respect to the training rule only"
            raise ProblemError("network, data", "traced", allowed)
        if type(data) not in _AMOUNTS:
            return
        ratio, count = _AMOUNTS[type(data)]
        structured = data.task.spectrum is not None
        if not structured and getattr(data, ratio) is None:
            allowed = (
                f"give {ratio}, the number per input dimension, unless the task has a spectrum"
            )
            raise ProblemError(f"data.{count}", getattr(data, count), allowed)
        if structured and getattr(data, count) is None:
            allowed = f"give {count}, a number of examples, where the task has a spectrum"
            raise ProblemError(f"data.{ratio}", getattr(data, ratio), allowed)


class _Residual(_Feedforward):
    methods = (solve.Rows, solve.Innovation, solve.LayerNodes)
    demo_size = 300

    def applies(self, problem: Problem) -> bool:
        return problem.network.skip is not None

    def table_of(self, problem: Problem) -> Table:
        return INFINITE_TABLE if math.isinf(problem.network.depth) else TABLE


for _supply, _name, _summary in (
    (Dataset, "dataset", "full-batch gradient descent on a reused dataset"),
    (Population, "population", "gradient descent on the expected loss"),
    (Stream, "stream", "online SGD with fresh batches"),
):
    _fields = {
        "supply": _supply,
        "understands": (
            *_Feedforward.understands,
            *(f"data.{amount}" for amount in _AMOUNTS.get(_supply, ())),
        ),
    }
    _feedforward = {
        "name": f"deep_linear/{_name}",
        "summary": f"correlation and response functions of {_summary}",
        "template": _FOLDER / f"{_name}.toml",
    }
    _residual = {
        "name": f"residual/{_name}",
        "summary": f"residual networks, infinite depth included, in {_summary}",
        "template": _FOLDER / f"residual_{_name}.toml",
    }
    register(type("Feedforward", (_Feedforward,), _fields | _feedforward))
    register(type("Residual", (_Residual,), _fields | _residual))
