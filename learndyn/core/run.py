"""`start`: the limit, or one finite network, a step at a time in the user's hands."""

import dataclasses
import time
from typing import Any, cast

import numpy as np
import xarray as xr

from learndyn.core.curves import MAIN, SECOND, Curves
from learndyn.core.method import Ensemble, Method, Simulator
from learndyn.core.progressing import Progressing, Trainee
from learndyn.core.record import Record
from learndyn.core.simulate import require_memory_for, simulation_of
from learndyn.core.solution import Solution
from learndyn.core.solve import solution_of
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import LearndynError, ProblemError
from learndyn.numerics.precision import float64
from learndyn.problem.checks import number, whole
from learndyn.problem.part import Part, same
from learndyn.problem.problem import SECTIONS, Problem


def start(
    problem: Problem,
    size: int | None = None,
    seed: int = 0,
    *,
    method: Method | Simulator | None = None,
) -> "Run":
    """The limit of `problem` at the beginning of training or, with a `size`, one finite network of that size.

    Advance it with `run.advance(t)` or `run.step()`. `method` is a method of `solve` or, with a size, of
    `simulate`. Methods that solve the whole of training at once raise `NoTheory`.
    """
    theory = theory_for(problem)
    seed = whole(0)(seed, "seed")
    record = Record.of(problem.training)
    with float64():
        if size is None:
            chosen = theory.chosen(cast("Method | None", method), problem, record)
            progressing = theory.start(problem, chosen, seed)
            return Run(theory, problem, progressing, chosen, seed, None, None)
        simulator = theory.simulator(cast("Simulator | None", method))
        inputs: int = whole(1)(size, "size")
        ensemble = theory.train(problem, inputs, simulator, record)
        require_memory_for(ensemble, 1)
        return Run(theory, problem, ensemble.draw(seed), simulator, seed, inputs, ensemble)


