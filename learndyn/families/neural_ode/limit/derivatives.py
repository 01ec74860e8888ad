"""Mixed derivatives of a field's covariance for NumPy arrays."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from numpy.polynomial import polynomial

from learndyn.families.neural_ode.fields import PolynomialField, RandomField

SHORTEST = 64
"""Arguments are padded to a power of two of at least this length, so that few lengths are compiled."""

Derivative = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]
"""A function of arrays q, m and s; s is None if the field has one state."""


class Derivatives:
    """`derivatives(i, k, j, q, m, s)` is ∂_q^i ∂_s^k ∂_m^j G(q, m, s), entry by entry.

    s is None if the field has one state.
    """

    def __init__(self, field: RandomField):
        self._field = field
        self._functions: dict[tuple[int, int, int], Derivative] = {}

    def __call__(
        self,
        i: int,
        k: int,
        j: int,
        q: Float[np.ndarray, " n"],
        m: Float[np.ndarray, " n"],
        s: Float[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, " n"]:
        if (i, k, j) not in self._functions:
            self._functions[i, k, j] = _derivative(self._field, i, k, j)
        return self._functions[i, k, j](q, m, s)


def _derivative(field: RandomField, i: int, k: int, j: int) -> Derivative:
    """∂_q^i ∂_s^k ∂_m^j G as a function."""
    if isinstance(field, PolynomialField):
        return _polynomial(field, i, k, j)
    return _by_differentiation(field, i, k, j)


def _polynomial(field: PolynomialField, i: int, k: int, j: int) -> Derivative:
    """The derivative, from the coefficients of its power series."""
    c = np.asarray(field.coefficients)
    c = c if c.ndim == 3 else c[None]
    for axis, order in enumerate((k, i, j)):
        c = polynomial.polyder(c, order, axis=axis)
    if not np.any(c):
        return lambda q, m, s: np.zeros(len(q))
    if not field.two_states:
        return lambda q, m, s: polynomial.polyval2d(q, m, c[0])
    return lambda q, m, s: polynomial.polyval3d(s, q, m, c)


def _by_differentiation(field: RandomField, i: int, k: int, j: int) -> Derivative:
    """The derivative, by JAX."""
    function = field.__call__
    for argument in [0] * i + [1] * j + [2] * k:
        function = jax.grad(function, argument)
    compiled = jax.jit(jax.vmap(function))

    @functools.wraps(function)
    def padded(q: np.ndarray, m: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        length = max(SHORTEST, 1 << (len(q) - 1).bit_length())
        arguments = (q, m) if s is None else (q, m, s)
        padded_arguments = [np.concatenate([x, np.zeros(length - len(x))]) for x in arguments]
        return np.asarray(compiled(*padded_arguments))[: len(q)]

    return padded
