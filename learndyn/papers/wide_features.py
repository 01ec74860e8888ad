"""Figure 1 of the paper on wide networks that learn features: all of its nine panels, on ten images of digits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.wide.finite import WideDescent
from learndyn.families.wide.solve import SampledLayers
from learndyn.papers.captions.wide_features import FACTS
from learndyn.papers.digits import ten_digits
from learndyn.papers.registry import register_figures
from learndyn.papers.wide_panels import (
    LOSS,
    OVER_POINTS,
    STEP,
    RichnessSeries,
    by_target,
    cosine,
    draw_line,
    draw_maps,
    few_states,
    final,
    one_output,
    over_times,
    parts,
    traced,
)
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS

KERNELS = {"Phi": "Φ", "G": "G"}
RICHEST = 2.0
"""γ_0 of all panels but that of the losses."""


def figure_1(
    report: Report,
    size: int = 2500,
    widths: Sequence[int] = (50, 100, 250, 500, 1000, 2500),
    repeats: int = 10,
    steps: int = 100,
    samples: int = 4096,
    batches: int = 8,
    draws: int = 8,
) -> Figure:
    """Losses, preactivations and kernels of a tanh network, theory and finite networks."""
    setting = RichnessSeries(3, "tanh", ten_digits(), 0.1, steps)
    states, method = setting.all_states(), SampledLayers(samples=samples, batches=batches)
    figure = Figure(figsize=(14.0, 9.8), layout="constrained")
    top, *rows = parts(figure, 3, 1, height_ratios=(1.15, 1, 1))
    losses, start, end = top.subplots(1, 3)
    few, theory, run = few_states(states), None, None
    for done, richness in enumerate((0.2, 1.0, RICHEST)):
        problem = setting.problem(richness)
        theory = solve(problem, method, save_at=states)
        run = simulate(problem, size, method=WideDescent(samples=size), save_at=states)
        draw_line(losses, theory, "train_loss", f"γ₀ = {richness:g}", color=COLOURS[done])
        draw_points(losses, few, run["train_loss"].values[:, few], COLOURS[done])
        report(0.15 * (done + 1))
    assert theory is not None
    assert run is not None
    losses.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=f"network, N = {size}")
    finish_panel(losses, "(a) loss", {}, xlabel=STEP, ylabel=LOSS, yscale="log")
    draw_start(start, theory, run, setting)
    draw_end(end, _final_preactivations(setting, samples, draws), run)
    misaligned = misalignments(theory, setting, widths, repeats, report)
    for row, name, letters in zip(rows, KERNELS, ("def", "ghi"), strict=True):
        *maps, curves = parts(row, 1, 3)
        _draw_kernels(maps, name, letters, theory, run, setting)
        _draw_widths(curves.subplots(), name, letters[2], widths, misaligned[name])
    report(1.0)
    return figure


def initial_density(
    theory: Solution, setting: RichnessSeries, layer: int, h: np.ndarray
) -> np.ndarray:
    """The density of the preactivations of a layer at the start: a mean of normal densities over the points.

    Their variances are Φ^{ℓ−1}_μμ(0, 0), and those of the inputs' kernel in the first layer.
    """
    variance = np.diag(setting.points.kernel())
    if layer:
        variance = np.diag(theory["Phi"].isel(layer=layer - 1, step=0, step2=0).values)
    exponent = -(h[:, None] ** 2) / (2 * variance)
    return np.mean(np.exp(exponent) / np.sqrt(2 * np.pi * variance), axis=1)


def draw_start(axes: Axes, theory: Solution, run: Solution, setting: RichnessSeries) -> None:
    """Preactivations of all layers at the start: those of the theory are Gaussian."""
    reach = 1.02 * float(abs(run["preactivation"].isel(step=0)).max())
    h = np.linspace(-reach, reach, 201)
    for layer, colour in enumerate(COLOURS[: setting.depth]):
        density = initial_density(theory, setting, layer, h)
        axes.plot(h, density, color=colour, lw=1.4, label=f"ℓ = {layer + 1}")
        _draw_network_density(axes, run["preactivation"].isel(layer=layer, step=0), reach, colour)
    finish_panel(
        axes, "(b) preactivations at the start", {}, xlabel="preactivation $h^ℓ$", ylabel="density"
    )


def _final_preactivations(setting: RichnessSeries, samples: int, draws: int) -> np.ndarray:
    """Those of the theory (layers × values). A solution has 512 neurons of one batch, so that several are drawn.

    For odd units h and −h have the same law, and both are taken.
    """
    method, problem = SampledLayers(samples=samples, batches=2), setting.problem(RICHEST)
    solutions = [solve(problem, method, save_at=[setting.steps], seed=k) for k in range(draws)]
    h = np.concatenate([x["preactivation"].values.reshape(setting.depth, -1) for x in solutions], 1)
    return np.concatenate([h, -h], axis=1)


def draw_end(axes: Axes, theory: np.ndarray, run: Solution) -> None:
    """Preactivations of all layers at the end: those of the theory (layers × values) are sampled."""
    trained = run["preactivation"].isel(step=-1)
    reach = 1.02 * float(max(abs(theory).max(), abs(trained).max()))
    for layer, h in enumerate(theory):
        label, colour = f"ℓ = {layer + 1}", COLOURS[layer]
        axes.stairs(*_density(h, reach), color=colour, lw=1.4, label=label)
        _draw_network_density(axes, trained.isel(layer=layer), reach, colour)
    title, words = f"(c) preactivations at the end, γ₀ = {RICHEST:g}", "preactivation $h^ℓ$"
    finish_panel(axes, title, {}, xlabel=words, ylabel="density")


def _density(h: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """A histogram and the edges of its bins."""
    return np.histogram(h, np.linspace(-reach, reach, 36), density=True)


def _draw_network_density(axes: Axes, h: xr.DataArray, reach: float, colour: str) -> None:
    density, edges = _density(h.values, reach)
    look: dict[str, Any] = {"ms": 3.0, "mfc": "white", "color": colour}
    axes.plot((edges[1:] + edges[:-1]) / 2, density, "o", **look)


def misalignments(
    theory: Solution,
    setting: RichnessSeries,
    widths: Sequence[int],
    repeats: int,
    report: Report,
) -> dict[str, np.ndarray]:
    """1 − A between the kernels of the theory and of networks (widths × seeds × layers), over all points and times."""
    few, values = few_states(setting.all_states(), 11), {name: [] for name in KERNELS}
    for done, width in enumerate(widths):
        runs = simulate(setting.problem(RICHEST), width, repeats, save_at=few)
        for name in KERNELS:
            expected = one_output(theory[name]).isel(step=few, step2=few).values
            values[name].append(1 - cosine(one_output(runs[name]).values, expected, 4))
        report(0.45 + 0.5 * (done + 1) / len(widths))
    return {name: np.array(each) for name, each in values.items()}


def _draw_kernels(
    blocks: Sequence[Figure | SubFigure],
    name: str,
    letters: str,
    theory: Solution,
    run: Solution,
    setting: RichnessSeries,
) -> None:
    """Kernels at the end, one class after the other, and their traces over both times, of theory and network."""
    kernels = {
        "theory": one_output(theory[name]).values,
        "network": one_output(run[name]).isel(seed=0).values,
    }
    order, layers, symbol = by_target(setting.points), theory["layer"].values, KERNELS[name]
    at_end = {who: final(kernel, order) for who, kernel in kernels.items()}
    words = f"${symbol}^ℓ_{{μα}}(T, T)$"
    title = f"({letters[0]}) {symbol} at the end"
    draw_maps(blocks[0], title, at_end, layers, words=words, **OVER_POINTS)
    traces = {who: traced(kernel) for who, kernel in kernels.items()}
    words, look = f"$Σ_μ {symbol}^ℓ_{{μμ}}(t, s)$", over_times(setting.steps)
    title = f"({letters[1]}) {symbol} over both times"
    draw_maps(blocks[1], title, traces, layers, words=words, **look)


def _draw_widths(
    axes: Axes, name: str, letter: str, widths: Sequence[int], misaligned: np.ndarray
) -> None:
    """1 − A against the width, for every layer."""
    symbol = KERNELS[name]
    for layer in range(misaligned.shape[2]):
        look = {"ls": "-", "lw": 1.2, "label": f"${symbol}^{layer + 1}$"}
        draw_points(axes, widths, misaligned[:, :, layer].T, COLOURS[layer], **look)
    guide = 0.6 * misaligned[0].mean(axis=0).min() * widths[0] / np.array(widths)
    axes.plot(widths, guide, label="∝ 1/N", color="0.5", lw=1, ls=":")
    title = f"({letter}) misalignment of {symbol} with the theory"
    settings = {"xscale": "log", "yscale": "log", "xlabel": "width N"}
    finish_panel(axes, title, {}, ylabel="1 − A(theory, network)", **settings)


register_figures(FACTS, {"wide-1": figure_1})
