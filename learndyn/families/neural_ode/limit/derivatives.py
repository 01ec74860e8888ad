"""Mixed derivatives of a field's covariance at many arguments, outside JAX."""

import functools

import jax
import numpy as np
from numpy.polynomial import polynomial

from learndyn.families.neural_ode.fields import PolynomialField, RandomField

SHORTEST = 64
"""Arguments are filled up to powers of two of at least this, so that few lengths are compiled."""


class Derivatives:
    """`derivatives(i, k, j, q, m, s)` is ∂_q^i ∂_s^k ∂_m^j G(q, m, s), for arrays; s is None without a second state."""

    def __init__(self, field: RandomField):
        self._field = field
        self._made: dict = {}

    def __call__(self, i: int, k: int, j: int, q: np.ndarray, m: np.ndarray, s=None) -> np.ndarray:
        if (i, k, j) not in self._made:
            self._made[i, k, j] = _derivative(self._field, i, k, j)
        return self._made[i, k, j](q, m, s)


def _derivative(field: RandomField, i: int, k: int, j: int):
    if isinstance(field, PolynomialField):
        return _polynomial(field, i, k, j)
    return _by_differentiation(field, i, k, j)


def _polynomial(field: PolynomialField, i: int, k: int, j: int):
    c = np.asarray(field.coefficients)
    c = c if c.ndim == 3 else c[None]
    for axis, order in enumerate((k, i, j)):
        c = polynomial.polyder(c, order, axis=axis)
    if not np.any(c):
        return lambda q, m, s: np.zeros(len(q))
    if not field.two_states:
        return lambda q, m, s: polynomial.polyval2d(q, m, c[0])
    return lambda q, m, s: polynomial.polyval3d(s, q, m, c)


def _by_differentiation(field: RandomField, i: int, k: int, j: int):
    function = field.__call__
    for argument in [0] * i + [1] * j + [2] * k:
        function = jax.grad(function, argument)
    compiled = jax.jit(jax.vmap(function))

    @functools.wraps(function)
    def padded(q, m, s):
        length = max(SHORTEST, 1 << (len(q) - 1).bit_length())
        given = (q, m) if s is None else (q, m, s)
        filled = [np.concatenate([x, np.zeros(length - len(x))]) for x in given]
        return np.asarray(compiled(*filled))[: len(q)]

    return padded
