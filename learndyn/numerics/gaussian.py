"""Averages over Gaussian fields of the error of a two-layer student and of its slopes.

The fields u = (λ, ρ) ~ N(0, C) are those of K student units, with activation g, followed by M teacher units, with
activation g_*. The error is ε = Σ_c s_c g_c(u_c), with s = v for students and −v* for teachers. Everything that the
order-parameter equations need is in `ErrorMoments`.

By Stein's lemma the only averages needed for the force are those of two fields:

    I_3(a, b, c) = ⟨g'_a u_b g_c⟩ = C_ab ⟨g''_a g_c⟩ + C_bc ⟨g'_a g'_c⟩.

Closed forms are known for erf with erf, relu with relu, and polynomials with polynomials. For all others the averages
over two fields are taken on a grid, and ⟨g'_i g'_k ε²⟩ over the points of a `GaussianRule`, multiplied by a factor of
C.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.errors import ProblemError
from learndyn.numerics.erf import ErfIntegrals
from learndyn.numerics.factor import psd_factor
from learndyn.numerics.pair_grid import pair_averages, pair_products
from learndyn.numerics.polynomial import MAX_DEGREE, PolynomialIntegrals
from learndyn.numerics.relu import ReluIntegrals
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.activations import Activation, Erf, Linear, Polynomial, Relu

__all__ = [
    "I2",
    "I3",
    "I4",
    "J2",
    "ErrorMoments",
    "closed_form",
    "error_gradients",
    "error_moments",
    "loss",
    "rule_moments",
]

Integrals = ErfIntegrals | ReluIntegrals | PolynomialIntegrals
Matrix = Float[Array, "n n"] | Float[np.ndarray, "n n"]
Vector = Float[Array, " n"] | Float[np.ndarray, " n"]


class ErrorMoments(NamedTuple):
    """Averages of the error ε with the student's activations; i, k run over students, b over all fields."""

    force: Float[Array, "*r K n"]
    """⟨g'(u_i) u_b ε⟩"""
    square: Float[Array, "*r K K"]
    """⟨g'(u_i) g'(u_k) ε²⟩, or zeros if it was not asked for"""
    slope: Float[Array, "*r K K"]
    """⟨g'(u_i) g'(u_k)⟩"""
    readout: Float[Array, "*r K"]
    """⟨g(u_i) ε⟩"""
    loss: Float[Array, "*r"]
    """½⟨ε²⟩"""


def closed_form(student: Activation, teacher: Activation) -> bool:
    """Whether the averages of this pair of activations are known in closed form."""
    return _integrals(student, teacher, 1, 1) is not None


def error_moments(
    student: Activation,
    teacher: Activation,
    C: Matrix,
    s: Vector,
    students: int,
    rule: GaussianRule | None = None,
    second_order: bool = True,
) -> ErrorMoments:
    """The averages of `ErrorMoments`, in closed form, or over the points of one replicate of a rule if one is given.

    Without `second_order` the most expensive one, `square`, is not computed (gradient flow does not need it).
    """
    C, s, K = jnp.asarray(C), jnp.asarray(s), students
    square = jnp.zeros((K, K), C.dtype)
    if rule is not None:
        products, slopes, curvatures = pair_averages(student, teacher, C, K, _grid(rule))
        total = loss(student, teacher, C, s, K, rule)
        if second_order:
            square = _average_square(student, teacher, C, s, K, rule)
    else:
        integrals = _closed_form_integrals(student, teacher, K, len(s) - K)
        products, slopes = integrals.products(C), integrals.slopes(C, K)
        curvatures = integrals.curvatures(C, K)
        total = s @ products @ s / 2
        if second_order:
            square = integrals.square(C, s, K)
    force = (curvatures @ s)[:, None] * C[:K] + (slopes * s) @ C
    return ErrorMoments(force, square, slopes[:, :K], products[:K] @ s, total)


def error_gradients(
    student: Activation,
    teacher: Activation,
    C: Matrix,
    s: Vector,
    students: int,
    rule: GaussianRule | None = None,
) -> Float[Array, "K n"]:
    """⟨∂(g'(u_i) ε)/∂u_b⟩. By Stein's lemma ⟨g'(u_i) ε x⟩ = Σ_b ⟨∂(g'(u_i) ε)/∂u_b⟩ w_b/√N for u_b = w_b·x/√N."""
    C, s, K = jnp.asarray(C), jnp.asarray(s), students
    if rule is not None:
        _, slopes, curvatures = pair_averages(student, teacher, C, K, _grid(rule))
    else:
        integrals = _closed_form_integrals(student, teacher, K, len(s) - K)
        slopes, curvatures = integrals.slopes(C, K), integrals.curvatures(C, K)
    return (slopes * s).at[jnp.arange(K), jnp.arange(K)].add(curvatures @ s)


