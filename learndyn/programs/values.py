"""Vectors and scalars of a program, and the tape of what was done with them.

A vector over a dimension has entries of order one, n of them; its small axes stand in front and are the only ones the
user sees. A scalar has small axes only. Adjoints carry no n: x̄ = n ∂L/∂x of a vector, s̄ = ∂L/∂s of a scalar, so that

    s = ⟨x⟩:      x̄ += s̄ (the same for all entries)
    y = φ(x):     x̄ += φ'(x) ȳ
    y = s x:      s̄ += ⟨x ȳ⟩ .

Every value that depends on a trained parameter keeps a function `pull` from its adjoint to those of its arguments. An
adjoint that is the same for all entries may be stored as one entry.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from learndyn.programs.affine import Affine, NotLinear, average, reshaped
from learndyn.programs.dims import REDUCED, Dim, NotFinite, not_linear, refuse
from learndyn.programs.entrywise import TABLE
from learndyn.programs.lines import users_line
from learndyn.programs.operators import Operators

if TYPE_CHECKING:
    from learndyn.programs.net import Net

Pull = Callable[[Any], Iterable[tuple[Any, Any]]]
_numbers = itertools.count()


class Value(Operators):
    """A vector over `dim`, or a scalar if `dim` is None.

    `shape` are the small axes. NumPy's entrywise functions and the operators work on it; `mean` averages a vector over
    its dimension.
    """

    __slots__ = ("__weakref__", "data", "dim", "line", "needs", "net", "number", "pull")

    def __init__(self, net: "Net", data: Any, dim: Dim | None, pull: Pull | None = None):
        self.net, self.data, self.dim, self.pull = net, data, dim, pull
        self.needs = pull is not None
        self.number, self.line = next(_numbers), users_line()
        if dim is None:
            if not np.all(np.isfinite(data)):
                raise NotFinite(f"{self.line}\n  a scalar is no longer finite")
            self.data = np.asarray(data, float)

    @property
    def shape(self) -> tuple[int, ...]:
        """The small axes."""
        if self.dim is None:
            return self.data.shape
        return self.data.shape if isinstance(self.data, Affine) else self.data.shape[:-1]

    @property
    def ndim(self) -> int:
        """How many small axes there are."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise refuse(f"len() of {self.words()} without small axes")
        return self.shape[0]

    def words(self) -> str:
        """What this is, for messages."""
        return "a scalar" if self.dim is None else f"a vector over {self.dim}"

    def __repr__(self) -> str:
        axes = f" with small axes {self.shape}" if self.shape else ""
        return f"<{self.words()}{axes}>" if self.dim else f"<scalar {self.data}>"

    def __float__(self) -> float:
        if self.dim is not None:
            raise refuse(f"float() of {self.words()}: take mean(x), which is a number")
        return float(self.data)

    def __bool__(self) -> bool:
        if self.dim is not None:
            raise refuse(
                f"a condition on {self.words()}: use where(condition, a, b), entry by entry"
            )
        return bool(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.dim is not None:
            raise refuse(
                f"{self.words()} has no entries to look at: in the limit it is a random variable. "
                "Take mean(x) of a function of it"
            )
        return np.asarray(self.data, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__":
            raise refuse(REDUCED.format(f"np.{name}.{method}", self.words()))
        if keywords:
            raise refuse(f"np.{name} takes no {', '.join(keywords)} in a program")
        return self.entrywise(name, *inputs)

    def entrywise(self, name: str, *arguments: Any) -> "Value":
        """f(x_1, x_2, …), by the name of NumPy's function."""
        if name == "matmul":
            raise refuse(
                "the @ of arrays does not know the dimension: write einsum('pd,d->p', a, x) for small "
                "axes, mean(x * y) for a dimension, W @ x for a matrix of the net"
            )
        if name not in TABLE:
            raise refuse(f"np.{name} is not among the entrywise functions of a program")
        return entrywise(name, *arguments)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        from learndyn.programs import functions

        name = function.__name__
        if name in ("where", "stack", "concatenate", "einsum", "reshape"):
            return getattr(functions, name)(*arguments, **keywords)
        if name == "sum":
            return arguments[0].sum(*arguments[1:], **keywords)
        if self.dim is None:
            raise refuse(
                f"np.{name} is not known to the tape: use entrywise functions, sums, einsum"
            )
        raise refuse(REDUCED.format(f"np.{name}", self.words()))

    def sum(self, axis: int | tuple[int, ...] | None = None) -> "Value":
        """Σ over small axes; over all of them if this is a scalar and no axis is named."""
        if self.dim is not None and (axis is None or not self.shape):
            raise refuse(
                f"a sum over {self.dim} does not become a number without 1/n: use mean(x). "
                "Sums over small axes name the axis"
            )
        axes = tuple(range(self.ndim)) if axis is None else axis
        axes = (axes,) if isinstance(axes, int) else axes
        if not all(-self.ndim <= number < self.ndim for number in axes):
            raise refuse(f"axis {axis} is not among the small axes {self.shape}")
        axes = tuple(number % self.ndim for number in axes)
        shape = self.shape

        def back(adjoint: np.ndarray) -> np.ndarray:
            adjoint = np.expand_dims(adjoint, axes)
            return np.broadcast_to(adjoint, (*shape, adjoint.shape[-1]))

        return self.changed(lambda array: array.sum(axis=axes), back)

    def max(self, axis: Any = None) -> "Value":
        """Refused: the largest entry is not a function of averages."""
        raise refuse(REDUCED.format("max", self.words()))

    min = sort = argmax = argmin = argsort = std = var = prod = cumsum = max

    def mean(self, axis: Any = None) -> "Value":
        """Refused, because two averages could be meant."""
        raise refuse(
            "write mean(x) for the average over the dimension, x.sum(axis)/n for small axes"
        )

    def __getitem__(self, key: Any) -> "Value":
        keys = key if isinstance(key, tuple) else (key,)
        used = sum(part is not None and part is not Ellipsis for part in keys)
        if used > self.ndim:
            if self.dim is not None:
                raise refuse(
                    f"an entry of {self.words()} does not become a number in the limit: only small "
                    f"axes can be indexed, and it has {self.ndim}"
                )
            raise refuse(f"too many indices for a scalar with small axes {self.shape}")
        # The dimension is the last axis of the array, behind whatever is indexed.
        index = (*keys, slice(None)) if any(part is Ellipsis for part in keys) else (*keys, ...)
        simple = all(part is None or isinstance(part, (int, slice)) for part in keys)
        shape = self.shape

        def back(adjoint: np.ndarray) -> np.ndarray:
            whole = np.zeros((*shape, adjoint.shape[-1]), adjoint.dtype)
            if simple:
                whole[index] = adjoint
            else:
                np.add.at(whole, index, adjoint)  # pyright: ignore[reportArgumentType]
            return whole

        return self.changed(lambda array: array[index], back)

    def reshape(self, *shape: Any) -> "Value":
        """The same with other small axes."""
        new = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        old = self.shape
        return self.changed(
            lambda array: array.reshape((*np.zeros(old).reshape(new).shape, array.shape[-1])),
            lambda adjoint: adjoint.reshape((*old, adjoint.shape[-1])),
        )

    def transpose(self, *axes: int) -> "Value":
        """The same with its small axes in another order; reversed if none is named."""
        order = axes or tuple(reversed(range(self.ndim)))
        return self.changed(
            lambda array: array.transpose((*order, self.ndim)),
            lambda adjoint: adjoint.transpose((*np.argsort(order), len(order))),
        )

    def changed(
        self,
        change: Callable[[np.ndarray], np.ndarray],
        back: Callable[[np.ndarray], np.ndarray],
    ) -> "Value":
        """After a linear change of small axes, given for arrays with one axis behind, with its transpose."""
        try:
            data = on_small_axes(self.data, self.dim, change)
        except NotLinear as error:
            raise not_linear(error, self.dim) from None
        if not self.needs:
            return Value(self.net, data, self.dim)
        return Value(
            self.net,
            data,
            self.dim,
            lambda adjoint: [(self, on_small_axes(adjoint, self.dim, back))],
        )


class Parameter(Value):
    """A vector or scalar that optimisers change."""

    def __init__(self, net: "Net", data: Any, dim: Dim | None):
        super().__init__(net, data, dim)
        self.needs = True


def on_small_axes(data: Any, dim: Dim | None, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Apply to a value's array a function of arrays that have one axis behind the small ones."""
    if dim is None:
        return change(np.asarray(data)[..., None])[..., 0]
    return reshaped(data, change) if isinstance(data, Affine) else change(data)


def averaged(data: Any) -> np.ndarray:
    """⟨x⟩ over the dimension, of a vector's data."""
    return (
        average(data)
        if isinstance(data, Affine)
        else np.asarray(data.mean(axis=-1, dtype=np.float64))
    )


def entries(value: Value, dim: Dim | None) -> Any:
    """The value's data, a scalar's as that of a constant vector if `dim` is a dimension."""
    if dim is None or value.dim is not None:
        return value.data
    return dim.site.constant(value.data)


def common_dim(values: Iterable[Value]) -> Dim | None:
    """The dimension of the vectors among the values; an error if there are two."""
    dims = list(dict.fromkeys(value.dim for value in values if value.dim is not None))
    if len(dims) > 1:
        raise refuse(
            f"vectors over {dims[0]} and {dims[1]} are combined entry by entry. Only a matrix "
            "leads from one dimension to another"
        )
    return dims[0] if dims else None


def as_values(arguments: Iterable[Any]) -> list[Value]:
    """Numbers and arrays as scalars of the same net."""
    arguments = list(arguments)
    net = next(x.net for x in arguments if isinstance(x, Value))
    for x in arguments:
        if hasattr(x, "gaussian"):
            raise refuse("an entrywise function of a matrix has no limit: only products W @ x do")
    return [
        x if isinstance(x, Value) else Value(net, np.asarray(x, float), None) for x in arguments
    ]


def entrywise(name: str, *arguments: Any) -> Value:
    """y = f(x_1, x_2, …), entry by entry; scalars count as constant vectors."""
    rule, values = TABLE[name], as_values(arguments)
    net, dim = values[0].net, common_dim(values)
    scalar_divisor = name == "divide" and values[1].dim is None
    if scalar_divisor and net.limit and np.any(np.abs(values[1].data) < VANISHING):
        raise NotFinite(f"{users_line()}\n  division by a scalar that vanishes in the limit")
    data = [entries(value, dim) for value in values]
    try:
        y = rule.value(*data)
    except NotLinear as error:
        raise not_linear(error, dim) from None
    except ValueError as error:
        shapes = ", ".join(str(value.shape) for value in values)
        raise refuse(f"small axes {shapes} do not fit together ({error})") from None
    if not any(value.needs and p for value, p in zip(values, rule.partials, strict=True)):
        return Value(net, y, dim)

    def pull(adjoint: Any) -> Iterable[tuple[Value, Any]]:
        for value, partial in zip(values, rule.partials, strict=True):
            if value.needs and partial is not None:
                yield value, summed_to(value, adjoint * partial(y, *data), dim)

    return Value(net, y, dim, pull)


VANISHING = 1e-13
"""A scalar below this counts as zero in the limit, where averages are exact to rounding."""


def summed_to(value: Value, adjoint: Any, dim: Dim | None) -> Any:
    """The adjoint of an argument that was stretched to the axes of the result: averaged and summed over those."""
    if dim is not None and value.dim is None:
        adjoint = averaged(adjoint)
    shape = value.shape

    def summed(array: np.ndarray) -> np.ndarray:
        before = array.ndim - 1 - len(shape)
        stretched = (k + before for k, n in enumerate(shape) if n == 1 != array.shape[k + before])
        total = array.sum(axis=(*range(before), *stretched), keepdims=True)
        return total.reshape((*total.shape[before:-1], array.shape[-1]))

    return on_small_axes(adjoint, value.dim, summed)
