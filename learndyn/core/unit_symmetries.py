"""Which exchanges and sign changes of units leave overlaps exactly as they are.

A network of student units with weights w_i and readout v_i, and a teacher of w*_n, v*_n, is known in the limit by
Q = w·w, R = w·w*, T = w*·w* and v. Its equations are unchanged by

- exchanging student units, or teacher units of the same v*;
- w_i → −w_i of an even unit, and (w_i, v_i) → −(w_i, v_i) of an odd one; the same for teacher units.

An exchange may come with a change of both signs. Exchanges of student and teacher units at the same time are left out:
a start that has only this symmetry is already on its way to units of their own.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.symmetry import Mirror, Symmetry


@dataclasses.dataclass(frozen=True)
class UnitOverlaps:
    """The units of one side, student or teacher, by their overlaps and readout.

    - `overlaps`: Q = w·w or T = w*·w*.
    - `readout`: v or v*.
    - `parity`: 1 for an even unit, −1 for an odd one, 0 otherwise.
    - `group`: only units of the same group can be exchanged.
    """

    overlaps: Float[np.ndarray, "units units"]
    readout: Float[np.ndarray, " units"]
    parity: np.ndarray
    group: np.ndarray


class Change(NamedTuple):
    """A change of the units of one side: unit i is replaced by sign_i times unit order_i."""

    order: np.ndarray
    sign: np.ndarray


def possible(R: Float[np.ndarray, "K M"]) -> bool:
    """Whether these overlaps allow a symmetry at all; most do not, and need no closer look."""
    for rows in (np.abs(R), np.abs(R.T)):
        if len({row.tobytes() for row in rows}) < len(rows) or not rows.any(axis=1).all():
            return True
    return False


def symmetries(
    student: UnitOverlaps, teacher: UnitOverlaps, R: Float[np.ndarray, "K M"], words: dict[str, str]
) -> list[Symmetry]:
    """The symmetries of a start, the most general first.

    `words` say that units are "even" or "odd", and that there is "zero" overlap with the teacher.
    """
    return [
        *_of_all_signs(student, teacher, R, words),
        *_of_single_signs(student, teacher, R, words),
        *_exchanges(student, teacher, R),
    ]


def moved(
    student: UnitOverlaps,
    T: Float[np.ndarray, "M M"],
    R: Float[np.ndarray, "K M"],
    amount: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, R and the readout of weights w_i + amount · (generic combination of all w_j and w*_n).

    Units with the same weights and readout stay together, as they do in finite networks, and so do units with opposite
    ones and units without any, where signs do not matter.
    """
    K, M = R.shape
    rng = np.random.default_rng(0)
    change, shift = rng.standard_normal((K, K + M)), rng.standard_normal(K)
    mean = means_of_same_units(student)
    change = np.eye(K, K + M) + amount * mean.weights @ change
    weights = change @ np.block([[student.overlaps, R], [R.T, T]])
    Q = weights @ change.T
    return (Q + Q.T) / 2, weights[:, K:], student.readout + amount * mean.readout @ shift


class SameUnits(NamedTuple):
    """Matrices that replace every unit by the mean of the units with the same weights and readout, up to signs."""

    weights: Float[np.ndarray, "K K"]
    readout: Float[np.ndarray, "K K"]

    def states(
        self,
        Q: Float[np.ndarray, "T K K"],
        R: Float[np.ndarray, "T K M"],
        v: Float[np.ndarray, "T K"],
    ) -> Float[np.ndarray, "T parameters"]:
        """The vector of Q, R and v at all records, of the means.

        Units that start with the same weights stay together in the limit and in finite networks. Compiled code may
        round them differently, and such differences can grow; they say nothing about networks.
        """
        parts = (self.weights @ Q @ self.weights.T, self.weights @ R, v @ self.readout.T)
        return np.concatenate([np.reshape(part, (len(Q), -1)) for part in parts], axis=1)


