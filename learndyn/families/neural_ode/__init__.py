"""Teacher-student neural ODEs, trained through the adjoint.

The fields (`fields.py`), the units that move in them (`units.py`) and sums over these (`kernel.py`). In the limit: what
a training step is made from (`setting.py`), its sweeps forward (`trajectories.py`) and backward (`adjoint.py`), the
step (`epoch.py`), the map of fresh trajectories (`map.py`), the process of correlated ones (`engine.py`, `memory.py`,
`correlated.py`), and the methods (`methods.py`). Finite systems (`finite.py`): one of them in training
(`training_run.py`), its trajectories (`flows.py`), what is measured along them (`probes.py`), and drawn fields
(`tensor_field.py`, `monomials.py`).
"""

from pathlib import Path

from learndyn.core.theory import Theory, register
from learndyn.families.neural_ode import solve as methods
from learndyn.families.neural_ode import symmetries
from learndyn.families.neural_ode.finite import descent as finite
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.observables import TABLE
from learndyn.problem.data import Dataset, Stream
from learndyn.problem.training import GradientDescent

_folder = Path(__file__).parent


class _NeuralODE(Theory):
    network = NeuralODE
    training = GradientDescent
    exactness = "exact as d → ∞"
    reference = "Urbani 2025"
    table = TABLE
    simulators = (finite.AdjointDescent,)
    demo_size = 100
    demo_seeds = 8
    size_symbol = "d"

    def automatic(self, problem, record):
        return methods.automatic(problem, record)

    def symmetries(self, problem):
        return symmetries.symmetric_start(problem)


@register
class OnStream(_NeuralODE):
    name = "neural_ode/stream"
    data = Stream
    summary = "a flow that learns another one from fresh or chained trajectories"
    methods = (methods.OverlapMap, methods.TrainingMemory)
    template = _folder / "stream.toml"


@register
class OnDataset(_NeuralODE):
    name = "neural_ode/dataset"
    data = Dataset
    summary = "a flow that learns another one from a few reused trajectories"
    methods = (methods.TrainingMemory,)
    template = _folder / "dataset.toml"
