"""Methods: how a limit is solved, and how finite networks are trained. A family writes final classes of both."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.errors import NoTheory
from learndyn.problem.part import Part
from learndyn.problem.problem import Problem

Way = Literal["threads", "alone", "processes"]
"""How several problems are best solved at a time: on threads (for methods that release Python's lock), "alone", one
after the other (for methods that use all cores by themselves), or in processes."""


class Method(Part, abstract=True):
    """Base of the ways to solve a limit. A class carries out its own solution."""

    libraries: ClassVar[tuple[str, ...]] = ()
    """The packages beside JAX to which it owes its numbers, by their names in `learndyn.bibliography.LIBRARIES`."""

    @abc.abstractmethod
    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """All observables at the recorded states; `report` takes the fraction done."""

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        """The limit at the beginning of training, to be advanced step by step."""
        raise NoTheory(
            f"{type(self).__name__} solves the whole of training at once and cannot be advanced step by step; use solve"
        )

    def trace(self, problem: Problem, record: Record) -> dict[str, Any]:
        """The observables as a pure JAX function of the numbers in the problem."""
        raise NoTheory(f"{type(self).__name__} is not a JAX function and cannot be traced")

    def pays_together(self, problems: Sequence[Problem], record: Record) -> bool:
        """Whether `solve_many` is faster than solving one by one problems that differ only in numbers."""
        return False

    def solve_many(
        self,
        problems: Sequence[Problem],
        record: Record,
        seed: int,
        wanted: Sequence[str] | None = None,
    ) -> list[Curves]:
        """The limits of several problems. Observables that are not named in `wanted` may be left out."""
        return [self.solve(problem, record, seed, lambda done: None) for problem in problems]

    def way(self, problem: Problem) -> Way:
        """How several problems are best solved at a time."""
        return "threads"


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The finite networks of a problem: `draw(seed)` makes one that is ready to be trained.

    - `draw`: the same seed gives the same network and the same training, whatever else runs.
    - `record`: the states of training at which these networks are measured.
    - `bytes`: the memory that one network needs.
    - `what`, `advice`: what is trained and what to make smaller, for the message if there is not enough memory.
    - `labels`: the labels of axes that are not numbered from 0.
    - `evidence`: further entries of the solution's evidence.
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

    libraries: ClassVar[tuple[str, ...]] = ()
    """The packages beside JAX to which it owes its numbers, by their names in `learndyn.bibliography.LIBRARIES`."""

    @abc.abstractmethod
    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        """The networks of a size, before any is drawn; refuse a size that does not fit the problem."""
