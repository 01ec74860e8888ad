"""What the figures of deep linear networks share: learning curves, and losses against the learning rate."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.pictures.style import NEUTRAL, TEST, TRAIN, draw_networks, draw_theory
from learndyn.problem.paths import changed
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Supply
from learndyn.problem.training import GradientDescent
from learndyn.sweeps.sweep import sweep

LINES = {"test_loss": TEST, "train_loss": TRAIN}
STEP, TEST_LOSS = "training step t", "test loss  ⟨(y − f)²⟩"
STAR: dict[str, Any] = {"marker": "*", "ls": "", "ms": 12, "mec": "white", "zorder": 4}


class Curve(NamedTuple):
    """A learning curve to be drawn: its problem and its looks; with a `size`, also networks of this many inputs."""

    axes: Axes
    problem: Problem
    colour: ColorType
    label: str
    size: int | None = None
    observables: Sequence[str] = ("test_loss",)


class Drawn(NamedTuple):
    """A curve that was drawn: theory, networks if there are any, and the line of its first observable with its name."""

    theory: Solution
    runs: Solution | None
    line: Line2D
    label: str


def descent(network: DeepLinear, data: Supply, rate: float, steps: int) -> Problem:
    """Gradient descent at a constant rate η."""
    return Problem(network, data, GradientDescent(rate, steps=steps))


def recorded_steps(end: int, count: int, log: bool) -> np.ndarray:
    """About `count` whole steps up to `end`, equally spaced from 0 on or, if `log`, in the logarithm from 1 on."""
    grid = np.geomspace(1, end, count) if log else np.linspace(0, end, count)
    return np.unique(np.rint(grid).astype(int))


def draw_positive(
    panel: Axes, x: ArrayLike, y: ArrayLike, colour: ColorType, **look: Any
) -> Line2D:
    """Draw a theory where it is positive: losses at the level of rounding may be negative."""
    y = np.asarray(y)
    return draw_theory(panel, x, np.where(y > 0, y, np.nan), colour, **look)


def draw_curves(
    curves: Sequence[Curve], seeds: int, report: Report, log: bool = False
) -> list[Drawn]:
    """Draw every curve: a line for each observable, dashed for the training loss, and the circles of its networks."""
    drawn = []
    for done, curve in enumerate(curves, 1):
        end = cast(int, cast(GradientDescent, curve.problem.training).steps)
        theory = solve(curve.problem, save_at=recorded_steps(end, 150, log))
        runs = None
        if curve.size is not None:
            at = recorded_steps(end, 11, log)
            runs = simulate(curve.problem, curve.size, seeds, save_at=at)
        lines = []
        for name in curve.observables:
            look = {"ls": LINES.get(name, TEST)}
            lines.append(
                draw_positive(curve.axes, theory["step"], theory[name], curve.colour, **look)
            )
            if runs is not None:
                draw_networks(curve.axes, runs["step"], runs[name].values, curve.colour)
        drawn.append(Drawn(theory, runs, lines[0], curve.label))
        report(done / len(curves))
    return drawn


def names_in(panel: Axes, drawn: Sequence[Drawn]) -> list[tuple[Line2D, str]]:
    """The lines of a panel with their names."""
    return [(curve.line, curve.label) for curve in drawn if curve.line.axes is panel]


def end_below(line: Line2D, floor: float) -> None:
    """End a falling line where it leaves the panel, so that its name stands there."""
    x, y = (np.asarray(values) for values in line.get_data())
    below = np.asarray(y < floor)
    end = int(np.argmax(below)) + 1 if below.any() else len(y)
    line.set_data(x[:end], y[:end])


def last_losses(
    problem: Problem, rates: Float[np.ndarray, " rates"], steps: int
) -> Float[np.ndarray, " rates"]:
    """The test loss of the theory after the last step, for every learning rate; NaN where training diverges."""
    over = {"training.learning_rate": rates}
    swept = sweep(problem, over, observables=["test_loss"], save_at=[0, steps]).data
    if "test_loss" not in swept:
        return np.full(len(rates), np.nan)
    return swept["test_loss"].reindex(step=[steps]).values[:, 0]


@dataclasses.dataclass(frozen=True)
class RateSeries:
    """How the loss after the last step is drawn against the learning rate.

    - `low`, `high`: lines run from so many times the best rate to so many times it, or to the height `top`.
    - `count`: the number of rates of a line. `trained`: the number of rates below `most` times the best one, at which
      `seeds` networks of `size` inputs are trained.
    """

    size: int
    seeds: int
    count: int
    top: float
    low: float = 1 / 20
    high: float = 8.0
    trained: int = 8
    most: float = 2.0

    def draw(
        self, panel: Axes, problem: Problem, colour: ColorType, trained: bool = True
    ) -> Line2D:
        """Draw the theory with a star at its best rate, and networks."""
        from learndyn.analyses.rates import best_rate

        best, steps = best_rate(problem, rtol=1e-2), cast(int, problem.training.steps)
        rates = np.unique(best.rate * np.append(1, np.geomspace(self.low, self.high, self.count)))
        losses = last_losses(problem, rates, steps)
        # Beyond the first rate at which the loss leaves the panel, it is an erratic function of the rate.
        left = (rates > best.rate) & ~(losses < self.top)
        end = int(np.argmax(left)) if left.any() else len(rates)
        line = draw_theory(panel, rates[:end], losses[:end], colour)
        panel.plot([best.rate], [best.loss], color=colour, **STAR)
        if trained:
            self._draw_networks(panel, problem, best.rate, colour)
        return line

    def _draw_networks(self, panel: Axes, problem: Problem, best: float, colour: ColorType) -> None:
        """Draw networks at rates around the best one, where none of the seeds diverges."""
        rates, losses = [], []
        for rate in best * np.geomspace(self.low, self.most, self.trained):
            tried = changed(problem, {"training.learning_rate": float(rate)})
            runs = simulate(tried, self.size, self.seeds, save_at=2)
            if runs.diverged_at is None:
                rates.append(rate)
                losses.append(runs["test_loss"].values[:, -1])
        if rates:
            draw_networks(panel, rates, np.transpose(losses), colour)


def name_star(panel: Axes) -> None:
    """Say in the legend what a star is."""
    look: dict[str, Any] = STAR | {"ms": 9}
    panel.plot([], [], color=NEUTRAL, label="best rate", **look)
