"""Random vector fields: a Gaussian r(x, θ), known by its covariance.

    ⟨r_i(x, θ) r_j(x', θ')⟩ = δ_ij G(x·x'/d, θ·θ'/d_θ)

A field may have a second state as argument, z, such as x at an earlier time: r(x, z, θ) with G(q, m, s), s = z·z'/d.
G is a covariance in every dimension if and only if it is a power series with coefficients c_ij ≥ 0 (Schoenberg).
"""

import abc
import ast
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from learndyn.errors import ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.activations.formula import evaluate, parse
from learndyn.problem.checks import array, text
from learndyn.problem.part import Part, field, static_field, traced


class RandomField(Part):
    """A Gaussian vector field, defined by its covariance G(q, m), or G(q, m, s) if it has a second state."""

    @abc.abstractmethod
    def __call__(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        """G(q, m, s), entry by entry; s is None if the field has one state."""

    @property
    @abc.abstractmethod
    def two_states(self) -> bool:
        """Whether the field has a second state as argument."""

    def of_state(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        """∂G/∂q."""
        return _slope(lambda x: self(x, m, s), q)

    def of_second_state(self, q: ArrayLike, m: ArrayLike, s: ArrayLike) -> Float[Array, "..."]:
        """∂G/∂s."""
        return _slope(lambda x: self(q, m, x), s)

    def of_control(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        """∂G/∂m."""
        return _slope(lambda x: self(q, x, s), jnp.broadcast_to(m, jnp.shape(q)))

    @property
    def without_state(self) -> bool:
        """Whether a part of the field does not depend on any state: G(0, m, 0) ≠ 0 for some m."""
        with float64(), jax.ensure_compile_time_eval():
            m = jnp.linspace(-1.5, 1.5, 13)
            zero = jnp.zeros_like(m)
            return bool(jnp.max(jnp.abs(self(zero, m, zero if self.two_states else None))) > 1e-14)


def _slope(
    function: Callable[[ArrayLike], Float[Array, "..."]], at: ArrayLike
) -> Float[Array, "..."]:
    """The derivative of a function that acts entry by entry."""
    at = jnp.asarray(at)
    return jax.jvp(function, (at,), (jnp.ones_like(at),))[1]


class PolynomialField(RandomField):
    """G(q, m) = Σ_ij c_ij q^i m^j, with row i and column j of `coefficients` ≥ 0 for q^i m^j.

    `[[0, 0], [0, 0.8], [0.4, 0]]` is 0.8 q m + 0.4 q². With a second state, matrix k of a list is for s^k:
    `[[[0, 0], [0, 0.8]], [[0, 0], [0.4, 0]]]` is 0.8 q m + 0.4 q s.
    """

    coefficients: np.ndarray = field(array(2, 3, minimum=0))

    def validate(self) -> None:
        if not traced(self.coefficients) and not np.any(self.coefficients[..., 1:]):
            allowed = "must have an entry above 0 in columns 1 and up: the field must depend on the control"
            raise ProblemError("PolynomialField.coefficients", self.coefficients.tolist(), allowed)

    @property
    def two_states(self) -> bool:
        return self.coefficients.ndim == 3

    @property
    def without_state(self) -> bool:
        """Whether a term has no state; traced coefficients are assumed to have none."""
        c = self.coefficients
        return not traced(c) and bool(np.any(c[0, 0] if self.two_states else c[0]))

    def __call__(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        c = jnp.asarray(self.coefficients)
        if s is None:
            return _polynomial(c, q, m)
        total: Any = 0.0
        for matrix in c[::-1]:
            total = total * s + _polynomial(matrix, q, m)
        return total


def _polynomial(c: Float[Array, "i j"], q: Any, m: Any) -> Float[Array, "..."]:
    """Σ_ij c_ij q^i m^j."""
    total = 0.0
    for row in c[::-1]:
        inner = 0.0
        for entry in row[::-1]:
            inner = inner * m + entry
        total = total * q + inner
    return total + 0.0 * (q + m)


class FormulaField(RandomField):
    """G(q, m) written out, as in `FormulaField("0.8*q*m + 0.4*q**2")`; in the language of `Formula`.

    A formula in which s appears, such as "0.8*q*m + 0.4*q*s", has a second state.
    """

    formula: str = static_field(text)

    def validate(self) -> None:
        _check_covariance(self, "FormulaField.formula", self.formula)

    @property
    def _tree(self) -> ast.expr:
        return parse(self.formula, ("q", "m", "s"), "FormulaField.formula")

    @property
    def two_states(self) -> bool:
        return any(isinstance(node, ast.Name) and node.id == "s" for node in ast.walk(self._tree))

    def __call__(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        values: dict[str, Any] = {"q": jnp.asarray(q, float), "m": jnp.asarray(m, float)}
        if s is not None:
            values["s"] = jnp.asarray(s, float)
        return evaluate(self._tree, **values) + 0.0 * sum(values.values())


class CustomField(RandomField):
    """G(q, m) or G(q, m, s) as a Python function of numbers, written with `jax.numpy`.

    - `function`: G. It cannot be written to a file.
    - `name`: how files and messages call it; the name of the function by default.
    """

    function: Callable | None = static_field(lambda value, name: value, default=None)
    name: str | None = static_field(lambda v, name: v if v is None else text(v, name), default=None)

    def validate(self) -> None:
        if self.name is None:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "field"))
        if self.function is not None:
            _check_covariance(self, "CustomField.function", self.name)

    @property
    def two_states(self) -> bool:
        if self.function is None:
            return False
        try:
            inspect.signature(self.function).bind(0.0, 0.0)
        except TypeError:
            return True
        except ValueError:
            return False
        return False

    def __call__(
        self, q: ArrayLike, m: ArrayLike, s: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        if self.function is None:
            allowed = (
                "the function is not in the file; make the problem again with CustomField(function)"
            )
            raise ProblemError("CustomField.function", self.name, allowed)
        values: Any = (q, m) if s is None else (q, m, s)
        return jnp.vectorize(self.function)(*values) + 0.0 * sum(values)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}


def as_field(value: Any) -> Any:
    """A field from its coefficients, a formula in q and m (and s), or a function of them; anything else is returned."""
    if isinstance(value, str):
        return FormulaField(value)
    if isinstance(value, list | tuple | np.ndarray):
        return PolynomialField(value)  # type: ignore[arg-type]
    if callable(value) and not isinstance(value, RandomField):
        return CustomField(value)
    return value


def _check_covariance(field: RandomField, name: str, value: Any) -> None:
    """Refuse a function that is not a power series with coefficients ≥ 0, or does not depend on the control.

    In one dimension q = xx' and m = θθ', and the matrix of G between points (x, θ) is Σ c_ij v v^⊤ with v = (x^i θ^j):
    it has a negative eigenvalue if a coefficient is negative. The same holds for s = zz' between points (x, θ, z).
    """
    two = field.two_states
    points, size = (3, 6) if two else (2, 8)
    axes = [axis.ravel() for axis in np.meshgrid(*[np.linspace(-1.1, 1.2, size)] * points)]
    with float64():
        try:
            matrix = np.asarray(field(*(jnp.asarray(np.outer(x, x)) for x in axes)))
        except ProblemError:
            raise
        except Exception as error:
            names = "q, m and s" if two else "q and m"
            allowed = (
                f"must accept arrays {names} of JAX; it raised {type(error).__name__}: {error}"
            )
            raise ProblemError(name, value, allowed) from error
        ones = jnp.ones(9)
        slopes = field.of_control(ones, jnp.linspace(0.0, 1.0, 9), ones if two else None)
    if not np.all(np.isfinite(matrix)):
        raise ProblemError(name, value, "must be finite for arguments between -1.2 and 1.2")
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest < -1e-9 * np.max(np.abs(matrix)):
        allowed = "is not the covariance of a field: it must be a power series without negative coefficients"
        raise ProblemError(name, value, allowed)
    if np.max(np.abs(slopes)) < 1e-12:
        raise ProblemError(name, value, "must depend on m: the field must depend on the control")
