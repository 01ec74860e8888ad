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
from typing import Any

import numpy as np

from learndyn.numerics.times import resolve_steps, resolve_times
from learndyn.theory import Curves, Observable, Theory

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


def observable(
    dims: tuple[str, ...], values, words: str, units: str = "1", judged: bool = True, error=None
) -> Observable:
    """One array of a curve."""
    return Observable(dims, values, words, units, judged, error)


def curves(
    observables: Mapping[str, Any], times, axis: str = "time", diverged_at=None, evidence=None
) -> Curves:
    """Curves of observables, or of plain arrays along the axis."""

    def labelled(name: str, values) -> Observable:
        if isinstance(values, Observable):
            return values
        return observable((axis,) if np.ndim(values) else (), values, name.replace("_", " "))

    named = {name: labelled(name, values) for name, values in observables.items()}
    more = {"diverged_at": diverged_at, "evidence": evidence or {}}
    return Curves(named, times, axis, **more)


def bare_theory(solve: Callable, symmetries: Callable) -> Theory:
    """A theory of no parts in particular that is not registered: its solution, and the symmetries of its start."""
    return Theory(
        *("toy", object, object, object, "", "", ""),
        solve=solve,
        finite=solve,
        methods=(),
        simulators=(),
        template=Path(),
        demo_size=1,
        demo_seeds=1,
        symmetries=symmetries,
    )


def shown(theory: Theory, template: Path, size: int, seeds: int, name: str | None = None) -> Theory:
    """The theory with another example for `learndyn demo`, and under another name if one is given."""
    example: dict[str, Any] = {"template": template, "demo_size": size, "demo_seeds": seeds}
    return dataclasses.replace(theory, name=name or theory.name, **example)


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
        return dataclasses.replace(
            theory,
            name=name or theory.name,
            solve=self._solve,
            finite=self._finite,
            many=None if self.together is None else self._many,
            parallel=lambda problem, method: self.way,
            trace=None,
            symmetries=None,
        )

    def _solve(self, problem, method, save_at, seed, report) -> Curves:
        self.computed.append(problem)
        self.methods.append(method)
        self.before(problem)
        report(1.0)
        return self._curves(problem, save_at, self.formula)

    def _many(self, problems, method, save_at, seed, wanted) -> list[Curves] | None:
        assert self.together is not None
        self.groups.append(problems)
        self.wanted.append(wanted)
        if not self.together(problems):
            return None
        return [self._curves(problem, save_at, self.formula, wanted) for problem in problems]

    def _finite(self, problem, size, method, save_at):
        def run(seed, report) -> Curves:
            self.trained_networks.append((size, seed))
            if self.interrupted_at is not None and seed >= self.interrupted_at:
                _train_until_stopped(report, press=seed == self.interrupted_at)
            factor = np.random.default_rng(seed).normal(1, self.scatter / math.sqrt(size))
            formula = self.trained or self.formula

            def scattered(problem, times):
                return {name: factor * x for name, x in formula(problem, times).items()}

            return self._curves(problem, save_at, scattered)

        return run

    def _curves(self, problem, save_at, formula: Formula, wanted=None) -> Curves:
        training = problem.training
        if training.time is None:
            axis, times = "step", resolve_steps(save_at, training.steps)
        else:
            axis, times = "time", resolve_times(save_at, training.time)
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


def _train_until_stopped(report: Callable[[float], None], press: bool) -> None:
    """Report, as a network that trains does, until that raises; `press` Ctrl-C first."""
    if press:
        os.kill(os.getpid(), signal.SIGINT)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        report(0.5)
        time.sleep(0.001)
    raise AssertionError("Ctrl-C did not stop the training")
