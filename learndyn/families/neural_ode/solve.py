"""The methods for neural ODEs: the map of fresh trajectories, the process of correlated ones; both extrapolated."""

import abc
import dataclasses

import equinox as eqx
import numpy as np

from learndyn.core.curves import Curves, extrapolated
from learndyn.core.method import Method
from learndyn.core.progressing import Progressing, Report, of_states
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit import overlap_map as map
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

UNCERTAIN = 0.1
"""An accuracy beyond this share of the largest value is not to be trusted."""


class OnEulerGrid(Method, abstract=True):
    """Base of the methods: the limit d → ∞ of a neural ODE, exact on the Euler grid of the finite system.

    With `extrapolation` k the Euler step is also halved 1 … k times, and the results are extrapolated to continuous
    time; the evidence states the accuracy. At the training steps `inference_steps` correlations and responses along the
    flow are recorded too.
    """

    extrapolation: int = field(whole(0), default=0)
    inference_steps: tuple = field(inference_steps, default=())

    def check(self, problem) -> None:
        """Refuse what this method cannot solve."""
        within_training(self, problem)

    @abc.abstractmethod
    def on_grid(self, problem, record: Record, report: Report) -> tuple[Curves, dict]:
        """The curves on the problem's own Euler grid, and what was measured along the flow."""

    @property
    @abc.abstractmethod
    def form(self) -> str:
        """What the evidence calls the method."""

    @abc.abstractmethod
    def begun(self, problem) -> Progressing:
        """The limit on the problem's own Euler grid, at the beginning of training."""

    def start(self, problem, seed=0):
        self.check(problem)
        for name in ("extrapolation", "inference_steps"):
            if value := getattr(self, name):
                allowed = "must be left out to advance step by step; use solve"
                raise ProblemError(f"{type(self).__name__}.{name}", value, allowed)
        return self.begun(problem)

    def solve(self, problem, record, seed, report):
        self.check(problem)
        levels = self.extrapolation + 1
        shares = 8.0 ** np.arange(levels)
        shares = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
        found = []
        for level in range(levels):
            first, last = shares[level], shares[level + 1]
            finer, factor = refined(problem, 2**level), 2**level
            curves, along = self.on_grid(
                finer, record, lambda x, a=first, b=last: report(a + (b - a) * x)
            )
            # Along the flow, the points of the coarsest grid.
            found.append((curves, {name: x[:, ::factor, ::factor] for name, x in along.items()}))
        # Training may diverge before some of the steps, and on one grid before it does on another.
        count = min(len(along["C_yy"]) if along else 0 for _, along in found)
        steps = self.inference_steps[:count]
        result = extrapolated([_joined(curves, along, count) for curves, along in found])
        curves = dataclasses.replace(
            result.curves, labels=labels(problem.network, steps) if steps else {}
        )
        if not self.extrapolation:
            return curves.told(form=self.form)
        accuracy = {name: float(np.max(result.error[name], initial=0.0)) for name in curves.arrays}
        return curves.told(
            form=self.form,
            accuracy=accuracy,
            finest_steps=problem.network.steps * 2**self.extrapolation,
            **_warnings(curves.arrays, accuracy),
        )


def _joined(curves: Curves, along: dict, count: int) -> Curves:
    """The curves with what was measured along the flow at the first `count` of the steps asked for."""
    cut = {name: x[:count] for name, x in along.items()} if count else {}
    return dataclasses.replace(curves, arrays=curves.arrays | cut)


def _warnings(arrays: dict, accuracy: dict) -> dict:
    """What to say where extrapolation still changes an observable much: then its accuracy is no bound."""
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
    """The whole of training as a map of a few numbers: for fresh trajectories in a field that depends on the state."""

    @property
    def form(self):
        return "map"

    def check(self, problem):
        super().check(problem)
        map.require_independent_steps(problem)

    def on_grid(self, problem, record, report):
        wanted = self.inference_steps
        every = np.union1d(record.at, np.asarray(wanted, dtype=int)) if wanted else record.at
        arrays = map.curves(problem, every, report)
        reached = every[: len(arrays["Q"])]
        along = [
            _inside(problem, arrays, i, int(reached[i]))
            for i in np.flatnonzero(np.isin(reached, wanted)).tolist()
        ]
        curves = Curves(TABLE, record.moved_to(every), arrays, len(reached)).at(record)
        names = [quantity.name for quantity in ALONG] if along else []
        return curves, {name: np.stack([one[name] for one in along]) for name in names}

    def begun(self, problem):
        return map.MapTraining(problem)

    def trace(self, problem, record):
        """Overlaps and the test loss as JAX arrays."""
        self.check(problem)
        if self.extrapolation:
            allowed = "must be 0 to be traced"
            raise ProblemError("OverlapMap.extrapolation", self.extrapolation, allowed)
        return map.traced_curves(problem, record.at)

    def pays_together(self, problems, record):
        """One compiled call for all of them, unless more than the map itself is asked for."""
        return not self.extrapolation and not self.inference_steps

    def solve_many(self, problems, record, seed, wanted=None):
        if not self.pays_together(problems, record):
            return super().solve_many(problems, record, seed, wanted)
        for problem in problems:
            self.check(problem)
        found = map.curves_of(list(problems), record.at, lambda done: None)
        return [
            Curves(TABLE, record, arrays, len(arrays["Q"])).told(form="map") for arrays in found
        ]


class TrainingMemory(OnEulerGrid):
    """Correlations and responses of all training steps with each other: for any data; the cost is cubic in steps."""

    @property
    def form(self):
        return "memory"

    def way(self, problem):
        """The process is led by Python."""
        return "processes"

    def on_grid(self, problem, record, report):
        last = max([int(record.last), *self.inference_steps])
        training = MemoryTraining(problem, last, self.inference_steps)
        reached = training.advance(record.at, of_states(report, last, 3))
        curves = Curves(TABLE, record, training.arrays(), reached)
        if reached == len(record) and last > record.last:
            training.go_on(last)
        return curves, training.along()

    def begun(self, problem):
        return MemoryTraining(problem, problem.training.steps)


def automatic(problem, record: Record) -> Method:
    """The map where it holds."""
    return TrainingMemory() if steps_are_correlated(problem) else OverlapMap()


def refined(problem, factor: int):
    """The problem with Euler steps `factor` times shorter."""
    if factor == 1:
        return problem
    network = dataclasses.replace(problem.network, steps=problem.network.steps * factor)
    return dataclasses.replace(problem, network=network)


def _inside(problem, arrays: dict, i: int, step: int) -> dict:
    """Correlations and responses within the recorded training step number i."""
    flow = flow_of(FlowPair.of(problem))
    now = step % len(flow.observed)
    flow = eqx.tree_at(lambda f: f.observed, flow, flow.observed[now : now + 1])
    return map.inference(flow, arrays["a"][i], arrays["Q"][i], arrays["m"][i])
