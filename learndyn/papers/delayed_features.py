"""Figures 1, 2 and 3 of the paper on delayed feature learning, and a map of the delay."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learndyn.analyses.grokking import LEVEL, drop_time
from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.errors import NotConverged
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.families.two_layer.reused.implicit_sampling import ImplicitSampling
from learndyn.families.two_layer.reused.solve import CausalSampling
from learndyn.families.two_layer.reused.time_grid import RARE, automatic_step
from learndyn.numerics.statistics import mean_and_error
from learndyn.numerics.times import log_times
from learndyn.papers.captions.delayed_features import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS, RUNS_COLOUR, SAMPLED_BAND, THEORY_COLOUR
from learndyn.problem.activations import Polynomial
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Population
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent

HIDDEN = 2
LABELS = 0.75
"""⟨y²⟩ of the target y = ρ²/2."""
LOSSES = {"test_loss": "-", "train_loss": "--"}
TIME = "time t  (learning rate 2/α)"
LOSS = "loss  ½⟨(y − ŷ)²⟩"
GAMMA_1 = 2.7
"""γ of the first picture."""
FIRST = 0.1
"""The first time in the pictures of learning curves at several γ and α."""


class GrokkingSetting(NamedTuple):
    """The problem of the paper.

    - `alpha` (α): output scale; the readout is α/K.
    - `epsilon` (ε): quadratic part of the activation φ(h) = h + (ε/2)h².
    - `gamma` (γ = P/D): examples per dimension; ∞ for the population.
    - `time`: length of training, in the paper's units.
    - `start` (A₀): initial alignments of the hidden units with the teacher. (0.3, −0.3) unless given.
    """

    alpha: float
    epsilon: float
    gamma: float
    time: float
    start: Sequence[float] = (0.3, -0.3)

    def problem(self) -> Problem:
        """The problem in the paper's units of time, in which the learning rate is K/α."""
        teacher = Teacher(Polynomial(np.array([0.0, 0.0, 0.5])), np.eye(1))
        network = TwoLayer(
            Polynomial(np.array([0.0, 1.0, self.epsilon / 2])),
            np.eye(HIDDEN),
            np.array(self.start)[:, None],
            readout=[self.alpha / HIDDEN] * HIDDEN,
        )
        online = math.isinf(self.gamma)
        data = Population(teacher) if online else Dataset(teacher, ratio=self.gamma)
        return Problem(network, data, GradientDescent(HIDDEN / self.alpha, time=self.time))

    def stable_step(self) -> float:
        """The largest stable step at the solution w = ±w*/√(αε), for rare samples and for all together."""
        alone = (math.sqrt(self.alpha) + RARE * math.sqrt(self.epsilon)) ** 2 / self.gamma
        together = (self.alpha + self.epsilon) * (1 + self.gamma**-0.5) ** 2
        return 2 / max(alone, together)

    def steps(self, share: float, first: float = math.inf) -> dict[str, Any]:
        """Steps that grow from at most `first` up to this share of the largest stable step."""
        largest = share * self.stable_step()
        first = min(first, largest, automatic_step(self.problem()))
        return {"step": first, "growth": 0.1, "largest_step": largest}


def _theory(
    setting: GrokkingSetting,
    steps: dict,
    sampled: dict,
    save_at: int | np.ndarray | None,
    halvings: int = 3,
) -> Solution:
    """The theory; if single samples explode, the steps are halved, up to `halvings` times."""
    try:
        return solve(setting.problem(), CausalSampling(**steps, **sampled), save_at=save_at)
    except NotConverged:
        if not halvings:
            raise
    shorter = {name: value if name == "growth" else value / 2 for name, value in steps.items()}
    return _theory(setting, shorter, sampled, save_at, halvings - 1)


