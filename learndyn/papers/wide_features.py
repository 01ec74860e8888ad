"""Figure 1 of the paper on wide networks that learn features: all of its nine panels, on ten images of digits."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import ColorType

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
    STEP,
    RichnessSeries,
    by_target,
    cosine,
    draw_curve,
    draw_maps,
    few_states,
    final,
    one_output,
    over_points,
    over_times,
    parts,
    traced,
)
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    GUIDE,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)

KERNELS = {"Phi": "Φ", "G": "G"}
RICHEST = 2.0
"""γ_0 of all panels but that of the losses."""


def digit_series(steps: int = 100) -> RichnessSeries:
    """Tanh networks on ten images of digits."""
    return RichnessSeries(3, "tanh", ten_digits(), 0.1, steps)


def figure_1(
    report: Report,
    size: int = 2500,
    seeds: int = 3,
    widths: Sequence[int] = (50, 100, 250, 500, 1000, 2500),
    repeats: int = 10,
    steps: int = 100,
    samples: int = 4096,
    batches: int = 4,
    draws: int = 8,
) -> Figure:
    """Losses and preactivations of a tanh network, theory and finite networks, and how far their kernels differ."""
    setting = digit_series(steps)
    few, method = (
        few_states(setting.all_states(), 11),
        SampledLayers(samples=samples, batches=batches),
    )
    figure, panels = new_panels(2, 2, panel=(3.6, 3.2))
    losses, start, end, apart = panels.ravel()
    theory, runs, names = None, None, []
    for done, (richness, colour) in enumerate(zip((0.2, 1.0, RICHEST), COLOURS, strict=False)):
        problem = setting.problem(richness)
        theory = solve(problem, method, save_at=setting.all_states())
        runs = simulate(problem, size, seeds, method=WideDescent(samples=size), save_at=few)
        line = draw_curve(losses, theory, "train_loss", colour)
        draw_networks(losses, few, runs["train_loss"].values, colour)
        names.append((line, f"γ₀ = {richness:g}"))
        report(0.15 * (done + 1))
    assert theory is not None
    assert runs is not None
    finish(losses, "loss", xlabel=STEP, ylabel=LOSS, yscale="log")
    name_lines(losses, names, room=0.25)
    legend_of(losses, f"networks, N = {size}", loc="lower left")
    draw_start(start, theory, runs, setting)
    draw_end(end, _final_preactivations(setting, samples, draws), runs)
    _draw_widths(apart, widths, misalignments(theory, setting, widths, repeats, report))
    letter(panels.ravel())
    report(1.0)
    return figure


def figure_1_kernels(
    report: Report, size: int = 2500, steps: int = 100, samples: int = 4096, batches: int = 4
) -> Figure:
    """Feature and gradient kernels of a tanh network, at the end and over both times, of theory and network."""
    setting = digit_series(steps)
    problem, few = setting.problem(RICHEST), few_states(setting.all_states(), 51)
    theory = solve(problem, SampledLayers(samples=samples, batches=batches), save_at=few)
    report(0.5)
    run = simulate(problem, size, save_at=few)
    figure = Figure(figsize=(7.4, 7.4), layout="constrained")
    blocks = parts(figure, 4, 1)
    order, layers = by_target(setting.points), range(1, setting.depth + 1)
    columns = [f"{who}, ℓ = {layer}" for who in ("theory", "network") for layer in layers]
    for number, (name, symbol) in enumerate(KERNELS.items()):
        at_end, over_both = blocks[2 * number : 2 * number + 2]
        first, second = "abcd"[2 * number : 2 * number + 2]
        kernels = [one_output(theory[name]).values, one_output(run[name]).isel(seed=0).values]
        rows = {"": np.concatenate([final(kernel, order) for kernel in kernels])}
        title, words = f"({first}) {symbol} at the end", f"${symbol}^ℓ_{{μα}}(T, T)$"
        draw_maps(at_end, title, rows, over_points(setting.points), words, columns=columns)
        rows = {"": np.concatenate([traced(kernel) for kernel in kernels])}
        title, words = f"({second}) {symbol} over both times", f"$Σ_μ {symbol}^ℓ_{{μμ}}(t, s)$"
        draw_maps(over_both, title, rows, over_times(steps), words, columns=columns)
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


def draw_start(panel: Axes, theory: Solution, runs: Solution, setting: RichnessSeries) -> None:
    """Preactivations of all layers at the start: those of the theory are Gaussian."""
    at_start = runs["preactivation"].isel(step=0)
    reach = 1.02 * float(abs(at_start).max())
    h = np.linspace(-reach, reach, 201)
    for layer, colour in enumerate(COLOURS[: setting.depth]):
        density = initial_density(theory, setting, layer, h)
        draw_theory(panel, h, density, colour, f"ℓ = {layer + 1}")
        _draw_network_density(panel, at_start.isel(layer=layer), reach, colour)
    finish(panel, "preactivations at the start", xlabel="preactivation $h^ℓ$", ylabel="density")
    legend_of(panel)


def _final_preactivations(setting: RichnessSeries, samples: int, draws: int) -> np.ndarray:
    """Those of the theory (layers × values). A solution has 512 neurons of one batch, so that several are drawn.

    For odd units h and −h have the same law, and both are taken.
    """
    method, problem = SampledLayers(samples=samples, batches=2), setting.problem(RICHEST)
    solutions = [solve(problem, method, save_at=[setting.steps], seed=k) for k in range(draws)]
    h = np.concatenate([x["preactivation"].values.reshape(setting.depth, -1) for x in solutions], 1)
    return np.concatenate([h, -h], axis=1)


def draw_end(panel: Axes, theory: np.ndarray, runs: Solution) -> None:
    """Preactivations of all layers at the end: those of the theory (layers × values) are sampled."""
    trained = runs["preactivation"].isel(step=-1)
    reach = 1.02 * float(max(abs(theory).max(), abs(trained).max()))
    for layer, (h, colour) in enumerate(zip(theory, COLOURS, strict=False)):
        panel.stairs(*_density(h, reach), color=colour, lw=1.4)
        _draw_network_density(panel, trained.isel(layer=layer), reach, colour)
    title = f"the same at the end, γ₀ = {RICHEST:g}"
    finish(panel, title, xlabel="preactivation $h^ℓ$", ylabel="density")


def _density(h: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """A histogram and the edges of its bins."""
    return np.histogram(h, np.linspace(-reach, reach, 36), density=True)


def _draw_network_density(panel: Axes, h: xr.DataArray, reach: float, colour: ColorType) -> None:
    density, edges = _density(h.values, reach)
    panel.plot((edges[1:] + edges[:-1]) / 2, density, color=colour, **CIRCLE)


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


def _draw_widths(panel: Axes, widths: Sequence[int], misaligned: dict[str, np.ndarray]) -> None:
    """1 − A against the width, for both kernels of every layer."""
    for (name, symbol), style in zip(KERNELS.items(), ("-", "--"), strict=True):
        for layer, colour in enumerate(COLOURS[: misaligned[name].shape[2]]):
            look = {"ls": style, "lw": 1.2, "label": f"${symbol}^{layer + 1}$"}
            draw_networks(panel, widths, misaligned[name][:, :, layer].T, colour, **look)
    lowest = min(each[0].mean(axis=0).min() for each in misaligned.values())
    guide = 0.5 * lowest * widths[0] / np.array(widths)
    panel.plot(widths, guide, ls=":", label="∝ 1/N", **GUIDE)
    settings = {"xscale": "log", "yscale": "log", "xlabel": "width N"}
    finish(panel, "kernels and the theory", ylabel="1 − A(theory, network)", **settings)
    legend_of(panel, ncols=2, loc="upper right")


register_figures(
    FACTS,
    {"wide-1": figure_1, "wide-1-kernels": figure_1_kernels},
    dict.fromkeys(("wide-1", "wide-1-kernels"), lambda: digit_series().problem(RICHEST)),
)
