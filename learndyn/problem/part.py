"""The parts a problem is made of: immutable, validated when made, written to and read from plain data.

A part is an `equinox.Module`, so it is a JAX pytree: its numbers and arrays are leaves, and `jax.grad`
with respect to a field works. Each field is declared with a *check*, a function `(value, name) -> value`
that converts the user's value or raises `ProblemError`:

    class Stream(Part):
        batch: int = field(whole(minimum=1), default=1)

Traced values pass a check unchanged, because their numbers are not known yet; only their shape is checked.
"""

import dataclasses
import hashlib
import inspect
import json
import re
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

import equinox as eqx
import jax
import jax.core
import numpy as np

from learndyn.errors import ProblemError, nearest

Check = Callable[[Any, str], Any]
"""`check(value, name)` returns the value as the part stores it, or raises a `ProblemError` that names the field."""


def field(check: Check, **options: Any) -> Any:
    """A dataclass field whose value goes through `check` when the part is made."""
    return dataclasses.field(metadata={"check": check}, **options)


def static_field(check: Check, **options: Any) -> Any:
    """A checked field that belongs to the structure, not to the numbers: JAX compiles again for another value."""
    return dataclasses.field(metadata={"check": check, "static": True}, **options)


def traced(value: object) -> bool:
    """Whether `value` is a JAX tracer, whose number is not known yet."""
    return isinstance(value, jax.core.Tracer)


@dataclass_transform(field_specifiers=(dataclasses.field, eqx.field))
class _PartType(type(eqx.Module)):
    """Makes parts; arguments that do not fit the fields raise a `ProblemError` that names the field."""

    def __call__(cls, *values: Any, **named: Any) -> Any:
        try:
            return super().__call__(*values, **named)
        except TypeError as error:
            raise _misfit(cls, values, named) or error from None


def _misfit(cls: type, values: tuple, named: dict) -> ProblemError | None:
    """The error of a field that is unknown, missing or given twice; None if the fields are fine."""
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # pyright: ignore[reportArgumentType]
    for name, value in named.items():
        if name not in fields:
            return ProblemError(
                f"{cls.__name__}.{name}", value, f"unknown; {nearest(name, fields)}"
            )
    if len(values) > len(fields):
        allowed = f"too many values: the fields are {', '.join(fields)}"
        return ProblemError(cls.__name__, values, allowed)
    for name in list(fields)[: len(values)]:
        if name in named:
            return ProblemError(f"{cls.__name__}.{name}", named[name], "was given twice")
    for name, f in list(fields.items())[len(values) :]:
        optional = f.default is not dataclasses.MISSING
        optional |= f.default_factory is not dataclasses.MISSING
        if name not in named and not optional:
            return ProblemError(f"{cls.__name__}.{name}", None, f"missing; {cls.__name__} needs it")
    return None


class Part(eqx.Module, metaclass=_PartType):
    """Base of networks, data, training rules, schedules and activations.

    Two parts are equal if and only if they have the same kind and the same field values.
    """

    kind: ClassVar[str] = ""
    """The name in problem files, from the class's name; empty for a base class (`abstract=True`)."""
    implied: ClassVar[bool] = True
    """Whether a file may leave out the name, if no other kind is possible."""
    constructors: ClassVar[tuple[str, ...]] = ()
    """Class methods that a problem file may name, as in `kind = "two_layer.random"`."""

    def __init_subclass__(cls, abstract: bool = False, **options: Any):
        super().__init_subclass__(**options)
        if abstract:
            cls.kind = ""
        elif "kind" not in cls.__dict__:
            cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __post_init__(self):
        # Reading an attribute of a module, and binding its methods, takes longer than most checks.
        cls, values = type(self), vars(self)
        for f in dataclasses.fields(cls):
            check = f.metadata.get("check")
            if check is not None:
                name = f"{cls.__name__}.{f.name}"
                object.__setattr__(self, f.name, check(values[f.name], name))
        cls.validate(self)

    def validate(self) -> None:
        """Checks that involve several fields; called after each field has been checked."""

    def named_values(self) -> dict[str, Any]:
        """The values that may be varied, by name: those of the fields."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def with_values(self, **values: Any) -> Any:
        """The part with other values of some fields, checked as a new one is."""
        return dataclasses.replace(self, **values)

    def to_dict(self) -> dict | str:
        """Plain data (strings, numbers, lists, dictionaries) that `from_dict` turns back into this part.

        A dictionary, or only a name for the parts that have no fields, such as the activation "erf".
        """
        values = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind} | {k: v for k, v in values.items() if v is not None}

    @classmethod
    def from_dict(cls, values: dict, name: str, context: dict | None = None) -> "Part":
        """The part that plain data describes; `name` says where in the file it stands.

        `kind` may name one of `constructors`; arguments that the file does not give are then taken from `context`.
        """
        values = dict(values)
        _, _, constructor = values.pop("kind", cls.kind).partition(".")
        make = getattr(cls, constructor) if constructor else cls
        parameters = inspect.signature(make).parameters
        from_context = {k: v for k, v in (context or {}).items() if constructor and k in parameters}
        for key, value in values.items():
            if key not in parameters or key in from_context:
                known = parameters.keys() - from_context.keys()
                raise ProblemError(f"{name}.{key}", value, f"unknown key; {nearest(key, known)}")
        for key, parameter in parameters.items():
            required = parameter.default is parameter.empty
            if required and key not in values and key not in from_context:
                raise ProblemError(f"{name}.{key}", None, f"missing; {make.__name__} needs it")
        return make(**values, **from_context)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = (f.name for f in dataclasses.fields(self))
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash(content_hash(self))


def same(a: object, b: object) -> bool:
    """Whether two values of a field are equal."""
    if isinstance(a, np.ndarray | jax.Array) and isinstance(b, np.ndarray | jax.Array):
        return np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def content_hash(part: Part) -> str:
    """SHA-256 of the part's plain data: the same on every machine and in every process."""
    text = json.dumps(part.to_dict(), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """Numbers, arrays and parts as plain data."""
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    return value
