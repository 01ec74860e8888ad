"""Pictures of a neural ODE's flow without training: its chaos, and the growth of the adjoint backwards."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.neural_ode.finite.descent import AdjointDescent
from learndyn.families.neural_ode.inference import inference, stationary_flow
from learndyn.families.neural_ode.solve import OverlapMap
from learndyn.papers.captions.neural_ode_chaos import FACTS
from learndyn.papers.neural_ode_parts import flow, trained
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    NEUTRAL,
    PANEL,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.problem import Problem

CLOSED = {"marker": "x", "ls": "", "ms": 5, "mew": 1.2, "zorder": 4}
"""The look of a closed form on the line that it gives."""


def closed_lyapunov(g2: float) -> float:
    """λ = √(g_1 + ¾g_2q) − μ with μ² = g_1 + g_2q/3, for g_1 = 0.8, G(q, 1) = g_1q + g_2q²/2 and μ = q."""
    q = g2 / 6 + np.sqrt(g2**2 / 36 + 0.8)
    return float(np.sqrt(0.8 + 0.75 * g2 * q) - q)


def chaos(
    report: Report,
    strengths: Sequence[float] = (0.8, 3.0, 8.0),
    count: int = 33,
    grids: Sequence[float] = (0.1, 0.05, 0.025),
    time: float = 12.0,
) -> Figure:
    """The teacher's flow alone: stationary correlation, Lyapunov exponent, growth of perturbations."""
    figure = Figure(figsize=(2 * PANEL[0], 2 * PANEL[1]), layout="constrained")
    panels = figure.subplot_mosaic([["decay", "exponent"], ["growth", "growth"]])
    decay, exponent, growth = (panels[name] for name in ("decay", "exponent", "growth"))
    for colour, g2 in zip(COLOURS, strengths, strict=False):
        C = stationary_flow(flow(1.0, 1.0, g2)).correlation
        # Thousands of points would make a large file.
        shown = C.sel(tau=np.linspace(0.0, 8.0, 200), method="nearest")
        draw_theory(decay, shown["tau"], shown, colour, f"$g_2$ = {g2:g}")
        q, tau = float(C[0]), np.linspace(0.0, 8.0, 9)
        closed = q / np.cosh(tau * np.sqrt(g2 * q / 12)) ** 2
        decay.plot(tau, closed, color=colour, **CLOSED)
    decay.plot([], [], color=NEUTRAL, **CLOSED, label="closed form")
    words = {"xlabel": "time difference τ", "ylabel": "correlation $C(τ)$", "xlim": (0, 8)}
    finish(decay, "stationary correlation", **words)
    legend_of(decay)
    report(0.2)
    g2_grid = np.linspace(0.05, 8.0, count)
    exponents = [stationary_flow(flow(1.0, 1.0, g2)).lyapunov for g2 in g2_grid]
    draw_theory(exponent, g2_grid, exponents, label="from $C(τ)$")
    closed = [closed_lyapunov(g2) for g2 in g2_grid[::4]]
    exponent.plot(g2_grid[::4], closed, color=NEUTRAL, **CLOSED, label="closed form")
    words = {"xlabel": "strength $g_2$ of the part without control"}
    words |= {"ylabel": "Lyapunov exponent λ [1/time]"}
    finish(exponent, "chaos of the teacher", **words)
    legend_of(exponent, loc="lower right")
    report(0.7)
    strength, lines = strengths[1], []
    growth.axhline(closed_lyapunov(strength), label=f"λ = {closed_lyapunov(strength):.3f}", **GUIDE)
    for done, (step, colour) in enumerate(zip(grids, COLOURS[3:], strict=False)):
        rates = inference(flow(1.0, 1.0, strength, step=step), time=time)["growth"]
        lines.append((draw_theory(growth, rates["middle"], rates, colour), f"h = {step:g}"))
        report(0.7 + 0.3 * (done + 1) / len(grids))
    words = {"xlabel": "time t from the start", "ylabel": "growth rate [1/time]"}
    finish(growth, f"growth of a perturbation, $g_2$ = {strength:g}", ylim=(0.3, 0.66), **words)
    growth.set_xlim(0, time)
    name_lines(growth, lines, room=0.14, gap=0.07)
    legend_of(growth)
    letter(panels.values())
    return figure


def problem_of_adjoints(adjoint: str = "true", time: float = 3.0, g2: float = 3.0) -> Problem:
    """One training step of a chaotic flow."""
    return trained(flow(time, 0.75, g2, adjoint=adjoint), 0.1, 1)


def adjoints(
    report: Report,
    g2: float = 3.0,
    time: float = 12.0,
    short: float = 3.0,
    size: int = 80,
    seeds: int = 60,
) -> Figure:
    """The adjoint of a chaotic flow, back from its end: without training, and before the first training step."""
    figure, panels = new_panels(1, 2, panel=(3.4, 3.2))
    alone, training = panels.flat
    rate = closed_lyapunov(g2)
    for done, (adjoint, factor) in enumerate((("true", 1), ("truncated", 2))):
        colour = COLOURS[done]
        network = flow(1.0, 0.75, g2, adjoint=adjoint)
        flow_alone = inference(network, time=time, adjoint_end="state")
        back = time - flow_alone["time"].values
        C_pp = np.diagonal(flow_alone["C_pp"].values)
        draw_theory(alone, back, C_pp, colour, f"{adjoint} adjoint")
        slope = C_pp[0] * np.exp(2 * factor * rate * (back - back[0]))
        alone.plot(back, slope, **(GUIDE | {"ls": ":"}))
        half = len(back) // 2
        place = {"ha": "right", "va": "bottom", "color": "0.35", "fontsize": 9}
        alone.text(back[half], slope[half], f"$e^{{{2 * factor}λt}}$ ", **place)
        problem = problem_of_adjoints(adjoint, short, g2)
        theory = solve(problem, OverlapMap(inference_steps=(0,)))
        method = AdjointDescent(inference_steps=(0,))
        runs = simulate(problem, size, seeds, method=method)["C_pp"].values[:, 0]
        times = short - theory["inference_time"].values
        draw_theory(training, times, np.diagonal(theory["C_pp"].values[0]), colour)
        every_third = slice(None, None, 3)
        points = np.diagonal(runs, axis1=1, axis2=2)[:, every_third]
        draw_networks(training, times[every_third], points, colour)
        report((done + 1) / 2)
    words = {"xlabel": "time before the end", "ylabel": "$C_{pp}(t, t)$", "yscale": "log"}
    finish(alone, "the flow alone, from $p_N = x_N$", **words)
    finish(training, "before the first training step", **words)
    legend_of(alone, loc="upper left")
    legend_of(training, f"networks, d = {size}", loc="upper left")
    letter(panels.flat)
    return figure


register_figures(
    FACTS,
    {"neural-ode-chaos": chaos, "neural-ode-adjoint": adjoints},
    {"neural-ode-adjoint": problem_of_adjoints},
)