def _draw_theory(
    axes: Axes, theory: Solution, name: str, colour: str, label: str | None = None, **line: Any
) -> None:
    """Draw a loss of the theory, with a band of two standard errors on both sides."""
    later = theory["time"].values > 0
    times, values = theory["time"].values[later], theory[name].values[later]
    look: dict[str, Any] = {"color": colour, "lw": 1.4, "ls": LOSSES[name], "zorder": 3} | line
    axes.plot(times, values, label=label, **look)
    error = 2 * cast(Any, theory.standard_error(name)).values[later]
    axes.fill_between(times, values - error, values + error, color=colour, **SAMPLED_BAND)


def figure_1(
    report: Report,
    size: int = 400,
    seeds: int = 4,
    time: float = 1e3,
    trained: float = 1e3,
    samples: int = 4096,
    batches: int = 4,
) -> Figure:
    """A problem that groks late, with the times at which the two losses drop; networks as far as `trained`."""
    setting = GrokkingSetting(0.5, 0.05, GAMMA_1, time)
    theory = solve(
        setting.problem(),
        ImplicitSampling(tolerance=0.02, samples=samples, batches=batches),
        save_at=log_times(time, 160, first=1.0),
    )
    report(0.6)
    steps, trained = setting.steps(0.8, first=0.5), min(trained, time)
    runs = simulate(
        setting._replace(time=trained).problem(),
        size,
        seeds,
        method=FullBatch(**steps),
        save_at=log_times(trained, 120, first=1.0),
    )
    report(1.0)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, style in LOSSES.items():
        values = runs[name].values.T
        axes.plot(runs["time"][1:], values[1:], style, color=RUNS_COLOUR, lw=0.9, alpha=0.55)
        _draw_theory(axes, theory, name, THEORY_COLOUR)
    for style, words in (("-", "test loss"), ("--", "train loss")):
        axes.plot([], [], style, color=THEORY_COLOUR, lw=1.4, label=f"{words}, theory, D → ∞")
    words = f"training, D = {size}, {seeds} datasets"
    axes.plot([], [], color=RUNS_COLOUR, lw=1.2, label=words)
    level = LEVEL * float(theory["test_loss"][0])
    axes.axhline(level, color="0.55", lw=0.8, ls=":")
    axes.text(1.05, 1.08 * level, "10 % of the first value", fontsize=8, color="0.35")
    _mark_drops(axes, theory, runs, level)
    finish_panel(
        axes,
        f"α = 0.5, ε = 0.05, γ = {GAMMA_1:g}",
        {"loc": "lower left"},
        xscale="log",
        yscale="log",
        xlim=(1.0, time),
        ylim=(1e-5, 1.5),
        xlabel=TIME,
        ylabel=LOSS,
    )
    return figure


def _mark_drops(axes: Axes, theory: Solution, runs: Solution, level: float) -> None:
    """Draw the drops of the theory as lines, an arrow between them, and their times and the delay in words."""
    drops = {}
    for name in ("train_drop", "test_drop", "grokking_delay"):
        trained, error = runs[name].values, cast(Any, theory.standard_error(name)).item()
        drops[name] = (float(theory[name]), error, *mean_and_error(trained))
    if not np.isfinite(list(drops.values())).all():
        return
    for kind in ("train", "test"):
        drop = drops[f"{kind}_drop"][0]
        axes.plot([drop, drop], [level, 0.95], color="0.35", lw=0.9, ls=LOSSES[f"{kind}_loss"])
    arrow = {"arrowstyle": "<->", "color": "0.35", "lw": 0.9}
    ends = [(drops[name][0], 0.75) for name in ("train_drop", "test_drop")]
    axes.annotate("", xy=ends[0], xytext=ends[1], arrowprops=arrow)
    rows = {"train drop": "train_drop", "test drop": "test_drop", "delay (ratio)": "grokking_delay"}
    lines = [
        f"{words}: theory {a:.3g} ± {b:.2g}, trained {c:.3g} ± {d:.2g}"
        for words, (a, b, c, d) in ((words, drops[name]) for words, name in rows.items())
    ]
    axes.text(0.02, 0.28, "\n".join(lines), fontsize=8, transform=axes.transAxes, linespacing=1.5)


