"""Figure 5 of the paper: at fixed richness the dynamics of convolutional networks hardly depends on their width."""

from collections.abc import Sequence

import xarray as xr
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.papers.captions.convolutional import FACTS
from learndyn.papers.convolutional_network import stripes, train_convolutional
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import COLOURS, STYLES

PANELS = {
    "test_loss": "test loss  ⟨(y − f)²⟩/2",
    "test_error": "test error (share of wrong signs)",
    "alignment": "alignment of the last kernel with yyᵀ",
}


def figure_5(
    report: Report,
    widths: Sequence[int] = (64, 128, 192),
    richness: Sequence[float] = (0.5, 1.0, 2.0),
    seeds: int = 3,
    steps: int = 60,
    points: int = 32,
) -> Figure:
    """Test loss, test error and kernel alignment of networks of several widths and richnesses."""
    train, test = stripes(points, noise=0.5, seed=0), stripes(4 * points, noise=0.5, seed=1)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    total = len(widths) * len(richness) * seeds
    done = 0
    for colour, gamma in zip(COLOURS, richness, strict=False):
        for style, width in zip(STYLES, widths, strict=False):
            runs = []
            for seed in range(seeds):
                run = train_convolutional(
                    *train,
                    *test,
                    channels=width,
                    depth=3,
                    richness=gamma,
                    rate=0.2,
                    steps=steps,
                    seed=seed,
                    every=max(1, steps // 30),
                )
                runs.append(run)
                done += 1
                report(done / total)
            curves = xr.concat(runs, dim="seed")
            for panel, name in zip(axes, PANELS, strict=True):
                mean, spread = curves[name].mean("seed"), curves[name].std("seed", ddof=1)
                label = f"γ₀ = {gamma:g}, N = {width}"
                panel.plot(curves["step"], mean, style, color=colour, lw=1.4, label=label)
                low, high = mean - spread, mean + spread
                panel.fill_between(curves["step"], low, high, color=colour, alpha=0.1, lw=0)
    for panel, (name, words) in zip(axes, PANELS.items(), strict=True):
        panel.set(xlabel="training step t", ylabel=words)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, lw=0.5)
        if name != "alignment":
            panel.set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=7.5, ncols=1)
    return figure


register_figures(
    FACTS,
    {
        "wide-5": figure_5,
    },
)
