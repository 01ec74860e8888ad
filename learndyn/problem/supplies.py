"""How examples of a task arrive: all at once, fresh at every step, or as a fixed set."""

from typing import Any

import equinox as eqx

from learndyn.errors import ProblemError
from learndyn.problem.checks import exclusive, number, optional, squared, whole
from learndyn.problem.kinds import part
from learndyn.problem.part import Part, field
from learndyn.problem.tasks import Task


class Supply(Part, abstract=True):
    """Base of the supplies."""

    task: eqx.AbstractVar[Any]
    """What is to be learnt."""


class Population(Supply):
    """Infinitely many examples of a `task`: the gradient is the expectation over all of them.

    - `noise` (σ): standard deviation of the Gaussian noise of the labels. It does not affect the dynamics. 0 unless
      given.
    """

    task: Task = field(part(Task))
    noise: float = field(squared(minimum=0), default=0.0)


class Stream(Supply):
    """Fresh examples of a `task` at every step, never seen again.

    - `noise` (σ): standard deviation of the Gaussian noise of the labels. 0 unless given.
    - `batch` (B): examples in a step. 1 unless given.
    - `batch_ratio` (α_B = B/D): examples in a step per input dimension, instead of `batch`.
    """

    task: Task = field(part(Task))
    noise: float = field(squared(minimum=0), default=0.0)
    batch: int | None = field(optional(whole(1)), default=1)
    batch_ratio: float | None = field(optional(number(above=0)), default=None)

    def validate(self) -> None:
        if self.batch_ratio is None and self.batch is None:
            object.__setattr__(self, "batch", 1)
        if self.batch_ratio is not None:
            batch = None if self.batch == 1 else self.batch
            exclusive(self, batch=batch, batch_ratio=self.batch_ratio)
            object.__setattr__(self, "batch", None)


class Dataset(Supply):
    """A fixed set of examples of a `task`, used again and again.

    - `noise` (σ): standard deviation of the Gaussian noise of the labels. 0 unless given.
    - `ratio` (P/D; α or γ in the papers): examples per input dimension.
    - `examples` (P): the number of examples, instead of `ratio`.
    - `batch` (B): examples in a step, taken in turn; it must divide `examples`. All of them unless given.
    - `batch_ratio` (B/D): examples in a step per input dimension, at most `ratio`; they are drawn at random, without
      replacement and anew at every step. All of them unless given.
    """

    task: Task = field(part(Task))
    noise: float = field(squared(minimum=0), default=0.0)
    ratio: float | None = field(optional(number(above=0)), default=None)
    examples: int | None = field(optional(whole(1)), default=None)
    batch: int | None = field(optional(whole(1)), default=None)
    batch_ratio: float | None = field(optional(number(above=0)), default=None)

    def validate(self) -> None:
        exclusive(self, ratio=self.ratio, examples=self.examples)
        exclusive(self, batch=self.batch, batch_ratio=self.batch_ratio)
        if self.ratio is None and self.examples is None:
            allowed = (
                "missing; give ratio (examples per input dimension) or examples (their number)"
            )
            raise ProblemError("Dataset.ratio", None, allowed)
        if self.batch is not None and (self.examples is None or self.examples % self.batch):
            allowed = f"must divide the number of examples, {self.examples}"
            raise ProblemError("Dataset.batch", self.batch, allowed)
        if self.batch_ratio is None:
            return
        if self.ratio is None:
            allowed = "needs ratio, the examples of the whole set per input dimension"
            raise ProblemError("Dataset.batch_ratio", self.batch_ratio, allowed)
        if self.batch_ratio > self.ratio:
            allowed = f"must be at most ratio = {self.ratio:g}, for which a step uses all examples"
            raise ProblemError("Dataset.batch_ratio", self.batch_ratio, allowed)
