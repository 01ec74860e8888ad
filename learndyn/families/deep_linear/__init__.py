"""Deep linear networks from random initialisation: the limit of large width, data and dimension, and finite networks.

- `network.py`: the network and its problem; `problem_parts.py`: typed access to the parts of a problem
- `solve.py`: the methods `Rows`, `Innovation` and `LayerNodes`, which solve the limit; the entrance
- `limit_numbers.py`: the numbers of a problem that enter the limit equations
- `equations/`: the row recursion (`feedforward.py`, `residual.py`, `infinite_depth.py` with `layer_time_sweeps.py`),
  its adjoint (`feedforward_adjoint.py`), overlaps of two networks (`ensemble_overlaps.py`), the innovation basis
  (`innovation.py`)
- `row_recursion.py`, `growing_training.py`: the row recursion and the innovation basis on their way through training
- `node_refinement.py`: infinite depth with as many nodes of the layer time as it needs
- `observables.py`: the table of observables; `row_observables.py`: their values in a row recursion
- `differentiable_losses.py`: the losses as a JAX function of the training rule
- `finite.py`: finite networks in training; `ensemble_loss.py`: the loss of several networks averaged
"""

import math
from pathlib import Path

from learndyn.core.curves import Table
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import Theory, register
from learndyn.families.deep_linear import finite
from learndyn.families.deep_linear import solve as methods
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.observables import INFINITE_TABLE, TABLE
from learndyn.families.deep_linear.problem_parts import network_of
from learndyn.problem.data import Dataset, Population, Stream
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

_folder = Path(__file__).parent


class _Feedforward(Theory):
    """Networks without skip connections."""

    network = DeepLinear
    training = GradientDescent
    exactness = "exact as D → ∞"
    reference = "Bordelon & Pehlevan 2025"
    table = TABLE
    methods = (methods.Rows, methods.Innovation)
    simulators = (finite.Descent,)
    demo_size = 400
    demo_seeds = 10
    size_symbol = "D"

    def applies(self, problem: Problem) -> bool:
        return network_of(problem).skip is None

    def automatic(self, problem: Problem, record: Record) -> Method:
        return methods.automatic(problem, record)


class _Residual(_Feedforward):
    """Networks with skip connections."""

    methods = (methods.Rows, methods.Innovation, methods.LayerNodes)
    demo_size = 300

    def applies(self, problem: Problem) -> bool:
        return network_of(problem).skip is not None

    def table_of(self, problem: Problem) -> Table:
        return INFINITE_TABLE if math.isinf(network_of(problem).depth) else TABLE


for _data, _name, _summary in (
    (Dataset, "dataset", "full-batch gradient descent on a reused dataset"),
    (Population, "population", "gradient descent on the expected loss"),
    (Stream, "stream", "online SGD with fresh batches"),
):
    _fields = {
        "data": _data,
        "name": f"deep_linear/{_name}",
        "summary": f"correlation and response functions of {_summary}",
        "template": _folder / f"{_name}.toml",
    }
    register(type("Feedforward", (_Feedforward,), _fields))
    _fields = {
        "data": _data,
        "name": f"residual/{_name}",
        "summary": f"residual networks, infinite depth included, in {_summary}",
        "template": _folder / f"residual_{_name}.toml",
    }
    register(type("Residual", (_Residual,), _fields))
