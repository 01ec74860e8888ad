"""Mixed derivatives of a field's covariance at many arguments, outside JAX."""

import functools

import jax
import numpy as np
from numpy.polynomial import polynomial

from learndyn.neural_ode.fields import PolynomialField, RandomField

SHORTEST = 64
"""Arguments are filled up to powers of two of at least this, so that few lengths are compiled."""


class Derivatives:
    """∂_1^i ∂_2^j G(q, m) for arrays q and m, as `derivatives(i, j, q, m)`."""

    def __init__(self, field: RandomField):
        self._field = field
        self._made: dict = {}

    def __call__(self, i: int, j: int, q: np.ndarray, m: np.ndarray) -> np.ndarray:
        if (i, j) not in self._made:
            self._made[i, j] = _derivative(self._field, i, j)
        return self._made[i, j](q, m)


def _derivative(field: RandomField, i: int, j: int):
    if isinstance(field, PolynomialField):
        return _polynomial(field, i, j)
    return _by_differentiation(field, i, j)


def _polynomial(field: PolynomialField, i: int, j: int):
    c = polynomial.polyder(polynomial.polyder(np.asarray(field.coefficients), i, axis=0), j, axis=1)
    if not np.any(c):
        return lambda q, m: np.zeros(len(q))
    return lambda q, m: polynomial.polyval2d(q, m, c)


def _by_differentiation(field: RandomField, i: int, j: int):
    function = field.__call__
    for argument in [0] * i + [1] * j:
        function = jax.grad(function, argument)
    compiled = jax.jit(jax.vmap(function))

    @functools.wraps(function)
    def padded(q, m):
        length = max(SHORTEST, 1 << (len(q) - 1).bit_length())
        filled = [np.concatenate([x, np.zeros(length - len(x))]) for x in (q, m)]
        return np.asarray(compiled(*filled))[: len(q)]

    return padded
