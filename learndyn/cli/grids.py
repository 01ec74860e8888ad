"""The values of swept fields on the command line: FIELD=V1,V2,…, FIELD=lin:LOW:HIGH:COUNT and log: likewise."""

import math

from learndyn.cli.problems import value_of
from learndyn.errors import ProblemError

GRAMMAR = (
    "must look like network.width=0.5,1,2, training.learning_rate=log:0.01:1:20 or "
    "data.noise=lin:0:1:5"
)

BYTES_OF_POINT = 1000
"""What a point of a sweep needs at least."""


def fields_and_values(over: list[str]) -> dict[str, list]:
    """The swept fields and their values, from options --over FIELD=VALUES."""
    fields: dict[str, list] = {}
    for text in over:
        field, equals, words = (part.strip() for part in text.partition("="))
        if not equals or not field or not words:
            raise ProblemError("--over", text, GRAMMAR)
        if field in fields:
            raise ProblemError(
                "--over", text, f"{field} was already given; give all its values in one --over"
            )
        fields[field] = (
            _spaced(text, words) if words[:4] in ("lin:", "log:") else _list(text, words)
        )
    return fields


def _list(text: str, words: str) -> list:
    """The values in V1,V2,…"""
    parts = [word.strip() for word in words.split(",")]
    if not all(parts):
        raise ProblemError("--over", text, GRAMMAR)
    values = [value_of(word) for word in parts]
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ProblemError("--over", text, f"contains the value {parts[number]} twice")
    return values


def _spaced(text: str, words: str) -> list[float]:
    """The values in lin:LOW:HIGH:COUNT or log:LOW:HIGH:COUNT."""
    import numpy as np

    from learndyn.memory import require_memory

    kind, *parts = words.split(":")
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
        known = len(parts) == 3 and math.isfinite(low) and math.isfinite(high)
    except (IndexError, ValueError):
        known = False
        low, high, count = 0.0, 0.0, 0
    if not known:
        allowed = f"must look like {kind}:LOW:HIGH:COUNT, two numbers and a whole number"
        raise ProblemError("--over", text, allowed)
    if not low < high or count < 2 or (kind == "log" and low <= 0):
        above = "0 < LOW < HIGH" if kind == "log" else "LOW < HIGH"
        raise ProblemError("--over", text, f"must have {above} and a COUNT of at least 2")
    require_memory(
        BYTES_OF_POINT * count, f"--over = {text!r}: a sweep of so many points", "use fewer"
    )
    values = (np.geomspace if kind == "log" else np.linspace)(low, high, count)
    # Twelve digits, so that log:1:8:4 is 1, 2, 4, 8 also for fields that must be whole numbers.
    return [float(f"{value:.12g}") for value in values]
