"""Theories that are plain formulas, for tests of what is done with theories: rates, sweeps, runs, the command.

Only this module knows how theories and curves are put together.
"""

import dataclasses
import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from learndyn.core.curves import Convention, Curves, Quantity
from learndyn.core.method import Ensemble
from learndyn.core.progressing import Progressing
from learndyn.core.record import Record
from learndyn.core.theory import Theory
from learndyn.errors import NoTheory
from learndyn.problem.training import GradientDescent

Formula = Callable[[Any, np.ndarray], dict]
"""The observables of a problem at some times or steps: arrays along them, or single numbers."""
PATIENCE = 60.0
"""After so many seconds something hangs."""


def decay(problem, times) -> dict:
    """The test loss exp(−ηt)."""
    return {"test_loss": np.exp(-problem.training.learning_rate * times)}


def told_apart(problem, times) -> dict:
    """A constant test loss that no two problems share: `number_of` the problem."""
    return {"test_loss": np.full(len(times), number_of(problem))}


def number_of(problem) -> float:
    """A number that depends on all of a problem."""
    return float(int(problem.hash[:12], 16))


def ends(times, first: float, later: float) -> np.ndarray:
    """A curve that has one value at the start and another one ever after."""
    return np.where(times > 0, later, first)


class Labelled(NamedTuple):
    """One array of a curve: its axes, values, words, and more."""

    dims: tuple[str, ...]
    values: Any
    words: str
    judged: bool = True
    error: Any = None
    convention: Convention = Convention()


observable = Labelled


def curves(
    observables: Mapping[str, Any], times, axis: str = "time", diverged_at=None, evidence=None
) -> Curves:
    """Curves of observables, or of plain arrays along the axis."""

    def labelled(name: str, values) -> Labelled:
        if isinstance(values, Labelled):
            return values
        return Labelled((axis,) if np.ndim(values) else (), values, name.replace("_", " "))

    places = {axis: "step", f"{axis}2": "step2"}
    named = {name: labelled(name, values) for name, values in observables.items()}
    table = tuple(
        Quantity(
            name, tuple(places.get(dim, dim) for dim in x.dims), x.words, x.judged, x.convention
        )
        for name, x in named.items()
    )
    at = np.asarray([*times, *([] if diverged_at is None else [diverged_at])])
    return Curves(
        table,
        Record(axis, at),
        {name: np.asarray(x.values) for name, x in named.items()},
        len(times),
        errors={name: x.error for name, x in named.items() if x.error is not None},
        evidence=evidence or {},
    )


def instead_of(theory: Theory, **attributes) -> Theory:
    """A theory with some of its attributes and methods replaced."""
    return type("StandIn", (type(theory),), attributes)()


class Bare(Theory):
    """A theory of no parts in particular."""

    name, summary, exactness, reference = "toy", "", "", ""
    network, task, supply, training = object, object, object, GradientDescent
    understands = ("network", "data", "training")
    table, methods, simulators = (), (), ()
    template, demo_size, demo_seeds = Path(), 1, 1


def bare_theory(solve: Callable, symmetries: Callable) -> Theory:
    """A theory that is not registered: its solution(problem, record), and the symmetries of its start."""

    def solved(self, problem, method, record, seed=0, report=None) -> Curves:
        return solve(problem, record)

    return instead_of(Bare(), solve=solved, symmetries=lambda self, problem: symmetries(problem))


def shown(theory: Theory, template: Path, size: int, seeds: int, name: str | None = None) -> Theory:
    """The theory with another example for `learndyn demo`, and under another name if one is given."""
    example: dict[str, Any] = {"template": template, "demo_size": size, "demo_seeds": seeds}
    if name is not None:
        # It stands beside the theory, and only one may fit a problem.
        example |= {"name": name, "applies": lambda self, problem: False}
    return instead_of(theory, **example)


