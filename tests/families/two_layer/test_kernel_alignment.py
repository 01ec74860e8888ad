"""The alignment of the first layer's tangent kernel with the task: cases that can be done by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.two_layer.student_teacher import OrderParameters, StudentTeacher
from learndyn.numerics.rules import gaussian_rule
from learndyn.problem.activations import as_activation

pytestmark = pytest.mark.compiles


def alignment(student, teacher, Q, R, v, T=((1.0,),), v_star=(1.0,), points=None):
    """At these overlaps, in closed form or by quadrature with so many points."""
    with ld.float64():
        pair = StudentTeacher(
            as_activation(student), as_activation(teacher), *map(jnp.asarray, (T, v_star, 0.0))
        )
        rule = (
            None
            if points is None
            else gaussian_rule(len(v) + len(v_star), points, 1, seed=0).replicate(0)
        )
        state = OrderParameters(*(jnp.asarray(x, float) for x in (Q, R, v)))
        return float(pair.kernel_alignment(state, rule))


@pytest.mark.parametrize("overlap", [0.0, 0.7, 1.0])
def test_the_kernel_of_linear_units_is_aligned_with_linear_tasks(overlap):
    """The kernel has N equal eigenvalues, and the task is one of its functions: the cosine is 1/√N."""
    Q, R = [[1.0, overlap**2], [overlap**2, 1.0]], [[overlap], [overlap]]
    assert alignment("linear", "linear", Q, R, [0.3, -2.0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_bent_unit_sees_a_quadratic_task_along_its_weights():
    """φ = h + ε h²/2 and f* = ½ρ²: ⟨φ' f* x⟩ = ε (½ w + A β)/√N at Q = T = 1, ⟨f*²⟩ = 3/4, ⟨φ'²⟩ = 1 + ε²."""
    eps, A = 0.3, 0.4
    student, teacher = ld.Polynomial([0.0, 1.0, eps / 2]), ld.Polynomial([0.0, 0.0, 0.5])
    seen = eps**2 * (0.25 + A**2 + A**2)
    expected = seen / (0.75 * (1 + eps**2))
    found = alignment(student, teacher, [[1.0]], [[A]], [-1.7])
    assert found == pytest.approx(expected)


def test_quadrature_gives_the_closed_form():
    Q, R, v = [[1.0, 0.2], [0.2, 0.8]], [[0.4], [-0.2]], [1.2, -0.8]
    closed = alignment("erf", "erf", Q, R, v)
    np.testing.assert_allclose(alignment("erf", "erf", Q, R, v, points=2**14), closed, rtol=1e-6)
