"""Exact symmetries of the initial state of a neural ODE, which its limit never breaks.

A control θ_u with its amplitude a_u is a unit in the sense of `learndyn.core.unit_symmetries`. The field is even in the
control if G(q, m) is even in m, and odd if G is odd in m.
"""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from learndyn.core.symmetry import SymmetricStart
from learndyn.core.unit_symmetries import (
    SameUnits,
    UnitOverlaps,
    means_of_same_units,
    moved,
    possible,
    symmetries,
)
from learndyn.families.neural_ode.fields import PolynomialField, RandomField
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowShape
from learndyn.problem.problem import Problem

WORDS = {
    "even": "the field is even in the control",
    "odd": "the field is odd in the control",
    "zero": "m = 0",
}


def symmetric_start(problem: Problem) -> SymmetricStart | None:
    """The symmetries of a problem's initial state; None if it has none."""
    pair = FlowPair.of(problem)
    network = pair.student
    fields = (network.field,) if network.driven is None else (network.field, network.driven)
    parities = np.array([parity(field) for field in fields])
    several = network.neurons > 1 or pair.teacher.neurons > 1
    if not parities.any() and (network.own_fields or not several):
        return None
    start, shape = pair.start(), pair.shape
    if not possible(start.M):
        return None
    counts = ((shape.windows, shape.neurons), (shape.teacher_windows, shape.teacher_neurons))
    student, teacher = (
        UnitOverlaps(
            overlaps, a, np.repeat(parities, windows * neurons), _groups(shape, windows, neurons)
        )
        for overlaps, a, (windows, neurons) in zip(
            (start.Q, start.T), (start.a, start.teacher_a), counts, strict=True
        )
    )
    start_symmetries = symmetries(student, teacher, start.M, WORDS)
    if not start_symmetries:
        return None

    def move(amount: float) -> Problem:
        """The problem with its start moved off the symmetry by this amount."""
        Q, M, a = moved(student, start.T, start.M, amount)
        fields = {"initial_norm": Q, "initial_overlap": M}
        if network.train_amplitudes:
            fields["amplitudes"] = a[: network.neurons]
        if pair.one_unit:
            fields |= {"initial_norm": float(Q[0, 0]), "initial_overlap": float(M[0, 0])}
        return dataclasses.replace(problem, network=dataclasses.replace(network, **fields))

    states = functools.partial(_states, means_of_same_units(student))
    return SymmetricStart(start_symmetries, states, move)


def _groups(shape: FlowShape, windows: int, neurons: int) -> Int[np.ndarray, " units"]:
    """The group of every unit: neurons of one system and window can be exchanged if they share their field."""
    if shape.own_fields:
        return np.arange(shape.systems * windows * neurons)
    return np.repeat(np.arange(shape.systems * windows), neurons)


def parity(field: RandomField) -> int:
    """1 if the field is even in the control, −1 if it is odd, else 0."""
    if not isinstance(field, PolynomialField):
        return _parity_on_grid(field)
    c = field.coefficients
    powers = np.flatnonzero(c.reshape(-1, c.shape[-1]).any(axis=0)) % 2
    return 0 if len(set(powers.tolist())) > 1 else 1 - 2 * int(powers[0])


@functools.lru_cache(maxsize=256)
def _parity_on_grid(field: RandomField) -> int:
    """The parity of G on a grid of points."""
    points = np.linspace(-0.97, 1.0, 6)
    q, m, s = (x.ravel() for x in np.meshgrid(points, np.linspace(0.05, 1.0, 6), points))
    second = s if field.two_states else None
    right, left = (np.asarray(field(q, x, second)) for x in (m, -m))
    scale = 1e-12 * np.max(np.abs(right))
    return next((sign for sign in (1, -1) if np.all(np.abs(right - sign * left) <= scale)), 0)


def _states(
    mean: SameUnits, arrays: Mapping[str, np.ndarray]
) -> Float[np.ndarray, "records order_parameters"]:
    """Q, m and a at all recorded steps, as one vector for each."""
    return mean.states(arrays["Q"], arrays["m"], arrays["a"])
