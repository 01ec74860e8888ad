"""A two-layer student and its teacher as functions of their overlaps, whichever supply the examples come from."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from learndyn.numerics.gaussian import closed_form, loss
from learndyn.numerics.precision import leaves_as_arrays
from learndyn.numerics.rules import GaussianRule, gaussian_rule
from learndyn.problem.activations import Activation
from learndyn.problem.problem import Problem

TEST_POINTS = 2**14
"""Points of the quadrature rule for the test losses of finite networks."""


class OrderParameters(NamedTuple):
    """The state of the limit: overlaps Q (K×K), R (K×M) and the readout v (K)."""

    Q: Float[Array, "K K"]
    R: Float[Array, "K M"]
    v: Float[Array, " K"]


class StudentTeacher(eqx.Module):
    """Both activations, the teacher's overlaps T and readout v*, and the label noise σ; every number is an array."""

    student: Activation
    teacher: Activation
    T: Float[Array, "M M"]
    v_star: Float[Array, " M"]
    noise: Float[Array, ""]

    def covariance(self, y: OrderParameters) -> Float[Array, "n n"]:
        """C = [[Q, R], [Rᵀ, T]], the covariance of the student fields λ and the teacher fields ρ (n = K + M)."""
        return jnp.block([[y.Q, y.R], [y.R.T, self.T]])

    def test_loss(self, y: OrderParameters, rule: GaussianRule | None = None) -> Float[Array, ""]:
        """½⟨ε²⟩ at the state `y`, with ε = Σ_i v_i g(λ_i) − Σ_n v*_n g(ρ_n)."""
        s = jnp.concatenate([y.v, -self.v_star])
        return loss(self.student, self.teacher, self.covariance(y), s, y.v.shape[0], rule)


def student_teacher_arrays(problem: Problem) -> dict[str, Any]:
    """The fields of `StudentTeacher`, with every number as an array."""
    teacher = problem.data.task
    return leaves_as_arrays(
        {
            "student": problem.network.activation,
            "teacher": teacher.activation,
            "T": teacher.T,
            "v_star": teacher.readout,
            "noise": problem.data.noise,
        }
    )


def initial_overlaps(problem: Problem) -> OrderParameters:
    """The order parameters with which the network starts."""
    network = problem.network
    return OrderParameters(*leaves_as_arrays((network.Q, network.R, network.readout)))


def student_teacher(problem: Problem) -> tuple[StudentTeacher, OrderParameters]:
    """The student and the teacher of a problem, and the overlaps with which they start."""
    return StudentTeacher(**student_teacher_arrays(problem)), initial_overlaps(problem)


def rule_of_test_loss(
    pair: StudentTeacher, fields: int, points: int = TEST_POINTS
) -> GaussianRule | None:
    """The quadrature rule for test losses; None where they have a closed form."""
    if closed_form(pair.student, pair.teacher):
        return None
    return gaussian_rule(fields, points, 1, seed=0).replicate(0)