def means_of_same_units(student: UnitOverlaps) -> SameUnits:
    """The means over units with the same weights; a unit without weights, whose sign does not matter, has mean zero."""
    K = len(student.readout)
    first, sign = np.arange(K), np.ones(K)
    weightless = np.zeros(K, dtype=bool)
    for i in range(K):
        flipped = _flip(student, [i])
        weightless[i] = student.parity[i] and _stays(flipped, student)
        for j in range(i):
            exchanged = _exchange(student, student.overlaps[:, :0], j, i)
            if exchanged is not None and _stays(exchanged, student):
                first[i], sign[i] = first[j], exchanged.sign[i] * sign[j]
                break
    same = np.equal.outer(first, first)
    odd = student.parity == -1
    readout_sign = np.where(odd, sign, 1.0)
    share = same / same.sum(axis=1)
    return SameUnits(
        share * np.outer(sign, sign) * ~weightless[:, None],
        share * np.outer(readout_sign, readout_sign) * ~(weightless & odd)[:, None],
    )


def _stays(change: Change, units: UnitOverlaps) -> bool:
    """Whether a change leaves every weight and readout as it is."""
    return _preserves(change, units) and not _moves(change, units)


def _of_all_signs(
    student: UnitOverlaps, teacher: UnitOverlaps, R: Float[np.ndarray, "K M"], words: dict[str, str]
) -> Iterator[Symmetry]:
    """All even units change their signs: enough to say where none of them has an overlap with the teacher."""
    if np.any(R):
        return
    same = [_unchanged(units) for units in (student, teacher)]
    if np.all(student.parity == 1):
        change, text = (_flip(student, slice(None)), same[1]), words["even"]
    elif np.all(teacher.parity == 1):
        change, text = (same[0], _flip(teacher, slice(None))), "the teacher is even"
    else:
        return
    yield from _symmetry(f"{text} and {words['zero']}", student, teacher, R, [change])


def _of_single_signs(
    student: UnitOverlaps, teacher: UnitOverlaps, R: Float[np.ndarray, "K M"], words: dict[str, str]
) -> Iterator[Symmetry]:
    """A single unit changes its sign."""
    same = [_unchanged(units) for units in (student, teacher)]
    covered = not np.any(R) and (np.all(student.parity == 1) or np.all(teacher.parity == 1))
    for i in np.flatnonzero(~np.any(R, axis=1)).tolist():
        changes = [(_flip(student, [i]), same[1])]
        if student.parity[i] == 1 and not covered:
            text = f"{words['even']} and student unit {i + 1} starts without overlaps"
            yield from _symmetry(text, student, teacher, R, changes)
        elif student.parity[i] == -1:
            text = f"{words['odd']} and student unit {i + 1} starts without overlaps and readout"
            yield from _symmetry(text, student, teacher, R, changes)
    for n in np.flatnonzero((teacher.parity == 1) & ~np.any(R, axis=0)).tolist():
        if not covered:
            text = f"the teacher is even and no student unit overlaps with its unit {n + 1}"
            yield from _symmetry(text, student, teacher, R, [(same[0], _flip(teacher, [n]))])


def _exchanges(
    student: UnitOverlaps, teacher: UnitOverlaps, R: Float[np.ndarray, "K M"]
) -> Iterator[Symmetry]:
    """Units of one side are exchanged."""
    same = [_unchanged(units) for units in (student, teacher)]
    for members, changes, sign in _alike(student, R):
        text = f"student units {_listed(members)} have the same overlaps"
        text += "" if sign > 0 else " up to the sign"
        yield from _symmetry(text, student, teacher, R, [(change, same[1]) for change in changes])
    for members, changes, sign in _alike(teacher, R.T):
        text = f"no student unit tells teacher units {_listed(members)} apart"
        text += "" if sign > 0 else " but for the sign"
        yield from _symmetry(text, student, teacher, R, [(same[0], change) for change in changes])


def _alike(
    units: UnitOverlaps, R: Float[np.ndarray, "units others"]
) -> Iterator[tuple[list[int], list[Change], int]]:
    """Sets of units that can be exchanged, up to signs; exchanges with the first unit generate all others."""
    sets: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.abs(R)):
        sets.setdefault(row.tobytes(), []).append(i)
    for left in sets.values():
        while left:
            i, *others = left
            changes = {j: _exchange(units, R, i, j) for j in others}
            possible_changes = {j: change for j, change in changes.items() if change is not None}
            if possible_changes:
                sign = min(int(change.sign[i]) for change in possible_changes.values())
                yield [i, *possible_changes], list(possible_changes.values()), sign
            left = [j for j in others if j not in possible_changes]


