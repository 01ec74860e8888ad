"""Entrywise functions with their derivatives.

For y = f(x_1, x_2, …) the table holds, for each argument i, the partial derivative ∂f/∂x_i as a function of y and the
arguments, or None where it is zero almost everywhere (jumps count as flat). They are written with NumPy's functions, so
that they serve arrays and coordinates alike. SciPy is imported when one of its functions is first used.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Partial = Callable[..., Any]


class Entrywise(NamedTuple):
    """A function of entries, and its partial derivatives p(y, *arguments)."""

    value: Callable[..., Any]
    partials: tuple[Partial | None, ...]


def _special(name: str) -> Callable[[Any], Any]:
    """A function of SciPy."""

    def function(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(x)

    return function


_erf, _expit, _ndtr = map(_special, ("erf", "expit", "ndtr"))


def _flat(function: np.ufunc, arguments: int = 2) -> Entrywise:
    """A function with values such as 0 and 1, whose derivative is zero."""
    return Entrywise(lambda *x: 1.0 * function(*x), (None,) * arguments)


def _power_exponent(y: Any, x: Any, p: Any) -> Any:
    return y * np.log(x)


def _gelu(x: Any) -> Any:
    return x * _ndtr(x)


def _gelu_slope(y: Any, x: Any) -> Any:
    return _ndtr(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition != 0, x, y)


TABLE: dict[str, Entrywise] = {
    "add": Entrywise(np.add, (lambda y, a, b: 1.0, lambda y, a, b: 1.0)),
    "subtract": Entrywise(np.subtract, (lambda y, a, b: 1.0, lambda y, a, b: -1.0)),
    "multiply": Entrywise(np.multiply, (lambda y, a, b: b, lambda y, a, b: a)),
    "divide": Entrywise(
        np.divide, (lambda y, a, b: np.divide(1.0, b), lambda y, a, b: -y * np.divide(1.0, b))
    ),
    "negative": Entrywise(np.negative, (lambda y, x: -1.0,)),
    "positive": Entrywise(np.positive, (lambda y, x: 1.0,)),
    "power": Entrywise(np.power, (lambda y, x, p: p * np.power(x, p - 1.0), _power_exponent)),
    "square": Entrywise(np.square, (lambda y, x: 2.0 * x,)),
    "sqrt": Entrywise(np.sqrt, (lambda y, x: 0.5 / y,)),
    "cbrt": Entrywise(np.cbrt, (lambda y, x: 1 / (3 * y * y),)),
    "reciprocal": Entrywise(np.reciprocal, (lambda y, x: -y * y,)),
    "exp": Entrywise(np.exp, (lambda y, x: y,)),
    "expm1": Entrywise(np.expm1, (lambda y, x: y + 1,)),
    "log": Entrywise(np.log, (lambda y, x: 1 / x,)),
    "log1p": Entrywise(np.log1p, (lambda y, x: 1 / (1 + x),)),
    "logaddexp": Entrywise(
        np.logaddexp, (lambda y, a, b: _expit(a - b), lambda y, a, b: _expit(b - a))
    ),
    "sin": Entrywise(np.sin, (lambda y, x: np.cos(x),)),
    "cos": Entrywise(np.cos, (lambda y, x: -np.sin(x),)),
    "tan": Entrywise(np.tan, (lambda y, x: 1 + y * y,)),
    "arctan": Entrywise(np.arctan, (lambda y, x: 1 / (1 + x * x),)),
    "sinh": Entrywise(np.sinh, (lambda y, x: np.cosh(x),)),
    "cosh": Entrywise(np.cosh, (lambda y, x: np.sinh(x),)),
    "tanh": Entrywise(np.tanh, (lambda y, x: 1 - y * y,)),
    "absolute": Entrywise(np.absolute, (lambda y, x: np.sign(x),)),
    "maximum": Entrywise(
        np.maximum, (lambda y, a, b: 1.0 * (a >= b), lambda y, a, b: 1.0 * (a < b))
    ),
    "minimum": Entrywise(
        np.minimum, (lambda y, a, b: 1.0 * (a <= b), lambda y, a, b: 1.0 * (a > b))
    ),
    "sign": Entrywise(np.sign, (None,)),
    "heaviside": Entrywise(np.heaviside, (None, None)),
    "floor": Entrywise(np.floor, (None,)),
    "erf": Entrywise(_erf, (lambda y, x: 2 / np.sqrt(np.pi) * np.exp(-x * x),)),
    "ndtr": Entrywise(_ndtr, (lambda y, x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),)),
    "expit": Entrywise(_expit, (lambda y, x: y * (1 - y),)),
    "gelu": Entrywise(_gelu, (_gelu_slope,)),
    "where": Entrywise(
        _where, (None, lambda y, c, a, b: 1.0 * (c != 0), lambda y, c, a, b: 1.0 * (c == 0))
    ),
    **{
        name: _flat(getattr(np, name))
        for name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
    },
    **{name: _flat(getattr(np, name)) for name in ("logical_and", "logical_or")},
    "logical_not": _flat(np.logical_not, 1),
}
