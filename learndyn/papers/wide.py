"""Figures 2 to 4 of the paper on wide networks that learn features, reproduced on random points."""

from collections.abc import Callable, Sequence

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
    STEP,
    RichnessSeries,
    by_target,
    cosine,
    draw_curve,
    draw_maps,
    equal_times,
    few_states,
    final,
    one_output,
    over_points,
    over_times,
    parts,
    traced,
)
from learndyn.pictures.style import (
    COLOURS,
    RUNS_COLOUR,
    THEORY_COLOUR,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem

WIDTH = 7.0
"""The width of figures with maps, in inches."""
TRIVIAL = 0.01
"""A tangent kernel that has fallen to this share of its initial trace is called trivial."""


def linear_series(depth: int, rate: float, steps: int, points: int = 20) -> RichnessSeries:
    """Linear networks on random points with targets ±1."""
    return RichnessSeries(depth, "linear", Points.random(points, 2 * points, seed=0), rate, steps)


def figure_2(
    report: Report, size: int = 1000, seeds: int = 4, steps: int = 60, points: int = 20
) -> Figure:
    """Deep linear networks of several depths: losses, kernels, and how far these move."""
    figure = Figure(figsize=(WIDTH, 12.4), layout="constrained")
    top, *maps = parts(figure, 4, 1, height_ratios=(1.1, 1.1, 1, 1))
    losses, moving = top.subplots(1, 2)
    theory = runs = None
    depths, few, names = (1, 2, 5), few_states(steps + 1, 16), []
    for done, (depth, colour) in enumerate(zip(depths, COLOURS, strict=False)):
        problem = linear_series(depth, 0.1, steps, points).problem(1.0)
        theory = solve(problem, save_at=steps + 1)
        runs = simulate(problem, size, seeds, save_at=few)
        line = draw_curve(losses, theory, "train_loss", colour)
        draw_networks(losses, few[::2], runs["train_loss"].values[:, ::2], colour)
        now = equal_times(theory["Phi"].values)
        aligned = cosine(now, now[:, :1], 2).mean(axis=0)
        other = draw_theory(moving, theory["step"], aligned, colour)
        now = equal_times(runs["Phi"].values)
        trained = cosine(now, now[:, :, :1], 2).mean(axis=1)
        draw_networks(moving, few[::2], trained[:, ::2], colour)
        names.append((line, other, f"L = {depth}"))
        report((done + 1) / len(depths) * 0.95)
    assert theory is not None
    assert runs is not None
    finish(losses, "loss", xlabel=STEP, ylabel=LOSS, yscale="log")
    words = "$A(H^ℓ(t, t), H^ℓ(0, 0))$, mean over ℓ"
    finish(moving, "kernels against their start", xlabel=STEP, ylabel=words)
    name_lines(losses, [(line, name) for line, _, name in names])
    name_lines(moving, [(line, name) for _, line, name in names])
    legend_of(losses, f"networks, N = {size}", loc="lower left")
    letter((losses, moving))
    _draw_kernels_of_depth(maps, theory, runs, few, points)
    report(1.0)
    return figure


def _draw_kernels_of_depth(
    blocks: list, theory: Solution, runs: Solution, few: np.ndarray, points: int
) -> None:
    """Kernels of the deepest network at the end and over both times, of the theory and of the first network."""
    data = theory.problem.data
    order, over_both = by_target(data), over_times(int(few[-1]))
    # As many times of the theory as of the network.
    H = theory["Phi"].isel(step=few, step2=few).values
    trained = runs["Phi"].values[0]
    rows = {"theory": final(H, order), "network": final(trained, order)}
    title = "(c) feature kernels at the end, L = 5"
    draw_maps(blocks[0], title, rows, over_points(data), "$H^ℓ_{μα}(T, T)$")
    rows = {"theory": traced(H) / points, "network": traced(trained) / points}
    title = "(d) feature kernels over both times, L = 5"
    draw_maps(blocks[1], title, rows, over_both, "$Σ_μ H^ℓ_{μμ}(t, s)/P$")
    # Linear units have the same gradient on every point.
    G, trained = (one_output(x["G"]).isel(point=0, point2=0) for x in (theory, runs))
    title = "(e) gradient kernels over both times, L = 5"
    rows = {"theory": G.isel(step=few, step2=few).values, "network": trained.values[0]}
    draw_maps(blocks[2], title, rows, over_both, "$G^ℓ(t, s)$", log=True)


def decaying_series(steps: int = 200) -> RichnessSeries:
    """Relu networks whose weights decay."""
    return RichnessSeries(1, "relu", Points.random(6, 10, seed=0), 0.3, steps, weight_decay=0.1)


def figure_3(
    report: Report,
    size: int = 1000,
    seeds: int = 6,
    steps: int = 200,
    richnesses: Sequence[float] = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0),
    samples: int = 1024,
    batches: int = 4,
) -> Figure:
    """A relu network with weight decay, which forgets what it learned unless features move enough."""
    setting, method = decaying_series(steps), SampledLayers(samples=samples, batches=batches)
    states = setting.all_states()
    few = few_states(states, 17)
    figure, ((losses, aligned),) = new_panels(1, 2, panel=(3.6, 3.4))
    drawn = [value for value in (0.2, 0.5, 1.0, 2.0, 4.0) if value in richnesses]
    final, errors, shares, trained, names = [], [], [], [], []
    for done, richness in enumerate(richnesses):
        problem = setting.problem(richness)
        theory = solve(problem, method, save_at=few if richness not in drawn else states)
        runs = simulate(problem, size, seeds, save_at=few)
        if richness in drawn:
            colour = COLOURS[drawn.index(richness)]
            line = draw_curve(losses, theory, "train_loss", colour)
            draw_networks(losses, few, runs["train_loss"].values, colour)
            names.append((line, f"γ₀ = {richness:g}"))
        error = theory.standard_error("alignment")
        assert error is not None
        final.append(theory["alignment"].values[0, -1])
        errors.append(error.values[0, -1])
        shares.append(kernel_share(theory))
        trained.append(runs["alignment"].values[:, 0, -1])
        report((done + 1) / len(richnesses))
    finish(losses, "loss without the penalty", xlabel=STEP, ylabel=LOSS, ylim=(0, 0.68))
    name_lines(losses, names, room=0.25)
    legend_of(losses, f"networks, N = {size}", loc="upper right")
    _draw_alignments(aligned, richnesses, final, errors, shares, trained)
    letter((losses, aligned))
    return figure


