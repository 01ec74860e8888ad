"""Averages over two Gaussian fields of any activations, on a grid.

With standard deviations σ and correlation r the fields are u_a = σ_a x, u_b = σ_b (r x + √(1−r²) y), and the average is
over a grid of independent standard normals (x, y): exponentially accurate for analytic activations, whatever the number
of fields. Second derivatives are avoided by Stein's lemma, σ_a ⟨g''_a g_b⟩ = ⟨x g'_a g_b⟩ − r σ_b ⟨g'_a g'_b⟩, so that
activations with a kink are treated correctly too, though less accurately.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from learndyn.numerics.arcsin import root, safe_inverse_root
from learndyn.numerics.relu import correlations
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.activations import Activation


class PairAverages(NamedTuple):
    """For the first K fields a and all fields b."""

    products: Float[Array, "K n"]
    """⟨g_a g_b⟩"""
    slopes: Float[Array, "K n"]
    """⟨g'_a g'_b⟩"""
    curvatures: Float[Array, "K n"]
    """⟨g''_a g_b⟩"""


def pair_averages(
    student: Activation, teacher: Activation, C: Float[Array, "n n"], K: int, grid: GaussianRule
) -> PairAverages:
    """The averages over two fields that the equations need, for the K student fields and all fields."""
    fields = _row_fields(C, grid)
    sigma, r = correlations(C)
    inverse = safe_inverse_root(jnp.diagonal(C))

    def row(a: Int[Array, ""]):
        u_a, u = fields(a)
        g = _both(student, teacher, u, K)
        slope = _both(student.derivative, teacher.derivative, u, K)
        weighted = grid.weights * student.derivative(u_a)
        slopes = slope @ weighted
        # Stein's lemma in x instead of g'', which has a delta function where g has a kink.
        curvatures = inverse[a] * (g @ (weighted * grid.points[:, 0]) - r[a] * sigma * slopes)
        return PairAverages(g @ (grid.weights * student(u_a)), slopes, curvatures)

    return jax.lax.map(row, jnp.arange(K))


def pair_products(
    student: Activation, teacher: Activation, C: Float[Array, "n n"], K: int, grid: GaussianRule
) -> Float[Array, "n n"]:
    """⟨g_a g_b⟩ for all fields."""
    fields = _row_fields(C, grid)

    def rows(activation: Activation, indices: Int[Array, " k"]):
        def row(a: Int[Array, ""]):
            u_a, u = fields(a)
            return _both(student, teacher, u, K) @ (grid.weights * activation(u_a))

        return jax.lax.map(row, indices)

    n = C.shape[0]
    parts = [rows(student, jnp.arange(K)), rows(teacher, jnp.arange(K, n))]
    return jnp.concatenate(parts)


def _row_fields(
    C: Float[Array, "n n"], grid: GaussianRule
) -> Callable[[Array], tuple[Array, Array]]:
    """The fields u_a (S) and u_b for all b (n×S) on the grid, as a function of a."""
    sigma, r = correlations(C)
    x, y = grid.points[:, 0], grid.points[:, 1]

    def fields(a: Int[Array, ""]):
        aside = root((1 - r[a]) * (1 + r[a]))
        return sigma[a] * x, sigma[:, None] * (r[a][:, None] * x + aside[:, None] * y)

    return fields


def _both(
    student: Callable[[Array], Array],
    teacher: Callable[[Array], Array],
    u: Float[Array, "n S"],
    K: int,
) -> Float[Array, "n S"]:
    """The student function of the first K fields and the teacher function of the others."""
    return jnp.concatenate([student(u[:K]), teacher(u[K:])])
