"""Figures 6 and 8 of the paper on deep linear networks: power laws of data and of learning curves."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.solve import Panels
from learndyn.papers.captions.deep_linear_power_laws import FACTS
from learndyn.papers.deep_linear_curves import (
    STEP,
    TEST_LOSS,
    Curve,
    Drawn,
    descent,
    draw_curves,
    draw_positive,
    names_in,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    NEUTRAL,
    THEORY_COLOUR,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.spectra import PowerLaw, Spectrum
from learndyn.problem.supplies import Population, Stream
from learndyn.problem.tasks import LinearMap
from learndyn.problem.training import GradientDescent

CAPACITY = 1.5
"""λ_k = k^−1.5 in both figures."""
PREDICTED = {"--": "2β/(1+β), paper", ":": "(L+1)β/(1+Lβ)"}


def _power_law(
    modes: int, steps: int, rate: float, beta: float, N: float, B: int | None, gamma: float = 1.0
) -> Problem:
    """Four hidden layers of N units on a power law; the population if there is no batch B."""
    task = LinearMap(PowerLaw(CAPACITY, beta, modes))
    data = Population(task) if B is None else Stream(task, batch=B)
    return descent(DeepLinear(4, N, gamma, centered=True), data, rate, steps)


def figure_6(report: Report, modes: int = 1000, seeds: int = 12, steps: int = 300) -> Figure:
    """Power-law data: batch size, width on an easy task, richness on a hard task, and where theory is approximate."""
    figure, panels = new_panels(2, 2, panel=(3.4, 3.2))
    batch, easy, hard, ratio = panels.flat
    curves = []

    def add(axes: Axes, label: str, problem: Problem, size: int | None = modes) -> None:
        colour = COLOURS[sum(curve.axes is axes for curve in curves)]
        colour = THEORY_COLOUR if size is None else colour
        curves.append(Curve(axes, problem, colour, label, size))

    for B in (1, 4, 16, 64):
        add(batch, f"B = {B}", _power_law(modes, steps, 0.03, 1.2, 128, B))
    for N in (4, 16, 64, 256):
        add(easy, f"N = {N}", _power_law(modes, steps, 0.02, 1.5, N, None))
    add(easy, "N = ∞", _power_law(modes, steps, 0.02, 1.5, math.inf, None), None)
    for gamma in (0.05, 0.7, 2.0):
        add(hard, f"γ₀ = {gamma:g}", _power_law(modes, steps, 0.02, 0.5, 512, None, gamma))
    drawn = draw_curves(curves, seeds, report, log=True)
    start = steps / 12
    _draw_power(easy, drawn[8].theory, 1.5, start, 0.6, ls="--", label="$t^{-β}$ (lazy)")
    _draw_power(hard, drawn[9].theory, 0.5, start, 1.35, ls="--", label="$t^{-β}$ (lazy)")
    _draw_power(
        hard, drawn[11].theory, 2 / 3, start, 0.75, ls="-.", label="$t^{-2β/(1+β)}$ (paper)"
    )
    _draw_power(hard, drawn[11].theory, 5 / 6, start, 0.75, ls=":", label="$t^{-(L+1)β/(1+Lβ)}$")
    _draw_ratios(ratio, drawn[:4], "B, N = 128", (1, 4, 16, 64), COLOURS[4])
    _draw_ratios(ratio, drawn[4:8], "N", (4, 16, 64, 256), COLOURS[5])
    axis: dict[str, Any] = {"xscale": "log", "yscale": "log", "xlabel": STEP, "ylabel": TEST_LOSS}
    finish(batch, "SGD, β = 1.2, N = 128", **axis)
    finish(easy, "easy task, β = 1.5", **axis)
    finish(hard, "hard task, β = 0.5, N = 512", **axis)
    finish(
        ratio,
        "how good is the approximation?",
        xscale="log",
        xlabel="batch B, or width N",
        ylabel=f"networks / theory, at t = {steps}",
    )
    for panel in (batch, easy, hard):
        name_lines(panel, names_in(panel, drawn), room=0.25)
    legend_of(batch, f"networks, {modes} inputs", loc="lower left")
    for panel in (easy, hard):
        legend_of(panel, loc="lower left")
    legend_of(ratio, loc="upper right")
    letter(panels.flat)
    return figure


def _draw_ratios(
    panel: Axes, drawn: list[Drawn], label: str, sizes: tuple[int, ...], colour: str
) -> None:
    """Draw the last loss of networks over that of the theory, against the size that was varied."""
    ratios = []
    for curve in drawn:
        assert curve.runs is not None
        ratios.append(curve.runs["test_loss"].values[:, -1] / curve.theory["test_loss"].values[-1])
    draw_networks(panel, sizes, np.transpose(ratios), colour, f"against {label}", ls="-", lw=0.7)
    panel.axhline(1.0, **GUIDE)


def _draw_power(
    panel: Axes, theory: Solution, exponent: float, start: float, shift: float, **look: Any
) -> None:
    """Draw a guide line t^−exponent from `start` on, at `shift` times the theory's loss there."""
    times, losses = theory[theory.axis].values.astype(float), theory["test_loss"].values
    first = int(np.searchsorted(times, start))
    line = shift * losses[first] * (times[first:] / times[first]) ** -exponent
    panel.plot(times[first:], line, **(GUIDE | look))