def kernel_share(solution: Solution) -> float:
    """Tr K(T)/Tr K(0) of the tangent kernel."""
    trace = np.einsum("tmcmc->t", solution["kernel"].values)
    return float(trace[-1] / trace[0])


def _draw_alignments(
    panel: Axes,
    richnesses: Sequence[float],
    final: Sequence[float],
    errors: Sequence[float],
    shares: Sequence[float],
    trained: Sequence[np.ndarray],
) -> None:
    """Draw the final alignment with the targets; values of γ_0 at which the kernel vanishes are shaded."""
    x = np.array(richnesses, dtype=float)
    draw_theory(panel, x, final, error=errors)
    draw_networks(panel, x, np.array(trained).T, RUNS_COLOUR)
    vanished = x[np.array(shares) < TRIVIAL]
    if len(vanished) and vanished.max() < x.max():
        edge = np.sqrt(vanished.max() * x[x > vanished.max()].min())
        panel.axvspan(x.min() / 1.2, edge, fc="0.92", ec="none", zorder=0)
        panel.text(
            0.02, 0.98, "K → 0, f → 0", transform=panel.transAxes, fontsize=8, va="top", color="0.3"
        )
    words = "$y^⊤Φ^1(T, T)y/(|Φ^1||yy^⊤|)$"
    settings = {"xscale": "log", "xlim": (x.min() / 1.2, x.max() * 1.2), "xlabel": "richness γ₀"}
    finish(panel, "final kernel and targets", ylabel=words, **settings)


THEORIES = {
    "full theory": LinearRows(),
    "static kernel": StaticKernel(),
    "gradient independence": GradientIndependence(),
    "order γ₀²": Perturbative(),
}
OF_THEORIES = (THEORY_COLOUR, *COLOURS)
SHOWN = 1.5
"""γ_0 of the panels with losses and kernels of all approximations."""


