"""Figure 5 of the paper: convolutional networks of different width at the same richness, here with their limit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.wide.network import Convolution, Wide
from learndyn.families.wide.solve import SampledLayers
from learndyn.papers.captions.convolutional import FACTS
from learndyn.papers.registry import register_figures
from learndyn.papers.wide_panels import STEP, draw_curve
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    NEUTRAL,
    draw_networks,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

POSITIONS, NOISE = 6, 0.3
MARKERS = ("s", "^", "o")
PANELS = {
    "train_loss": ("train loss", "⟨(y − f)²⟩/2"),
    "test_loss": ("test loss", "⟨(y − f)²⟩/2"),
    "alignment": ("last kernel and targets", "alignment of Φ² with yyᵀ"),
}


def waves(count: int, positions: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves around a circle, two periods (y = −1) or one (y = 1), with random phases and noise, and their targets y."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(count) % 2, 1.0, -1.0)
    phase = rng.uniform(0, 2 * np.pi, count)
    angle = np.where(y > 0, 1, 2)[:, None] * 2 * np.pi * np.arange(positions) / positions
    x = np.sqrt(2) * np.cos(angle + phase[:, None])
    return x + noise * rng.standard_normal(x.shape), y


def wave_problem(richness: float, steps: int = 60, points: int = 6) -> Problem:
    """Convolutional networks that tell the two kinds of waves apart."""
    data = Points(*waves(points, POSITIONS, NOISE, 0), *waves(points, POSITIONS, NOISE, 1))
    convolution = Convolution(POSITIONS, kernel=3)
    network = Wide(2, as_activation("softplus"), richness, centered=True, convolution=convolution)
    return Problem(network, data, GradientDescent(0.25, steps=steps))


def figure_5(
    report: Report,
    widths: Sequence[int] = (64, 256, 1024),
    richness: Sequence[float] = (1.0, 1.4, 2.0),
    seeds: int = 6,
    steps: int = 60,
    points: int = 6,
    samples: int = 4096,
    batches: int = 4,
) -> Figure:
    """Losses and kernel alignment of the limit, and of networks of several widths, at several richnesses."""
    method = SampledLayers(samples=samples, batches=batches)
    figure, grid = new_panels(2, 2, panel=(3.6, 3.2))
    *panels, words = grid.ravel()
    total, done, names = len(richness) * (1 + len(widths)), 0, []
    for colour, gamma in zip(COLOURS, richness, strict=False):
        problem = wave_problem(gamma, steps, points)
        theory = solve(problem, method, save_at=min(steps + 1, 31))
        lines = []
        for panel, name in zip(panels, PANELS, strict=True):
            lines.append(draw_curve(panel, theory, name, colour, layer=_last(name)))
        names.append((lines[-1], f"γ₀ = {gamma:g}"))
        done += 1
        report(done / total)
        for marker, width in zip(MARKERS, widths, strict=False):
            runs = simulate(problem, width, seeds, save_at=min(steps + 1, 13))
            for panel, name in zip(panels, PANELS, strict=True):
                curves = runs[name] if _last(name) is None else runs[name].isel(layer=-1)
                trained = curves.transpose("seed", "step").values
                draw_networks(panel, runs["step"], trained, colour, marker=marker)
            done += 1
            report(done / total)
    for panel, (title, ylabel) in zip(panels, PANELS.values(), strict=True):
        finish(panel, title, xlabel=STEP, ylabel=ylabel, ylim=(0, None))
    name_lines(panels[-1], names, room=0.25)
    letter(panels)
    _explain(words, widths)
    return figure


def _last(name: str) -> int | None:
    """The layer of an observable that is drawn, None for losses."""
    return -1 if name == "alignment" else None


def _explain(panel: Axes, widths: Sequence[int]) -> None:
    """Say in an empty panel what lines and markers are."""
    panel.set_axis_off()
    panel.plot([], [], color=NEUTRAL, lw=1.4, label="theory, N → ∞")
    for marker, width in zip(MARKERS, widths, strict=False):
        look: dict[str, Any] = CIRCLE | {"marker": marker, "label": f"networks, N = {width}"}
        panel.plot([], [], color=NEUTRAL, **look)
    legend_of(panel, loc="center left", fontsize=10, labelspacing=0.9)


register_figures(FACTS, {"wide-5": figure_5}, {"wide-5": lambda: wave_problem(1.4)})
