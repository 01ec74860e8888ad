"""Teacher-student neural ODEs, trained through the adjoint.

The network is in `network.py`, with its random fields (`fields.py`), the controls that move in them (`units.py`) and
its teacher beside it (`pair.py`). The methods are in `solve.py`; the limit equations in `limit/`: one training step
(`epoch.py`) with its sweeps forward (`trajectories.py`) and backward (`adjoint.py`), the map of fresh trajectories
(`overlap_map.py`), and the process of correlated ones (`linear_process.py`, `memory.py`, `correlated_training.py`). Finite systems are
in `finite/`. `inference.py` looks at the flow alone, `recovery.py` at the stability of perfect recovery.
"""

from learndyn.families.neural_ode import theories as theories
