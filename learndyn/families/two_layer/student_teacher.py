"""A two-layer student and its teacher as functions of their overlaps, whichever supply the examples come from."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from learndyn.numerics.gaussian import closed_form, error_gradients, error_moments, loss
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

    def kernel_alignment(
        self, y: OrderParameters, rule: GaussianRule | None = None
    ) -> Float[Array, ""]:
        """How well the tangent kernel of the first layer is aligned with the task: √N times their cosine.

        The kernel is K(x, x') = (x·x'/N) Σ_i v_i² g'(λ_i) g'(λ'_i), the task f* = Σ_n v*_n g(ρ_n), and

            √N ⟨f*(x) K(x, x') f*(x')⟩/(⟨f*²⟩ √⟨K²⟩) = Σ_i v_i² c_iᵀ C c_i/(⟨f*²⟩ √(Σ_ij v_i² v_j² ⟨g'_i g'_j⟩²))

        for independent inputs x, x', with c_ib = ⟨∂(g'(λ_i) f*)/∂u_b⟩ and the fields u = (λ, ρ) with covariance C. The
        cosine itself falls as 1/√N, because N directions of the inputs share the kernel. The right side is the limit
        of large N: in ⟨K²⟩ terms of relative order 1/N are left out.
        """
        K, C = y.v.shape[0], self.covariance(y)
        task = jnp.concatenate([jnp.zeros(K), self.v_star])
        c = error_gradients(self.student, self.teacher, C, task, K, rule)
        moments = error_moments(self.student, self.teacher, C, task, K, rule, second_order=False)
        weights = y.v**2
        seen = weights @ jnp.einsum("ib,bc,ic->i", c, C, c)
        size = jnp.sqrt(weights @ moments.slope**2 @ weights)
        return seen / (2 * moments.loss * size)


@eqx.filter_jit
def on_the_population(
    pair: StudentTeacher,
    rule: GaussianRule | None,
    states: OrderParameters,
    batch_size: int | None = None,
) -> Float[Array, "2 states"]:
    """½⟨(y − ŷ)²⟩ on clean labels and the alignment of the kernel, at every state (the first axis of the overlaps)."""

    def of_state(state: OrderParameters) -> Float[Array, "2"]:
        return jnp.stack([pair.test_loss(state, rule), pair.kernel_alignment(state, rule)])

    return jax.lax.map(of_state, states, batch_size=batch_size).T


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
