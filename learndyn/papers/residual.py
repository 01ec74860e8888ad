"""Figures 4 and 5 of the paper on deep linear networks: residual networks and their limit of infinite depth."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.papers.captions.residual import FACTS
from learndyn.papers.deep_linear_curves import (
    STEP,
    TEST_LOSS,
    Curve,
    RateSeries,
    descent,
    draw_curves,
    name_star,
    names_in,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    THEORY_COLOUR,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.skips import ScaledSkip
from learndyn.problem.supplies import Population, Stream
from learndyn.problem.tasks import LinearMap

DEPTHS = (2, 4, 8, 16)


def _named(L: float) -> str:
    """The depth beside a line."""
    return "L = ∞" if math.isinf(L) else f"L = {L}"


def _scaled(L: float, beta0: float, gamma: float = 1.0, steps: int = 80) -> Problem:
    """A residual network with β = β_0/√L on the population."""
    network = DeepLinear(L, 1.0, gamma, centered=True, skip=ScaledSkip(beta0))
    return descent(network, Population(LinearMap()), 0.01, steps)


def figure_4(
    report: Report, size: int = 300, seeds: int = 8, steps: int = 80, deepest: int = 128
) -> Figure:
    """Richness, branch scale and depth of residual networks with β = β_0/√L, and how depth converges."""
    figure, panels = new_panels(2, 2)
    rich, branch, depth, limit = panels.flat
    curves = []

    def add(axes: Axes, colour: str, label: str, problem: Problem, trained: bool = True) -> None:
        curves.append(Curve(axes, problem, colour, label, size if trained else None))

    for gamma, colour in zip((0.3, 1.0, 2.0, 3.0), COLOURS, strict=False):
        add(rich, colour, f"γ₀ = {gamma:g}", _scaled(4, 1.0, gamma, steps))
    for beta0, colour in zip((0.0, 0.5, 1.0, 1.5), COLOURS, strict=False):
        add(branch, colour, f"β₀ = {beta0:g}", _scaled(4, beta0, steps=steps))
    for L, colour in zip((*DEPTHS, math.inf), (*COLOURS[:4], THEORY_COLOUR), strict=True):
        add(depth, colour, _named(L), _scaled(L, 1.2, steps=steps), not math.isinf(L))
    drawn = draw_curves(curves, seeds, lambda done: report(0.9 * done))
    _draw_convergence(limit, steps, deepest)
    report(1.0)
    loss: dict[str, Any] = {"xlabel": STEP, "ylabel": TEST_LOSS, "ylim": (1e-5, 1.5)}
    finish(rich, "richness, L = 4, β₀ = 1", yscale="log", **loss)
    finish(branch, "branch scale, L = 4, γ₀ = 1", yscale="log", **loss)
    finish(depth, "depth, β₀ = 1.2, γ₀ = 1", yscale="log", **loss)
    for panel in (rich, branch, depth):
        name_lines(panel, names_in(panel, drawn), room=0.26)
    legend_of(rich, f"networks, D = {size}", loc="lower left")
    letter(panels.flat)
    return figure


def _draw_convergence(panel: Axes, steps: int, deepest: int) -> None:
    """Draw how much slower networks of finite depth learn than that of infinite depth, at two steps."""
    at = [steps // 8, steps // 2]
    limit = solve(_scaled(math.inf, 1.2, steps=at[-1]), save_at=at)["test_loss"].values
    depths = 2 ** np.arange(1, round(math.log2(deepest)) + 1)
    losses = [
        solve(_scaled(int(L), 1.2, steps=at[-1]), save_at=at)["test_loss"].values for L in depths
    ]
    excess = np.array(losses) / limit - 1
    names = []
    for step, column, colour in zip(at, excess.T, COLOURS[4:], strict=True):
        names.append((draw_theory(panel, depths, column, colour, marker="."), f"t = {step}"))
    panel.plot(depths, excess[-1, 0] * depths[-1] / depths / 2, ls="--", label="1/L", **GUIDE)
    finish(
        panel,
        "depth has a limit, β₀ = 1.2",
        xscale="log",
        yscale="log",
        xlabel="depth L",
        ylabel="loss(L) / loss(∞) − 1",
    )
    panel.minorticks_off()
    panel.set(xticks=depths, xticklabels=[str(L) for L in depths])
    name_lines(panel, names, room=0.24)
    legend_of(panel, loc="lower left")


def _rated(L: float, skip: float | ScaledSkip, steps: int = 30) -> Problem:
    """A residual network on a stream with noisy labels."""
    network = DeepLinear(L, 4.0, 3.0, centered=True, skip=skip)
    return descent(network, Stream(LinearMap(), batch_ratio=1.0, noise=0.5), 0.005, steps)


def figure_5(
    report: Report, size: int = 200, seeds: int = 6, steps: int = 30, count: int = 61
) -> Figure:
    """The loss after a few steps against the learning rate, for constant and scaled β."""
    figure, (panels,) = new_panels(1, 2, panel=(3.4, 3.4), sharey=True, sharex=True)
    series = RateSeries(size, seeds, count, top=1.15, high=4.0)
    skips = (1.0, DEPTHS), (ScaledSkip(1.25), (*DEPTHS, math.inf))
    colours = (*COLOURS[: len(DEPTHS)], THEORY_COLOUR)
    for done, (panel, (skip, depths)) in enumerate(zip(panels, skips, strict=True)):
        for k, (L, colour) in enumerate(zip(depths, colours, strict=False), 1):
            line = series.draw(panel, _rated(L, skip, steps), colour, trained=not math.isinf(L))
            line.set_label(_named(L))
            report((done + k / len(depths)) / 2)
    axis: dict[str, Any] = {"xscale": "log", "yscale": "log", "xlabel": "learning rate η"}
    ticks = {"yticks": (0.3, 0.5, 1.0), "yticklabels": ("0.3", "0.5", "1")}
    for panel, title in zip(panels, ("β = 1", "β = 1.25/√L"), strict=True):
        finish(panel, title, ylim=(0.25, 1.25), **axis)
        panel.minorticks_off()
        panel.set(**ticks)
        panel.axhline(0.25, **GUIDE)
    panels[0].set_ylabel(f"test loss after {steps} steps")
    name_star(panels[1])
    # Panel (a) has the same colours, and no room.
    legend_of(panels[1], f"networks, D = {size}", loc="upper left")
    letter(panels)
    return figure


register_figures(
    FACTS,
    {
        "deep-linear-4": figure_4,
        "deep-linear-5": figure_5,
    },
    {
        "deep-linear-4": lambda: _scaled(8, 1.2),
        "deep-linear-5": lambda: _rated(8, ScaledSkip(1.25)),
    },
)
