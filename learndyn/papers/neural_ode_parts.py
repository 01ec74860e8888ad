"""What the pictures of neural ODEs share: flows, problems, and curves of theory and finite systems."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.pictures.style import RUNS_COLOUR, draw_networks, draw_theory
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream, Supply
from learndyn.problem.tasks import TeacherFlow
from learndyn.problem.training import GradientDescent

STEP, LOSS = "training step a", "loss  $|y − x|^2/(2d)$"
EULER = 0.1
"""The Euler step h, unless a picture states another."""
UNIT_AXES = ("unit", "unit2", "teacher_unit")


def flow(
    time: float, ratio: float, g2: float = 0.8, step: float = EULER, **settings: Any
) -> NeuralODE:
    """The flow with G(q, m) = 0.8 q m + (g_2/2) q² and μ̂(z) = z, for a time T and σ = `ratio`, with Euler step h."""
    field = PolynomialField(np.array([[0.0, 0.0], [0.0, 0.8], [g2 / 2, 0.0]]))
    return NeuralODE(field, ratio, time, round(time / step), **settings)


def trained(
    network: NeuralODE, rate: float, steps: int, data: Supply | None = None, **training: Any
) -> Problem:
    """The network, trained on a stream of single fresh trajectories unless `data` says otherwise."""
    return Problem(
        network, data or Stream(TeacherFlow()), GradientDescent(rate, steps=steps, **training)
    )


def evenly_spaced_steps(steps: int, count: int = 11) -> Int[np.ndarray, " drawn_steps"]:
    """About `count` training steps from 0 to `steps`, at which finite systems are drawn."""
    return np.unique(np.linspace(0, steps, count).round().astype(int))


def without_single_units(solution: Solution, name: str, **entry: int) -> xr.DataArray:
    """An `entry` of an observable, such as unit=0, without those axes of units that have length one."""
    values = solution[name].isel(entry)
    return values.squeeze([axis for axis in UNIT_AXES if values.sizes.get(axis) == 1])


class Curve(NamedTuple):
    """An observable against training steps: in theory, and of finite systems at some of the steps."""

    steps: Float[np.ndarray, " steps"]
    values: Float[np.ndarray, " steps"]
    drawn_steps: Int[np.ndarray, " drawn_steps"]
    runs: Float[np.ndarray, "seeds drawn_steps"]

    def draw(
        self, panel: Axes, colour: str = RUNS_COLOUR, label: str | None = None, **look: Any
    ) -> Line2D:
        """Draw both; `look` is that of the line, which is handed back."""
        draw_networks(panel, self.drawn_steps, self.runs, colour)
        return draw_theory(panel, self.steps, self.values, colour, label, **look)


class Pair(NamedTuple):
    """A theory, and finite systems recorded at some of its steps."""

    theory: Solution
    runs: Solution

    def curve(self, name: str, **entry: int) -> Curve:
        """An observable against training steps; `entry` says which entry of its other axes, if they are long."""
        theory, runs = (without_single_units(solution, name, **entry).values for solution in self)
        return Curve(self.theory["step"].values, theory, self.runs["step"].values, runs)


def theory_and_systems(
    problem: Problem, size: int, seeds: int, drawn_steps: Sequence[int] | np.ndarray
) -> Pair:
    """Solve a problem at all steps, and train `seeds` finite systems in d = `size` dimensions."""
    steps = problem.training.steps
    theory = solve(problem, save_at=np.arange(steps + 1))
    return Pair(theory, simulate(problem, size, seeds, save_at=drawn_steps))
