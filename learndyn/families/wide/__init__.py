"""Infinitely wide networks that learn features.

The methods are in `solve.py`: the exact linear solution (`equations/linear.py`, `equations/innovation.py`), particles
for one hidden layer (`equations/particles.py`), sampled layers for deep ones (`equations/sampled.py`), gradient flow
(`gradient_flow.py`) and approximations (`equations/approximations.py`, `equations/alternating.py`). A problem becomes
arrays in `problem_arrays.py` and `loss.py`; finite networks are in `finite.py`.
"""