@dataclasses.dataclass
class Fake:
    """A formula in the place of theories, which keep their names, parts and methods.

    What it does:

    - `formula`: the limit; `trained`: the same for finite networks, which scatter about it by `scatter`/√size.
    - `before(problem)` is called when a problem is solved: it may raise, take its time, or wait for something.
    - `diverges_above`: with a larger learning rate the curve ends half-way.
    - `together(problems)`: called where several problems are solved in one call. It may raise, and returns whether
      they can be solved so; None if the theory has no such call.
    - `way`: how several problems are solved at a time, "threads", "alone" or "processes".
    - `interrupted_at`: Ctrl-C is pressed when the network of this seed trains; it and later ones never end.

    What it remembers: the problems it `computed` one by one with their `methods`, the `groups` that were asked for
    in one call with the observables that were `wanted`, and the (size, seed) of the networks it `trained_networks`.
    """

    formula: Formula = decay
    trained: Formula | None = None
    scatter: float = 0.3
    before: Callable[[Any], object] = lambda problem: None
    diverges_above: float = math.inf
    together: Callable[[list], bool] | None = None
    way: str = "threads"
    interrupted_at: int | None = None
    computed: list = dataclasses.field(default_factory=list)
    methods: list = dataclasses.field(default_factory=list)
    groups: list[list] = dataclasses.field(default_factory=list)
    wanted: list = dataclasses.field(default_factory=list)
    trained_networks: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    @property
    def worked(self) -> bool:
        """Whether anything was computed or trained."""
        return bool(self.computed or self.groups or self.trained_networks)

    def in_place_of(self, theory: Theory, name: str | None = None) -> Theory:
        """The theory with the formula instead of its solution, under its own name unless another is given."""

        def solve(_, problem, method, record, seed=0, report=None) -> Curves:
            self.computed.append(problem)
            self.methods.append(method)
            self.before(problem)
            if report is not None:
                report(1.0)
            return self._curves(problem, record, self.formula)

        def pays_together(_, problems, method, record) -> bool:
            self.groups.append(list(problems))
            return True if self.together is None else self.together(list(problems))

        def solve_many(_, problems, method, record, seed=0, wanted=None) -> list[Curves]:
            self.wanted.append(wanted)
            return [self._curves(one, record, self.formula, wanted) for one in problems]

        def train(theory, problem, size, method, record) -> Ensemble:
            # What there is to observe is known when the formula is.
            theory.table = self._scattered(problem, record, size, 0).table

            def draw(seed: int) -> Network:
                self.trained_networks.append((size, seed))
                return Network(self, self._scattered(problem, record, size, seed), seed)

            return Ensemble(draw, record, 0.0, "fakes", "use fewer")

        def trace(_, problem, method, record) -> dict:
            raise NoTheory("a fake theory cannot be traced")

        return instead_of(
            theory,
            name=name or theory.name,
            table=(),
            solve=solve,
            solves_many=lambda _, method: self.together is not None,
            pays_together=pays_together,
            solve_many=solve_many,
            way=lambda _, problem, method: self.way,
            train=train,
            trace=trace,
            symmetries=lambda _, problem: None,
        )

    def _scattered(self, problem, record: Record, size: int, seed: int) -> Curves:
        """The curves of one network."""
        factor = np.random.default_rng(seed).normal(1, self.scatter / math.sqrt(size))
        formula = self.trained or self.formula

        def scattered(problem, times):
            return {name: factor * x for name, x in formula(problem, times).items()}

        return self._curves(problem, record, scattered)

    def _curves(self, problem, record: Record, formula: Formula, wanted=None) -> Curves:
        axis, times, training = record.axis, record.at, problem.training
        diverged_at = None
        if self.diverges_above < math.inf and training.learning_rate > self.diverges_above:
            half = (len(times) + 1) // 2
            times, diverged_at = times[:half], float(times[half])
        values = formula(problem, times)
        kept = {name: x for name, x in values.items() if wanted is None or name in wanted}
        # The formulas are correct to a few units in the last place.
        evidence = {
            "accuracy": {name: 1e-15 * float(np.max(np.abs(x))) for name, x in kept.items()}
        }
        return curves(kept, times, axis, diverged_at=diverged_at, evidence=evidence)


class Network(Progressing):
    """A finite network whose curves are known."""

    def __init__(self, fake: Fake, known: Curves, seed: int):
        self.fake, self.known, self.seed = fake, known, seed

    def advance(self, states, report):
        stop = self.fake.interrupted_at
        if stop is not None and self.seed >= stop:
            _train_until_stopped(report, press=self.seed == stop)
        return self.known.count

    def arrays(self):
        return self.known.arrays

    def observe(self):
        return self.known.arrays


def _train_until_stopped(report: Callable[[float], None], press: bool) -> None:
    """Report, as a network that trains does, until that raises; `press` Ctrl-C first."""
    if press:
        os.kill(os.getpid(), signal.SIGINT)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        report(0.5)
        time.sleep(0.001)
    raise AssertionError("Ctrl-C did not stop the training")
