"""Figures 4 and 5 of the paper on deep linear networks: residual networks and their limit of infinite depth."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.papers.captions.residual import FACTS
from learndyn.papers.deep_linear import (
    TEST_LOSS,
    Curve,
    _draw_curves,
    _draw_runs,
    _draw_theory,
    _finish,
    _panels,
    _problem,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import COLOURS, THEORY_COLOUR
from learndyn.problem.problem import Problem
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.supplies import Population
from learndyn.problem.tasks import LinearMap
from learndyn.sweeps.sweep import sweep

DEPTHS = (2, 4, 8, 16)
TRAINED = (2, 8)
"""Depths of Figure 5 at which networks are trained."""


def _named(L: float) -> str:
    """The depth in a legend."""
    return "L = ∞" if math.isinf(L) else f"L = {L}"


def figure_4(report: Report, size: int = 300, seeds: int = 8, steps: int = 80) -> Figure:
    """Richness, branch scale and depth of residual networks with β = β_0/√L."""
    figure, ((rich, branch, depth),) = _panels(1, 3, sharey=True)
    curves = []

    def add(
        axes: Axes, colour: str, label: str, L: float, beta0: float, gamma: float = 1.0
    ) -> None:
        network = DeepLinear(L, 1.0, gamma, centered=True, skip=ScaledSkip(beta0))
        trained = None if math.isinf(L) else size
        curves.append(
            Curve(
                axes,
                _problem(network, Population(LinearMap()), 0.01, steps),
                colour,
                label,
                trained,
            )
        )

    for gamma, colour in zip((0.3, 1.0, 2.0, 3.0), COLOURS, strict=False):
        add(rich, colour, f"γ₀ = {gamma:g}", 4, 1.0, gamma)
    for beta0, colour in zip((0.0, 0.5, 1.0, 1.5), COLOURS, strict=False):
        add(branch, colour, f"β₀ = {beta0:g}", 4, beta0)
    for L, colour in zip((*DEPTHS, math.inf), (*COLOURS[:4], THEORY_COLOUR), strict=True):
        add(depth, colour, _named(L), L, 1.2)
    _draw_curves(curves, seeds, report)
    words: dict[str, Any] = {"xlabel": "training step t", "ylim": (1e-5, 1.5)}
    corner = {"loc": "lower left"}
    points = f"networks, D = {size}"
    _finish(rich, "(a) richness, L = 4, β₀ = 1", points, corner, ylabel=TEST_LOSS, **words)
    _finish(branch, "(b) branch scale, L = 4, γ₀ = 1", None, corner, **words)
    _finish(depth, "(c) depth, β₀ = 1.2, γ₀ = 1", None, corner, **words)
    return figure


def _last_losses(
    problem: Problem, rates: Float[np.ndarray, " rates"], steps: int
) -> Float[np.ndarray, " rates"]:
    """The test loss of the theory after the last step, for every learning rate; NaN where training diverges."""
    over = {"training.learning_rate": rates}
    swept = sweep(problem, over, observables=["test_loss"], save_at=[0, steps]).data
    if "test_loss" not in swept:
        return np.full(len(rates), np.nan)
    return swept["test_loss"].reindex(step=[steps]).values[:, 0]


def _draw_transfer(
    axes: Axes,
    skip: float | ScaledSkip,
    depths: Sequence[float],
    rates: Float[np.ndarray, " rates"],
    steps: int,
    size: int,
    seeds: int,
    report: Report,
) -> None:
    """Draw the last loss against the learning rate for every depth, with its optimum, and networks at two depths."""
    colours = (*COLOURS[: len(DEPTHS)], THEORY_COLOUR)
    for done, (L, colour) in enumerate(zip(depths, colours, strict=False), 1):
        network = DeepLinear(L, 1.0, 1.0, centered=True, skip=skip)
        problems = [_problem(network, Population(LinearMap()), rate, steps) for rate in rates]
        losses = _last_losses(problems[0], rates, steps)
        best = int(np.nanargmin(losses))
        unstable = ~(losses[best:] < 10 * losses[best])
        end = best + int(np.argmax(unstable)) if unstable.any() else len(rates)
        _draw_theory(axes, rates[:end], losses[:end], colour, _named(L))
        axes.plot(rates[best], losses[best], "*", color=colour, ms=12, mec="white", zorder=4)
        if L in TRAINED:
            _draw_networks(axes, problems, rates, rates[best], steps, size, seeds, colour)
        report(done / len(depths))


def _draw_networks(
    axes: Axes,
    problems: Sequence[Problem],
    rates: Float[np.ndarray, " rates"],
    best: float,
    steps: int,
    size: int,
    seeds: int,
    colour: str,
) -> None:
    """Draw networks at rates around the best one, from a thirtieth to twice, where none of the seeds diverges."""
    wanted = best * np.geomspace(1 / 30, 2, 11)
    for k in np.unique([int(np.argmin(np.abs(np.log(rates / rate)))) for rate in wanted]):
        runs = simulate(problems[k], size, seeds, save_at=[0, steps])
        if runs.diverged_at is None:
            _draw_runs(axes, rates[[k]], runs["test_loss"].values[:, -1:], colour)


def figure_5(
    report: Report, size: int = 200, seeds: int = 6, steps: int = 30, density: int = 40
) -> Figure:
    """The loss after a few steps against the learning rate, `density` rates a decade, for constant and scaled β."""
    figure, ((constant, scaled),) = _panels(1, 2, sharey=True)
    _draw_transfer(
        constant,
        1.0,
        DEPTHS,
        np.geomspace(1e-8, 1.0, 8 * density + 1),
        steps,
        size,
        seeds,
        lambda done: report(0.5 * done),
    )
    _draw_transfer(
        scaled,
        ScaledSkip(1.25),
        (*DEPTHS, math.inf),
        np.geomspace(1e-3, 1.0, 3 * density + 1),
        steps,
        size,
        seeds,
        lambda done: report(0.5 + 0.5 * done),
    )
    words: dict[str, Any] = {"xscale": "log", "xlabel": "learning rate η", "ylim": (1e-9, 10)}
    corner = {"loc": "lower left"}
    constant.plot([], [], "*", color="0.4", ms=9, label="optimum")
    constant.set_ylabel(f"test loss after {steps} steps")
    _finish(constant, "(a) β = 1", f"networks, D = {size}", corner, **words)
    _finish(scaled, "(b) β = 1.25/√L", None, corner, **words)
    return figure


register_figures(
    FACTS,
    {
        "deep-linear-4": figure_4,
        "deep-linear-5": figure_5,
    },
)
