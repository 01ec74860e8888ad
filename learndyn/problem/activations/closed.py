"""The activations whose Gaussian averages are known in closed form."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.problem.activations.base import Activation
from learndyn.problem.checks import array
from learndyn.problem.part import field


class Erf(Activation):
    """g(z) = erf(z/√2), g'(z) = √(2/π) exp(−z²/2)."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.scipy.special.erf(z / math.sqrt(2))

    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return math.sqrt(2 / math.pi) * jnp.exp(-0.5 * z * z)

    def to_dict(self) -> str:
        return self.kind


class Relu(Activation):
    """g(z) = max(z, 0), g'(z) = 1 where z > 0 and 0 elsewhere."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(z, 0.0)

    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(z > 0, 1.0, jnp.zeros_like(z))

    def to_dict(self) -> str:
        return self.kind


class Linear(Activation):
    """g(z) = z."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.asarray(z)

    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.ones_like(z)

    def to_dict(self) -> str:
        return self.kind

    @property
    def coefficients(self) -> np.ndarray:
        """The coefficients of the polynomial 0 + 1·z."""
        return np.array([0.0, 1.0])


class Polynomial(Activation):
    """g(z) = c_0 + c_1 z + c_2 z² + …"""

    coefficients: np.ndarray = field(array(1))

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return _horner(self.coefficients, z)

    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        powers = np.arange(1, len(self.coefficients))
        return _horner(self.coefficients[1:] * powers, z)


def _horner(
    coefficients: Float[np.ndarray | Array, " powers"], z: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Σ_k coefficients_k z^k."""
    total = jnp.zeros_like(z)
    for k in reversed(range(len(coefficients))):
        total = total * z + coefficients[k]
    return total
