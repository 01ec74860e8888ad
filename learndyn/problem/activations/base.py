"""The base of all activations."""

import abc

from jaxtyping import Array, Float

from learndyn.problem.part import Part


class Activation(Part):
    """A scalar function g, applied entry by entry."""

    @abc.abstractmethod
    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """g(z)."""

    @abc.abstractmethod
    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """g'(z)."""
