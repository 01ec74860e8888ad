"""Figures 1 to 4 of the paper on wide networks that learn features, reproduced on random points."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.wide.finite import WideDescent
from learndyn.families.wide.network import Wide
from learndyn.families.wide.solve import (
    GradientIndependence,
    LinearRows,
    Perturbative,
    SampledLayers,
    StaticKernel,
)
from learndyn.papers.captions.wide import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import (
    COLOURS,
    SAMPLED_BAND,
    THEORY_COLOUR,
    draw_points,
    finish_panel,
)
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

STEP, LOSS = "training step t", "train loss  ⟨(y − f)²⟩/2"
KERNELS, TIMES = "magma", "viridis"
"""Colours of kernels over points, and over times."""
TRIVIAL = 0.01
"""A tangent kernel that has fallen to this share of its initial trace is called trivial."""


class RichnessSeries(NamedTuple):
    """Wide networks that differ only in γ_0, and their training; the loss is the mean over points.

    - `depth` (L), `activation` (φ): those of `Wide`.
    - `points`: inputs and targets.
    - `rate` (η), `steps`: learning rate and number of steps.
    - `weight_decay` (λ): 0 unless given.
    """

    depth: int
    activation: str
    points: Points
    rate: float
    steps: int
    weight_decay: float = 0.0

    def problem(self, richness: float) -> Problem:
        """The problem at this γ_0. Finite networks have their initial function subtracted, unless weights decay.

        With decay a network forgets its initial function, but not what was subtracted.
        """
        activation = as_activation(self.activation)
        network = Wide(self.depth, activation, richness, centered=self.weight_decay == 0)
        training = GradientDescent(self.rate, steps=self.steps, weight_decay=self.weight_decay)
        return Problem(network, self.points, training)

    def all_states(self) -> int:
        """The number of states, if all of them are recorded."""
        return self.steps + 1


def cosine(first: np.ndarray, second: np.ndarray, axes: int) -> np.ndarray:
    """The alignment A(X, Y) = ΣXY/(|X||Y|), sums over the last `axes` axes."""
    over = tuple(range(-axes, 0))
    products = [np.sum(a * b, axis=over) for a, b in ((first, second), (first, first))]
    return products[0] / np.sqrt(products[1] * np.sum(second * second, axis=over))


def one_output(array: xr.DataArray) -> xr.DataArray:
    """An observable of networks with one output, without the axes of outputs."""
    axes = [axis for axis in ("output", "output2") if axis in array.dims]
    return array.squeeze(axes, drop=True)


def equal_times(kernel: np.ndarray) -> np.ndarray:
    """X(t, t) (…, states, points, points) from X (…, states, points, states, points)."""
    return np.einsum("...tmtn->...tmn", kernel)


def traced(kernel: np.ndarray) -> np.ndarray:
    """Σ_μ X_μμ(t, s) (…, states, states) from X (…, states, points, states, points)."""
    return np.einsum("...tmsm->...ts", kernel)


def by_target(points: Points) -> np.ndarray:
    """The trained points with negative targets first."""
    return np.argsort(points.targets, kind="stable")


def _final(kernel: np.ndarray, order: np.ndarray) -> np.ndarray:
    """X(T, T) with the points in this order."""
    return equal_times(kernel)[..., -1, order, :][..., order]


def _draw_line(axes: Axes, theory: Solution, name: str, label: str | None, **look: Any) -> None:
    """Draw an observable of the theory, with a band of two standard errors if it was sampled."""
    steps, values, error = theory["step"].values, theory[name].values, theory.standard_error(name)
    axes.plot(steps, values, label=label, **({"lw": 1.4, "zorder": 3} | look))
    if error is not None:
        low, high = values - 2 * error.values, values + 2 * error.values
        axes.fill_between(steps, low, high, color=look["color"], **SAMPLED_BAND)


def _parts(figure: Figure | SubFigure, rows: int, columns: int, **ratios: Any) -> list:
    """The parts of a figure, each with its own panels and title."""
    return list(figure.subfigures(rows, columns, squeeze=False, **ratios).ravel())


def _few_states(states: int, count: int = 12) -> np.ndarray:
    """A few equally spaced states, at which networks are drawn as points."""
    return np.unique(np.linspace(0, states - 1, count).round().astype(int))


def _draw_maps(
    block: Figure | SubFigure,
    title: str,
    rows: dict[str, np.ndarray],
    layers: Sequence[int] | np.ndarray,
    **look: Any,
) -> None:
    """Draw heat maps, a row for each name and a column for each layer, with one colour scale.

    `axis` are the labels of the axes and `words` that of the colours. The colour scale spans the values of all rows, or
    of the rows named in `scale`.
    """
    axis, words, scale = look.pop("axis"), look.pop("words"), look.pop("scale", tuple(rows))
    values = np.concatenate([np.ravel(rows[name]) for name in scale])
    norm = Normalize(min(0.0, values.min()), values.max())
    panels = block.subplots(len(rows), len(layers), squeeze=False, sharex=True, sharey=True)
    image = None
    for row, (name, maps) in zip(panels, rows.items(), strict=True):
        for axes, heat_map, layer in zip(row, maps, layers, strict=True):
            image = axes.imshow(heat_map, norm=norm, origin="lower", interpolation="none", **look)
            axes.tick_params(labelsize=7)
            if axes in panels[0]:
                axes.set_title(f"ℓ = {layer}", fontsize=8)
            if axes in panels[-1]:
                axes.set_xlabel(axis[0], fontsize=8)
        row[0].set_ylabel(f"{name}\n{axis[1]}", fontsize=7)
    block.suptitle(title, fontsize=10)
    extend = "neither" if len(scale) == len(rows) else "both"
    assert image is not None
    bar = block.colorbar(image, ax=panels, shrink=0.85, pad=0.02, extend=extend)
    bar.set_label(words, fontsize=8)
    bar.ax.tick_params(labelsize=7)


OVER_POINTS: dict[str, Any] = {"axis": ("point α", "point μ"), "cmap": KERNELS}


def _over_times(steps: int) -> dict[str, Any]:
    """How `_draw_maps` draws functions of two times."""
    return {"axis": ("step s", "step t"), "cmap": TIMES, "extent": (0, steps, 0, steps)}


def figure_1(
    report: Report,
    size: int = 1000,
    seeds: int = 4,
    widths: Sequence[int] = (100, 200, 500, 1000, 2000),
    repeats: int = 6,
    steps: int = 30,
    samples: int = 1024,
    batches: int = 4,
) -> Figure:
    """Losses, preactivations and kernels of a tanh network, theory and finite networks."""
    setting = RichnessSeries(3, "tanh", Points.random(5, 10, seed=1), 0.5, steps)
    states, order = setting.all_states(), by_target(setting.points)
    method = SampledLayers(samples=samples, batches=batches)
    richest = 2.0
    figure = Figure(figsize=(11.4, 7.6), layout="constrained")
    top, bottom = _parts(figure, 2, 1, height_ratios=(1, 1.05))
    losses, histogram, widening = top.subplots(1, 3)
    theory = runs = None
    for done, richness in enumerate((0.2, 1.0, richest)):
        problem = setting.problem(richness)
        theory = solve(problem, method, save_at=states)
        record = WideDescent(samples=size if richness == richest else 0)
        runs = simulate(problem, size, seeds, method=record, save_at=states)
        colour, few = COLOURS[done], _few_states(states)
        _draw_line(losses, theory, "train_loss", f"γ₀ = {richness:g}", color=colour)
        draw_points(losses, few, runs["train_loss"].values[:, few], colour)
        report(0.2 * (done + 1))
    assert theory is not None
    assert runs is not None
    losses.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=f"training, N = {size}")
    finish_panel(losses, "(a) loss", {}, xlabel=STEP, ylabel=LOSS, yscale="log")
    _draw_histogram(histogram, theory, runs)
    _draw_widths(widening, theory, setting.problem(richest), widths, repeats, report)
    Phi, layers = theory["Phi"].values, theory["layer"].values
    network = runs["Phi"].values[0]
    left, right = _parts(bottom, 1, 2)
    rows = {"theory": _final(Phi, order), "network": _final(network, order)}
    words = "$Φ^ℓ_{μα}(T, T)$"
    _draw_maps(left, "(d) kernels at the end", rows, layers, words=words, **OVER_POINTS)
    rows = {"theory": traced(Phi), "network": traced(network)}
    words = "$Σ_μ Φ^ℓ_{μμ}(t, s)$"
    times = _over_times(steps)
    _draw_maps(right, "(e) kernels over times", rows, layers, words=words, **times)
    report(1.0)
    return figure


def _draw_histogram(axes: Axes, theory: Solution, runs: Solution) -> None:
    """Preactivations of the last layer on all points, at the start and at the end."""
    theory_h = theory["preactivation"].isel(layer=-1)
    network_h = runs["preactivation"].isel(layer=-1)
    largest = 1.02 * max(abs(h.isel(step=[0, -1])).values.max() for h in (theory_h, network_h))
    bins = np.linspace(-largest, largest, 41)
    for step, colour, words in ((0, "0.45", "start"), (-1, COLOURS[1], "end")):
        h = network_h.isel(step=step).values.ravel()
        axes.hist(h, bins, density=True, color=colour, alpha=0.35, label=f"network, {words}")
        h = theory_h.isel(step=step).values.ravel()
        look: dict[str, Any] = {"histtype": "step", "lw": 1.4, "color": colour}
        axes.hist(h, bins, density=True, label=f"theory, {words}", **look)
    corner = {"fontsize": 7.5}
    words = "preactivation $h^3$"
    finish_panel(axes, "(b) last hidden layer", corner, xlabel=words, ylabel="density")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])


def _draw_widths(
    axes: Axes,
    theory: Solution,
    problem: Problem,
    widths: Sequence[int],
    repeats: int,
    report: Report,
) -> None:
    """1 − A between the kernels of the theory and of networks, over all points and times."""
    misalignments: dict[str, list] = {"Phi": [], "G": []}
    few = _few_states(len(theory["step"]), 9)
    for done, width in enumerate(widths):
        runs = simulate(problem, width, repeats, save_at=few)
        for name, values in misalignments.items():
            expected = one_output(theory[name]).isel(step=few, step2=few).values
            values.append(1 - cosine(one_output(runs[name]).values, expected, 4))
        report(0.6 + 0.35 * (done + 1) / len(widths))
    for name, ls, symbol in (("Phi", "-", "Φ"), ("G", "--", "G")):
        values = np.array(misalignments[name])
        for layer in range(values.shape[2]):
            of_layer = values[:, :, layer].T
            look = {
                "fmt": "o",
                "ls": ls,
                "lw": 1.2,
                "mfc": COLOURS[layer] if ls == "-" else "white",
            }
            label = f"${symbol}^{layer + 1}$"
            draw_points(axes, widths, of_layer, COLOURS[layer], label=label, **look)
    look = {"color": "0.5", "lw": 1, "ls": ":"}
    guide = 0.6 * np.array(misalignments["G"])[0].mean(axis=0).max() * widths[0] / np.array(widths)
    axes.plot(widths, guide, label="∝ 1/N", **look)
    settings = {"xscale": "log", "yscale": "log", "xlabel": "width N"}
    legend = {"ncols": 2, "fontsize": 7.5}
    words = "1 − A(theory, network)"
    finish_panel(axes, "(c) misalignment of the kernels", legend, ylabel=words, **settings)


def figure_2(
    report: Report, size: int = 1000, seeds: int = 4, steps: int = 60, points: int = 20
) -> Figure:
    """Deep linear networks of several depths: losses, kernels, and how far these move."""
    data = Points.random(points, 2 * points, seed=0)
    order, richness, states = by_target(data), 1.0, steps + 1
    figure = Figure(figsize=(9.0, 11.6), layout="constrained")
    top, middle, *bottom = _parts(figure, 4, 1, height_ratios=(1, 1.2, 0.85, 0.85))
    losses, moving = top.subplots(1, 2)
    theory = network = None
    depths, few = (1, 2, 5), _few_states(states)
    for done, depth in enumerate(depths):
        problem = RichnessSeries(depth, "linear", data, 0.1, steps).problem(richness)
        theory = solve(problem, save_at=states)
        runs = simulate(problem, size, seeds, save_at=few)
        network, colour = runs["Phi"].values, COLOURS[done]
        _draw_line(losses, theory, "train_loss", f"L = {depth}", color=colour)
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
    rows = {"theory": _final(H, order), "network": _final(network[0], order)}
    title, words = "(c) L = 5, kernels at the end", "$H^ℓ_{μα}(T, T)$"
    _draw_maps(middle, title, rows, layers, words=words, **OVER_POINTS)
    # Linear units have the same gradient on every point.
    G = one_output(theory["G"]).isel(point=0, point2=0).values
    title = "(d) L = 5, gradient kernels over times"
    look = {"words": "$G^ℓ(t, s)$", **_over_times(steps)}
    _draw_maps(bottom[0], title, {"theory": G}, layers, **look)
    title = "(e) L = 5, feature kernels over times"
    look["words"] = "$Σ_μ H^ℓ_{μμ}(t, s)/P$"
    _draw_maps(bottom[1], title, {"theory": traced(H) / points}, layers, **look)
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
    few = _few_states(states, 17)
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
            _draw_line(losses, theory, "train_loss", f"γ₀ = {richness:g}", color=colour)
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
    few = _few_states(states, 31)
    figure = Figure(figsize=(11.0, 9.6), layout="constrained")
    top, bottom = _parts(figure, 2, 1, height_ratios=(1, 2.2))
    losses, aligned = top.subplots(1, 2)
    alignments: dict[str, list] = {name: [] for name in THEORIES}
    columns = [0, 2, 4]
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
                _draw_line(losses, theory, "train_loss", name, **look)
                ends[name] = _final(Phi, order)[columns]
                times[name] = traced(Phi)[columns] / points
        if richness == shown:
            draw_points(losses, few, run["train_loss"].values, "0.4", label=f"network, N = {size}")
            ends = {"network": _final(network, order)[columns]} | ends
            times = {"network": traced(network)[columns] / points} | times
        report((done + 1) / len(richnesses))
    for number, (name, values) in enumerate(alignments.items()):
        colour = (THEORY_COLOUR, *COLOURS)[number]
        aligned.plot(richnesses, values, "o-", color=colour, ms=3.5, lw=1.4, label=name)
    finish_panel(losses, f"(a) loss, γ₀ = {shown:g}", {}, xlabel=STEP, ylabel=LOSS, yscale="log")
    words = "$A(H^ℓ, H^ℓ_{NN})$, mean over ℓ"
    title = "(b) alignment with the network's kernels"
    finish_panel(aligned, title, {"loc": "lower left"}, xlabel="richness γ₀", ylabel=words)
    left, right = _parts(bottom, 1, 2)
    layers = [column + 1 for column in columns]
    look = {"words": "$H^ℓ_{μα}(T, T)$", "scale": ("network", "full theory"), **OVER_POINTS}
    _draw_maps(left, f"(c) kernels at the end, γ₀ = {shown:g}", ends, layers, **look)
    look |= {"words": "$Σ_μ H^ℓ_{μμ}(t, s)/P$", **_over_times(steps)}
    _draw_maps(right, f"(d) kernels over times, γ₀ = {shown:g}", times, layers, **look)
    return figure


register_figures(
    FACTS,
    {
        "wide-1": figure_1,
        "wide-2": figure_2,
        "wide-3": figure_3,
        "wide-4": figure_4,
    },
)
