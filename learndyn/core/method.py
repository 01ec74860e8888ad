"""Methods: how a limit is solved, and how finite networks are trained. A family writes final classes of both."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.errors import NoTheory
from learndyn.problem.part import Part

Way = Literal["threads", "alone", "processes"]
"""How several problems are best solved at a time: on threads (what releases Python's lock), one after the other (what
uses all cores by itself), or in processes."""


class Method(Part, abstract=True):
    """Base of the ways to solve a limit. A class carries out its own solution."""

    @abc.abstractmethod
    def solve(self, problem, record: Record, seed: int, report: Report) -> Curves:
        """All observables at the recorded states; `report` takes the fraction done."""

    def start(self, problem, seed: int = 0) -> Progressing:
        """The limit at the beginning of training, to be advanced step by step."""
        raise NoTheory(
            f"{type(self).__name__} solves the whole of training at once and cannot be advanced step by step; use solve"
        )

    def trace(self, problem, record: Record) -> dict[str, Any]:
        """The observables as a pure JAX function of the numbers in the problem."""
        raise NoTheory(f"{type(self).__name__} is not a JAX function and cannot be traced")

    def pays_together(self, problems: Sequence, record: Record) -> bool:
        """Whether `solve_many` is faster than one problem after the other. They differ in numbers only."""
        return False

    def solve_many(
        self, problems: Sequence, record: Record, seed: int, wanted: Sequence[str] | None = None
    ) -> list[Curves]:
        """The limits of several problems. `wanted` names the observables that are asked for; others may be left out."""
        return [self.solve(problem, record, seed, lambda done: None) for problem in problems]

    def way(self, problem) -> Way:
        """How several problems are best solved at a time."""
        return "threads"


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The finite networks of a problem: `draw(seed)` makes one that is ready to be trained.

    The same seed gives the same network and the same training whatever else runs. `record` are the states that these
    networks have. One of them needs `bytes` of memory; `what` and `advice` go into the message if there is not enough.
    """

    draw: Callable[[int], Progressing]
    record: Record
    bytes: float
    what: str
    advice: str
    labels: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)


class Simulator(Part, abstract=True):
    """Base of the ways to train finite networks."""

    @abc.abstractmethod
    def ensemble(self, problem, size: int, record: Record) -> Ensemble:
        """The networks of a size, before any is drawn; refuse a size that does not fit the problem."""
