"""Smooth activations without closed-form averages: named, written as a formula, or any JAX function."""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.errors import ProblemError, nearest
from learndyn.numerics.precision import float64
from learndyn.problem.activations.base import Activation
from learndyn.problem.activations.formula import evaluate, parse
from learndyn.problem.checks import text
from learndyn.problem.part import static_field

NAMED = {
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "mish": jax.nn.mish,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "arctan": jnp.arctan,
}
"""The smooth activations that go by a name. gelu is z Φ(z), with the exact normal distribution function."""


class Smooth(Activation):
    """An activation given by a smooth function; JAX differentiates it."""

    @abc.abstractmethod
    def scalar(self, z: Float[Array, ""]) -> Float[Array, ""]:
        """g(z) for one number z."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.vectorize(self.scalar)(z)

    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        z = jnp.asarray(z)
        return jax.jvp(self, (z,), (jnp.ones_like(z),))[1]


class Named(Smooth):
    """One of the functions of `NAMED`."""

    name: str = static_field(text)

    def validate(self) -> None:
        if self.name not in NAMED:
            raise ProblemError("Named.name", self.name, f"unknown; {nearest(self.name, NAMED)}")

    def scalar(self, z: Float[Array, ""]) -> Float[Array, ""]:
        return NAMED[self.name](z)

    def to_dict(self) -> str:
        return self.name


class Formula(Smooth):
    """A function of z written out, as in `Formula("tanh(z) + 0.1*z**2")`.

    Numbers, z, pi, the operators + - * / **, parentheses and the functions of `formula.FUNCTIONS` are understood. The
    text is read, never run as Python.
    """

    formula: str = static_field(text)

    def validate(self) -> None:
        parse(self.formula)
        with float64():
            z = jnp.linspace(-8.0, 8.0, 33)
            for what, values in (("value", self(z)), ("derivative", self.derivative(z))):
                wrong = z[~jnp.isfinite(values)]
                if wrong.size:
                    allowed = f"its {what} must be finite everywhere; it is not at z = {wrong[0]:g}"
                    raise ProblemError("Formula.formula", self.formula, allowed)

    def scalar(self, z: Float[Array, ""]) -> Float[Array, ""]:
        return evaluate(parse(self.formula), z=z)


def _function(value: Any, name: str) -> Callable | None:
    if value is not None and not callable(value):
        raise ProblemError(name, value, "must be a function of one number")
    return value


class Custom(Smooth):
    """A Python function of one number, written with `jax.numpy`.

    A file holds only its name, not the function, which must be given again after reading.
    """

    function: Callable | None = static_field(_function, default=None)
    name: str | None = static_field(lambda v, name: v if v is None else text(v, name), default=None)

    def validate(self) -> None:
        if self.name is None:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            object.__setattr__(self, "name", name)
        if self.function is None:
            return
        try:
            shape = jax.eval_shape(self.function, jax.ShapeDtypeStruct((), np.float32)).shape
        except Exception as error:
            allowed = f"must accept a traced number; it raised {type(error).__name__}: {error}"
            raise ProblemError("Custom.function", self.function, allowed) from error
        if shape != ():
            allowed = f"must turn one number into one number; it gave shape {shape}"
            raise ProblemError("Custom.function", self.function, allowed)

    def scalar(self, z: Float[Array, ""]) -> Float[Array, ""]:
        if self.function is None:
            allowed = (
                "the file holds only this name; build the problem again with Custom(function, name)"
            )
            raise ProblemError("Custom.function", self.name, allowed)
        return self.function(z)

    def to_dict(self) -> dict:
        return {"kind": self.kind, "name": self.name}
