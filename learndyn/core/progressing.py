"""Things that advance through training and are measured on the way: a limit, or one finite network.

`Trainee` holds the loop of all finite networks: a family writes how a network moves and what it measures.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from learndyn.errors import LearndynError
from learndyn.numerics.gram import gram

Report = Callable[[float], None]
"""Takes the state of training that was reached, or the fraction of the work done; it may raise, which ends the run."""


def of_states(report: Report, last: float, power: float = 1.0) -> Report:
    """A report of states as one of the fraction of the work done, which grows as a power of them."""
    return lambda state: report((state / last) ** power if last else 1.0)


class Diverged(Exception):
    """Training has diverged: the state that was asked for does not exist."""


class Progressing(abc.ABC):
    """Something that advances through training. `now` is the state, a time or a step, that it has reached."""

    now: float = 0
    changeable: ClassVar[tuple[str, ...]] = ()
    """Fields of the problem that may change in the middle of training, such as "training.learning_rate"."""

    @abc.abstractmethod
    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        """Go through the `states` and keep what the observables need there; how many came before training diverged.

        States increase, and the first is not before `now`.
        """

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The observables at all states that were kept, by the names of the theory's table."""

    @abc.abstractmethod
    def observe(self) -> dict[str, np.ndarray]:
        """The observables of `now`, with axes of length one for the states."""

    def labels(self) -> dict[str, np.ndarray]:
        """The labels of axes that are not numbered from 0."""
        return {}

    def evidence(self) -> dict[str, Any]:
        """How the numbers so far were obtained."""
        return {}

    def nearest(self, until: float) -> float:
        """The state that there is nearest to `until`."""
        return until

    def after(self) -> float:
        """The state after one step."""
        raise LearndynError("the limit has no single steps: it advances in time; use advance(t)")

    def complete(self, report: Report) -> None:
        """Go on to the end of training, where what belongs to the run as a whole needs it; divergence ends it."""
        return

    def change(self, problem) -> None:
        """Go on with another problem from the present state. It differs in fields that are `changeable` only."""
        return


class Products(NamedTuple):
    """Measured vectors (…, components) whose products at two states are the observable.

    The product is the mean over components, or their sum. A list has a first axis more, and its vectors may differ in
    length.
    """

    vectors: np.ndarray | list[np.ndarray]
    mean: bool = True


class _Stack:
    """Arrays of one shape, one for each state, in one array that grows."""

    def __init__(self, expected: int):
        self.length, self.values = 0, None
        self.expected = expected

    def append(self, value) -> None:
        value = np.asarray(value)
        if self.values is None:
            self.values = np.empty((max(self.expected, 1), *value.shape), value.dtype)
        elif self.length == len(self.values):
            self.values = np.concatenate([self.values, np.empty_like(self.values)])
        self.values[self.length] = value
        self.length += 1

    def get(self) -> np.ndarray:
        return np.empty(0) if self.values is None else self.values[: self.length]


class _Kept:
    """What was measured at the states so far."""

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
        found = {name: stack.get() for name, stack in self.numbers.items()}
        for name, (several, mean, stacks) in self.products.items():
            each = [gram(stack.get(), mean=mean) for stack in stacks]
            found[name] = np.stack(each) if several else each[0]
        return found


class Trainee(Progressing):
    """One finite network in training.

    A family writes `move` and `measure`, and `finish` for what belongs to the run as a whole. `expected` is the number
    of states that will be kept, if it is known, so that memory is asked for once.
    """

    def __init__(self, expected: int = 0):
        self._kept, self._begun = _Kept(expected), False

    def begin(self) -> None:
        """Look at the first state; raise `Diverged` if there is none."""
        return

    @abc.abstractmethod
    def move(self, until: float, report: Report) -> None:
        """Train up to the state `until`; raise `Diverged` if it is not reached. The loop sets `now`."""

    @abc.abstractmethod
    def measure(self) -> dict[str, Any]:
        """The observables of the present state: arrays, or `Products` for functions of two times."""

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All observables, from those measured at the states that were kept."""
        return arrays

    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name, as copies."""
        raise LearndynError("this network does not show its weights")

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """So many examples of those that the network sees, without changing what it will see."""
        raise LearndynError("this network does not show its examples")

    def advance(self, states, report):
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
                self._kept.add(measured)
        return len(states)

    def arrays(self):
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finish(self._kept.arrays())

    def observe(self):
        present = _Kept(1)
        present.add(self.measure())
        return self.finish(present.arrays())


class StepByStep(Trainee):
    """A finite network whose states are whole steps: a family writes one `step`."""

    now: int = 0

    @abc.abstractmethod
    def step(self) -> None:
        """Train for one step, from `now` to the next; raise `Diverged` where that makes no sense any more."""

    def move(self, until, report):
        while self.now < until:
            self.step()
            self.now += 1
            report(self.now)

    def after(self):
        return self.now + 1
