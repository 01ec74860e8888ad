"""The base of all networks."""

from typing import Any

from learndyn.problem.part import Part
from learndyn.problem.supplies import Supply


class Network(Part, abstract=True):
    """What is trained, and from which initial state."""

    def completed(self, data: Supply | None, training: Any) -> tuple[Supply | None, Any]:
        """The data and training of a problem with this network, which may have its own if none are given."""
        return data, training

    def check(self, data: Supply) -> None:
        """Refuse data that cannot belong to this network, such as a teacher with another number of units.

        Whether a theory covers the parts is decided elsewhere, by its `Theory.understands` and `Theory.check`.
        """
