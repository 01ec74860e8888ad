"""Reverse-mode gradients on the tape, in mean-field scaling."""

import heapq
from typing import Any

import numpy as np

from learndyn.programs.affine import NotLinear
from learndyn.programs.dims import not_linear, refuse
from learndyn.programs.matrices import Matrix
from learndyn.programs.values import Value


def adjoints(loss: Value, targets: list[Any]) -> list[Any]:
    """x̄ = n ∂L/∂x of vectors, s̄ = ∂L/∂s of scalars, W̄ = ρ ∂L/∂W of matrices; None where the loss does not depend.

    The targets are parameters, or anything on the way from them to the loss.
    """
    if not isinstance(loss, Value) or loss.dim is not None or loss.shape:
        raise refuse("the loss must be a single number, such as mean(x) or a sum of means")
    wanted = {target.number for target in targets if not isinstance(target, Matrix)}
    values = {loss.number: loss}
    sums: dict[int, Any] = {loss.number: np.ones(())}
    matrices: dict[int, Any] = {}
    # The latest value first: all that depends on a value comes after it.
    latest = [-loss.number]
    while latest:
        number = -heapq.heappop(latest)
        value = values[number]
        if value.pull is None:
            continue
        adjoint = sums[number] if number in wanted else sums.pop(number)
        try:
            for target, part in value.pull(adjoint):
                if isinstance(target, Matrix):
                    key = id(target)
                    matrices[key] = matrices[key] + part if key in matrices else part
                else:
                    key = target.number
                    if key not in values:
                        heapq.heappush(latest, -key)
                        values[key] = target
                    sums[key] = sums[key] + part if key in sums else part
        except NotLinear as error:
            raise not_linear(error, value.dim, value.line) from None
        del values[number]
    return [
        matrices.get(id(target)) if isinstance(target, Matrix) else sums.get(target.number)
        for target in targets
    ]
