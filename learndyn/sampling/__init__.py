"""Problems that are solved and trained as Gaussian programs: what the families that do so share.

`activations.py` and `losses.py` are the library's parts as functions of a program's values. `trainee.py` is a program
that advances state by state. `batches.py`, `tolerance.py` and `method.py` sample its limit in independent batches.
"""
