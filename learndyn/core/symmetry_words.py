"""Sentences about an exactly symmetric start, from the evidence `symmetric_start` that `symmetry.py` provides."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

ROUNDING = -math.log(np.finfo(float).eps)
"""Logarithm of the growth after which rounding errors are of order one."""


def escape_time(start: dict[str, Any], size: float) -> float | None:
    """ln N/(2 · rate): when fluctuations of order 1/√N have grown to order one; None if the rate is not known."""
    return None if start["rate"] is None else math.log(size) / (2 * start["rate"])


def sentences(start: dict[str, Any], symbol: str) -> list[str]:
    """The warnings of a solution with a symmetric start, for a theory whose size has this symbol."""
    text = f"the start is exactly symmetric ({start['symmetry']}), and the limit stays symmetric for ever"
    if "unknown" in start:
        return [f"{text}; whether finite networks leave it is not known ({start['unknown']})"]
    rate, axis = start["rate"], start["axis"]
    texts = []
    if rate is None:
        texts.append(f"{text}; finite networks leave it, at a rate that was not measured")
    else:
        who = "finite networks"
        if start["exact_runs"]:
            who = "networks with weights drawn at random"
        unit = "unit of time" if axis == "time" else "step"
        texts.append(
            f"{text}; {who} leave it at a rate of {rate:.3g} per {unit}, after about "
            f"ln {symbol}/(2·{rate:.3g}) = {1 / (2 * rate):.3g} ln {symbol} "
            f"({escape_time(start, 1000):.3g} at {symbol} = 1000)"
        )
    if start["left_at"] is not None:
        why = "samples are not symmetric" if start["sampled"] else "rounding errors have grown"
        texts.append(
            f"from {axis} {start['left_at']:.4g} on this solution has left the symmetric state, but only because "
            f"its {why}: when it leaves, and in which direction, is an accident"
        )
    return texts


def note_on_runs(evidence: Mapping[str, Any], size: int | None) -> str | None:
    """Why runs of a size deviate from a theory with this evidence; None if they do not, or not during training."""
    start, symbol = evidence.get("symmetric_start"), evidence.get("size_symbol", "N")
    if start is None or size is None or "unknown" in start:
        return None
    axis, rate = start["axis"], start["rate"]
    if rate is None:
        return (
            "The runs leave the symmetric start by the fluctuations of their own examples, and the theory by those of "
            "its samples: expect them to differ once either has left."
        )
    if start["exact_runs"]:
        return (
            "The runs start with exactly the symmetric overlaps and are trained without noise: they, too, stay "
            "symmetric until rounding errors have grown, "
            f"after about ln(1/rounding)/{rate:.3g} = {ROUNDING / rate:.3g} in {axis}."
        )
    if 0.5 * math.log(size) > start["growth"]:
        return None
    return (
        f"Runs of size {symbol} = {size} leave the symmetric start, and with it the theory, at about {axis} "
        f"ln {symbol}/(2·{rate:.3g}) = {escape_time(start, size):.3g}, when their fluctuations of order "
        f"1/√{symbol} have grown to order one: expect them to differ from then on."
    )
