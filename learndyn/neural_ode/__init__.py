"""Teacher-student neural ODEs, trained through the adjoint.

The fields (`fields.py`), the units that move in them (`units.py`), sums over units (`kernel.py`), one training step in
the limit (`epoch.py`), the map of fresh trajectories (`map.py`), the process of correlated ones (`engine.py`,
`correlated.py`), which of them solves what (`dmft.py`), and finite systems (`finite.py`, `flows.py`, `probes.py`,
`tensor_field.py`).
"""

from pathlib import Path

from learndyn.data import Dataset, Stream
from learndyn.neural_ode import dmft, finite
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
            many=dmft.solve_many if data is Stream else None,
            parallel=dmft.parallel,
            methods=(dmft.DynamicalMeanField,),
            simulators=(finite.AdjointDescent,),
            template=Path(__file__).parent / f"{name}.toml",
            demo_size=100,
            demo_seeds=8,
        )
    )
