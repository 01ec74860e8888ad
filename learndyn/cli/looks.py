"""The options that say how a picture of a sweep looks."""

import re

from learndyn.cli.compute import value_of
from learndyn.errors import ProblemError, nearest


def look_of(kind, x, colour, at, select: list[str] | None) -> dict:
    """The arguments of `plot_sweep` that the options mean."""
    return {"kind": kind, "x": x, "colour": colour, "at": at, "select": _selected(select or [])}


def refuse_look(look: dict, why: str) -> None:
    """Refuse options of a picture where there is none of a sweep."""
    for key, value in look.items():
        if value not in (None, {}):
            raise ProblemError(f"--{key}", value, why)


def _selected(select: list[str]) -> dict:
    """The axes and values in NAME=VALUE, each of which is one option --select."""
    found = {}
    for text in select:
        name, equals, word = (part.strip() for part in text.partition("="))
        if not equals or not name or not word:
            raise ProblemError("--select", text, "must look like width=2")
        value = value_of(word)
        # On an axis, true and false are words.
        found[name] = word if isinstance(value, bool) else value
    return found


def check_look(look: dict, names: list[str]) -> None:
    """Refuse a picture that could not be drawn."""
    from learndyn.pictures.sweeps import KINDS

    if look["kind"] not in (None, *KINDS):
        raise ProblemError("--kind", look["kind"], f"must be one of {', '.join(KINDS)}")
    for key in ("x", "colour"):
        if look[key] is not None and look[key] not in names:
            allowed = f"is no swept field; {nearest(look[key], set(names))}"
            raise ProblemError(f"--{key}", look[key], allowed)


def picture_of(found, observables: list[str] | None, look: dict):
    """The picture of a sweep; an error names the option."""
    from learndyn.pictures.sweeps import plot_sweep

    try:
        return plot_sweep(found, (observables or ["test_loss"])[0], **look)
    except ProblemError as error:
        # What to try is said in Python there.
        field = re.sub(r"select\['([^']*)'\]", r"select \1", error.field)
        allowed = re.sub(r"select=\{'([^']*)': '?(.*?)'?\}", r"--select \1=\2", error.allowed)
        raise ProblemError(f"--{field}", error.value, allowed) from error
