"""Starts that are exactly symmetric: the limit stays symmetric for ever, finite networks leave.

A family says which mirrors leave the start of a problem unchanged (`Theory.symmetries`). Finite networks differ from
the limit by fluctuations of order 1/√N, which have a part across the mirror. Whether that part grows, and how fast, is
measured: the theory is solved once more from a start moved a little in a generic direction, and the part of the
difference across the mirror is followed as long as it is small. It obeys the linear equations along the symmetric
solution, so it ends up growing as exp(rate · t) if there is an unexcited growing direction at all. Fluctuations have
then grown to order one after about

    ln(√N)/rate = ln N/(2 · rate).

Only starts that are symmetric to the last digit cost the second solution.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.curves import Curves
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.symmetry_words import sentences
from learndyn.core.theory import Theory
from learndyn.errors import NotConverged, NotEnoughMemory
from learndyn.numerics.times import DEFAULT_COUNT
from learndyn.problem.problem import Problem

MOVED = 1e-8
"""How far the start is moved: far above rounding errors, and small enough for ten e-foldings of linear growth."""
SMALL = 1e-3
"""Differences below this fraction of the largest order parameter obey the linear equations to that accuracy."""
MATTERS = 0.5 * math.log(100)
"""Growth that takes fluctuations 1/√N to order one in a network of 100, the smallest for which a limit is of use.
Symmetries across which deviations grow less than this during the training are not mentioned."""
ROUNDING = 2e-14
"""Differences below this fraction of the largest order parameter may be rounding errors of a hundred steps."""
TOLERATED = 3.0
"""An integrator lets errors in fast directions rise to its relative tolerance, 1.7 times where it was measured: what is
below this multiple of the tolerance is not told from them."""
LEFT = 0.1
"""A batch of samples has left the symmetric state where it is off by this fraction of the largest order parameter."""
ENOUGH = 8
"""Records on which a rate can be read off; where growth is faster, an earlier part of the training is looked at."""


class Mirror(NamedTuple):
    """A signed permutation of a vector of order parameters, x_k → sign_k · x_order(k)."""

    order: np.ndarray
    sign: np.ndarray

    def across(self, states: np.ndarray) -> np.ndarray:
        """The part of states (last axis) that the mirror reverses, twice."""
        return states - self.sign * states[..., self.order]

    def errors(self, errors: np.ndarray) -> np.ndarray:
        """The errors of this part, from independent ones of the states."""
        alone = self.order == np.arange(len(self.order))
        return np.where(alone, (1 - self.sign) * errors, np.hypot(errors, errors[..., self.order]))


class Symmetry(NamedTuple):
    """Mirrors that leave a start unchanged, and why in words that complete "the start is exactly symmetric: …"."""

    words: str
    mirrors: tuple[Mirror, ...]

    def distance(self, states: np.ndarray) -> np.ndarray:
        """How far each state is from being symmetric."""
        squares = [np.sum(mirror.across(states) ** 2, axis=-1) for mirror in self.mirrors]
        return np.sqrt(np.sum(squares, axis=0)) / 2

    def scatter(self, errors: np.ndarray) -> np.ndarray:
        """The same for independent errors of the order parameters."""
        squares = [np.sum(mirror.errors(errors) ** 2, axis=-1) for mirror in self.mirrors]
        return np.sqrt(np.sum(squares, axis=0)) / 2


class SymmetricStart(NamedTuple):
    """What a family says of a start with symmetries.

    - `symmetries`: the symmetries, the most general first.
    - `states`: turns observables into order parameters (records × order parameters).
    - `moved`: gives the problem with its start moved by an amount in a generic direction that finite networks can take.
      None if another start draws other samples, so that the effect of the start on a solution cannot be separated from
      that of the samples; the observables then have errors.
    - `sampled`: whether the theory uses samples or quadrature points, which are not symmetric. False unless given.
    - `exact_runs`: whether finite networks start with exactly the order parameters of the limit and are trained without
      noise. False unless given.
    """

    symmetries: list[Symmetry]
    states: Callable[[dict[str, np.ndarray]], np.ndarray]
    moved: Callable[[float], Problem] | None
    sampled: bool = False
    exact_runs: bool = False


class Growth(NamedTuple):
    """How a small part across a symmetry grows: its rate, and the largest logarithm of its growth in the training."""

    rate: float
    logarithm: float
    look_until: float | None
    """None, or the time up to which to look again, more closely."""


def with_symmetry(
    theory: Theory, problem: Problem, method: Method, record: Record, seed: int, curves: Curves
) -> Curves:
    """The curves; if their start is symmetric and deviations from it grow, with that in their evidence."""
    start = theory.symmetries(problem)
    if start is None or not np.any(curves.times):
        return curves
    symbol = theory.size_symbol
    if start.moved is None:
        return _with_evidence(curves, _left_by_samples(start, curves), symbol)

    def solve(problem: Problem, times: np.ndarray) -> Curves:
        return theory.solve(problem, method, record.moved_to(times), seed)

    try:
        growths = _growths(solve, problem, start, curves, reuse=not record.chosen)
    except (NotConverged, NotEnoughMemory) as error:
        unknown = {"symmetry": start.symmetries[0].words, "rate": None, "unknown": str(error)}
        return _with_evidence(curves, unknown, symbol)
    growing = [
        (growth, symmetry)
        for growth, symmetry in zip(growths, start.symmetries, strict=True)
        if growth.logarithm >= MATTERS
    ]
    if not growing:
        return curves
    fastest = max(growth.rate for growth, _ in growing)
    # Equal rates differ in their last digits; then the first symmetry, the most general one, is named.
    growth, symmetry = next(pair for pair in growing if pair[0].rate > 0.99 * fastest)
    symmetric_start = {
        "symmetry": symmetry.words,
        "others": [other.words for _, other in growing if other is not symmetry],
        "rate": growth.rate,
        "axis": curves.axis,
        "growth": growth.logarithm,
        "exact_runs": start.exact_runs,
        "sampled": start.sampled,
        "left_at": _left_at(symmetry, start, curves),
    }
    return _with_evidence(curves, symmetric_start, symbol)


def _with_evidence(curves: Curves, symmetric_start: dict | None, symbol: str) -> Curves:
    """The curves with evidence, and a warning, that their start is symmetric."""
    if symmetric_start is None:
        return curves
    warnings = [*curves.evidence.get("warnings", []), *sentences(symmetric_start, symbol)]
    return curves.told(symmetric_start=symmetric_start, warnings=warnings)


def _left_by_samples(start: SymmetricStart, curves: Curves) -> dict | None:
    """The evidence if each batch of samples leaves the symmetric state in its own way; None if none leaves it.

    The distance of a single batch is that of the mean and the scatter between batches, which the error bars show.
    """
    batches = curves.evidence["batches"]
    states = start.states(curves.arrays)
    higher = {name: curves[name] + error for name, error in curves.errors.items()}
    errors = start.states(curves.arrays | higher) - states
    for symmetry in start.symmetries:
        scatter = np.sqrt(batches - 1) * symmetry.scatter(errors)
        distance = np.hypot(symmetry.distance(states), scatter)
        left = np.flatnonzero(distance > LEFT * np.max(np.abs(states)))
        if left.size:
            return {
                "symmetry": symmetry.words,
                "others": [],
                "rate": None,
                "axis": curves.axis,
                "sampled": True,
                "left_at": float(curves.times[left[0]]),
            }
    return None


def _growths(
    solve: Callable[[Problem, np.ndarray], Curves],
    problem: Problem,
    start: SymmetricStart,
    curves: Curves,
    reuse: bool,
) -> list[Growth]:
    """The growth across each symmetry, from the solution of a moved start next to that of the problem.

    If growth is too fast to be resolved, both are solved again for a shorter time. `reuse` says whether the times of
    `curves` are dense enough to use them.
    """
    assert start.moved is not None
    elsewhere, times, base = start.moved(MOVED), curves.times, curves
    tolerance = curves.evidence.get("tolerances", {}).get("rtol", 0.0)
    resolution = max(ROUNDING, TOLERATED * tolerance)
    if not reuse:
        times = _records(times[-1], curves.axis)
        base = solve(problem, times)
    while True:
        states = start.states(base.arrays)
        others = start.states(solve(elsewhere, times).arrays)
        count = min(len(states), len(others))
        growths = [
            _growth(
                symmetry, times[:count], states[:count], others[:count], start.sampled, resolution
            )
            for symmetry in start.symmetries
        ]
        until = max(growths, key=lambda growth: growth.rate).look_until
        if until is None or len(_records(until, curves.axis)) <= ENOUGH:
            return growths
        times = _records(until, curves.axis)
        base = solve(problem, times)


def _records(end: float, axis: str) -> np.ndarray:
    """Equally spaced times, or whole steps, up to `end`."""
    times = np.linspace(0, end, DEFAULT_COUNT)
    return np.unique(np.rint(times).astype(np.int64)) if axis == "step" else times


def _growth(
    symmetry: Symmetry,
    times: Float[np.ndarray, " T"],
    states: Float[np.ndarray, "T parameters"],
    others: Float[np.ndarray, "T parameters"],
    sampled: bool,
    resolution: float,
) -> Growth:
    """The growth of the distance between two solutions across a symmetry.

    Distances below `resolution`, relative to the largest order parameter, are errors of the solutions.
    """
    size = np.max(np.abs(states))
    apart = np.maximum(symmetry.distance(others - states), resolution * size)
    large = np.flatnonzero(apart > SMALL * size)
    # One record beyond the linear growth is included if there would otherwise be only the start.
    last = max(int(large[0]) - 1, 1) if large.size else len(apart) - 1
    if not np.all(apart[: last + 1] > 0):
        return Growth(0.0, 0.0, None)
    logarithm = np.log(apart[: last + 1])
    rise = logarithm - np.minimum.accumulate(logarithm)
    top = int(np.argmax(rise))
    lowest = int(np.argmin(logarithm[: top + 1]))
    # Only the second half counts: before it, the solution is on its way, and directions that do not grow matter.
    half = lowest + int(np.argmax(rise[lowest : top + 1] >= rise[top] / 2))
    first = min(half, max(top - 2, lowest))
    if top == first:
        return Growth(0.0, 0.0, None)
    rate = float(np.polyfit(times[first : top + 1], logarithm[first : top + 1], 1)[0])
    coarse = large.size > 0 and top - lowest < ENOUGH
    until = float(times[large[0]]) if coarse and large[0] < len(times) - 1 else None
    # The base solution must be symmetric itself, unless its samples are not: else the equations are not symmetric.
    broken = np.any(symmetry.distance(states[: last + 1]) > 0.01 * apart[: last + 1])
    total = 0.0 if broken and not sampled else float(np.log(np.max(apart[lowest:]) / apart[lowest]))
    return Growth(rate, total, until)


def _left_at(symmetry: Symmetry, start: SymmetricStart, curves: Curves) -> float | None:
    """The first record at which the theory itself is visibly off the symmetry, by rounding errors or its samples."""
    states = start.states(curves.arrays)
    off = np.flatnonzero(symmetry.distance(states) > SMALL * np.max(np.abs(states)))
    return float(curves.times[off[0]]) if off.size else None
