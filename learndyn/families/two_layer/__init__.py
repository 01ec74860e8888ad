"""Two-layer networks: learning from fresh examples or all of them (`online/`), and from a fixed set (`reused/`).

The network and its initial state are in `network.py`, the table of observables in `observables.py`, the symmetries of
the start in `symmetries.py`, and what the theories are for in `theories.py`.
"""
