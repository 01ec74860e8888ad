"""Vectors of linear programs, as coordinates.

Normal vectors and innovations of a dimension are orthonormal, and orthogonal to the constant. A vector that is linear
in them has the coordinates x_0 (the constant), x_1, x_2, …, so that

    ⟨x⟩ = x_0,   ⟨x y⟩ = Σ_k x_k y_k .

A product of two such vectors has an average and nothing else. Coordinates are the last axis; small axes stand before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class NotLinear(Exception):
    """An operation that leaves linear programs; the text says which."""


def padded(array: np.ndarray, length: int) -> np.ndarray:
    """The array with zeros after its last axis up to `length`."""
    missing = length - array.shape[-1]
    if not missing:
        return array
    return np.concatenate([array, np.zeros((*array.shape[:-1], missing), array.dtype)], axis=-1)


def aligned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with as many coordinates as the longer one."""
    length = max(x.shape[-1], y.shape[-1])
    return padded(x, length), padded(y, length)


class Affine:
    """A vector that is linear in the normal ones: `array` holds its coordinates.

    Of a constant vector only x_0 is stored.
    """

    def __init__(self, array: np.ndarray):
        self.array = array

    @property
    def constant(self) -> bool:
        """Whether the vector is a number times the constant one, whatever the numbers are."""
        return self.array.shape[-1] == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The small axes."""
        return self.array.shape[:-1]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return _entrywise(ufunc, inputs)

    def __add__(self, other: Any) -> Any:
        return _entrywise(np.add, (self, other))

    def __mul__(self, other: Any) -> Any:
        return _entrywise(np.multiply, (self, other))

    def __sub__(self, other: Any) -> Any:
        return _entrywise(np.subtract, (self, other))

    def __truediv__(self, other: Any) -> Any:
        return _entrywise(np.divide, (self, other))

    def __rsub__(self, other: Any) -> Any:
        return _entrywise(np.subtract, (other, self))

    def __rtruediv__(self, other: Any) -> Any:
        return _entrywise(np.divide, (other, self))

    def __neg__(self) -> Any:
        return Affine(-self.array)

    __radd__, __rmul__ = __add__, __mul__


class Product(Affine):
    """A sum of products of two linear vectors, Σ_i A_i ∘ B_i: only its average is known."""

    def __init__(self, pairs: list[tuple[np.ndarray, np.ndarray]]):
        self.pairs = pairs

    @property
    def constant(self) -> bool:
        """A product is never constant."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """The small axes."""
        shapes = (array.shape[:-1] for pair in self.pairs for array in pair)
        return np.broadcast_shapes(*shapes)

    def __neg__(self) -> "Product":
        return Product([(-A, B) for A, B in self.pairs])

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return iter(self.pairs)


def average(x: Affine) -> np.ndarray:
    """⟨x⟩."""
    if isinstance(x, Product):
        total = sum(np.einsum("...k,...k->...", *aligned(A, B)) for A, B in x)
        return np.broadcast_to(np.asarray(total), x.shape)
    return x.array[..., 0]


def reshaped(x: Affine, change: Callable[[np.ndarray], np.ndarray]) -> Affine:
    """The vector after a change of its small axes."""
    if isinstance(x, Product):
        raise NotLinear("of a product of two vectors only the mean can be taken")
    return Affine(change(x.array))


def _affine(x: Any) -> Affine:
    return x if isinstance(x, Affine) else Affine(np.asarray(x, float)[..., None])


def _pairs(x: Affine) -> list[tuple[np.ndarray, np.ndarray]]:
    """x as a sum of products, of itself with the constant vector if it is linear."""
    return x.pairs if isinstance(x, Product) else [(x.array, np.ones(1))]


def _times(x: Affine, y: Affine) -> Affine:
    if y.constant:
        x, y = y, x
    if x.constant:
        if isinstance(y, Product):
            return Product([(x.array * A, B) for A, B in y])
        return Affine(x.array * y.array)
    if isinstance(x, Product) or isinstance(y, Product):
        raise NotLinear("a product of three vectors")
    return Product([(x.array, y.array)])


def _plus(x: Affine, y: Affine) -> Affine:
    if isinstance(x, Product) or isinstance(y, Product):
        return Product([*_pairs(x), *_pairs(y)])
    return Affine(np.add(*aligned(x.array, y.array)))


def _entrywise(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Affine:
    """An entrywise function of vectors; `NotLinear` if it is not linear, nor a product."""
    if all(not isinstance(x, Affine) or x.constant for x in inputs):
        numbers = (x.array[..., 0] if isinstance(x, Affine) else x for x in inputs)
        return _affine(ufunc(*numbers))
    x, *rest = map(_affine, inputs)
    if ufunc is np.add:
        return _plus(x, rest[0])
    if ufunc is np.subtract:
        return _plus(x, -rest[0])
    if ufunc is np.negative:
        return -x
    if ufunc is np.positive:
        return x
    if ufunc is np.multiply:
        return _times(x, rest[0])
    if ufunc is np.divide and rest[0].constant:
        return _times(x, Affine(1 / rest[0].array))
    if ufunc is np.square:
        return _times(x, x)
    if ufunc is np.power and rest[0].constant:
        exponent = rest[0].array
        if np.all(exponent == 1):
            return x
        if np.all(exponent == 2):
            return _times(x, x)
    raise NotLinear(f"{ufunc.__name__} of a vector")
