"""Figure 8 of the paper on wide networks that learn features: a linear network on whitened points, in closed form."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.wide.network import Wide
from learndyn.families.wide.solve import LinearInnovation
from learndyn.papers.captions.wide_whitened import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    THEORY_COLOUR,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.activations import Linear
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

POINTS = 10
"""Whitened points; half of the targets are −1, half 1."""
CROSS: dict[str, Any] = {"marker": "x", "ls": "", "color": THEORY_COLOUR, "ms": 4, "zorder": 4}


class OneDirection(NamedTuple):
    """The norm Δ of the error, and the kernel of the features along the targets, H_y = y·Hy/y²."""

    error: np.ndarray
    kernel: np.ndarray


def closed_form(times: Float[np.ndarray, " t"], size: float, richness: float) -> OneDirection:
    """L = 1, φ(h) = h, K = 1, gradient flow of the loss summed over the points; `size` is y = |y|.

    With γ_0(y − Δ) = sinh θ the equation dΔ/dt = −2√(1 + γ_0²(y − Δ)²)Δ is dθ/dt = 2(Y − sinh θ), Y = γ_0y. Its
    solution starts at θ = 0 and goes to the root e^θ = r of Y = sinh θ, while −1/r is the other one:

        e^θ = (r − c/r)/(1 + c),  c = (r − 1)/(1 + 1/r)·exp(−2√(1 + Y²)t),  H_y = cosh θ.
    """
    Y = richness * size
    speed = np.sqrt(1 + Y**2)
    r = Y + speed
    c = (r - 1) / (1 + 1 / r) * np.exp(-2 * speed * times)
    w = (r - c / r) / (1 + c)
    return OneDirection(size - (w - 1 / w) / 2 / richness, (w + 1 / w) / 2)


def final_rate(richness: float) -> float:
    """√(1 + γ_0²y²): half the rate at which the error decays at the end, and what H_y ends at."""
    return float(np.sqrt(1 + richness**2 * POINTS))


def whitened_problem(richness: float, spans: float = 4.0) -> Problem:
    """A linear network with one hidden layer on whitened points, in gradient flow for the time spans/√(1 + γ_0²y²)."""
    targets = np.repeat([-1.0, 1.0], POINTS // 2)
    # Rows of norm √D on the axes: x_μ·x_α/D is 1 for μ = α and else 0.
    points = Points(np.sqrt(POINTS) * np.eye(POINTS), targets)
    training = GradientDescent(1.0, time=spans / final_rate(richness), loss="sum")
    return Problem(Wide(1, Linear(), richness, centered=True), points, training)


def along_targets(solution: Solution) -> OneDirection:
    """Δ and H_y of a solution, with the seeds first if there are any."""
    y = np.asarray(solution.problem.data.targets)
    error = np.linalg.norm(y - solution["prediction"].isel(output=0).values, axis=-1)
    now = np.einsum("...titj->...tij", solution["Phi"].isel(layer=0).values)
    along = np.einsum("i,...ij,j->...", y, now, y) / (y @ y)
    return OneDirection(error, along)


def figure_8(
    report: Report,
    size: int = 1000,
    seeds: int = 4,
    spans: float = 4.0,
    richnesses: Sequence[float] = (0.1, 0.5, 2.0, 8.0),
    states: int = 61,
) -> Figure:
    """The error and the kernel along the targets: theory, closed form, networks."""
    figure, ((errors, kernels),) = new_panels(1, 2, panel=(3.6, 3.4))
    y, names = np.sqrt(POINTS), []
    for done, (richness, colour) in enumerate(zip(richnesses, COLOURS, strict=False)):
        problem, rate = whitened_problem(richness, spans), final_rate(richness)
        theory = solve(problem, LinearInnovation(tolerance=1e-4), save_at=states)
        runs = simulate(problem, size, seeds, save_at=11)
        times = np.linspace(0, spans / rate, 16)
        curves = (
            along_targets(theory),
            along_targets(runs),
            closed_form(times, float(y), richness),
        )
        lines = []
        for panel, scale, line, circles, crosses in zip(
            (errors, kernels), (y, 1.0), *curves, strict=True
        ):
            lines.append(draw_theory(panel, rate * theory["time"], line / scale, colour))
            draw_networks(panel, rate * runs["time"], circles / scale, colour)
            panel.plot(rate * times, crosses / scale, **CROSS)
        names.append((lines[-1], f"γ₀ = {richness:g}"))
        report((done + 1) / len(richnesses))
    errors.plot([], [], label="closed form", **CROSS)
    axis = {"xlabel": "time $\\sqrt{1 + γ_0^2y^2}\\,t$"}
    finish(errors, "norm of the error", ylabel="Δ(t)/y", **axis)
    finish(kernels, "kernel along the targets", ylabel="$H_y(t)$", yscale="log", **axis)
    name_lines(kernels, names, room=0.25)
    legend_of(errors, f"networks, N = {size}", loc="upper right")
    letter((errors, kernels))
    return figure


register_figures(FACTS, {"wide-8": figure_8}, {"wide-8": lambda: whitened_problem(2.0)})
