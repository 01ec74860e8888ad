"""`Chapter`: one theory of a report."""

import dataclasses
import math
from typing import Any

from matplotlib.figure import Figure

from learndyn.core.compare import Comparison
from learndyn.core.solution import Solution
from learndyn.core.theory import Theory


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long a computation took, in seconds: compiling (once for each shape of a problem), and the rest."""

    compiling: float | None
    computing: float

    @classmethod
    def of(cls, solution: Solution | None) -> "Timing | None":
        """The timing of a solution; None if there is no solution or it was not timed."""
        if solution is None or solution.evidence.wall_time is None:
            return None
        compiling = solution.evidence.compile_time
        return cls(compiling, max(0.0, solution.evidence.wall_time - (compiling or 0.0)))


@dataclasses.dataclass(frozen=True)
class Computation:
    """One row of the table "How it was computed": the theory or the training."""

    name: str
    solution: Solution

    @property
    def method(self) -> str:
        """The kind of the method and its settings, in words."""
        method = self.solution.evidence.method
        if not isinstance(method, dict):
            return str(method or "")
        numbers = {key: value for key, value in method.items() if isinstance(value, int | float)}
        settings = [f"{key} {value:g}" for key, value in numbers.items()]
        return ", ".join([str(method.get("kind", "")), *settings]).replace("_", " ")

    @property
    def accuracy(self) -> str:
        """The largest error, and the largest standard error of a sampled theory."""
        accuracy = self.solution.evidence.accuracy
        errors = [self.solution.standard_error(name) for name in self.solution.observables]
        largest = [float(error.max()) for error in errors if error is not None]
        sampled = [error for error in largest if math.isfinite(error)]
        texts = [f"{max(accuracy.values()):.1g}"] if accuracy else []
        return ", ".join([*texts, *([f"± {max(sampled):.1g} (sampled)"] if sampled else [])])

    @property
    def networks(self) -> str:
        """How many networks were trained; empty for a theory."""
        return networks_of(self.solution)

    @property
    def timing(self) -> Timing | None:
        return Timing.of(self.solution)


@dataclasses.dataclass(frozen=True)
class Chapter:
    """One theory of a report: the problem and the results, or the error that stopped it.

    - `theory`: the theory.
    - `problem`: the text of the problem file.
    - `solution`, `runs`, `comparison`: the results; those that were reached before an error are shown, too.
    - `pictures`: captions and figures.
    - `error`: the error message; None if all went well.
    """

    theory: Theory
    problem: str
    solution: Solution | None = None
    runs: Solution | None = None
    comparison: Comparison | None = None
    pictures: tuple[tuple[str, Figure], ...] = ()
    error: str | None = None

    @property
    def verdict(self) -> str:
        """One word: agrees, differs or failed."""
        if self.error is not None or self.comparison is None:
            return "failed"
        return "agrees" if self.comparison.agrees else "differs"

    @property
    def reason(self) -> str:
        """The verdict in a sentence."""
        if self.error is not None:
            return self.error
        return "not compared" if self.comparison is None else self.comparison.verdict

    @property
    def anchor(self) -> str:
        """The name of the section, for links."""
        return self.theory.name.replace("/", "-").replace(" ", "-")

    @property
    def networks(self) -> str:
        """How many networks were trained, such as "10 of size 784"."""
        return networks_of(self.runs)

    @property
    def computations(self) -> list[Computation]:
        """The theory and the training, if they were reached."""
        pairs = (("theory", self.solution), ("training", self.runs))
        return [Computation(name, solution) for name, solution in pairs if solution is not None]

    @property
    def solving_time(self) -> Timing | None:
        """The timing of the theory."""
        return Timing.of(self.solution)

    @property
    def training_time(self) -> Timing | None:
        """The timing of the training."""
        return Timing.of(self.runs)

    @property
    def ratio(self) -> float | None:
        """Time of training over time of solving, both without compilation; None if one is missing."""
        solving, training = self.solving_time, self.training_time
        if solving is None or training is None or solving.computing == 0:
            return None
        return training.computing / solving.computing

    @property
    def agreement(self) -> list[tuple[str, list[Any]]]:
        """The rows of the table of agreement: the name of an observable, and its values by column."""
        if self.comparison is None:
            return []
        table = self.comparison.table
        return [(str(name), list(row)) for name, row in zip(table.index, table.values, strict=True)]


def networks_of(solution: Solution | None) -> str:
    """How many networks were trained, such as "10 of size 784"; empty if none were."""
    if solution is None or solution.seeds is None:
        return ""
    return f"{len(solution.seeds)} of size {solution.size}"