class Run:
    """Training on its way: the limit, or one finite network. `start` makes one.

    The initial state and every state that `advance` or `step` ends on are recorded; `solution` holds them. Once
    training has diverged, `diverged` is True and the run no longer advances.
    """

    def __init__(
        self,
        theory: Theory,
        problem: Problem,
        progressing: Progressing,
        method: Method | Simulator,
        seed: int,
        size: int | None,
        ensemble: Ensemble | None,
    ):
        self._theory, self._problem, self._progressing = theory, problem, progressing
        self._table = theory.table_of(problem)
        self._method, self._seed, self._size, self._ensemble = method, seed, size, ensemble
        self._states: list[float] = []
        self._lost: float | None = None
        self._changes: list[float] = []
        self._began = time.perf_counter()
        progressing.by_hand()
        self._go([0.0 if problem.training.time is not None else 0])

    @property
    def axis(self) -> str:
        """What training is measured in: "time" or "step"."""
        return "step" if self._problem.training.time is None else "time"

    @property
    def now(self) -> float:
        """The time or step that was reached."""
        return self._states[-1] if self._states else 0

    @property
    def diverged(self) -> bool:
        """Whether training has diverged."""
        return self._lost is not None

    def _go(self, states: list[Any]) -> None:
        """Advance through the states, or up to where training diverges."""
        with float64():
            reached = self._progressing.advance(np.asarray(states), lambda state: None)
        self._states += states[:reached]
        if reached < len(states):
            self._lost = states[reached]

    def advance(self, until: float) -> "Run":
        """Go on to the time or step `until`, and record the state there; returns the run."""
        check = number() if self.axis == "time" else whole(0)
        until = check(until, "until")
        if until < self.now:
            raise ProblemError(
                "until",
                until,
                f"must not be before {self.now:g}, which the run has already reached",
            )
        self._within_training(until)
        until = self._progressing.nearest(until)
        if until > self.now and not self.diverged:
            self._go([until])
        return self

    def _within_training(self, until: float) -> None:
        end = self._problem.training.time or self._problem.training.steps
        if until > end * (1 + 1e-12):
            allowed = f"is after the end of training, {end:g}; set `problem` to one with a longer training"
            raise ProblemError("until", until, allowed)

    @property
    def _simulator(self) -> Simulator:
        assert isinstance(self._method, Simulator)
        return self._method

    def step(self) -> "Run":
        """One step of training; returns the run. A limit that is an ODE has no steps: use `advance`."""
        after = self._progressing.after()
        self._within_training(after)
        if not self.diverged:
            self._go([after])
        return self

    @property
    def state(self) -> dict[str, xr.DataArray]:
        """The observables of the present state, by name; functions of two times are left out."""
        if self._lost is not None:
            raise LearndynError(
                f"training has diverged by {self.axis} {self._lost:g}, so there is no present state; `solution` holds "
                "the states before"
            )
        with float64():
            arrays = self._progressing.observe()
        present = Record(self.axis, np.array([self.now]))
        table = [q for q in self._table if MAIN in q.axes and SECOND not in q.axes]
        arrays_shown = {q.name: arrays[q.name] for q in table if q.name in arrays}
        curves = Curves(self._table, present, arrays_shown, labels=self._labels)
        data = xr.Dataset(*curves.variables(self._theory.time_words)).isel({self.axis: 0})
        return {name: data[name] for name in arrays_shown}

    @property
    def _labels(self) -> dict[str, np.ndarray]:
        ensemble = self._ensemble
        return self._progressing.labels() if ensemble is None else ensemble.labels

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights of a finite network by name: copies, so that changing them changes nothing."""
        return self._network("weights").weights()

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """`count` of the examples that a finite network sees; drawing them does not change what it will see."""
        with float64():
            return self._network("examples").sample(whole(1)(count, "count"))

    def _network(self, what: str) -> Trainee:
        if not isinstance(self._progressing, Trainee):
            raise LearndynError(
                f"the limit has no {what}; start a network by giving `start` a size"
            )
        return self._progressing

    @property
    def problem(self) -> Problem:
        """What is being learnt. Set it to change the task or the training from now on."""
        return self._problem

    @problem.setter
    def problem(self, problem: Problem) -> None:
        if theory_for(problem) is not self._theory:
            raise ProblemError(
                "problem",
                problem,
                "must have a network, data and training of the same kinds as before",
            )
        if (problem.training.time is None) != (self._problem.training.time is None):
            raise ProblemError(
                "problem.training", problem.training, f"must be measured in {self.axis}s"
            )
        changeable = self._progressing.changeable
        for section in SECTIONS:
            before, after = getattr(self._problem, section), getattr(problem, section)
            _check_changes(section, before, after, changeable)
        with float64():
            self._progressing.change(problem)
        self._problem = problem
        self._changes.append(self.now)

    def _evidence_of_changes(self) -> dict[str, Any]:
        """Evidence that the problem was changed during training; empty if it was not."""
        if not self._changes:
            return {}
        times = ", ".join(f"{t:g}" for t in self._changes)
        text = f"the problem was changed at {self.axis} {times}; the solution holds the latest one"
        return {"changed_at": self._changes, "warnings": [text]}

    @property
    def solution(self) -> Solution:
        """All recorded states, as `solve` or `simulate` would return them; the problem is the latest."""
        at = np.array([*self._states, *([] if self._lost is None else [self._lost])])
        record = Record(self.axis, at)
        with float64():
            arrays = self._progressing.arrays()
        seconds, reached = time.perf_counter() - self._began, len(self._states)
        curves = Curves(self._table, record, arrays, reached, labels=self._labels)
        if self._ensemble is None:
            assert isinstance(self._method, Method)
            evidence, changes = self._progressing.evidence(), self._evidence_of_changes()
            warnings = [*evidence.get("warnings", []), *changes.get("warnings", [])]
            evidence = evidence | changes | ({"warnings": warnings} if warnings else {})
            curves = curves.told(**evidence)
            return solution_of(
                self._theory, self._problem, self._method, self._seed, curves, seconds
            )
        evidence = self._ensemble.evidence | self._evidence_of_changes()
        ensemble = dataclasses.replace(self._ensemble, record=record, evidence=evidence)
        return simulation_of(
            self._theory,
            self._problem,
            self._size or 1,
            self._simulator,
            ensemble,
            {self._seed: curves},
            seconds,
        )


def _check_changes(path: str, before: Any, after: Any, changeable: tuple[str, ...]) -> None:
    """Refuse a new value of a field that may not change during training."""
    if same(before, after) or path in changeable:
        return
    inside = [field for field in changeable if field.startswith(f"{path}.")]
    if inside and isinstance(before, Part) and type(before) is type(after):
        for item in dataclasses.fields(before):
            old, new = (getattr(part, item.name) for part in (before, after))
            _check_changes(f"{path}.{item.name}", old, new, changeable)
        return
    fields = ", ".join(changeable) or "none"
    allowed = f"must stay as it is during training; what may change: {fields}"
    raise ProblemError(path, after, allowed)
