"""Checks of single values: each converts the user's value for the field of a part, or raises `ProblemError`."""

import math
import sys
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from learndyn.errors import ProblemError, shown
from learndyn.memory import require_memory
from learndyn.problem.part import Check, Part, traced

LARGEST = 2**63 - 1
"""The largest whole number: that of 64 bits, which files and arrays can hold."""
COPIES = 4
"""How many arrays of the size of a field exist while it is checked."""
SQUARED = 1e140
"""The largest number whose square is used: squares of larger ones, and sums of them, leave double precision."""
SMALL = 10**6
"""Arrays of fewer entries are made without asking for the free memory, which takes longer than making them."""


def _real(value: Any, name: str) -> float:
    scalar = isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray | jax.Array) and value.shape == ()
    )
    if isinstance(value, bool | np.bool_) or not scalar:
        raise ProblemError(name, value, "must be a number")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        largest = f"must not be larger than {sys.float_info.max:.3g}, or smaller than minus that"
        raise ProblemError(name, value, largest)
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


def squared(minimum: float | None = None, above: float | None = None) -> Check:
    """A real number of which the theories use the square, or one over the square if it must be above 0."""
    within = number(minimum, above, maximum=SQUARED)
    divides = above == 0

    def check(value: Any, name: str) -> Any:
        x = within(value, name)
        if divides and not traced(x) and x < 1 / SQUARED:
            raise ProblemError(name, value, f"must be at least {1 / SQUARED:g}")
        return x

    return check


def whole(minimum: int) -> Check:
    """A whole number of at least `minimum` that has no more than 64 bits."""

    def check(value: Any, name: str) -> Any:
        integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if isinstance(value, float) and value.is_integer():
            integral = True
        if not integral or value < minimum:
            raise ProblemError(name, value, f"must be a whole number of at least {minimum}")
        if value > LARGEST:
            raise ProblemError(name, value, f"must be a whole number of at most {LARGEST}")
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
        if not isinstance(value, str) or value not in allowed:
            raise ProblemError(name, value, f"must be one of {', '.join(map(repr, allowed))}")
        return value

    return check


SHAPES = {
    1: "a list of numbers",
    2: "a matrix (a list of equally long rows of numbers)",
    3: "a list of equally large matrices",
}
"""What an array with so many axes is called."""


def array(*axes: int, minimum: float | None = None, above: float | None = None) -> Check:
    """A finite real array with no empty axis; `axes` are the numbers of axes that it may have.

    A single number stands for one entry.
    """
    shape = " or ".join(SHAPES[ndim] for ndim in axes)

    def check(value: Any, name: str) -> Any:
        if not traced(value):
            value = _numbers(value, name, f"must be {shape}")
            if not np.all(np.isfinite(value)):
                raise ProblemError(name, value.tolist(), "every entry must be a finite number")
            for ok, words in (
                (minimum is None or np.all(value >= minimum), f"at least {minimum}"),
                (above is None or np.all(value > above), f"greater than {above}"),
            ):
                if not ok:
                    raise ProblemError(name, value.tolist(), f"every entry must be {words}")
            if value.ndim == 0:
                value = value.reshape((1,) * axes[0])
            value.flags.writeable = False
        if value.ndim not in axes or 0 in value.shape:
            raise ProblemError(name, value, f"must be {shape}; it has shape {value.shape}")
        return value

    return check


def _numbers(value: Any, name: str, allowed: str) -> np.ndarray:
    """A new array with the numbers of a list, of lists of equal length, or of another array."""
    try:
        entries = np.asarray(value)
        if entries.dtype.kind not in "bcmMSU":  # truth values, complex numbers, dates, texts
            return entries.astype(float) + 0.0
    except (TypeError, ValueError, OverflowError):
        pass  # lists of unequal length, entries that are no numbers, whole numbers that no float can hold
    raise ProblemError(name, value, allowed)


def is_list(value: Any) -> bool:
    """Whether a value is a list or an array, not a single number."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def room(name: str, value: Any, *shape: int) -> None:
    """Refuse a number that asks for an array of this shape if the machine has no memory for it.

    Call it before the array is made. `name` and `value` are those of the field.
    """
    entries = math.prod(shape)
    if entries > SMALL:
        size = " × ".join(f"{length:.4g}" if length > LARGEST else str(length) for length in shape)
        purpose = f"{name} = {shown(value)}: an array of {size} numbers"
        require_memory(COPIES * 8 * entries, purpose, "give a smaller number")


def optional(check: Check) -> Check:
    """None, or what `check` accepts."""
    return lambda value, name: None if value is None else check(value, name)


def semidefinite(
    name: str, matrix: Float[np.ndarray | jax.Array, "n n"], tolerance: float = 1e-10
) -> None:
    """Refuse a matrix that is not symmetric or has a negative eigenvalue (relative to the largest entry)."""
    if traced(matrix):
        return
    entries = np.asarray(matrix)
    scaled = entries / max(np.abs(entries).max(), sys.float_info.min)
    if not np.allclose(scaled, scaled.T, rtol=0, atol=tolerance):
        raise ProblemError(name, matrix.tolist(), "must be a symmetric matrix")
    lowest = negative_eigenvalue(entries, tolerance)
    if lowest is not None:
        allowed = f"must be positive semidefinite; its smallest eigenvalue is {lowest:.3g}"
        raise ProblemError(name, matrix.tolist(), allowed)


def negative_eigenvalue(matrix: Float[np.ndarray, "n n"], tolerance: float = 1e-10) -> float | None:
    """The smallest eigenvalue of a symmetric matrix; None unless it is below −`tolerance` times the largest entry."""
    scale = max(np.abs(matrix).max(), sys.float_info.min)
    scaled = matrix / scale
    diagonal = np.diagonal(scaled)
    # Gershgorin's circles, and then a Cholesky factor, cost much less than the eigenvalues of a large matrix.
    if np.all(2 * diagonal - np.abs(scaled).sum(1) >= 0):
        return None
    try:
        np.linalg.cholesky(scaled + tolerance * np.eye(len(scaled)))
        return None
    except np.linalg.LinAlgError:
        lowest = np.linalg.eigvalsh(scaled)[0]
    return float(lowest * scale) if lowest < -tolerance else None


def exclusive(part: Part, **values: Any) -> None:
    """Refuse two fields that exclude each other."""
    if sum(value is not None for value in values.values()) > 1:
        names = " and ".join(values)
        raise ProblemError(f"{type(part).__name__}.{names}", values, "give only one of the two")
