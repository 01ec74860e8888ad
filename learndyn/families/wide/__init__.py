"""Infinitely wide networks that learn features.

The methods are in `solve.py`: the exact linear solution (`equations/linear.py`, `equations/innovation.py`), sampled
layers for other units, as a Gaussian program (`forward.py`, `descent.py`, `responses.py`), and approximations
(`equations/approximations.py`). Gradient flow of methods without samples is in `gradient_flow.py`. A problem becomes
arrays in `problem_arrays.py` and `loss.py`; finite networks are in `finite.py`.
"""
