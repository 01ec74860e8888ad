"""Figures 1, 2, 3 and 7 of the paper on deep linear networks: width, depth, learning rates, and data."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.papers.captions.deep_linear import FACTS
from learndyn.papers.deep_linear_curves import (
    LINES,
    STEP,
    TEST_LOSS,
    Curve,
    RateSeries,
    descent,
    draw_curves,
    end_below,
    name_star,
    names_in,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    TEXT,
    THEORY_COLOUR,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.paths import changed
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population, Stream, Supply
from learndyn.problem.tasks import LinearMap

KINDS = {"ntk": "NTK parameterisation", "mup": "μP"}


def _wide(nu: float, kind: str, steps: int = 160) -> Problem:
    """Four hidden layers of width ν on the population, in a parameterisation."""
    network = DeepLinear(4, nu, centered=True, parameterization=kind)
    return descent(network, Population(LinearMap()), 0.01, steps)


def figure_1(report: Report, size: int = 400, seeds: int = 8, steps: int = 160) -> Figure:
    """Width in the NTK parameterisation and in μP, depth, and how far the tangent kernel moves."""
    figure, panels = new_panels(2, 2)
    ntk, mup, depth, kernel = panels.flat
    curves = []

    def add(axes: Axes, problem: Problem, colour: str, label: str, trained: bool = True) -> None:
        curves.append(Curve(axes, problem, colour, label, size if trained else None))

    for nu, colour in zip((0.25, 1.0, 4.0), COLOURS, strict=False):
        for axes, kind in ((ntk, "ntk"), (mup, "mup")):
            add(axes, _wide(nu, kind, steps), colour, f"ν = {nu:g}")
    add(mup, _wide(math.inf, "mup", steps), THEORY_COLOUR, "ν = ∞", trained=False)
    for L, colour in zip((1, 2, 4, 8), COLOURS, strict=False):
        network = DeepLinear(L, 1.0, centered=True)
        add(depth, descent(network, Population(LinearMap()), 0.01, steps), colour, f"L = {L}")
    drawn = draw_curves(curves, seeds, lambda done: report(0.9 * done))
    times = np.arange(steps + 1)
    linear = draw_theory(ntk, times, (1 - 5 * 0.01) ** (2 * times))
    names = [*names_in(ntk, drawn), (linear, "ν = ∞")]
    _draw_kernels(kernel, size, seeds, steps, lambda done: report(0.9 + 0.1 * done))
    floor = 3e-7
    for line in (linear, *(curve.line for curve in drawn)):
        end_below(line, floor)
    loss: dict[str, Any] = {"yscale": "log", "xlabel": STEP, "ylabel": TEST_LOSS}
    finish(ntk, "NTK parameterisation, L = 4", ylim=(floor, 1.5), **loss)
    finish(mup, "μP, L = 4", ylim=(floor, 1.5), **loss)
    finish(depth, "depth in μP, ν = 1", ylim=(1e-5, 1.5), **loss)
    for axes, named in ((ntk, names), (mup, names_in(mup, drawn)), (depth, names_in(depth, drawn))):
        name_lines(axes, named)
    legend_of(ntk, f"networks, D = {size}", loc="lower left")
    letter(panels.flat)
    return figure


def _draw_kernels(panel: Axes, size: int, seeds: int, steps: int, report: Report) -> None:
    """Draw the tangent kernel after training over that before, against the width."""
    lines, widths = [], np.geomspace(0.25, 64.0, 17)
    for done, (kind, name) in enumerate(KINDS.items()):
        colour, ratios = COLOURS[3 + done], []
        for nu in widths:
            kernel = solve(_wide(float(nu), kind, steps), save_at=[0, steps])["kernel"].values
            ratios.append(kernel.ravel()[-1] / kernel.ravel()[0])
        lines.append((draw_theory(panel, widths, ratios, colour), name.split()[0]))
        trained, moved = widths[widths <= 4][::4], []
        for nu in trained:
            runs = simulate(_wide(float(nu), kind, steps), size, seeds, save_at=[0, steps])
            kernel = runs["kernel"].values.reshape(seeds, 2)
            moved.append(kernel[:, 1] / kernel[:, 0])
        draw_networks(panel, trained, np.transpose(moved), colour)
        report((done + 1) / len(KINDS))
    words = {"xlabel": "width  ν = N/D", "ylabel": f"kernel at t = {steps} / at t = 0"}
    finish(panel, "how far the kernel moves, L = 4", xscale="log", ylim=(0.98, 1.65), **words)
    name_lines(panel, lines)


def _rated(nu: float, kind: str, steps: int = 12) -> Problem:
    """Two hidden layers of width ν on a stream, in a parameterisation."""
    network = DeepLinear(2, nu, 4.0, centered=True, parameterization=kind)
    return descent(network, Stream(LinearMap(), batch_ratio=1.0), 0.02, steps)


def figure_2(
    report: Report, size: int = 200, seeds: int = 8, steps: int = 12, count: int = 81
) -> Figure:
    """The loss after a few steps against the learning rate, in the NTK parameterisation and in μP."""
    figure, (panels,) = new_panels(1, 2, panel=(3.4, 3.4), sharey=True, sharex=True)
    widths, series = (1.0, 4.0, 16.0), RateSeries(size, seeds, count, top=0.1, low=1 / 8, most=1.6)
    names = []
    for done, (panel, kind) in enumerate(zip(panels, KINDS, strict=True)):
        for k, (nu, colour) in enumerate(zip(widths, COLOURS, strict=False), 1):
            names.append((series.draw(panel, _rated(nu, kind, steps), colour), f"ν = {nu:g}"))
            report((done + k / len(widths)) / 2)
        finish(panel, KINDS[kind], xscale="log", yscale="log", xlabel="learning rate η")
    panels[0].set_ylabel(f"test loss after {steps} steps")
    for (line, name), panel in zip(names, panels.repeat(len(widths)), strict=True):
        panel.plot([], [], color=line.get_color(), label=name)
    name_star(panels[0])
    legend_of(panels[0], f"networks, D = {size}", loc="lower left")
    legend_of(panels[1], loc="lower left")
    letter(panels)
    return figure


def _noisy(alpha: float, steps: int = 640) -> Problem:
    """Four hidden layers on α examples per input dimension, with noisy labels."""
    data = Dataset(LinearMap(), ratio=alpha, noise=0.5)
    return descent(DeepLinear(4, 1.0, centered=True), data, 0.02, steps)


def figure_3(
    report: Report,
    size: int = 300,
    large: int = 800,
    seeds: int = 8,
    steps: int = 640,
    count: int = 41,
) -> Figure:
    """Reused data of different amount, and online SGD with different batches and widths."""
    figure, panels = new_panels(2, 2, panel=(3.4, 3.2))
    reused, amount, batch, width = panels.flat
    curves = []

    def add(axes: Axes, problem: Problem, label: str, inputs: int, **looks: Any) -> None:
        colour = COLOURS[sum(curve.axes is axes for curve in curves)]
        curves.append(Curve(axes, problem, colour, label, inputs, **looks))

    def online(nu: float, ratio: float, rate: float) -> Problem:
        data: Supply = Stream(LinearMap(), batch_ratio=ratio)
        return descent(DeepLinear(4, nu, centered=True), data, rate, steps // 5)

    for alpha in (0.7, 1.0, 2.0, 4.0):
        both = {"observables": tuple(LINES)}
        add(reused, _noisy(alpha, steps // 4), f"α = {alpha:g}", size, **both)
    for ratio in (0.05, 0.1, 0.25, 1.0):
        add(batch, online(0.5, ratio, 0.01), f"$α_B$ = {ratio:g}", size)
    for nu in (0.25, 0.5, 1.0, 2.0):
        add(width, online(nu, 0.1, 0.02), f"ν = {nu:g}", large)
    drawn = draw_curves(curves, seeds, lambda done: report(0.6 * done), log=True)
    _draw_amounts(amount, size, seeds, steps, count, lambda done: report(0.6 + 0.4 * done))
    time: dict[str, Any] = {"xlabel": STEP, "xscale": "log", "yscale": "log"}
    finish(reused, "reused data, ν = 1", **time, ylabel="loss  ⟨(y − f)²⟩")
    finish(batch, "online SGD, ν = 0.5", **time, ylabel=TEST_LOSS)
    finish(width, "online SGD, $α_B$ = 0.1", **time, ylabel=TEST_LOSS)
    for panel in (reused, batch, width):
        name_lines(panel, names_in(panel, drawn), room=0.26)
    legend_of(reused, f"networks, D = {size}", train=True, loc="lower left")
    legend_of(batch, f"networks, D = {size}", loc="lower left")
    legend_of(width, f"networks, D = {large}", loc="lower left")
    letter(panels.flat)
    return figure


def _draw_amounts(
    panel: Axes, size: int, seeds: int, steps: int, count: int, report: Report
) -> None:
    """Draw the test loss against the amount of data α at several steps."""
    ratios, at = np.geomspace(0.25, 4.0, count), [steps // 64, steps // 16, steps // 4, steps]
    losses, trained = [], []
    for done, alpha in enumerate(ratios, 1):
        losses.append(_at_steps(_noisy(alpha, steps), at))
        if done % 4 == 1:
            runs = simulate(_noisy(alpha, steps), size, seeds, save_at=at)
            trained.append(runs["test_loss"].values)
        report(done / count)
    for k, (step, colour) in enumerate(zip(at, COLOURS, strict=False)):
        draw_theory(panel, ratios, np.array(losses)[:, k], colour, f"t = {step}")
        draw_networks(panel, ratios[::4], np.array(trained)[:, :, k].T, colour)
    ticks = {"xticks": (0.25, 0.5, 1, 2, 4), "xticklabels": ("¼", "½", "1", "2", "4")}
    words = {"xlabel": "examples per input  α = P/D", "ylabel": TEST_LOSS}
    panel.set(xscale="log", ylim=(0.2, None))
    panel.minorticks_off()
    finish(panel, "reused data, ν = 1", **words, **ticks)
    legend_of(panel, loc="upper right")


def _at_steps(problem: Problem, steps: Sequence[int]) -> np.ndarray:
    """The test loss of the theory at a few steps; NaN where training has diverged."""
    losses = solve(problem, save_at=steps)["test_loss"].values
    return np.append(losses, np.full(len(steps) - len(losses), np.nan))


def _trained_edge(problem: Problem, guess: float, size: int, seed: int) -> float:
    """The largest stable rate of one finite network, to 5 %: bisection between a quarter and four times the guess."""

    def stable(rate: float) -> bool:
        tried = changed(problem, {"training.learning_rate": rate})
        runs = simulate(tried, size, first_seed=seed, save_at=2)
        losses = runs["test_loss"].values[0]
        return runs.diverged_at is None and losses[-1] <= losses[0]

    low, high = guess / 4, 4 * guess
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return math.sqrt(low * high)


def _short(L: int, nu: float, gamma: float, kind: str, rate: float, steps: int = 30) -> Problem:
    """A short training on the population, whose stability is asked for."""
    network = DeepLinear(L, nu, gamma, centered=True, parameterization=kind)
    return descent(network, Population(LinearMap()), rate, steps)


def figure_7(
    report: Report, steps: int = 30, count: int = 13, size: int = 200, seeds: int = 4
) -> Figure:
    """The largest stable learning rate against the width, lazy and rich."""
    from learndyn.analyses.rates import largest_stable_rate

    figure, (panels,) = new_panels(1, 2, panel=(3.4, 3.4))
    widths, richness = np.geomspace(0.5, 128.0, count), (1e-4, 100.0)
    # Lazy networks are the same in both parameterisations: μP is drawn for the rich ones only.
    jobs = [(0, L, "ntk") for L in (1, 2)] + [(1, L, kind) for L in (1, 2) for kind in KINDS]
    names: list[list] = [[], []]
    for done, (k, L, kind) in enumerate(jobs, 1):
        edges, panel, colour = [0.01], panels[k], COLOURS[L - 1 + (2 if kind == "mup" else 0)]
        few, trained = widths[: 2 * count // 3 : 3], []
        for nu in widths:
            problem = _short(L, float(nu), richness[k], kind, edges[-1], steps)
            edges.append(largest_stable_rate(problem, rtol=1e-2))
            if nu in few:
                found = [_trained_edge(problem, edges[-1], size, seed) for seed in range(seeds)]
                trained.append(found)
        draw_networks(panel, few, np.transpose(trained), colour)
        line = draw_theory(panel, widths, edges[1:], colour)
        names[k].append((line, f"L = {L}" if k == 0 else f"{KINDS[kind].split()[0]}, L = {L}"))
        if k == 0:
            panel.axhline(2 / (L + 1), ls=":", **GUIDE)
            panel.text(
                0.5, 2 / (L + 1) + 0.01, f"2/(L+1), L = {L}", color=GUIDE["color"], fontsize=TEXT
            )
        elif kind == "ntk":
            slope = 1.6 * edges[1] * (widths / widths[0]) ** (L / (L + 1))
            panel.plot(widths, slope, ls=":", **GUIDE)
            place = (widths[count // 2], 1.15 * slope[count // 2])
            look: dict[str, Any] = {"fontsize": TEXT, "ha": "right", "va": "bottom"}
            panel.text(*place, f"$ν^{{{L}/{L + 1}}}$", color="0.4", **look)
        report(done / len(jobs))
    words = {"xlabel": "width  ν = N/D", "ylabel": "largest stable learning rate η"}
    axis: dict[str, Any] = {"xscale": "log"} | words
    finish(panels[0], "lazy, $γ_0 = 10^{-4}$", **axis, ylim=(0.0, 1.1))
    finish(panels[1], "rich, $γ_0 = 100$", **axis, yscale="log")
    name_lines(panels[0], names[0], room=0.2)
    name_lines(panels[1], names[1], room=0.33)
    legend_of(panels[0], f"networks, D = {size}", loc="lower right")
    letter(panels)
    return figure


register_figures(
    FACTS,
    {
        "deep-linear-1": figure_1,
        "deep-linear-2": figure_2,
        "deep-linear-3": figure_3,
        "deep-linear-7": figure_7,
    },
    {
        "deep-linear-1": lambda: _wide(1.0, "mup"),
        "deep-linear-2": lambda: _rated(4.0, "mup"),
        "deep-linear-3": lambda: _noisy(1.0),
        "deep-linear-7": lambda: _short(1, 2.0, 100.0, "mup", 0.02),
    },
)