def figure_2(
    report: Report,
    size: int = 3500,
    seeds: int = 10,
    time: float = 100.0,
    samples: int = 512,
    batches: int = 4,
) -> Figure:
    """Train and test loss for several amounts of data, and for several scales of the output."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    amount, scale = figure.subplots(1, 2, sharey=True)
    curves = [
        (amount, GrokkingSetting(0.5, 0.3, gamma, time), f"γ = {gamma:g}")
        for gamma in (1.5, 3.0, 6.0)
    ]
    curves += [
        (scale, GrokkingSetting(alpha, 0.3, 3.0, time), f"α = {alpha:g}")
        for alpha in (0.1, 0.5, 2.0)
    ]
    # One problem is in both panels.
    results, sampled = {}, {"samples": samples, "batches": batches}
    for done, (axes, setting, label) in enumerate(curves):
        if setting not in results:
            results[setting] = _theory_and_runs(setting, size, seeds, sampled)
        theory, runs = results[setting]
        colour = COLOURS[done % 3]
        for name in LOSSES:
            test = name == "test_loss"
            _draw_theory(axes, theory, name, colour, label if test else None)
            fill = {"mfc": colour if test else "white"}
            draw_points(axes, runs["time"], runs[name].values, colour, **fill)
        report((done + 1) / (len(curves) + 1))
    online = solve(
        GrokkingSetting(0.5, 0.3, math.inf, time).problem(), save_at=log_times(time, 160, FIRST)
    )
    look: dict[str, Any] = {"color": THEORY_COLOUR, "lw": 1.4, "ls": ":"}
    amount.plot(online["time"][1:], online["test_loss"][1:], label="γ = ∞ (online)", **look)
    report(1.0)
    for words, look in (
        ("test loss", {"ls": "-", "marker": "o", "mfc": "0.4"}),
        ("train loss", {"ls": "--", "marker": "o", "mfc": "white"}),
    ):
        scale.plot([], [], color="0.4", lw=1.4, ms=3.5, label=words, **look)
    axis: dict[str, Any] = {"xscale": "log", "xlabel": TIME, "xlim": (FIRST, 1.05 * time)}
    axis |= {"yscale": "log", "ylim": (1e-4, 2.0)}
    corner = {"loc": "lower left"}
    finish_panel(amount, "(a) amount of data, α = 0.5, ε = 0.3", corner, ylabel=LOSS, **axis)
    finish_panel(scale, "(b) output scale, γ = 3, ε = 0.3", corner, **axis)
    return figure


def _theory_and_runs(
    setting: GrokkingSetting, size: int, seeds: int, sampled: dict
) -> tuple[Solution, Solution]:
    """The theory, and networks trained with its steps."""
    steps = setting.steps(0.9, first=FIRST)
    theory = _theory(setting, steps, sampled, log_times(setting.time, 160, first=FIRST))
    used_steps = {name: theory.evidence["method"][name] for name in steps}
    points = np.geomspace(1.5 * FIRST, setting.time, 12)
    return theory, simulate(
        setting.problem(), size, seeds, method=FullBatch(**used_steps), save_at=points
    )


def figure_3(
    report: Report,
    size: int = 3500,
    seeds: int = 10,
    time: float = 40.0,
    step: float = 0.25,
    samples: int = 1024,
    batches: int = 4,
) -> Figure:
    """Two-time overlaps and responses at finite γ and online; alignments and lengths of the weights."""
    setting = GrokkingSetting(0.5, 0.3, 3.0, time, (0.4, -0.2))
    online = setting._replace(gamma=1e6)
    theories, sampled = [], {"samples": samples, "batches": batches}
    for limit in (setting, online):
        theories.append(_theory(limit, {"step": step}, sampled, 1 + round(time / step)))
        report(0.3 * len(theories))
    points = np.linspace(0, time, 11)
    method = FullBatch(step=step)
    runs = simulate(setting.problem(), size, seeds, method=method, save_at=points)
    report(1.0)
    figure = Figure(figsize=(11.4, 6.4), layout="constrained")
    cast(Any, figure.get_layout_engine()).set(w_pad=0.1, h_pad=0.08)
    panels = figure.subplots(2, 3)
    names = (f"γ = {setting.gamma:g}", "online, γ → ∞")
    _draw_overlaps(figure, panels[:, 0], theories, names)
    _draw_responses(figure, panels[:, 1], theories, names, setting.alpha)
    for axes, name, symbol in ((panels[0, 2], "R", "A"), (panels[1, 2], "C", "C")):
        for i in range(HIDDEN):
            look: dict[str, Any] = {"color": COLOURS[i], "lw": 1.4}
            label = f"${symbol}_{i + 1}$" if name == "R" else f"${symbol}_{{{i + 1}{i + 1}}}$"
            for theory, ls in zip(theories, ("-", "--"), strict=True):
                words = label if ls == "-" else None
                axes.plot(theory["time"], _of_unit(theory, name, i), ls=ls, label=words, **look)
            values, colour = _of_unit(runs, name, i), COLOURS[i]
            draw_points(axes, runs["time"], values, colour, mfc=colour)
        for ls, words in zip(("-", "--"), names, strict=True):
            axes.plot([], [], color="0.4", lw=1.4, ls=ls, label=words)
    panels[0, 2].plot([], [], "o", color="0.4", ms=3.5, label=f"training, γ = 3, D = {size}")
    finish_panel(panels[0, 2], "(c) alignment", {}, xlabel=TIME, ylabel="$A_i(t) = w_i·β/D$")
    words = "$C_{ii}(t, t) = |w_i|^2/D$"
    finish_panel(panels[1, 2], "(d) squared length", {}, xlabel=TIME, ylabel=words)
    return figure


def _of_unit(solution: Solution, name: str, i: int) -> np.ndarray:
    """A_i(t), our R, or C_ii(t, t) of one hidden unit, with the seeds first if there are any."""
    if name == "R":
        return solution["R"].isel(student=i, teacher=0).values
    return solution["Q"].isel(student=i, student2=i).values


def _edges(times: np.ndarray) -> np.ndarray:
    """Edges of the cells around the times."""
    middle = 0.5 * (times[1:] + times[:-1])
    return np.concatenate([times[:1], middle, times[-1:]])


def _draw_overlaps(
    figure: Figure, panels: np.ndarray, theories: Sequence[Solution], names: Sequence[str]
) -> None:
    """Draw C_11(t, s) as heat maps with one colour scale."""
    values = [theory["C"].isel(student=0, student2=0).values for theory in theories]
    top = max(float(value.max()) for value in values)
    for axes, theory, value, name in zip(panels, theories, values, names, strict=True):
        edges = _edges(theory["time"].values)
        drawn = axes.pcolormesh(edges, edges, value, vmin=0, vmax=top, cmap="viridis")
        drawn.set_rasterized(True)
        title = f"(a) weight overlap, {name}"
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="time s", ylabel="time t", aspect="equal")
        figure.colorbar(drawn, ax=axes, label="$C_{11}(t, s)$", shrink=0.9)


def _responses(theory: Solution, alpha: float) -> np.ndarray:
    """The paper's R^h_11(t, s) for s < t, NaN elsewhere.

    Its g has no factor α/K and its step is dt, so R^h = (K/α) R_h(t, s)/dt; the weight of δ(t − s) is left out.
    """
    R_h = theory["R_h"].isel(student=0, student2=0).values
    dt = np.diff(theory["time"].values)
    response = np.full_like(R_h, np.nan)
    response[:, :-1] = HIDDEN / alpha * R_h[:, :-1] / dt
    return np.where(np.tri(len(R_h), k=-1, dtype=bool), response, np.nan)


def _draw_responses(
    figure: Figure,
    panels: np.ndarray,
    theories: Sequence[Solution],
    names: Sequence[str],
    alpha: float,
) -> None:
    """Draw R^h_11(t, s), s < t, as heat maps with one colour scale."""
    values = [_responses(theory, alpha) for theory in theories]
    top = float(np.nanmax(np.abs(values[0])))
    norm = SymLogNorm(1e-2 * top, vmin=-top, vmax=top)
    for axes, theory, value, name in zip(panels, theories, values, names, strict=True):
        edges = _edges(theory["time"].values)
        axes.set_facecolor("0.85")
        drawn = axes.pcolormesh(edges, edges, value, norm=norm, cmap="RdBu_r")
        drawn.set_rasterized(True)
        axes.set_title(f"(b) response, {name}", fontsize=10)
        axes.set(xlabel="time s", ylabel="time t", aspect="equal")
        figure.colorbar(drawn, ax=axes, label="$R^h_{11}(t, s)$, $s < t$", shrink=0.9)


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
    figure = Figure(figsize=(10.4, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    low, high = float(np.nanmin(delays)), float(np.nanmax(delays))
    norm = LogNorm(low, high)
    titles = ("(a) below 10 % of the first loss", "(b) below 10 % of ½⟨y²⟩")
    drawn = None
    for axes, panel_delays, title in zip(panels, delays, titles, strict=True):
        drawn = _draw_cells(axes, alphas, epsilons, panel_delays, norm)
        axes.set_title(f"{title}, γ = {gamma:g}", fontsize=10)
        axes.set_xlabel("output scale α")
    panels[0].set_ylabel("quadratic part ε of the activation")
    words = f"hatched: the test loss does not drop within the time {horizon:g}/ε"
    figure.supxlabel(words, fontsize=9)
    assert drawn is not None
    bar = figure.colorbar(drawn, ax=panels, label="delay: test drop / train drop")
    ticks = [tick for tick in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30) if low <= tick <= high]
    bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    bar.ax.minorticks_off()
    return figure


def _delays(setting: GrokkingSetting, sampled: dict) -> tuple[float, float]:
    """The delay below a tenth of the first loss, and below a tenth of ½⟨y²⟩; NaN where the test loss does not drop."""
    times = log_times(setting.time, 200, first=setting.time / 1000)
    theory = _theory(setting, setting.steps(0.9), sampled, times)
    at, losses = theory["time"].values, [theory[f"{k}_loss"].values for k in ("train", "test")]
    train, test = (drop_time(at, loss, LEVEL * LABELS / 2 / loss[0]) for loss in losses)
    return float(theory["grokking_delay"]), test / train


def _draw_cells(
    axes: Axes, alphas: np.ndarray, epsilons: np.ndarray, delays: np.ndarray, norm: LogNorm
) -> QuadMesh:
    """Draw one cell for each pair, with its delay as a number; hatched if there is none."""
    places = np.arange(len(alphas))
    drawn = axes.pcolormesh(places, places, np.ma.masked_invalid(delays), norm=norm, cmap="viridis")
    for (row, column), delay in np.ndenumerate(delays):
        if not math.isfinite(delay):
            corner = (column - 0.5, row - 0.5)
            look = {"facecolor": "0.88", "edgecolor": "0.6", "lw": 0, "hatch": "////"}
            axes.add_patch(Rectangle(corner, 1, 1, **look))
            continue
        light = norm(delay) < 0.6
        axes.text(
            column,
            row,
            f"{delay:.1f}",
            ha="center",
            va="center",
            fontsize=7.5,
            color="white" if light else "black",
        )
    axes.set_xticks(places, [f"{alpha:.2g}" for alpha in alphas])
    axes.set_yticks(places, [f"{epsilon:.2g}" for epsilon in epsilons])
    return drawn


register_figures(
    FACTS,
    {
        "grokking-1": figure_1,
        "grokking-2": figure_2,
        "grokking-3": figure_3,
        "grokking-map": delay_map,
    },
)
