"""Teacher-student neural ODEs, trained through the adjoint.

- `network.py`: the network, with its random fields (`fields.py`), its controls (`units.py`), and the pair of student
  and teacher (`pair.py`).
- `solve.py`: the methods, with their observables (`observables.py`) and the symmetries of a start (`symmetries.py`).
- `limit/`: the equations of the limit d → ∞. One training step (`epoch.py`) is a sweep forward (`trajectories.py`) and
  one backward (`adjoint.py`), with sums over units (`kernel.py`). Training on fresh trajectories is a map of overlaps
  (`overlap_map.py`); training on correlated ones is a linear Gaussian process (`linear_process.py`, `memory.py`,
  `correlated_training.py`).
- `finite/`: finite systems. A random field is drawn (`tensor_field.py`, `monomials.py`), trajectories run in it forward
  and back (`flows.py`), and descent on the controls (`training_run.py`, `descent.py`) is measured (`measurements.py`).
- `inference.py`: the flow alone, without training. `recovery.py`: the stability of perfect recovery.
"""
