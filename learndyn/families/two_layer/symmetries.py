"""Exact symmetries of the initial state of a two-layer network, which its limit never breaks."""

import dataclasses
import functools
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from learndyn.core.symmetry import SymmetricStart
from learndyn.core.unit_symmetries import (
    SameUnits,
    UnitOverlaps,
    means_of_same_units,
    moved,
    possible,
    symmetries,
)
from learndyn.families.two_layer.network import TwoLayer
from learndyn.numerics.gaussian import closed_form
from learndyn.problem.activations import Activation
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population
from learndyn.problem.tasks import Teacher

WORDS = {"even": "the units are even", "odd": "the units are odd", "zero": "R = 0"}


def symmetric_start(problem: Problem) -> SymmetricStart | None:
    """The symmetries of a problem's start, or None."""
    network, data = problem.network, problem.data
    R = np.asarray(network.R)
    if not possible(R):
        return None
    student, teacher = _units(network, network.Q), _units(data.task, data.task.T)
    descriptions = symmetries(student, teacher, R, WORDS)
    if not descriptions:
        return None

    def move(amount: float) -> Problem:
        Q, moved_R, readout = moved(student, teacher.overlaps, R, amount)
        readout = readout if network.train_readout else network.readout
        elsewhere = dataclasses.replace(network, Q=Q, R=moved_R, readout=readout)
        return dataclasses.replace(problem, network=elsewhere)

    exact = closed_form(network.activation, data.task.activation)
    return SymmetricStart(
        descriptions,
        functools.partial(_states, network, means_of_same_units(student)),
        # On a reused dataset the samples are rotated into the frame of the overlaps, which jumps at symmetric overlaps.
        None if isinstance(data, Dataset) else move,
        sampled=not exact,
        # Gradient flow on the population has no noise, and networks are drawn with exactly these overlaps.
        exact_runs=isinstance(data, Population),
    )


def _units(part: TwoLayer | Teacher, overlaps: np.ndarray) -> UnitOverlaps:
    """The hidden units of a student or a teacher with these overlaps."""
    count = len(overlaps)
    parities, groups = np.full(count, parity(part.activation)), np.zeros(count, dtype=int)
    return UnitOverlaps(np.asarray(overlaps), np.asarray(part.readout), parities, groups)


@functools.lru_cache(maxsize=256)
def parity(activation: Activation) -> int:
    """1 for an even function, −1 for an odd one, otherwise 0, judged on a grid of points."""
    z = jnp.linspace(0.03, 4.0, 41)
    right, left = np.asarray(activation(z)), np.asarray(activation(-z))
    scale = 1e-12 * np.max(np.abs(right))
    return next((sign for sign in (1, -1) if np.all(np.abs(right - sign * left) <= scale)), 0)


def _states(network: TwoLayer, mean: SameUnits, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Q, R and v at all records; a fixed readout need not be recorded."""
    Q, R = arrays["Q"], arrays["R"]
    v = arrays["v"] if "v" in arrays else np.tile(network.readout, (len(Q), 1))
    return mean.states(Q, R, v)
