"""The options that say how a picture of a sweep looks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import learndyn as ld
from learndyn.cli.problems import value_of
from learndyn.errors import ProblemError, nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def look_of(
    kind: str | None,
    x: str | None,
    colour: str | None,
    at: float | None,
    select: list[str] | None,
) -> dict[str, Any]:
    """The arguments of `plot_sweep` for these options."""
    return {"kind": kind, "x": x, "colour": colour, "at": at, "select": _selected(select or [])}


def refuse_look(look: dict[str, Any], why: str) -> None:
    """Refuse options for a picture of a sweep if no such picture is drawn."""
    for key, value in look.items():
        if value not in (None, {}):
            raise ProblemError(f"--{key}", value, why)


def _selected(select: list[str]) -> dict[str, Any]:
    """The axes and their values, from options --select NAME=VALUE."""
    values = {}
    for text in select:
        name, equals, word = (part.strip() for part in text.partition("="))
        if not equals or not name or not word:
            raise ProblemError("--select", text, "must look like width=2")
        value = value_of(word)
        # On an axis, true and false are words.
        values[name] = word if isinstance(value, bool) else value
    return values


def check_look(look: dict[str, Any], names: list[str]) -> None:
    """Refuse a picture that could not be drawn."""
    from learndyn.pictures.sweeps import KINDS

    if look["kind"] not in (None, *KINDS):
        raise ProblemError("--kind", look["kind"], f"must be one of {', '.join(KINDS)}")
    for key in ("x", "colour"):
        if look[key] is not None and look[key] not in names:
            allowed = f"is not one of the swept fields; {nearest(look[key], set(names))}"
            raise ProblemError(f"--{key}", look[key], allowed)


def picture_of(sweep: ld.Sweep, observables: list[str] | None, look: dict[str, Any]) -> Figure:
    """The picture of a sweep; an error names the option."""
    try:
        return ld.plot_sweep(sweep, (observables or ["test_loss"])[0], **look)
    except ProblemError as error:
        # Its advice is written for Python.
        field = re.sub(r"select\['([^']*)'\]", r"select \1", error.field)
        allowed = re.sub(r"select=\{'([^']*)': '?(.*?)'?\}", r"--select \1=\2", error.allowed)
        raise ProblemError(f"--{field}", error.value, allowed) from error
