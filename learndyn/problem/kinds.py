"""Parts by the name of their kind, as problem files give them."""

from collections.abc import Callable
from typing import Any

from learndyn.errors import ProblemError, nearest
from learndyn.loading import load_kinds
from learndyn.problem.part import Check, Part


def part(*classes: type[Part], convert: Callable[[Any], Any] | None = None) -> Check:
    """An instance of one of `classes` (or of a subclass), or a dictionary with a `kind` that names one.

    `convert` may first turn other values (a number, a string) into a part.
    """

    def check(value: Any, name: str) -> Part:
        if convert is not None:
            value = convert(value)
        if isinstance(value, dict):
            value = from_plain(value, name, classes)
        if not isinstance(value, classes):
            kinds = ", ".join(sorted(kinds_of(*classes)))
            raise ProblemError(name, value, f"must be one of the kinds {kinds}")
        return value

    return check


def kinds_of(*classes: type[Part]) -> dict[str, type[Part]]:
    """The concrete kinds below `classes`, by the names that a file may use."""
    load_kinds()
    kinds = {}
    for cls in classes:
        if cls.kind and not getattr(cls, "__abstractmethods__", None):
            kinds[cls.kind] = cls
            kinds |= {f"{cls.kind}.{name}": cls for name in cls.constructors}
        kinds |= kinds_of(*cls.__subclasses__())
    return kinds


def from_plain(
    values: Any,
    name: str,
    classes: tuple[type[Part], ...],
    context: dict[str, Any] | None = None,
) -> Part:
    """The part that a dictionary with a `kind` describes, which must be a kind of one of `classes`.

    The kind may be left out if only one class is possible. `context` holds arguments for constructors that the
    dictionary does not give.
    """
    if not isinstance(values, dict):
        raise ProblemError(name, values, "must be a table")
    kinds = kinds_of(*classes)
    kind = values.get("kind")
    implied = {name: cls for name, cls in kinds.items() if cls.implied}
    if kind is None and len(set(implied.values())) == 1:
        kind = next(iter(implied))
    if kind is None:
        raise ProblemError(
            f"{name}.kind", None, f"missing; it must be one of {', '.join(sorted(kinds))}"
        )
    if not isinstance(kind, str) or kind not in kinds:
        raise ProblemError(f"{name}.kind", kind, f"unknown kind; {nearest(kind, kinds)}")
    return kinds[kind].from_dict(values, name, context)
