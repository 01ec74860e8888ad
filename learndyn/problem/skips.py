"""Skip connections of residual networks, and their depth."""

import math
from typing import Any

from learndyn.problem.checks import optional, squared, whole
from learndyn.problem.kinds import part
from learndyn.problem.part import Part, field


class ScaledSkip(Part):
    """Residual branches whose scale falls with the depth: β = β_0/√L.

    - `beta0`: β_0, at least 0
    """

    beta0: float = field(squared(minimum=0))


def skip(value: Any, name: str) -> float | ScaledSkip | None:
    """None, a branch scale β, or a `ScaledSkip`."""
    if value is None or isinstance(value, dict | Part):
        return optional(part(ScaledSkip))(value, name)
    return squared(minimum=0)(value, name)


def depth(value: Any, name: str) -> float:
    """A whole number of hidden layers, or inf."""
    infinite = isinstance(value, float) and value == math.inf
    return value if infinite else whole(1)(value, name)
