"""The base of all networks."""

import abc

from learndyn.problem.part import Part


class Network(Part):
    """What is trained, and from which initial state."""

    @abc.abstractmethod
    def check(self, data, training) -> None:
        """Refuse data or a training rule that does not fit this network, with a `ProblemError`."""
