"""What a theory understands of a problem: the fields that it uses. All others must keep their default."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from learndyn.errors import ProblemError
from learndyn.problem.part import Part, same
from learndyn.problem.problem import SECTIONS, Problem

TASK = "data.task"


class ForeignField(NamedTuple):
    """A field that a theory does not understand, and whose value is not the default."""

    path: str
    value: Any
    default: Any


def foreign_fields(problem: Problem, understands: tuple[str, ...]) -> list[ForeignField]:
    """The fields of a problem that are not understood.

    `understands` holds paths such as "training.momentum" or "data.task.spectrum"; a path includes everything below
    it. Fields without a default are always understood; the fields of the task are checked one by one.
    """
    sections = [(getattr(problem, section), section) for section in SECTIONS]
    return [foreign for part, name in sections for foreign in _foreign(part, name, understands)]


def refusal(
    problem: Problem, foreign: ForeignField, understands: tuple[str, ...], theory: str
) -> ProblemError:
    """The error of a field that a theory does not understand."""
    part = foreign.path.rpartition(".")[0]
    known = ", ".join(_understood(problem, part, understands))
    allowed = (
        f"the theory {theory} does not understand this field; leave it at {foreign.default!r} "
        f"(the fields of {part} that it understands: {known})"
    )
    return ProblemError(foreign.path, foreign.value, allowed)


def _foreign(part: Part, name: str, understands: tuple[str, ...]) -> Iterator[ForeignField]:
    """The fields of a part, whose path is `name`, that are not understood."""
    if name in understands:
        return
    values = vars(part)  # reading an attribute of a module takes longer than comparing it
    for field in dataclasses.fields(part):
        path, value = f"{name}.{field.name}", values[field.name]
        if path in understands:
            continue
        if field.default is not dataclasses.MISSING:
            if not same(value, field.default):
                yield ForeignField(path, value, field.default)
        elif path == TASK:
            yield from _foreign(value, path, understands)


def _understood(problem: Problem, name: str, understands: tuple[str, ...]) -> list[str]:
    """The names of the fields of a part that are understood."""
    part: Any = problem
    for word in name.split("."):
        part = getattr(part, word)
    return [
        field.name
        for field in dataclasses.fields(part)
        if field.default is dataclasses.MISSING or f"{name}.{field.name}" in understands
    ]
