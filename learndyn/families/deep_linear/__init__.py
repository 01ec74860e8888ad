"""Deep linear networks from random initialisation: the limit of large width, data and dimension (`methods.py`, with the
equations in `rows.py`, `residual.py`, `infinite_depth.py` and `innovation.py`) and the finite networks it describes
(`finite.py`)."""

import math
from pathlib import Path

from learndyn.core.theory import Theory, register
from learndyn.families.deep_linear import finite
from learndyn.families.deep_linear import solve as methods
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.observables import INFINITE_TABLE, TABLE
from learndyn.problem.data import Dataset, Population, Stream
from learndyn.problem.training import GradientDescent

_folder = Path(__file__).parent


class _Feedforward(Theory):
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

    def applies(self, problem):
        return problem.network.skip is None

    def automatic(self, problem, record):
        return methods.automatic(problem, record)


class _Residual(_Feedforward):
    methods = (methods.Rows, methods.Innovation, methods.LayerNodes)
    demo_size = 300

    def applies(self, problem):
        return problem.network.skip is not None

    def table_of(self, problem):
        return INFINITE_TABLE if math.isinf(problem.network.depth) else TABLE


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
