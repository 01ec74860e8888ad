"""The methods for neural ODEs: a map for fresh trajectories, and a process for correlated ones."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.core.curves import Curves, extrapolated
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Progressing, Report, of_states
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit import overlap_map
from learndyn.families.neural_ode.limit.correlated_training import MemoryTraining
from learndyn.families.neural_ode.limit.flow_numbers import flow_of
from learndyn.families.neural_ode.observables import (
    ALONG,
    TABLE,
    inference_steps,
    labels,
    within_training,
)
from learndyn.families.neural_ode.pair import FlowPair, steps_are_correlated
from learndyn.problem.checks import whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem

UNCERTAIN = 0.1
"""If the error exceeds this fraction of the largest value, the stated accuracy cannot be trusted."""


class OnEulerGrid(Method, abstract=True):
    """Base of the methods: the limit d → ∞ of a neural ODE, exact on the Euler grid of the finite system.

    - `extrapolation` (k): the Euler step is also halved 1 … k times, and the results are extrapolated to continuous
      time; the evidence states the accuracy. Default: 0, none.
    - `inference_steps`: training steps at which correlations and responses along the flow are recorded too. Default:
      none.
    """

    extrapolation: int = field(whole(0), default=0)
    inference_steps: tuple[int, ...] = field(inference_steps, default=())

    def check(self, problem: Problem) -> None:
        """Refuse a problem that this method cannot solve."""
        within_training(self, problem)

    @abc.abstractmethod
    def on_grid(
        self, problem: Problem, record: Record, report: Report
    ) -> tuple[Curves, dict[str, np.ndarray]]:
        """The curves on the problem's own Euler grid, and the observables along the flow."""

    @property
    @abc.abstractmethod
    def form(self) -> str:
        """The name of the method in the evidence."""

    @abc.abstractmethod
    def begun(self, problem: Problem) -> Progressing:
        """The limit on the problem's own Euler grid, at the beginning of training."""

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        self.check(problem)
        for name in ("extrapolation", "inference_steps"):
            if value := getattr(self, name):
                allowed = "must be left out to advance step by step; use solve"
                raise ProblemError(f"{type(self).__name__}.{name}", value, allowed)
        return self.begun(problem)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        self.check(problem)
        levels = self.extrapolation + 1
        # Halving the Euler step takes eight times as long.
        work = 8.0 ** np.arange(levels)
        fractions = np.concatenate([[0.0], np.cumsum(work)]) / work.sum()
        grids: list[tuple[Curves, dict[str, np.ndarray]]] = []
        for level in range(levels):
            first, last = float(fractions[level]), float(fractions[level + 1])
            factor = 2**level
            curves, along = self.on_grid(
                refined(problem, factor), record, _part_of(report, first, last)
            )
            # Along the flow, only the times of the coarsest grid are common to all grids.
            grids.append((curves, {name: x[:, ::factor, ::factor] for name, x in along.items()}))
        # Training may diverge before some of the inference steps, and earlier on one grid than on another.
        count = min(len(along["C_yy"]) if along else 0 for _, along in grids)
        steps = self.inference_steps[:count]
        limit = extrapolated([_joined(curves, along, count) for curves, along in grids])
        curves = dataclasses.replace(
            limit.curves, labels=labels(FlowPair.of(problem), steps) if steps else {}
        )
        if not self.extrapolation:
            return curves.told(form=self.form)
        accuracy = {name: float(np.max(limit.error[name], initial=0.0)) for name in curves.arrays}
        return curves.told(
            form=self.form,
            accuracy=accuracy,
            finest_steps=problem.network.steps * 2**self.extrapolation,
            **_warnings(curves.arrays, accuracy),
        )


def _part_of(report: Report, first: float, last: float) -> Report:
    """A report of the work between two fractions of the whole."""
    return lambda done: report(first + (last - first) * done)


def _joined(curves: Curves, along: dict[str, np.ndarray], count: int) -> Curves:
    """The curves together with the observables along the flow, at the first `count` inference steps."""
    cut = {name: x[:count] for name, x in along.items()} if count else {}
    return dataclasses.replace(curves, arrays=curves.arrays | cut)


def _warnings(arrays: dict[str, np.ndarray], accuracy: dict[str, float]) -> dict[str, list[str]]:
    """A warning if extrapolation still changes an observable much: the accuracy is then not a bound."""
    uncertain = [
        name
        for name, error in accuracy.items()
        if error > UNCERTAIN * np.max(np.abs(arrays[name]), initial=0.0)
    ]
    if not uncertain:
        return {}
    text = (
        f"the last extrapolation changes {', '.join(uncertain)} by more than a tenth: the Euler steps are too long to "
        "know the accuracy; use more steps, or a larger extrapolation"
    )
    return {"warnings": [text]}