def figure_4(
    report: Report,
    size: int = 1000,
    seeds: int = 3,
    steps: int = 60,
    points: int = 20,
    richnesses: Sequence[float] = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0),
) -> Figure:
    """The full theory and three approximations against deep linear networks: losses, alignment, final kernels."""
    setting = linear_series(5, 0.06, steps, points)
    few = few_states(setting.all_states(), 31)
    figure = Figure(figsize=(WIDTH, 9.4), layout="constrained")
    top, bottom = parts(figure, 2, 1, height_ratios=(1, 2.1))
    losses, aligned = top.subplots(1, 2)
    alignments: dict[str, list] = {name: [] for name in THEORIES}
    kernels = {}
    for done, richness in enumerate(richnesses):
        problem = setting.problem(richness)
        runs = simulate(problem, size, seeds, save_at=few)
        networks = runs["Phi"].values
        for colour, (name, method) in zip(OF_THEORIES, THEORIES.items(), strict=False):
            theory = solve(problem, method, save_at=setting.all_states())
            Phi = theory["Phi"].isel(step=few, step2=few).values
            alignments[name].append(cosine(networks, Phi, 4).mean(axis=1))
            if richness == SHOWN:
                draw_curve(losses, theory, "train_loss", colour, name)
                kernels[name] = Phi
        if richness == SHOWN:
            label = f"networks, N = {size}"
            draw_networks(losses, few[::2], runs["train_loss"].values[:, ::2], "0.4", label)
            kernels = {"network": networks[0]} | kernels
        report((done + 1) / len(richnesses))
    for colour, (name, values) in zip(OF_THEORIES, alignments.items(), strict=False):
        look = {"ls": "-", "lw": 1.4}
        draw_networks(aligned, richnesses, np.array(values).T, colour, name, **look)
    finish(losses, f"loss, γ₀ = {SHOWN:g}", xlabel=STEP, ylabel=LOSS, yscale="log")
    legend_of(losses, loc="lower left")
    words = "$A(H^ℓ, H^ℓ_{NN})$, mean over ℓ"
    finish(aligned, "alignment with networks", xlabel="richness γ₀", ylabel=words)
    letter((losses, aligned))
    order = by_target(setting.points)
    ends = {name.replace(" ", "\n"): final(kernel, order) for name, kernel in kernels.items()}
    title = f"(c) kernels at the end, γ₀ = {SHOWN:g}"
    scale = list(ends)[:2]
    draw_maps(bottom, title, ends, over_points(setting.points), "$H^ℓ_{μα}(T, T)$", scale)
    return figure


def figure_4_times(report: Report, size: int = 1000, steps: int = 60, points: int = 20) -> Figure:
    """Kernels over both times, of the network, the full theory and three approximations."""
    setting = linear_series(5, 0.06, steps, points)
    few = few_states(setting.all_states(), 31)
    problem = setting.problem(SHOWN)
    rows = {"network": traced(simulate(problem, size, save_at=few)["Phi"].values[0]) / points}
    for done, (name, method) in enumerate(THEORIES.items()):
        theory = solve(problem, method, save_at=setting.all_states())
        Phi = theory["Phi"].isel(step=few, step2=few).values
        rows[name.replace(" ", "\n")] = traced(Phi) / points
        report((done + 1) / len(THEORIES))
    figure = Figure(figsize=(WIDTH, 6.6), layout="constrained")
    title = f"kernels over both times, γ₀ = {SHOWN:g}"
    words, scale = "$Σ_μ H^ℓ_{μμ}(t, s)/P$", list(rows)[:2]
    draw_maps(figure, title, rows, over_times(steps), words, scale)
    return figure


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "wide-2": lambda: linear_series(5, 0.1, 60).problem(1.0),
    "wide-3": lambda: decaying_series().problem(1.0),
    "wide-4": lambda: linear_series(5, 0.06, 60).problem(SHOWN),
    "wide-4-times": lambda: linear_series(5, 0.06, 60).problem(SHOWN),
}
register_figures(
    FACTS,
    {
        "wide-2": figure_2,
        "wide-3": figure_3,
        "wide-4": figure_4,
        "wide-4-times": figure_4_times,
    },
    PROBLEMS,
)
