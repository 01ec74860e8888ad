"""Random vector fields: a Gaussian r(x, θ), known by its covariance.

    ⟨r_i(x, θ) r_j(x', θ')⟩ = δ_ij G(x·x'/d, θ·θ'/d_θ)

G is a covariance in every dimension if and only if it is a power series with coefficients c_ij ≥ 0 (Schoenberg).
"""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.activations.base import static_field
from learndyn.activations.formula import evaluate, parse
from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.part import Part, array, field, text, traced


class RandomField(Part):
    """A Gaussian vector field, by its covariance G(q, m)."""

    @abc.abstractmethod
    def __call__(self, q, m) -> Any:
        """G(q, m), entry by entry."""

    def of_state(self, q, m):
        """∂G/∂q."""
        return _slope(lambda x: self(x, m), q)

    def of_control(self, q, m):
        """∂G/∂m."""
        return _slope(lambda x: self(q, x), jnp.broadcast_to(m, jnp.shape(q)))

    @property
    def without_state(self) -> bool:
        """Whether a part of the field does not depend on the state: G(0, m) is not zero for all m."""
        with float64(), jax.ensure_compile_time_eval():
            m = jnp.linspace(-1.5, 1.5, 13)
            return bool(jnp.max(jnp.abs(self(jnp.zeros_like(m), m))) > 1e-14)


def _slope(function, at):
    at = jnp.asarray(at)
    return jax.jvp(function, (at,), (jnp.ones_like(at),))[1]


class PolynomialField(RandomField):
    """G(q, m) = Σ_ij c_ij q^i m^j, with row i and column j of `coefficients` ≥ 0 for q^i m^j.

    `[[0, 0], [0, 0.8], [0.4, 0]]` is 0.8 q m + 0.4 q².
    """

    coefficients: np.ndarray = field(array(2, minimum=0))

    def validate(self):
        if not traced(self.coefficients) and not np.any(self.coefficients[:, 1:]):
            allowed = "must have an entry above 0 in columns 1 and up: the field must depend on the control"
            raise ProblemError("PolynomialField.coefficients", self.coefficients.tolist(), allowed)

    @property
    def without_state(self):
        """Whether row 0 is not empty; a traced one is taken to be."""
        return not traced(self.coefficients) and bool(np.any(self.coefficients[0]))

    def __call__(self, q, m):
        c = jnp.asarray(self.coefficients)
        total = 0.0
        for row in c[::-1]:
            inner = 0.0
            for entry in row[::-1]:
                inner = inner * m + entry
            total = total * q + inner
        return total + 0.0 * (q + m)


class FormulaField(RandomField):
    """G(q, m) written out, as in `FormulaField("0.8*q*m + 0.4*q**2")`; understood as `Formula` is."""

    formula: str = static_field(text)

    def validate(self):
        _check_covariance(self, "FormulaField.formula", self.formula)

    def __call__(self, q, m):
        tree = parse(self.formula, ("q", "m"), "FormulaField.formula")
        q, m = jnp.asarray(q, float), jnp.asarray(m, float)
        return evaluate(tree, q=q, m=m) + 0.0 * (q + m)


class CustomField(RandomField):
    """G(q, m) as a Python function of two numbers, written with `jax.numpy`. It cannot be written to a file."""

    function: Callable | None = static_field(lambda value, name: value, default=None)
    name: str | None = static_field(lambda v, name: v if v is None else text(v, name), default=None)

    def validate(self):
        if self.name is None:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "field"))
        if self.function is not None:
            _check_covariance(self, "CustomField.function", self.name)

    def __call__(self, q, m):
        if self.function is None:
            allowed = (
                "the function is not in the file; make the problem again with CustomField(function)"
            )
            raise ProblemError("CustomField.function", self.name, allowed)
        return jnp.vectorize(self.function)(q, m) + 0.0 * (q + m)

    def to_dict(self):
        return {"kind": self.kind, "name": self.name}


def as_field(value):
    """A field from itself, its coefficients, a formula in q and m, or a function of them."""
    if isinstance(value, str):
        return FormulaField(value)
    if isinstance(value, list | tuple | np.ndarray):
        return PolynomialField(value)  # type: ignore[arg-type]
    if callable(value) and not isinstance(value, RandomField):
        return CustomField(value)
    return value


def _check_covariance(made: RandomField, name: str, value) -> None:
    """Refuse a function that is not a power series with coefficients ≥ 0, or lacks the control.

    In one dimension q = xx' and m = θθ', and the matrix of G between points (x, θ) is Σ c_ij v v^⊤ with v = (x^i θ^j):
    it has a negative eigenvalue if a coefficient is negative.
    """
    x, theta = (axis.ravel() for axis in np.meshgrid(*[np.linspace(-1.1, 1.2, 8)] * 2))
    with float64():
        try:
            matrix = np.asarray(
                made(jnp.asarray(np.outer(x, x)), jnp.asarray(np.outer(theta, theta)))
            )
        except ProblemError:
            raise
        except Exception as error:
            allowed = (
                f"must accept arrays q and m of JAX; it raised {type(error).__name__}: {error}"
            )
            raise ProblemError(name, value, allowed) from error
        slopes = made.of_control(jnp.ones(9), jnp.linspace(0.0, 1.0, 9))
    if not np.all(np.isfinite(matrix)):
        raise ProblemError(name, value, "must be finite for q and m between -1.2 and 1.2")
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest < -1e-9 * np.max(np.abs(matrix)):
        allowed = "is not the covariance of a field: it must be a power series in q and m without negative coefficients"
        raise ProblemError(name, value, allowed)
    if np.max(np.abs(slopes)) < 1e-12:
        raise ProblemError(name, value, "must depend on m: the field must depend on the control")
