"""The base of all activations."""

import abc
import dataclasses

from jaxtyping import Array, Float

from learndyn.problem.part import Check, Part


class Activation(Part):
    """A scalar function g, applied entry by entry."""

    @abc.abstractmethod
    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """g(z)."""

    @abc.abstractmethod
    def derivative(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """g'(z)."""


def static_field(check: Check, **options):
    """A checked field that is part of the structure, not of the numbers: changing it compiles anew."""
    return dataclasses.field(metadata={"check": check, "static": True}, **options)
