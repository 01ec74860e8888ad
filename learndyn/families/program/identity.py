"""What makes two programs the same: their text, and the values from outside that they use.

A file holds a program for reading only. Two programs are the same if the texts of the function and of the functions
that it calls are equal, and so are the numbers, texts and arrays that they take from outside.
"""

import hashlib
import inspect
import tokenize
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from learndyn.errors import ProblemError, nearest

GIVEN = ("inputs", "outputs")
"""Arguments that the library gives to a program that is a forward pass: the numbers of inputs and outputs."""


def source_of(function: Callable) -> str:
    """The text of a function; empty if Python does not have it."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        # Code that was executed as a text may name a file that holds something else.
        return ""


def digest_of(function: Any) -> str:
    """SHA-256 of everything that a function depends on: its text, and the values from outside that it uses."""
    state = hashlib.sha256()
    for piece in _pieces(function, set()):
        state.update(piece)
        state.update(b"\0")
    return state.hexdigest()


def _pieces(function: types.FunctionType, seen: set[int]) -> Iterator[bytes]:
    """The texts and values that a function depends on, in a fixed order."""
    if id(function) in seen:
        return
    seen.add(id(function))
    source = source_of(function).encode()
    yield source
    if not source or function.__name__ == "<lambda>":
        # An interactive session has no text, and lines may hold several lambdas.
        yield from _compiled(function.__code__)
    outside = inspect.getclosurevars(function)
    for name, value in sorted({**outside.globals, **outside.nonlocals}.items()):
        if isinstance(value, types.FunctionType):
            if not value.__module__.startswith(("learndyn.", "numpy")):
                yield name.encode()
                yield from _pieces(value, seen)
        elif isinstance(value, np.ndarray):
            yield from (name.encode(), str(value.dtype).encode(), str(value.shape).encode())
            yield value.tobytes()
        elif isinstance(value, bool | int | float | str | bytes | list | tuple | dict | type(None)):
            yield f"{name} = {value!r}".encode()


def _compiled(code: types.CodeType) -> Iterator[bytes]:
    """The compiled form of a function: instructions, names and constants."""
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _compiled(constant)
        else:
            yield repr(constant).encode()


def parameters_of(function: Callable, given: dict[str, Any]) -> dict[str, Any]:
    """The values of a program's parameters: those given, and its defaults for the others."""
    name = getattr(function, "__name__", "the program")
    declared = list(inspect.signature(function).parameters.values())
    if not declared:
        raise ProblemError("Program.function", name, "must take the net as its first argument")
    open_ended = any(p.kind is p.VAR_KEYWORD for p in declared)
    known = {p.name: p for p in declared[1:] if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for key, value in given.items():
        if key not in known and not open_ended:
            raise ProblemError(f"Program.{key}", value, f"unknown; {nearest(key, known)}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given and key not in GIVEN:
            raise ProblemError(f"Program.{key}", None, f"missing; {name} needs it")
    defaults = {
        key: p.default
        for key, p in known.items()
        if p.default is not p.empty and _is_plain(p.default)
    }
    return {key: _plain(value, key) for key, value in (defaults | given).items()}


def takes(function: Callable, argument: str) -> bool:
    """Whether a function has an argument of this name."""
    return argument in inspect.signature(function).parameters


def required(function: Callable) -> set[str]:
    """The arguments without a default, the net aside."""
    declared = list(inspect.signature(function).parameters.values())[1:]
    fixed = [p for p in declared if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return {p.name for p in fixed if p.default is p.empty}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | np.number | np.ndarray)


def _plain(value: Any, name: str) -> Any:
    """A value that a file can hold: a number, a text, or a list of these. Arrays become lists in files."""
    if not _is_plain(value):
        allowed = "must be a number, a text, an array or a list, so that a file can hold it"
        raise ProblemError(f"Program.{name}", value, allowed)
    return value.item() if isinstance(value, np.generic) else value
