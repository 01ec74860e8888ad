"""The library's activations as functions of a program's vectors."""

from typing import Any

import numpy as np

from learndyn.numerics.precision import float64
from learndyn.problem.activations import Activation, Linear
from learndyn.problem.activations.values import with_slope
from learndyn.programs.values import Value


def activated(activation: Activation, x: Value) -> Value:
    """φ(x), entry by entry; φ and φ' are computed together, compiled, in the precision of x."""
    if isinstance(activation, Linear):
        return x
    with float64():  # a program runs in a thread of its own
        phi, slope = (np.asarray(y, x.data.dtype) for y in with_slope(activation, x.data))

    def pull(adjoint: Any) -> list[tuple[Value, Any]]:
        return [(x, adjoint * slope)]

    return Value(x.net, phi, x.dim, pull if x.needs else None)
