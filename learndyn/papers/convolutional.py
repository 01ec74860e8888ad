"""Figure 5 of the paper: convolutional networks of different width at the same richness, here with their limit."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.wide.network import Convolution, Wide
from learndyn.families.wide.solve import SampledLayers
from learndyn.papers.captions.convolutional import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS, SAMPLED_BAND
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

POSITIONS, NOISE = 6, 0.3
MARKERS = ("s", "^", "o")
PANELS = {
    "train_loss": "train loss  ⟨(y − f)²⟩/2",
    "test_loss": "test loss  ⟨(y − f)²⟩/2",
    "alignment": "alignment of the last kernel with yyᵀ",
}


def waves(count: int, positions: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves around a circle, two periods (y = −1) or one (y = 1), with random phases and noise, and their targets y."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(count) % 2, 1.0, -1.0)
    phase = rng.uniform(0, 2 * np.pi, count)
    angle = np.where(y > 0, 1, 2)[:, None] * 2 * np.pi * np.arange(positions) / positions
    x = np.sqrt(2) * np.cos(angle + phase[:, None])
    return x + noise * rng.standard_normal(x.shape), y


def figure_5(
    report: Report,
    widths: Sequence[int] = (64, 256, 1024),
    richness: Sequence[float] = (1.0, 1.4, 2.0),
    seeds: int = 6,
    steps: int = 60,
    points: int = 6,
    samples: int = 8192,
    batches: int = 4,
) -> Figure:
    """Losses and kernel alignment of the limit, and of networks of several widths, at several richnesses."""
    data = Points(*waves(points, POSITIONS, NOISE, 0), *waves(points, POSITIONS, NOISE, 1))
    method = SampledLayers(samples=samples, batches=batches)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    total, done = len(richness) * (1 + len(widths)), 0
    for colour, gamma in zip(COLOURS, richness, strict=False):
        convolution = Convolution(POSITIONS, kernel=3)
        network = Wide(2, as_activation("softplus"), gamma, centered=True, convolution=convolution)
        problem = Problem(network, data, GradientDescent(0.25, steps=steps))
        theory = solve(problem, method, save_at=min(steps + 1, 31))
        for panel, name in zip(axes, PANELS, strict=True):
            values, error = (
                _of_last_layer(theory[name]),
                _of_last_layer(theory.standard_error(name)),
            )
            label = f"γ₀ = {gamma:g}, N → ∞"
            panel.plot(theory["step"], values, color=colour, lw=1.4, label=label)
            low, high = values - 2 * error, values + 2 * error
            panel.fill_between(theory["step"], low, high, color=colour, **SAMPLED_BAND)
        done += 1
        report(done / total)
        for marker, width in zip(MARKERS, widths, strict=False):
            runs = simulate(problem, width, seeds, save_at=min(steps + 1, 13))
            for panel, name in zip(axes, PANELS, strict=True):
                trained = _of_last_layer(runs[name]).transpose("seed", "step").values
                look = {"fmt": marker, "label": f"N = {width}" if colour == COLOURS[0] else None}
                draw_points(panel, runs["step"], trained, colour, **look)
            done += 1
            report(done / total)
    for panel, words in zip(axes, PANELS.values(), strict=True):
        finish_panel(panel, "", xlabel="training step t", ylabel=words, ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=7.5)
    return figure


def _of_last_layer(curve: xr.DataArray | None) -> xr.DataArray:
    """A loss as it is, and the last layer of what layers have."""
    assert curve is not None, "sampled limits have standard errors"
    return curve.isel(layer=-1) if "layer" in curve.dims else curve


register_figures(FACTS, {"wide-5": figure_5})
