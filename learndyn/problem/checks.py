"""Checks of single values: each converts the user's value for the field of a part, or raises `ProblemError`."""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from learndyn.errors import ProblemError
from learndyn.problem.part import Check, Part, traced


def _real(value: Any, name: str) -> float:
    scalar = isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray | jax.Array) and value.shape == ()
    )
    if isinstance(value, bool | np.bool_) or not scalar:
        raise ProblemError(name, value, "must be a number")
    result = float(value)
    if math.isnan(result):
        raise ProblemError(name, value, "must be a number, not NaN")
    return result + 0.0


def number(
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    finite: bool = True,
) -> Check:
    """A real number within bounds (`minimum` and `maximum` included, `above` and `below` not)."""

    def check(value: Any, name: str) -> Any:
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

    def check(value: Any, name: str) -> Any:
        integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if isinstance(value, float) and value.is_integer():
            integral = True
        if not integral or value < minimum:
            raise ProblemError(name, value, f"must be a whole number of at least {minimum}")
        return int(value)

    return check


def boolean(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ProblemError(name, value, "must be true or false")
    return bool(value)


def text(value: Any, name: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ProblemError(name, value, "must be a string")
    return value


def choice(*allowed: str) -> Check:
    """One of a few words."""

    def check(value: Any, name: str) -> Any:
        if value not in allowed:
            raise ProblemError(name, value, f"must be one of {', '.join(map(repr, allowed))}")
        return value

    return check


def array(ndim: int, minimum: float | None = None, above: float | None = None) -> Check:
    """A finite real array with `ndim` axes and no empty axis; a single number stands for one entry."""
    shape = {
        1: "a list of numbers",
        2: "a matrix (a list of equally long rows of numbers)",
        3: "a list of equally large matrices",
    }[ndim]

    def check(value: Any, name: str) -> Any:
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


def semidefinite(
    name: str, matrix: Float[np.ndarray | jax.Array, "n n"], tolerance: float = 1e-10
) -> None:
    """Refuse a matrix that is not symmetric or has a negative eigenvalue (relative to the largest entry)."""
    if traced(matrix):
        return
    scale = max(np.abs(matrix).max(), 1e-300)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=tolerance * scale):
        raise ProblemError(name, matrix.tolist(), "must be a symmetric matrix")
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest < -tolerance * scale:
        allowed = f"must be positive semidefinite; its smallest eigenvalue is {lowest:.3g}"
        raise ProblemError(name, matrix.tolist(), allowed)


def exclusive(part: Part, **values: Any) -> None:
    """Refuse two fields that exclude each other."""
    if sum(value is not None for value in values.values()) > 1:
        names = " and ".join(values)
        raise ProblemError(f"{type(part).__name__}.{names}", values, "give only one of the two")
