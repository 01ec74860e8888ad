"""Figures 2 to 4 of the paper on wide networks that learn features, reproduced on random points."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.wide.solve import (
    GradientIndependence,
    LinearRows,
    Perturbative,
    SampledLayers,
    StaticKernel,
)
from learndyn.papers.captions.wide import FACTS
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
    equal_times,
    few_states,
    final,
    one_output,
    over_times,
    parts,
    traced,
)
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS, SAMPLED_BAND, THEORY_COLOUR
from learndyn.problem.points import Points

TRIVIAL = 0.01
"""A tangent kernel that has fallen to this share of its initial trace is called trivial."""


def figure_2(
    report: Report, size: int = 1000, seeds: int = 4, steps: int = 60, points: int = 20
) -> Figure:
    """Deep linear networks of several depths: losses, kernels, and how far these move."""
    data = Points.random(points, 2 * points, seed=0)
    order, richness, states = by_target(data), 1.0, steps + 1
    figure = Figure(figsize=(9.0, 11.6), layout="constrained")
    top, middle, *bottom = parts(figure, 4, 1, height_ratios=(1, 1.2, 0.85, 0.85))
    losses, moving = top.subplots(1, 2)
    theory = network = None
    depths, few = (1, 2, 5), few_states(states)
    for done, depth in enumerate(depths):
        problem = RichnessSeries(depth, "linear", data, 0.1, steps).problem(richness)
        theory = solve(problem, save_at=states)
        runs = simulate(problem, size, seeds, save_at=few)
        network, colour = runs["Phi"].values, COLOURS[done]
        draw_line(losses, theory, "train_loss", f"L = {depth}", color=colour)
        draw_points(losses, few, runs["train_loss"].values, colour)
        now = equal_times(theory["Phi"].values)
        aligned = cosine(now, now[:, :1], 2).mean(axis=0)
        moving.plot(np.arange(states), aligned, color=colour, lw=1.4)
        now = equal_times(network)
        draw_points(moving, few, cosine(now, now[:, :, :1], 2).mean(axis=1), colour)
        report((done + 1) / len(depths) * 0.95)
    assert theory is not None
    assert network is not None
    label = f"training, N = {size}"
    losses.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=label)
    finish_panel(losses, "(a) loss", {}, xlabel=STEP, ylabel=LOSS, yscale="log")
    words = "$A(H^ℓ(t, t), H^ℓ(0, 0))$"
    title = "(b) kernels against their start, mean over layers"
    finish_panel(moving, title, xlabel=STEP, ylabel=words)
    H, layers = theory["Phi"].values, theory["layer"].values
    rows = {"theory": final(H, order), "network": final(network[0], order)}
    title, words = "(c) L = 5, kernels at the end", "$H^ℓ_{μα}(T, T)$"
    draw_maps(middle, title, rows, layers, words=words, **OVER_POINTS)
    # Linear units have the same gradient on every point.
    G = one_output(theory["G"]).isel(point=0, point2=0).values
    title = "(d) L = 5, gradient kernels over times"
    look = {"words": "$G^ℓ(t, s)$", **over_times(steps)}
    draw_maps(bottom[0], title, {"theory": G}, layers, **look)
    title = "(e) L = 5, feature kernels over times"
    look["words"] = "$Σ_μ H^ℓ_{μμ}(t, s)/P$"
    draw_maps(bottom[1], title, {"theory": traced(H) / points}, layers, **look)
    report(1.0)
    return figure


def figure_3(
    report: Report,
    size: int = 1000,
    seeds: int = 3,
    steps: int = 200,
    richnesses: Sequence[float] = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0),
    samples: int = 1024,
    batches: int = 4,
) -> Figure:
    """A relu network with weight decay, which forgets what it learned unless features move enough."""
    setting = RichnessSeries(1, "relu", Points.random(6, 10, seed=0), 0.3, steps, weight_decay=0.1)
    method, states = SampledLayers(samples=samples, batches=batches), setting.all_states()
    few = few_states(states, 17)
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    losses, aligned = figure.subplots(1, 2)
    drawn = [value for value in (0.2, 0.5, 1.0, 2.0, 4.0) if value in richnesses]
    final, errors, shares, trained = [], [], [], []
    for done, richness in enumerate(richnesses):
        problem = setting.problem(richness)
        theory = solve(problem, method, save_at=few if richness not in drawn else states)
        runs = simulate(problem, size, seeds, save_at=few)
        if richness in drawn:
            colour = COLOURS[drawn.index(richness)]
            draw_line(losses, theory, "train_loss", f"γ₀ = {richness:g}", color=colour)
            draw_points(losses, few, runs["train_loss"].values, colour)
        error = theory.standard_error("alignment")
        assert error is not None
        final.append(theory["alignment"].values[0, -1])
        errors.append(error.values[0, -1])
        shares.append(kernel_share(theory))
        trained.append(runs["alignment"].values[:, 0, -1])
        report((done + 1) / len(richnesses))
    losses.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=f"training, N = {size}")
    title, legend = "(a) loss without the penalty", {"loc": "upper center", "ncols": 3}
    finish_panel(losses, title, legend, xlabel=STEP, ylabel=LOSS, ylim=(0, 0.68))
    _draw_alignments(aligned, richnesses, final, errors, shares, trained, size)
    return figure


def kernel_share(solution: Solution) -> float:
    """Tr K(T)/Tr K(0) of the tangent kernel."""
    trace = np.einsum("tmcmc->t", solution["kernel"].values)
    return float(trace[-1] / trace[0])


def _draw_alignments(
    axes: Axes,
    richnesses: Sequence[float],
    final: Sequence[float],
    errors: Sequence[float],
    shares: Sequence[float],
    trained: Sequence[np.ndarray],
    size: int,
) -> None:
    """Draw the final alignment with the targets; values of γ_0 at which the kernel vanishes are shaded."""
    x = np.array(richnesses, dtype=float)
    values, spread = np.array(final, dtype=float), np.array(errors, dtype=float)
    look: dict[str, Any] = {"color": THEORY_COLOUR, "lw": 1.4}
    axes.plot(x, values, label="theory", **look)
    axes.fill_between(x, values - 2 * spread, values + 2 * spread, color="0.2", **SAMPLED_BAND)
    runs = np.array(trained).T
    draw_points(axes, x, runs, COLOURS[0], label=f"training, N = {size}")
    vanished = x[np.array(shares) < TRIVIAL]
    if len(vanished) and vanished.max() < x.max():
        edge = np.sqrt(vanished.max() * x[x > vanished.max()].min())
        axes.axvspan(x.min() / 1.2, edge, fc="0.88", ec="0.6", zorder=0, label="K → 0, f → 0")
    words = "$y^⊤Φ^1(T, T)y/(|Φ^1||yy^⊤|)$"
    settings = {"xscale": "log", "xlim": (x.min() / 1.2, x.max() * 1.2), "xlabel": "richness γ₀"}
    title = "(b) alignment of the final kernel with the targets"
    finish_panel(axes, title, {"loc": "lower right"}, ylabel=words, **settings)


THEORIES = {
    "full theory": LinearRows(),
    "static kernel": StaticKernel(),
    "gradient independence": GradientIndependence(),
    "order γ₀²": Perturbative(),
}


def figure_4(
    report: Report,
    size: int = 1000,
    steps: int = 60,
    points: int = 20,
    richnesses: Sequence[float] = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0),
    shown: float = 1.5,
) -> Figure:
    """The full theory and three approximations against a deep linear network."""
    setting = RichnessSeries(5, "linear", Points.random(points, 2 * points, seed=0), 0.06, steps)
    order, states = by_target(setting.points), setting.all_states()
    few = few_states(states, 31)
    figure = Figure(figsize=(15.0, 9.6), layout="constrained")
    top, bottom = parts(figure, 2, 1, height_ratios=(1, 2.2))
    losses, aligned = top.subplots(1, 2)
    alignments: dict[str, list] = {name: [] for name in THEORIES}
    ends, times = {}, {}
    for done, richness in enumerate(richnesses):
        problem = setting.problem(richness)
        run = simulate(problem, size, 1, save_at=few)
        network = run["Phi"].values[0]
        for number, (name, method) in enumerate(THEORIES.items()):
            theory = solve(problem, method, save_at=states)
            Phi = theory["Phi"].isel(step=few, step2=few).values
            alignments[name].append(cosine(Phi, network, 4).mean())
            if richness == shown:
                look = {"color": (THEORY_COLOUR, *COLOURS)[number]}
                draw_line(losses, theory, "train_loss", name, **look)
                ends[name] = final(Phi, order)
                times[name] = traced(Phi) / points
        if richness == shown:
            draw_points(losses, few, run["train_loss"].values, "0.4", label=f"network, N = {size}")
            ends = {"network": final(network, order)} | ends
            times = {"network": traced(network) / points} | times
        report((done + 1) / len(richnesses))
    for number, (name, values) in enumerate(alignments.items()):
        colour = (THEORY_COLOUR, *COLOURS)[number]
        aligned.plot(richnesses, values, "o-", color=colour, ms=3.5, lw=1.4, label=name)
    finish_panel(losses, f"(a) loss, γ₀ = {shown:g}", {}, xlabel=STEP, ylabel=LOSS, yscale="log")
    words = "$A(H^ℓ, H^ℓ_{NN})$, mean over ℓ"
    title = "(b) alignment with the network's kernels"
    finish_panel(aligned, title, {"loc": "lower left"}, xlabel="richness γ₀", ylabel=words)
    left, right = parts(bottom, 1, 2)
    layers = range(1, setting.depth + 1)
    look = {"words": "$H^ℓ_{μα}(T, T)$", "scale": ("network", "full theory"), **OVER_POINTS}
    draw_maps(left, f"(c) kernels at the end, γ₀ = {shown:g}", ends, layers, **look)
    look |= {"words": "$Σ_μ H^ℓ_{μμ}(t, s)/P$", **over_times(steps)}
    draw_maps(right, f"(d) kernels over times, γ₀ = {shown:g}", times, layers, **look)
    return figure


register_figures(
    FACTS,
    {
        "wide-2": figure_2,
        "wide-3": figure_3,
        "wide-4": figure_4,
    },
)
