"""Sweeps: many problems on all cores, or on a cluster, with a store of what is finished.

What is computed (`plan.py`), where (`run.py`), what is kept (`store.py`), and the result (`sweep.py`).
"""

from learndyn.sweeps.sweep import Sweep, load_sweep, sweep

__all__ = ["Sweep", "load_sweep", "sweep"]
