"""Arrays of examples as users bring them, checked."""

from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.problem.checks import array
from learndyn.problem.part import Check, traced

NAMED = 5
"""How many columns a message names."""


def given_examples(inputs: Any, targets: Any, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs X (n × D) and targets Y (n × C) of a user; errors name them as fields of `owner`."""
    X, Y = given(2)(inputs, f"{owner}.inputs"), given(1, 2)(targets, f"{owner}.targets")
    if len(X) != len(Y):
        allowed = f"must have one row for each of the {len(Y)} targets; its shape is {X.shape}"
        raise ProblemError(f"{owner}.inputs", f"{len(X)} rows", allowed)
    return X, Y.reshape(len(Y), -1)


def refuse_constant_columns(inputs: np.ndarray, owner: str) -> None:
    """Refuse inputs of which a column never changes."""
    constant = np.flatnonzero(np.ptp(inputs, axis=0) == 0)
    if len(constant):
        names = ", ".join(map(str, constant[:NAMED])) + (", …" if len(constant) > NAMED else "")
        columns = "column" if len(constant) == 1 else "columns"
        raise ProblemError(
            f"{owner}.inputs",
            f"{columns} {names}",
            "the same in every example, so nothing can be learnt from it; leave it out: X[:, X.std(axis=0) > 0]",
        )


def given(*axes: int) -> Check:
    """A finite array of a user; words and missing values are refused in the user's terms."""
    check = array(*axes)

    def checked(value: Any, name: str) -> Any:
        if traced(value):
            return check(value, name)
        if isinstance(value, list | tuple):
            value = check(value, name) if not _words(np.asarray(value, dtype=object)) else value
        entries = np.asarray(value)
        if words := _words(entries):
            allowed = (
                f"holds words such as {words[0]!r}; turn them into numbers first, for instance ±1 for two classes "
                "or a column of zeros and ones for each class"
            )
            raise ProblemError(name, "words", allowed)
        if entries.dtype.kind == "b":
            entries = entries.astype(float)
        if entries.dtype.kind == "f" and entries.ndim and not np.all(np.isfinite(entries)):
            rows = np.flatnonzero(~np.isfinite(entries.reshape(len(entries), -1)).all(axis=1))
            count = f"{len(rows)} row{'s' * (len(rows) != 1)}"
            allowed = f"has missing or infinite numbers in {count}, the first of them row {rows[0]}; leave them out"
            raise ProblemError(name, "NaN or inf", allowed)
        return check(entries, name)

    return checked


def _words(entries: np.ndarray) -> list[str]:
    """The words among the first entries."""
    if entries.dtype.kind not in "SUO":
        return []
    return [str(x) for x in entries.ravel()[:1000].tolist() if isinstance(x, str | bytes)]
