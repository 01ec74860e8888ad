"""Exact symmetries of the start of a neural ODE, which its limit never leaves.

A control θ_u with its amplitude a_u is a unit in the sense of `learndyn.core.unit_symmetries`. The field is even in the
control where G(q, m) is even in m, and odd where G is odd.
"""

import dataclasses
import functools
import math

import numpy as np

from learndyn.core.symmetry import SymmetricStart
from learndyn.core.unit_symmetries import Units, moved, possible, symmetries
from learndyn.families.neural_ode.fields import PolynomialField, RandomField
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowShape

WORDS = {
    "even": "the field is even in the control",
    "odd": "the field is odd in the control",
    "zero": "m = 0",
}


def symmetric_start(problem) -> SymmetricStart | None:
    """The symmetries of a problem's start, or None."""
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
        Units(overlaps, a, np.repeat(parities, windows * neurons), _groups(shape, windows, neurons))
        for overlaps, a, (windows, neurons) in zip(
            (start.Q, start.T), (start.a, start.teacher_a), counts, strict=True
        )
    )
    found = symmetries(student, teacher, start.M, WORDS)
    if not found:
        return None

    def move(amount: float):
        Q, M, a = moved(student, start.T, start.M, amount)
        given = {"initial_norm": Q, "initial_overlap": M}
        if network.train_amplitudes:
            given["amplitudes"] = a[: network.neurons]
        if pair.one_unit:
            given |= {"initial_norm": float(Q[0, 0]), "initial_overlap": float(M[0, 0])}
        return dataclasses.replace(problem, network=dataclasses.replace(network, **given))

    return SymmetricStart(found, _states, move)


def _groups(shape: FlowShape, windows: int, neurons: int) -> np.ndarray:
    """Neurons of one system and window can be exchanged if they share their field."""
    if shape.own_fields:
        return np.arange(shape.systems * windows * neurons)
    return np.repeat(np.arange(shape.systems * windows), neurons)


def parity(field: RandomField) -> int:
    """1 for a field that is even in the control, −1 for an odd one, else 0."""
    if not isinstance(field, PolynomialField):
        return _parity_seen(field)
    c = field.coefficients
    powers = np.flatnonzero(c.reshape(-1, c.shape[-1]).any(axis=0)) % 2
    return 0 if len(set(powers.tolist())) > 1 else 1 - 2 * int(powers[0])


@functools.lru_cache(maxsize=256)
def _parity_seen(field: RandomField) -> int:
    """The parity, as far as a grid of points shows."""
    points = np.linspace(-0.97, 1.0, 6)
    q, m, s = (x.ravel() for x in np.meshgrid(points, np.linspace(0.05, 1.0, 6), points))
    more = (s,) if field.two_states else ()
    right, left = (np.asarray(field(q, x, *more)) for x in (m, -m))
    scale = 1e-12 * np.max(np.abs(right))
    return next((sign for sign in (1, -1) if np.all(np.abs(right - sign * left) <= scale)), 0)


def _states(arrays) -> np.ndarray:
    """Q, m and amplitudes at all records."""
    some = [arrays[name] for name in ("Q", "m", "a")]
    return np.concatenate([x.reshape(len(x), math.prod(x.shape[1:])) for x in some], axis=1)
