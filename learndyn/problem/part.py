"""The parts a problem is made of: immutable, validated when made, written to and read from plain data.

A part is an `equinox.Module`, so it is a JAX pytree: its numbers and arrays are leaves, and `jax.grad`
with respect to a field works. Each field is declared with a *check*, a function `(value, name) -> value`
that converts what the user gave or raises `ProblemError`:

    class Stream(Part):
        batch: int = field(whole(minimum=1), default=1)

Traced values pass a check untouched; their shape is still looked at.
"""

import dataclasses
import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

import equinox as eqx
import jax
import jax.core
import numpy as np

from learndyn.errors import ProblemError, nearest

Check = Callable[[Any, str], Any]


def field(check: Check, **options):
    """A dataclass field whose value goes through `check` when the part is made."""
    return dataclasses.field(metadata={"check": check}, **options)


def traced(value) -> bool:
    """Whether `value` is a JAX tracer, whose number is not known yet."""
    return isinstance(value, jax.core.Tracer)


@dataclass_transform(field_specifiers=(dataclasses.field, eqx.field))
class _PartType(type(eqx.Module)):
    """Makes parts; what does not fit their fields is refused by name."""

    def __call__(cls, *values, **named):
        try:
            return super().__call__(*values, **named)
        except TypeError as error:
            raise _misfit(cls, values, named) or error from None


def _misfit(cls: type, values: tuple, named: dict) -> ProblemError | None:
    """The error of a field that a part has not got, that is missing or that was given twice."""
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
    constructors: ClassVar[tuple[str, ...]] = ()
    """Class methods that a problem file may name, as in `kind = "two_layer.random"`."""

    def __init_subclass__(cls, abstract: bool = False, **options):
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

    def to_dict(self) -> dict:
        """Plain data (strings, numbers, lists, dictionaries) that `from_dict` turns back into this part."""
        values = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind} | {k: v for k, v in values.items() if v is not None}

    @classmethod
    def from_dict(cls, values: dict, name: str, context: dict | None = None) -> "Part":
        """The part that plain data describes; `name` says where in the file it stands.

        `kind` may name one of `constructors`; arguments of it that the file does not give are taken
        from `context`.
        """
        values = dict(values)
        _, _, constructor = values.pop("kind", cls.kind).partition(".")
        make = getattr(cls, constructor) if constructor else cls
        parameters = inspect.signature(make).parameters
        given = {k: v for k, v in (context or {}).items() if constructor and k in parameters}
        for key, value in values.items():
            if key not in parameters or key in given:
                known = parameters.keys() - given.keys()
                raise ProblemError(f"{name}.{key}", value, f"unknown key; {nearest(key, known)}")
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in values and key not in given:
                raise ProblemError(f"{name}.{key}", None, f"missing; {make.__name__} needs it")
        return make(**values, **given)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        names = (f.name for f in dataclasses.fields(self))
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self):
        return hash(content_hash(self))


def same(a, b) -> bool:
    """Whether two values of a field are equal."""
    if isinstance(a, np.ndarray | jax.Array) and isinstance(b, np.ndarray | jax.Array):
        return np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def content_hash(part: Part) -> str:
    """SHA-256 of the part's plain data: the same on every machine and in every process."""
    text = json.dumps(part.to_dict(), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value):
    """Numbers, arrays and parts as plain data."""
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    return value


def _real(value, name: str) -> float:
    scalar = isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray | jax.Array) and value.shape == ()
    )
    if isinstance(value, bool | np.bool_) or not scalar:
        raise ProblemError(name, value, "must be a number")
    result = float(value)
    if math.isnan(result):
        raise ProblemError(name, value, "must be a number, not NaN")
    return result + 0.0


def number(minimum=None, above=None, maximum=None, below=None, finite=True) -> Check:
    """A real number within bounds (`minimum` and `maximum` included, `above` and `below` not)."""

    def check(value, name):
        if traced(value):
            if value.shape != ():
                raise ProblemError(name, value, "must be one number, not an array")
            return value
        x = _real(value, name)
        if finite and math.isinf(x):
            raise ProblemError(name, value, "must be finite")
        for ok, text in (
            (minimum is None or x >= minimum, f"must be at least {minimum}"),
            (above is None or x > above, f"must be greater than {above}"),
            (maximum is None or x <= maximum, f"must be at most {maximum}"),
            (below is None or x < below, f"must be less than {below}"),
        ):
            if not ok:
                raise ProblemError(name, value, text)
        return x

    return check


