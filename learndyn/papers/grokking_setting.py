"""The problem of the paper on delayed feature learning, and its theory in explicit steps."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.errors import NotConverged
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.two_layer.reused.time_grid import RARE, automatic_step
from learndyn.problem.activations import Polynomial
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent

HIDDEN = 2
TIME = "time t  (learning rate 2/α)"
LOSS = "loss  ½⟨(y − ŷ)²⟩"


class GrokkingSetting(NamedTuple):
    """The problem of the paper.

    - `alpha` (α): output scale; the readout is α/K.
    - `epsilon` (ε): quadratic part of the activation φ(h) = h + (ε/2)h².
    - `gamma` (γ = P/D): examples per dimension; ∞ for the population.
    - `time`: length of training, in the paper's units.
    - `start` (A₀): initial alignments of the hidden units with the teacher. (0.3, −0.3) unless given.
    """

    alpha: float
    epsilon: float
    gamma: float
    time: float
    start: Sequence[float] = (0.3, -0.3)

    def problem(self) -> Problem:
        """The problem in the paper's units of time, in which the learning rate is K/α."""
        teacher = Teacher(Polynomial(np.array([0.0, 0.0, 0.5])), np.eye(1))
        network = TwoLayer(
            Polynomial(np.array([0.0, 1.0, self.epsilon / 2])),
            np.eye(HIDDEN),
            np.array(self.start)[:, None],
            readout=[self.alpha / HIDDEN] * HIDDEN,
        )
        online = math.isinf(self.gamma)
        data = Population(teacher) if online else Dataset(teacher, ratio=self.gamma)
        return Problem(network, data, GradientDescent(HIDDEN / self.alpha, time=self.time))

    def stable_step(self) -> float:
        """The largest stable step at the solution w = ±w*/√(αε), for rare samples and for all together."""
        alone = (math.sqrt(self.alpha) + RARE * math.sqrt(self.epsilon)) ** 2 / self.gamma
        together = (self.alpha + self.epsilon) * (1 + self.gamma**-0.5) ** 2
        return 2 / max(alone, together)

    def steps(self, share: float, first: float = math.inf) -> dict[str, Any]:
        """Steps that grow from at most `first` up to this share of the largest stable step."""
        largest = share * self.stable_step()
        first = min(first, largest, automatic_step(self.problem()))
        return {"step": first, "growth": 0.1, "largest_step": largest}


def theory_of(
    setting: GrokkingSetting,
    steps: dict,
    sampled: dict,
    save_at: int | np.ndarray | None,
    halvings: int = 3,
) -> Solution:
    """The theory; if single samples explode, the steps are halved, up to `halvings` times."""
    try:
        return solve(setting.problem(), CausalSampling(**steps, **sampled), save_at=save_at)
    except NotConverged:
        if not halvings:
            raise
    shorter = {name: value if name == "growth" else value / 2 for name, value in steps.items()}
    return theory_of(setting, shorter, sampled, save_at, halvings - 1)