class OverlapMap(OnEulerGrid):
    """Training as a map of amplitudes and overlaps, for fresh trajectories in a field with G(0, m) = 0."""

    @property
    def form(self) -> str:
        return "map"

    def check(self, problem: Problem) -> None:
        super().check(problem)
        overlap_map.require_independent_steps(problem)

    def on_grid(
        self, problem: Problem, record: Record, report: Report
    ) -> tuple[Curves, dict[str, np.ndarray]]:
        wanted = self.inference_steps
        every = np.union1d(record.at, np.asarray(wanted, dtype=int)) if wanted else record.at
        arrays = overlap_map.curves(problem, every, report)
        reached = every[: len(arrays["Q"])]
        rows = [
            _along_flow(problem, arrays, i, int(reached[i]))
            for i in np.flatnonzero(np.isin(reached, wanted)).tolist()
        ]
        curves = Curves(TABLE, record.moved_to(every), arrays, len(reached)).at(record)
        names = [quantity.name for quantity in ALONG] if rows else []
        return curves, {name: np.stack([row[name] for row in rows]) for name in names}

    def begun(self, problem: Problem) -> Progressing:
        return overlap_map.MapTraining(problem)

    def trace(self, problem: Problem, record: Record) -> dict[str, Any]:
        """Overlaps and losses as a pure JAX function of the numbers in the problem."""
        self.check(problem)
        if self.extrapolation:
            allowed = "must be 0 to be traced"
            raise ProblemError("OverlapMap.extrapolation", self.extrapolation, allowed)
        return overlap_map.traced_curves(problem, record.at)

    def pays_together(self, problems: Sequence[Problem], record: Record) -> bool:
        """True unless more than the map itself is asked for: one compiled call then solves all problems."""
        return not self.extrapolation and not self.inference_steps

    def solve_many(
        self,
        problems: Sequence[Problem],
        record: Record,
        seed: int,
        wanted: Sequence[str] | None = None,
    ) -> list[Curves]:
        if not self.pays_together(problems, record):
            return super().solve_many(problems, record, seed, wanted)
        for problem in problems:
            self.check(problem)
        arrays_of_problems = overlap_map.curves_of(list(problems), record.at, lambda done: None)
        return [
            Curves(TABLE, record, arrays, len(arrays["Q"])).told(form="map")
            for arrays in arrays_of_problems
        ]


class TrainingMemory(OnEulerGrid):
    """Correlations and responses between all training steps, for any data; the cost is cubic in the number of steps."""

    @property
    def form(self) -> str:
        return "memory"

    def way(self, problem: Problem) -> Way:
        """In processes, because the loop over scalars runs in Python."""
        return "processes"

    def on_grid(
        self, problem: Problem, record: Record, report: Report
    ) -> tuple[Curves, dict[str, np.ndarray]]:
        last = max([int(record.last), *self.inference_steps])
        training = MemoryTraining(problem, last, self.inference_steps)
        reached = training.advance(record.at, of_states(report, last, 3))
        curves = Curves(TABLE, record, training.arrays(), reached)
        if reached == len(record) and last > record.last:
            training.go_on(last)
        return curves, training.along()

    def begun(self, problem: Problem) -> Progressing:
        return MemoryTraining(problem, problem.training.steps)


def automatic(problem: Problem, record: Record) -> Method:
    """The map if training steps are independent, else the process with memory."""
    return TrainingMemory() if steps_are_correlated(problem) else OverlapMap()


def refined(problem: Problem, factor: int) -> Problem:
    """The problem with Euler steps `factor` times shorter."""
    if factor == 1:
        return problem
    network = dataclasses.replace(problem.network, steps=problem.network.steps * factor)
    return dataclasses.replace(problem, network=network)


def _along_flow(
    problem: Problem, arrays: dict[str, np.ndarray], i: int, step: int
) -> dict[str, np.ndarray]:
    """Correlations and responses along the flow in a training step, which is number i among the recorded ones."""
    flow = flow_of(FlowPair.of(problem))
    observed_set = step % len(flow.observed)
    flow = eqx.tree_at(
        lambda flow: flow.observed, flow, flow.observed[observed_set : observed_set + 1]
    )
    return overlap_map.inference(flow, arrays["a"][i], arrays["Q"][i], arrays["m"][i])
