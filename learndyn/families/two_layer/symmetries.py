"""Exact symmetries of the start of a two-layer network, which its limit never leaves."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from learndyn.core.symmetry import SymmetricStart
from learndyn.core.unit_symmetries import Units, moved, possible, symmetries
from learndyn.numerics.gaussian import closed_form
from learndyn.problem.activations import Activation
from learndyn.problem.supplies import Dataset, Population

WORDS = {"even": "the units are even", "odd": "the units are odd", "zero": "R = 0"}


def symmetric_start(problem) -> SymmetricStart | None:
    """The symmetries of a problem's start, or None."""
    network, data = problem.network, problem.data
    R = np.asarray(network.R)
    if not possible(R):
        return None
    student, teacher = _units(network, network.Q), _units(data.task, data.task.T)
    found = symmetries(student, teacher, R, WORDS)
    if not found:
        return None

    def move(amount: float):
        Q, moved_R, readout = moved(student, teacher.overlaps, R, amount)
        readout = readout if network.train_readout else network.readout
        elsewhere = dataclasses.replace(network, Q=Q, R=moved_R, readout=readout)
        return dataclasses.replace(problem, network=elsewhere)

    exact = closed_form(network.activation, data.task.activation)
    return SymmetricStart(
        found,
        functools.partial(_states, network),
        # On a dataset the samples are rotated into the frame of the overlaps, which jumps where these are symmetric.
        None if isinstance(data, Dataset) else move,
        sampled=not exact,
        # Gradient flow on the population has no noise, and networks are drawn with exactly these overlaps.
        exact_runs=isinstance(data, Population),
    )


def _units(part, overlaps) -> Units:
    count = len(overlaps)
    parities, groups = np.full(count, parity(part.activation)), np.zeros(count, dtype=int)
    return Units(np.asarray(overlaps), np.asarray(part.readout), parities, groups)


@functools.lru_cache(maxsize=256)
def parity(activation: Activation) -> int:
    """1 for an even function, −1 for an odd one, else 0; as far as a grid of points shows."""
    z = jnp.linspace(0.03, 4.0, 41)
    right, left = np.asarray(activation(z)), np.asarray(activation(-z))
    scale = 1e-12 * np.max(np.abs(right))
    return next((sign for sign in (1, -1) if np.all(np.abs(right - sign * left) <= scale)), 0)


def _states(network, arrays) -> np.ndarray:
    """Q, R and v at all records; a fixed readout need not be recorded."""
    Q, R = arrays["Q"], arrays["R"]
    v = arrays["v"] if "v" in arrays else np.tile(network.readout, (len(Q), 1))
    return np.concatenate([np.reshape(x, (len(Q), -1)) for x in (Q, R, v)], axis=1)
