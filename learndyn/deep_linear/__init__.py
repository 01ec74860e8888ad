"""Deep linear networks from random initialisation: the limit of large width, data and dimension (`causal.py`, in two
forms, `rows.py` and `innovation.py`; `together.py` for many problems) and the finite networks it describes
(`finite.py`)."""

from pathlib import Path

from learndyn.data import Dataset, Population, Stream
from learndyn.deep_linear import causal, finite, together
from learndyn.deep_linear import figures as figures
from learndyn.deep_linear import residual_figures as residual_figures
from learndyn.deep_linear.network import DeepLinear
from learndyn.theory import Theory, register
from learndyn.training import GradientDescent

_folder = Path(__file__).parent


def _feedforward(problem) -> bool:
    return problem.network.skip is None


def _residual(problem) -> bool:
    return problem.network.skip is not None


for _data, _name, _summary in (
    (Dataset, "dataset", "full-batch gradient descent on a reused dataset"),
    (Population, "population", "gradient descent on the expected loss"),
    (Stream, "stream", "online SGD with fresh batches"),
):
    _shared = {
        "network": DeepLinear,
        "data": _data,
        "training": GradientDescent,
        "exactness": "exact as D → ∞",
        "reference": "Bordelon & Pehlevan 2025",
        "solve": causal.solve,
        "trace": causal.trace,
        "finite": finite.finite,
        "methods": (causal.Causal,),
        "simulators": (finite.Descent,),
        "demo_seeds": 10,
    }
    register(
        Theory(
            name=f"deep_linear/{_name}",
            summary=f"correlation and response functions of {_summary}",
            template=_folder / f"{_name}.toml",
            demo_size=400,
            applies=_feedforward,
            many=together.solve_many,
            **_shared,
        )
    )
    register(
        Theory(
            name=f"residual/{_name}",
            summary=f"residual networks, infinite depth included, in {_summary}",
            template=_folder / f"residual_{_name}.toml",
            demo_size=300,
            applies=_residual,
            **_shared,
        )
    )
