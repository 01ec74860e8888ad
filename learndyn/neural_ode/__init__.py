"""Teacher-student neural ODEs, trained through the adjoint.

The fields (`fields.py`), the units that move in them (`units.py`) and sums over these (`kernel.py`). In the limit: what
a training step is made from (`setting.py`), its sweeps forward (`trajectories.py`) and backward (`adjoint.py`), the
step (`epoch.py`), the map of fresh trajectories (`map.py`), the process of correlated ones (`engine.py`, `memory.py`,
`correlated.py`), and which of them solves what (`dmft.py`). Finite systems (`finite.py`): one of them in training
(`training_run.py`), its trajectories (`flows.py`), what is measured along them (`probes.py`), and drawn fields
(`tensor_field.py`, `monomials.py`).
"""

from pathlib import Path

from learndyn.data import Dataset, Stream
from learndyn.neural_ode import dmft, finite, symmetries
from learndyn.neural_ode import family_figures as family_figures
from learndyn.neural_ode import figures as figures
from learndyn.neural_ode.network import NeuralODE
from learndyn.theory import Theory, register
from learndyn.training import GradientDescent

for data, name, summary in (
    (Stream, "stream", "a flow that learns another one from fresh or chained trajectories"),
    (Dataset, "dataset", "a flow that learns another one from a few reused trajectories"),
):
    register(
        Theory(
            name=f"neural_ode/{name}",
            network=NeuralODE,
            data=data,
            training=GradientDescent,
            summary=summary,
            exactness="exact as d → ∞",
            reference="Urbani 2025",
            solve=dmft.solve,
            trace=dmft.trace if data is Stream else None,
            finite=finite.finite,
            symmetries=symmetries.symmetric_start,
            many=dmft.solve_many if data is Stream else None,
            parallel=dmft.parallel,
            methods=(dmft.DynamicalMeanField,),
            simulators=(finite.AdjointDescent,),
            template=Path(__file__).parent / f"{name}.toml",
            demo_size=100,
            demo_seeds=8,
        )
    )