def whole(minimum: int) -> Check:
    """A whole number of at least `minimum`."""

    def check(value, name):
        integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if isinstance(value, float) and value.is_integer():
            integral = True
        if not integral or value < minimum:
            raise ProblemError(name, value, f"must be a whole number of at least {minimum}")
        return int(value)

    return check


def boolean(value, name):
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ProblemError(name, value, "must be true or false")
    return bool(value)


def text(value, name):
    """A string."""
    if not isinstance(value, str):
        raise ProblemError(name, value, "must be a string")
    return value


def choice(*allowed: str) -> Check:
    """One of a few words."""

    def check(value, name):
        if value not in allowed:
            raise ProblemError(name, value, f"must be one of {', '.join(map(repr, allowed))}")
        return value

    return check


def array(ndim: int, minimum=None, above=None) -> Check:
    """A finite real array with `ndim` axes and no empty axis; a single number stands for one entry."""
    shape = {
        1: "a list of numbers",
        2: "a matrix (a list of equally long rows of numbers)",
        3: "a list of equally large matrices",
    }[ndim]

    def check(value, name):
        if not traced(value):
            try:
                value = np.array(value, dtype=float)
            except (TypeError, ValueError):
                raise ProblemError(name, value, f"must be {shape}") from None
            value = value + 0.0
            if not np.all(np.isfinite(value)):
                raise ProblemError(name, value.tolist(), "every entry must be a finite number")
            for ok, words in (
                (minimum is None or np.all(value >= minimum), f"at least {minimum}"),
                (above is None or np.all(value > above), f"greater than {above}"),
            ):
                if not ok:
                    raise ProblemError(name, value.tolist(), f"every entry must be {words}")
            if value.ndim == 0:
                value = value.reshape((1,) * ndim)
            value.flags.writeable = False
        if value.ndim != ndim or 0 in value.shape:
            raise ProblemError(name, value, f"must be {shape}; it has shape {value.shape}")
        return value

    return check


def optional(check: Check) -> Check:
    """None, or what `check` accepts."""
    return lambda value, name: None if value is None else check(value, name)


def part(*classes: type, convert: Callable[[Any], Any] | None = None) -> Check:
    """An instance of one of `classes` (or of a subclass), or a dictionary with a `kind` that names one.

    `convert` may first turn other values (a number, a string) into a part.
    """

    def check(value, name):
        if convert is not None:
            value = convert(value)
        if isinstance(value, dict):
            value = from_plain(value, name, classes)
        if not isinstance(value, classes):
            kinds = ", ".join(sorted(kinds_of(*classes)))
            raise ProblemError(name, value, f"must be one of the kinds {kinds}")
        return value

    return check


def kinds_of(*classes: type) -> dict[str, type]:
    """The concrete kinds below `classes`, by the names that a file may use."""
    found = {}
    for cls in classes:
        if cls.kind and not getattr(cls, "__abstractmethods__", None):
            found[cls.kind] = cls
            found |= {f"{cls.kind}.{name}": cls for name in cls.constructors}
        found |= kinds_of(*cls.__subclasses__())
    return found


def from_plain(values: dict, name: str, classes: tuple[type, ...], context=None) -> Part:
    """The part that a dictionary with a `kind` describes, which must be a kind of one of `classes`.

    The kind may be left out where only one class is possible.
    """
    if not isinstance(values, dict):
        raise ProblemError(name, values, "must be a table")
    kinds = kinds_of(*classes)
    kind = values.get("kind")
    if kind is None and len(set(kinds.values())) == 1:
        kind = next(iter(kinds))
    if kind is None:
        raise ProblemError(f"{name}.kind", None, f"missing; one of {', '.join(sorted(kinds))}")
    if not isinstance(kind, str) or kind not in kinds:
        raise ProblemError(f"{name}.kind", kind, f"unknown kind; {nearest(kind, kinds)}")
    return kinds[kind].from_dict(values, name, context)