def _exchange(
    units: UnitOverlaps, R: Float[np.ndarray, "units others"], i: int, j: int
) -> Change | None:
    """The exchange of two units, of the same sign or of opposite ones, that leaves the overlaps of this side alone."""
    if units.group[i] != units.group[j]:
        return None
    for sign in (1, -1):
        if sign < 0 and not units.parity[i]:
            return None
        if not np.array_equal(R[i], sign * R[j]):
            continue
        change = _unchanged(units)
        change.order[[i, j]] = j, i
        change.sign[[i, j]] = sign
        if _preserves(change, units):
            return change
    return None


def _symmetry(
    text: str,
    student: UnitOverlaps,
    teacher: UnitOverlaps,
    R: Float[np.ndarray, "K M"],
    changes: list[tuple[Change, Change]],
) -> Iterator[Symmetry]:
    """A symmetry, if the changes preserve the start but move weights; otherwise finite networks are symmetric, too."""
    mirrors = []
    for ours, theirs in changes:
        preserved = _preserves(ours, student) and _preserves(theirs, teacher)
        crossed = R[np.ix_(ours.order, theirs.order)] * np.outer(ours.sign, theirs.sign)
        if not preserved or not np.array_equal(crossed, R):
            return
        if _moves(ours, student) or _moves(theirs, teacher):
            mirrors.append(_mirror(ours, theirs, student))
    if mirrors:
        yield Symmetry(text, tuple(mirrors))


def _mirror(ours: Change, theirs: Change, student: UnitOverlaps) -> Mirror:
    """The change as one of the vector of Q, R and v."""
    K, M = len(ours.order), len(theirs.order)
    Q, R = np.arange(K * K).reshape(K, K), np.arange(K * M).reshape(K, M)
    order = [Q[np.ix_(ours.order, ours.order)], R[np.ix_(ours.order, theirs.order)] + K * K]
    order += [ours.order + K * K + K * M]
    sign = [np.outer(ours.sign, ours.sign), np.outer(ours.sign, theirs.sign)]
    sign += [_readout_sign(ours, student)]
    return Mirror(*(np.concatenate([np.ravel(part) for part in parts]) for parts in (order, sign)))


def _readout_sign(change: Change, units: UnitOverlaps) -> np.ndarray:
    """The readout of an odd unit changes its sign with the weights."""
    return np.where(units.parity == -1, change.sign, 1)


def _preserves(change: Change, units: UnitOverlaps) -> bool:
    """Whether a change leaves the overlaps and readout of its own side as they are."""
    moved = units.overlaps[np.ix_(change.order, change.order)]
    moved = moved * np.outer(change.sign, change.sign)
    readout = _readout_sign(change, units) * units.readout[change.order]
    return np.array_equal(moved, units.overlaps) and np.array_equal(readout, units.readout)


def _moves(change: Change, units: UnitOverlaps) -> bool:
    """Whether |w_i − sign_i · w_order(i)|² > 0 for some unit, beyond rounding."""
    norms = np.diagonal(units.overlaps)
    product = change.sign * units.overlaps[np.arange(len(norms)), change.order]
    both = norms + norms[change.order]
    return bool(np.any(both - 2 * product > 1e-12 * both))


def _unchanged(units: UnitOverlaps) -> Change:
    count = len(units.readout)
    return Change(np.arange(count), np.ones(count, dtype=int))


def _flip(units: UnitOverlaps, members: list[int] | slice) -> Change:
    """The members change their signs."""
    change = _unchanged(units)
    change.sign[members] = -1
    return change


def _listed(members: list[int]) -> str:
    """1, 2 and 3; counting from one, and without those in the middle of a long list."""
    names = [str(i + 1) for i in members]
    if len(names) > 5:
        names = [*names[:3], "…", names[-1]]
    return f"{', '.join(names[:-1])} and {names[-1]}"