def _flow(L: int, width: float, spectrum: PowerLaw | Spectrum, end: float) -> Problem:
    """Gradient flow of a rich network on the population."""
    network = DeepLinear(L, width, 3.0, centered=True)
    return Problem(network, Population(LinearMap(spectrum)), GradientDescent(1.0, time=end))


def figure_8(
    report: Report,
    ranks: float = 1e14,
    end: float = 1e6,
    inputs: int = 1000,
    width: int = 256,
    seeds: int = 2,
) -> Figure:
    """Hard tasks in the limit of infinite width: gradient flow over six decades, the loss and its local exponent."""
    depths, sources = (1, 2, 4), (0.4, 0.55, 0.7)
    figure, panels = new_panels(len(depths), 2, panel=(3.4, 2.8), sharex="col", sharey="col")
    times = np.concatenate([[0.0], np.geomspace(1e-2, end, 33)])
    early = np.concatenate([[0.0], np.geomspace(1e-2, min(end, 3.0), 7)])
    done, names = 0, []
    for (left, right), L in zip(panels, depths, strict=True):
        for beta, colour in zip(sources, COLOURS, strict=False):
            problem = _flow(L, math.inf, _long_power_law(beta, ranks), end)
            theory = solve(problem, Panels(tolerance=1e-4, bins=200), save_at=times)
            line = draw_positive(left, times[1:], theory["test_loss"][1:], colour)
            exponent = _draw_exponents(right, theory, beta, L, colour)
            names.append(((left, line), (right, exponent), f"β = {beta:g}"))
            if beta == sources[1]:
                trained = _flow(L, width, PowerLaw(CAPACITY, beta, inputs), float(early[-1]))
                runs = simulate(trained, inputs, seeds, save_at=early)
                draw_networks(left, early[1:], runs["test_loss"].values[:, 1:], colour)
            done += 1
            report(done / (len(depths) * len(sources)))
        finish(left, f"loss, L = {L}", xscale="log", yscale="log", ylabel=TEST_LOSS)
        finish(right, f"local exponent, L = {L}", xscale="log", ylim=(0.5, 1.0))
        right.set_ylabel("−d log(loss)/d log t")
    for panel in panels[-1]:
        panel.set_xlabel("time t (gradient flow)")
    left, right = panels[0]
    # All rows share their axes, so that room for names is made once.
    for column in range(2):
        limits = panels[0, column].get_xlim()
        for row, panel in enumerate(panels[:, column]):
            panel.set_xlim(limits)
            own = [entry for entry in names if entry[0][0] is panels[row, 0]]
            name_lines(panel, [(entry[column][1], entry[2]) for entry in own], gap=0.07, room=0.24)
    for ls, words in PREDICTED.items():
        right.plot([], [], color=NEUTRAL, ls=ls, lw=1.0, label=words)
    legend_of(left, f"networks, N = {width}", loc="lower left")
    legend_of(right, loc="upper left", bbox_to_anchor=(0.3, 1.0))
    letter(panels.flat)
    return figure


def _long_power_law(beta: float, ranks: float, capacity: float = CAPACITY) -> Spectrum:
    """λ_k = k^−capacity and w*_k² λ_k = k^(−capacity β − 1) up to very many ranks k, in groups from the tenth on.

    With infinite width and on the population only sums of w*² λ over neighbouring modes count, so that a group may be
    one mode with their sum and their mean eigenvalue.
    """
    k, s = np.arange(1.0, 11.0), capacity * beta
    edges = np.geomspace(10.5, ranks, math.ceil(8 * math.log10(ranks / 10.5)) + 1)
    left, right = edges[:-1], edges[1:]
    power = (left**-s - right**-s) / s
    eigenvalues = (left ** (-s - capacity) - right ** (-s - capacity)) / (s + capacity) / power
    eigenvalues = np.concatenate([k**-capacity, eigenvalues])
    power = np.concatenate([k ** (-s - 1), power])
    return Spectrum(eigenvalues, np.sqrt(power / eigenvalues))


def _draw_exponents(panel: Axes, theory: Solution, beta: float, L: int, colour: str) -> Any:
    """Draw the local exponent of a curve, and the two predicted ones as levels; return the line of the first."""
    from learndyn.analyses.exponents import local_exponent

    exponents = local_exponent(theory["test_loss"], window=0.6)["exponent"]
    line = draw_theory(panel, exponents["time"], exponents, colour)
    levels = zip(PREDICTED, (2 * beta / (1 + beta), (L + 1) * beta / (1 + L * beta)), strict=True)
    for ls, exponent in levels:
        panel.plot(theory["time"][[1, -1]], [exponent] * 2, ls=ls, color=colour, lw=1.0, alpha=0.8)
    return line


register_figures(
    FACTS,
    {"deep-linear-6": figure_6, "deep-linear-8": figure_8},
    {
        "deep-linear-6": lambda: _power_law(1000, 300, 0.03, 1.2, 128, 16),
        "deep-linear-8": lambda: _flow(2, math.inf, PowerLaw(CAPACITY, 0.55, 1000), 1e3),
    },
)
