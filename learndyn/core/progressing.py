"""Things that advance through training and are measured on the way: a limit, or one finite network.

`Trainee` holds the loop of all finite networks: a family writes how a network moves and what it measures.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.errors import LearndynError
from learndyn.numerics.gram import gram
from learndyn.problem.problem import Problem

Report = Callable[[float], None]
"""Takes the state of training that was reached, or the fraction of the work done. It may raise to end the run."""


def of_states(report: Report, last: float, power: float = 1.0) -> Report:
    """Turn a report of fractions into a report of states: the fraction done is (state/last)^power."""
    return lambda state: report((state / last) ** power if last else 1.0)


class Diverged(Exception):
    """Training has diverged: the state that was asked for does not exist."""


class Progressing(abc.ABC):
    """Something that advances through training. `now` is the state, a time or a step, that it has reached."""

    now: Any = 0
    changeable: ClassVar[tuple[str, ...]] = ()
    """Fields of the problem that may change in the middle of training, such as "training.learning_rate"."""

    @abc.abstractmethod
    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        """Go through the `states` and measure at each; return how many were reached before training diverged.

        The states increase, and the first is not before `now`.
        """

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The observables at all measured states, by the names of the theory's table."""

    @abc.abstractmethod
    def observe(self) -> dict[str, np.ndarray]:
        """The observables at `now`; their axes of states have length one."""

    def labels(self) -> dict[str, np.ndarray]:
        """The labels of axes that are not numbered from 0."""
        return {}

    def evidence(self) -> dict[str, Any]:
        """How the numbers so far were obtained."""
        return {}

    def nearest(self, until: float) -> float:
        """The reachable state that is nearest to `until`."""
        return until

    def after(self) -> float:
        """The state after one step."""
        raise LearndynError(
            "the limit has no single steps, because it advances in continuous time; use advance(t)"
        )

    def by_hand(self) -> None:
        """The user goes step by step: states that no record names may be measured, and weights looked at."""
        return

    def complete(self, report: Report) -> None:
        """Go on to the end of training if observables of the whole run need it; raise `Diverged` on divergence."""
        return

    def change(self, problem: Problem) -> None:
        """Go on with another problem from the present state. It differs only in fields that are `changeable`."""
        return


class Products(NamedTuple):
    """Measured vectors (…, components) whose products at two states are the observable.

    - `vectors`: an array, or a list of arrays, which may differ in length. A list adds a first axis to the observable.
    - `mean`: whether a product is the mean over the components, or their sum. True unless given.
    """

    vectors: np.ndarray | list[np.ndarray]
    mean: bool = True


class _Stack:
    """Arrays of one shape, one for each state, stored in one array that grows."""

    def __init__(self, expected: int):
        self.length = 0
        self.values: np.ndarray | None = None
        self.expected = expected

    def append(self, value: ArrayLike) -> None:
        value = np.asarray(value)
        if self.values is None:
            self.values = np.empty((max(self.expected, 1), *value.shape), value.dtype)
        elif self.length == len(self.values):
            self.values = np.concatenate([self.values, np.empty_like(self.values)])
        self.values[self.length] = value
        self.length += 1

    def get(self) -> np.ndarray:
        return np.empty(0) if self.values is None else self.values[: self.length]


class _Measurements:
    """The measurements at the states so far."""

    def __init__(self, expected: int):
        self.expected = expected
        self.numbers: dict[str, _Stack] = {}
        self.products: dict[str, tuple[bool, bool, list[_Stack]]] = {}

    def add(self, measured: dict[str, Any]) -> None:
        for name, value in measured.items():
            if not isinstance(value, Products):
                self.numbers.setdefault(name, _Stack(self.expected)).append(value)
                continue
            several = isinstance(value.vectors, list)
            vectors = value.vectors if several else [value.vectors]
            if name not in self.products:
                self.products[name] = several, value.mean, [_Stack(self.expected) for _ in vectors]
            for stack, vector in zip(self.products[name][2], vectors, strict=True):
                stack.append(vector)

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {name: stack.get() for name, stack in self.numbers.items()}
        for name, (several, mean, stacks) in self.products.items():
            each = [gram(stack.get(), mean=mean) for stack in stacks]
            arrays[name] = np.stack(each) if several else each[0]
        return arrays


class Trainee(Progressing):
    """One finite network in training.

    A family writes `move` and `measure`, and `finish` for observables of the whole run. `expected` is the number of
    states that will be measured, or 0 if it is not known; memory for them is then allocated at once.
    """

    def __init__(self, expected: int = 0):
        self._measurements, self._begun = _Measurements(expected), False

    def begin(self) -> None:
        """Prepare the first state; raise `Diverged` if there is none."""
        return

    @abc.abstractmethod
    def move(self, until: float, report: Report) -> None:
        """Train up to the state `until`; raise `Diverged` if it is not reached. The loop sets `now`."""

    @abc.abstractmethod
    def measure(self) -> dict[str, Any]:
        """The observables of the present state: arrays, or `Products` for functions of two times."""

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All observables, from the arrays measured at the states."""
        return arrays

    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name, as copies."""
        raise LearndynError("this network does not show its weights")

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """`count` of the examples that the network sees; drawing them does not change what it will see."""
        raise LearndynError("this network does not show its examples")

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        for number, state in enumerate(states):
            with np.errstate(over="ignore", invalid="ignore"):
                try:
                    if not self._begun:
                        self.begin()
                        self._begun = True
                    self.move(state, report)
                    self.now = state
                    measured = self.measure()
                except Diverged:
                    return number
                self._measurements.add(measured)
        return len(states)

    def arrays(self) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finish(self._measurements.arrays())

    def observe(self) -> dict[str, np.ndarray]:
        present = _Measurements(1)
        present.add(self.measure())
        return self.finish(present.arrays())


class StepByStep(Trainee):
    """A finite network whose states are whole steps: a family writes one `step`."""

    now: int = 0

    @abc.abstractmethod
    def step(self) -> None:
        """Train for one step, from `now` to the next; raise `Diverged` if training has diverged."""

    def move(self, until: float, report: Report) -> None:
        while self.now < until:
            self.step()
            self.now += 1
            report(self.now)

    def after(self) -> int:
        return self.now + 1