def loss(
    student: Activation,
    teacher: Activation,
    C: Matrix,
    s: Vector,
    students: int,
    rule: GaussianRule | None = None,
) -> Float[Array, ""]:
    """½⟨ε²⟩ alone. Rounding leaves about 1e-16 Σ|s_c s_d|, of either sign, where the error vanishes."""
    C, s = jnp.asarray(C), jnp.asarray(s)
    if rule is not None:
        return s @ pair_products(student, teacher, C, students, _grid(rule)) @ s / 2
    return (
        s
        @ _closed_form_integrals(student, teacher, students, len(s) - students).products(C)
        @ s
        / 2
    )


def rule_moments(
    student: Activation,
    teacher: Activation,
    C: Matrix,
    s: Vector,
    students: int,
    rule: GaussianRule,
    second_order: bool = True,
) -> tuple[ErrorMoments, ErrorMoments]:
    """The averages over all replicates of a rule, and their standard errors from the spread of the replicates."""

    def moments(replicate: GaussianRule):
        return error_moments(student, teacher, C, s, students, replicate, second_order)

    of_replicates = jax.vmap(moments)(rule)
    count = rule.weights.shape[0]
    if count < 2:
        raise ProblemError("rule.replicates", count, "must be at least 2 for a standard error")
    mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), of_replicates)
    error = jax.tree.map(lambda x: jnp.std(x, axis=0, ddof=1) / np.sqrt(count), of_replicates)
    return mean, error


def I2(activation: Activation, C: Matrix, a: int, b: int) -> Float[Array, ""]:
    """⟨g(u_a) g(u_b)⟩."""
    integrals, C = _one_activation(activation, C)
    return integrals.products(C)[a, b]


def J2(activation: Activation, C: Matrix, a: int, b: int) -> Float[Array, ""]:
    """⟨g'(u_a) g'(u_b)⟩."""
    integrals, C = _one_activation(activation, C)
    return integrals.slopes(C, len(C))[a, b]


def I3(activation: Activation, C: Matrix, a: int, b: int, c: int) -> Float[Array, ""]:
    """⟨g'(u_a) u_b g(u_c)⟩."""
    integrals, C = _one_activation(activation, C)
    curvature, slope = integrals.curvatures(C, len(C))[a, c], integrals.slopes(C, len(C))[a, c]
    return C[a, b] * curvature + C[b, c] * slope


def I4(activation: Activation, C: Matrix, a: int, b: int, c: int, d: int) -> Float[Array, ""]:
    """⟨g'(u_a) g'(u_b) g(u_c) g(u_d)⟩."""
    integrals, C = _one_activation(activation, C)
    return integrals.fourth(C, a, b, c, d)


def _one_activation(activation: Activation, C: Matrix) -> tuple[Integrals, Float[Array, "n n"]]:
    """The closed forms of fields that all have the same activation, and their covariance C as a JAX array."""
    C = jnp.asarray(C)
    return _closed_form_integrals(activation, activation, len(C), 0), C


def _closed_form_integrals(student: Activation, teacher: Activation, K: int, M: int) -> Integrals:
    """The closed forms for K student and M teacher fields; refuses activations that have none."""
    integrals = _integrals(student, teacher, K, M)
    if integrals is None:
        allowed = (
            "has no closed form for this student and teacher; closed forms exist for erf with erf, relu with relu and "
            f"polynomials up to degree {MAX_DEGREE}. Pass a rule made by gaussian_rule instead"
        )
        raise ProblemError("activation", (student, teacher), allowed)
    return integrals


def _integrals(student: Activation, teacher: Activation, K: int, M: int) -> Integrals | None:
    """The closed forms for K student and M teacher fields, or None."""
    if isinstance(student, Erf) and isinstance(teacher, Erf):
        return ErfIntegrals()
    if isinstance(student, Relu) and isinstance(teacher, Relu):
        return ReluIntegrals()
    if isinstance(student, Linear | Polynomial) and isinstance(teacher, Linear | Polynomial):
        c, c_star = jnp.asarray(student.coefficients), jnp.asarray(teacher.coefficients)
        terms = max(len(c), len(c_star))
        if terms <= MAX_DEGREE + 1:
            rows = [jnp.pad(x, (0, terms - len(x))) for x in (c, c_star)]
            return PolynomialIntegrals(jnp.stack([rows[0]] * K + [rows[1]] * M))
    return None


def _grid(rule: GaussianRule) -> GaussianRule:
    """The grid of a rule for averages over two fields."""
    if rule.pairs is None:
        raise ProblemError(
            "rule.pairs",
            None,
            "must be a grid for averages over two fields; make the rule with gaussian_rule",
        )
    return rule.pairs


def _average_square(
    student: Activation,
    teacher: Activation,
    C: Float[Array, "n n"],
    s: Float[Array, " n"],
    K: int,
    rule: GaussianRule,
) -> Float[Array, "K K"]:
    """⟨g'(u_i) g'(u_k) ε²⟩ over the points of a rule."""
    u = jnp.asarray(rule.points) @ psd_factor(C).T
    g = jnp.concatenate([student(u[:, :K]), teacher(u[:, K:])], axis=1)
    slope = student.derivative(u[:, :K])
    return (slope * (rule.weights * (g @ s) ** 2)[:, None]).T @ slope
