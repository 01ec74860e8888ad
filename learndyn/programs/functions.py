"""Functions of a program beside NumPy's: averages, sums over small axes, activations, stopped gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from learndyn.programs.affine import Affine, NotLinear, aligned
from learndyn.programs.dims import not_linear, refuse
from learndyn.programs.values import (
    Value,
    as_values,
    averaged,
    common_dim,
    entrywise,
    on_small_axes,
)

BEHIND = "Z"
"""The letter of the dimension in Einstein sums."""


def mean(x: Any) -> Value:
    """⟨x⟩ = (1/n) Σ_i x_i over the dimension; small axes remain."""
    if not isinstance(x, Value) or x.dim is None:
        raise refuse("mean(x) is the average of a vector over its dimension, and this is no vector")
    dim, shape = x.dim, x.shape
    if not x.needs:
        return Value(x.net, averaged(x.data), None)

    def pull(adjoint: np.ndarray) -> list[tuple[Value, Any]]:
        return [(x, dim.site.constant(np.broadcast_to(adjoint, shape)))]

    return Value(x.net, averaged(x.data), None, pull)


def inner(x: Any, y: Any) -> Value:
    """⟨x y⟩."""
    return mean(x * y)


def fixed(x: Any) -> Value:
    """The same value, through which no gradient flows."""
    return Value(x.net, x.data, x.dim)


def where(condition: Any, x: Any, y: Any) -> Value:
    """x where the condition holds, y elsewhere, entry by entry."""
    return entrywise("where", condition, x, y)


def relu(x: Any) -> Value:
    """max(x, 0)."""
    return entrywise("maximum", x, 0.0)


def erf(x: Any) -> Value:
    """(2/√π) ∫_0^x e^{−u²} du."""
    return entrywise("erf", x)


def sigmoid(x: Any) -> Value:
    """1/(1 + e^{−x})."""
    return entrywise("expit", x)


def softplus(x: Any) -> Value:
    """ln(1 + e^x)."""
    return entrywise("logaddexp", x, 0.0)


def gelu(x: Any) -> Value:
    """x Φ(x), with the normal distribution function Φ."""
    return entrywise("gelu", x)


def softmax(x: Any, axis: int = -1) -> Value:
    """e^x/Σe^x along a small axis."""
    if not isinstance(x, Value) or not x.shape:
        raise refuse("softmax runs along a small axis, and there is none")
    index = axis % x.ndim
    weights = np.exp(x - _largest(x, index))
    total = weights.sum(index)
    return weights / total[(slice(None),) * index + (None,)]


def _largest(x: Value, axis: int) -> Value:
    """The largest entry along a small axis, which keeps exponentials finite and drops out of the result."""
    if isinstance(x.data, Affine):
        raise not_linear(NotLinear("softmax of a vector"), x.dim)
    return Value(x.net, x.data.max(axis=axis, keepdims=True), x.dim)


def stack(values: Sequence[Any], axis: int = 0) -> Value:
    """Values side by side along a new small axis."""
    parts = as_values(values)
    index = axis % (parts[0].ndim + 1)
    slot = (slice(None),) * index + (None,)
    return concatenate([part[slot] for part in parts], index)


def concatenate(values: Sequence[Any], axis: int = 0) -> Value:
    """Values one after the other along a small axis."""
    parts = as_values(values)
    dim, net, axis = common_dim(parts), parts[0].net, axis % parts[0].ndim
    if any(part.dim is not dim for part in parts):
        raise refuse("scalars and vectors cannot stand side by side")
    if dim is None:
        data: Any = np.concatenate([part.data for part in parts], axis)
    elif any(isinstance(part.data, Affine) for part in parts):
        arrays = [on_small_axes(part.data, dim, np.asarray).array for part in parts]
        longest = max(arrays, key=lambda array: array.shape[-1])
        data = Affine(np.concatenate([aligned(array, longest)[0] for array in arrays], axis))
    else:
        data = np.concatenate([part.data for part in parts], axis)
    if not any(part.needs for part in parts):
        return Value(net, data, dim)
    ends = np.cumsum([part.shape[axis] for part in parts])

    def pull(adjoint: Any) -> list[tuple[Value, Any]]:
        return [
            (
                part,
                on_small_axes(adjoint, dim, lambda a, end=end, part=part: _cut(a, axis, end, part)),
            )
            for part, end in zip(parts, ends, strict=True)
            if part.needs
        ]

    return Value(net, data, dim, pull)


def _cut(array: np.ndarray, axis: int, end: int, part: Value) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(end - part.shape[axis], end),)]


def reshape(x: Any, shape: Any) -> Value:
    """The same with other small axes."""
    return x.reshape(shape)


def einsum(subscripts: str, *operands: Any) -> Value:
    """An Einstein sum over small axes, such as einsum("pd,d->p", a, x); dimensions are not written.

    Vectors among the operands must share their dimension, and are multiplied entry by entry.
    """
    if "->" not in subscripts or "." in subscripts or BEHIND in subscripts:
        raise refuse('einsum is written in full, as in einsum("pd,d->p", a, x)')
    left, output = subscripts.replace(" ", "").split("->")
    letters, values = left.split(","), as_values(operands)
    dim, net = common_dim(values), values[0].net
    if len(letters) != len(values) or any(
        len(axes) != value.ndim for axes, value in zip(letters, values, strict=False)
    ):
        shapes = ", ".join(str(value.shape) for value in values)
        raise refuse(f"einsum {subscripts!r} does not fit the small axes {shapes}")
    if sum(isinstance(value.data, Affine) for value in values) > 1:
        raise not_linear(NotLinear("an Einstein sum of two vectors"), dim)
    arrays = [_entries(value) for value in values]
    axes = [
        axes + BEHIND * (value.dim is not None) for axes, value in zip(letters, values, strict=True)
    ]
    end = BEHIND * (dim is not None)
    data = _contracted(list(zip(axes, arrays, strict=True)), output + end)
    if any(isinstance(value.data, Affine) for value in values):
        data = Affine(data)
    elif dim is not None:
        data = data.astype(dim.site.dtype, copy=False)
    if not any(value.needs for value in values):
        return Value(net, data, dim)

    def pull(adjoint: Any) -> list[tuple[Value, Any]]:
        return [
            (value, _back(k, adjoint, letters, output, values))
            for k, value in enumerate(values)
            if value.needs
        ]

    return Value(net, data, dim, pull)


def _contracted(terms: list[tuple[str, np.ndarray]], output: str) -> np.ndarray:
    """The Einstein sum, by a matrix product where it is one, in the precision of the vectors."""
    precisions = [array.dtype for axes, array in terms if axes.endswith(BEHIND)]
    if precisions and output.endswith(BEHIND):
        precision = np.result_type(*precisions)
        terms = [(axes, array.astype(precision, copy=False)) for axes, array in terms]
    terms = sorted(terms, key=lambda term: term[0].endswith(BEHIND))
    subscripts = f"{','.join(axes for axes, _ in terms)}->{output}"
    return np.einsum(subscripts, *(array for _, array in terms), optimize=True)


def _entries(value: Value) -> np.ndarray:
    if not isinstance(value.data, Affine):
        return value.data
    try:
        return on_small_axes(value.data, value.dim, np.asarray).array
    except NotLinear as error:
        raise not_linear(error, value.dim) from None


def _back(k: int, adjoint: Any, letters: list[str], output: str, values: list[Value]) -> Any:
    """The adjoint of operand k: the sum with the adjoint in its place."""
    target = values[k]
    others = [
        (axes, value) for j, (axes, value) in enumerate(zip(letters, values, strict=True)) if j != k
    ]
    dim = common_dim(values)
    linear = isinstance(adjoint, Affine)
    array = adjoint.array if linear else adjoint
    terms: list[tuple[str, np.ndarray]] = [(output + BEHIND * (dim is not None), array)]
    for axes, value in others:
        entries = _entries(value)
        if linear and value.dim is not None:
            array, entries = aligned(array, entries)
            terms[0] = terms[0][0], array
        terms.append((axes + BEHIND * (value.dim is not None), entries))
    present = set("".join(axes for axes, _ in terms))
    # Axes that only this operand has were summed over: its adjoint is the same along them.
    terms += [
        (letter, np.ones(size))
        for letter, size in zip(letters[k], target.shape, strict=True)
        if letter not in present
    ]
    if not linear and dim is not None:
        length = max(a.shape[-1] for axes, a in terms if axes.endswith(BEHIND))
        terms[0] = terms[0][0], np.broadcast_to(array, (*array.shape[:-1], length))
    to_scalar = dim is not None and target.dim is None
    if to_scalar:
        terms = [(axes, a.astype(np.float64, copy=False)) for axes, a in terms]
    end = BEHIND * (target.dim is not None)
    total = _contracted(terms, letters[k] + end)
    if to_scalar and not linear:
        total = total / terms[0][1].shape[-1]
    return Affine(total) if linear and target.dim is not None else total
