"""A map of the delay of the test loss over output scale and activation, which the paper has not."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learndyn.analyses.grokking import LEVEL, drop_time
from learndyn.core.progressing import Report
from learndyn.numerics.times import log_times
from learndyn.papers.captions.delay_map import FACTS
from learndyn.papers.grokking_setting import GrokkingSetting, theory_of
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import POSITIVE, letter, new_panels

LABELS = 0.75
"""⟨y²⟩ of the target y = ρ²/2."""


def delay_map(
    report: Report,
    count: int = 8,
    gamma: float = 3.0,
    horizon: float = 25.0,
    samples: int = 256,
    batches: int = 2,
) -> Figure:
    """The delay over α and ε, at a level relative to the first loss and at a fixed one."""
    alphas, epsilons = np.geomspace(0.1, 2.0, count), np.geomspace(0.1, 0.8, count)
    delays, sampled = np.empty((2, count, count)), {"samples": samples, "batches": batches}
    for row, epsilon in enumerate(epsilons):
        for column, alpha in enumerate(alphas):
            setting = GrokkingSetting(float(alpha), float(epsilon), gamma, horizon / float(epsilon))
            delays[:, row, column] = _delays(setting, sampled)
            report((row * count + column + 1) / count**2)
    figure, panels = new_panels(2, 1, panel=(7.0, 4.6))
    low, high = float(np.nanmin(delays)), float(np.nanmax(delays))
    norm, drawn = LogNorm(low, high), None
    titles = ("below 10 % of the first loss", "below 10 % of ½⟨y²⟩")
    for panel, panel_delays, title in zip(panels.ravel(), delays, titles, strict=True):
        drawn = _draw_cells(panel, alphas, epsilons, panel_delays, norm)
        panel.set_title(f"{title}, γ = {gamma:g}", fontsize=11)
        panel.set_ylabel("quadratic part ε", fontsize=11)
        panel.set_xlabel("output scale α", fontsize=11)
        panel.tick_params(labelsize=10)
    letter(panels.ravel())
    words = f"hatched: the test loss does not drop within the time {horizon:g}/ε"
    figure.supxlabel(words, fontsize=10)
    assert drawn is not None
    bar = figure.colorbar(drawn, ax=panels)
    bar.set_label("delay: test drop / train drop", fontsize=11)
    ticks = [tick for tick in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30) if low <= tick <= high]
    bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    bar.ax.minorticks_off()
    return figure


def _delays(setting: GrokkingSetting, sampled: dict) -> tuple[float, float]:
    """The delay below a tenth of the first loss, and below a tenth of ½⟨y²⟩; NaN where the test loss does not drop."""
    times = log_times(setting.time, 200, first=setting.time / 1000)
    theory = theory_of(setting, setting.steps(0.9), sampled, times)
    at, losses = theory["time"].values, [theory[f"{k}_loss"].values for k in ("train", "test")]
    train, test = (drop_time(at, loss, LEVEL * LABELS / 2 / loss[0]) for loss in losses)
    return float(theory["grokking_delay"]), test / train


def _draw_cells(
    panel: Axes, alphas: np.ndarray, epsilons: np.ndarray, delays: np.ndarray, norm: LogNorm
) -> QuadMesh:
    """Draw one cell for each pair, with its delay as a number; hatched if there is none."""
    places = np.arange(len(alphas))
    drawn = panel.pcolormesh(places, places, np.ma.masked_invalid(delays), norm=norm, cmap=POSITIVE)
    for (row, column), delay in np.ndenumerate(delays):
        if not math.isfinite(delay):
            corner = (column - 0.5, row - 0.5)
            look = {"facecolor": "0.88", "edgecolor": "0.6", "lw": 0, "hatch": "////"}
            panel.add_patch(Rectangle(corner, 1, 1, **look))
            continue
        light = norm(delay) < 0.6
        panel.text(
            column,
            row,
            f"{delay:.1f}",
            ha="center",
            va="center",
            fontsize=11,
            color="white" if light else "black",
        )
    panel.set_xticks(places, [f"{alpha:.2g}" for alpha in alphas])
    panel.set_yticks(places, [f"{epsilon:.2g}" for epsilon in epsilons])
    return drawn


register_figures(
    FACTS,
    {"grokking-map": delay_map},
    {"grokking-map": GrokkingSetting(0.5, 0.3, 3.0, 80.0).problem},
)
