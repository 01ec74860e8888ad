"""Figures 1, 2, 3, 6, 7 and 8 of the paper on deep linear networks: theory as lines, finite networks as points."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.families.deep_linear.solve import Innovation, Panels
from learndyn.numerics.statistics import mean_and_error
from learndyn.papers.captions.deep_linear import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import COLOURS, THEORY_COLOUR
from learndyn.problem.problem import Problem
from learndyn.problem.spectra import PowerLaw, Spectrum
from learndyn.problem.supplies import Dataset, Population, Stream, Supply
from learndyn.problem.tasks import LinearMap
from learndyn.problem.training import GradientDescent
from learndyn.sweeps.sweep import sweep

LONG_RUN = Innovation(tolerance=1e-8)
LINES = {"test_loss": "-", "train_loss": "--"}
GUIDE = {"color": "0.55", "lw": 1.0, "zorder": 1}
TEST_LOSS = "test loss  ⟨(y − f)²⟩"


class Curve(NamedTuple):
    """A learning curve to be drawn: its problem and its looks; with a `size`, also networks of this many inputs."""

    axes: Axes
    problem: Problem
    colour: str
    label: str
    size: int | None = None
    observables: Sequence[str] = ("test_loss",)
    method: Innovation | None = None


def _problem(network: DeepLinear, data: Supply, rate: float, steps: int) -> Problem:
    """Gradient descent at a constant rate η."""
    return Problem(network, data, GradientDescent(rate, steps=steps))


def _steps(end: int, count: int, log: bool) -> np.ndarray:
    """About `count` whole steps up to `end`, equally spaced from 0 on or, if `log`, in the logarithm from 1 on."""
    grid = np.geomspace(1, end, count) if log else np.linspace(0, end, count)
    return np.unique(np.rint(grid).astype(int))


def _draw_theory(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    colour: str,
    label: str | None = None,
    style: str = "-",
) -> None:
    """Draw a line through the positive values of y."""
    # Losses at the level of rounding may be negative.
    y = np.asarray(y)
    axes.plot(np.asarray(x), np.where(y > 0, y, np.nan), style, color=colour, lw=1.4, label=label)


def _draw_runs(
    axes: Axes,
    x: ArrayLike,
    runs: Float[np.ndarray, "seeds points"],
    colour: str,
    filled: bool = True,
) -> None:
    """Draw means over the seeds with their standard errors."""
    mean, error = mean_and_error(runs)
    look = {"ms": 4, "mfc": colour if filled else "white", "color": colour, "elinewidth": 1}
    axes.errorbar(x, mean, error if len(runs) > 1 else None, fmt="o", **look)


def _draw_curves(
    curves: Sequence[Curve], seeds: int, report: Report, log: bool = False
) -> list[Solution]:
    """Draw every curve: a line for each observable, dashed for the training loss, and the points of its networks."""
    theories = []
    for done, curve in enumerate(curves, 1):
        end = cast(int, cast(GradientDescent, curve.problem.training).steps)
        theory = solve(curve.problem, curve.method, save_at=_steps(end, 150, log))
        runs = None
        if curve.size is not None:
            runs = simulate(curve.problem, curve.size, seeds, save_at=_steps(end, 11, log))
        for name in curve.observables:
            label = curve.label if name == "test_loss" else None
            _draw_theory(curve.axes, theory["step"], theory[name], curve.colour, label, LINES[name])
            if runs is not None:
                filled = name == "test_loss"
                _draw_runs(curve.axes, runs["step"], runs[name].values, curve.colour, filled)
        theories.append(theory)
        report(done / len(curves))
    return theories


def _draw_power(
    axes: Axes, theory: Solution, exponent: float, start: float, shift: float, **look: Any
) -> None:
    """Draw a guide line t^−exponent from `start` on, at `shift` times the theory's loss there."""
    times, losses = theory[theory.axis].values.astype(float), theory["test_loss"].values
    first = int(np.searchsorted(times, start))
    line = shift * losses[first] * (times[first:] / times[first]) ** -exponent
    axes.plot(times[first:], line, **(GUIDE | look))


def _panels(rows: int, columns: int, **shared: Any) -> tuple[Figure, Any]:
    """A new figure and the array of its panels."""
    figure = Figure(figsize=(3.4 * columns, 3.2 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def _finish(
    axes: Axes, title: str, networks: str | None = None, legend: dict | None = None, **settings: Any
) -> None:
    """Set title, labels, scales and legend of a panel; `networks` says in the legend what the points are."""
    if networks is not None:
        axes.plot([], [], color="0.4", lw=1.4, label="theory")
        axes.plot([], [], "o", color="0.4", ms=4, label=networks)
    axes.set_title(title, fontsize=10)
    axes.set(**({"yscale": "log"} | settings))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)
    axes.legend(**({"frameon": False, "fontsize": 8, "handlelength": 1.8} | (legend or {})))


def figure_1(report: Report, size: int = 400, seeds: int = 8, steps: int = 160) -> Figure:
    """Width in the NTK parameterisation and in μP, and depth."""
    figure, ((ntk, mup, depth),) = _panels(1, 3, sharey=True)
    rate, curves = 0.01, []

    def add(axes: Axes, colour: str, label: str, trained: bool = True, **network: Any) -> None:
        problem = _problem(
            DeepLinear(centered=True, **network), Population(LinearMap()), rate, steps
        )
        curves.append(Curve(axes, problem, colour, label, size if trained else None))

    for nu, colour in zip((0.25, 1.0, 4.0), COLOURS, strict=False):
        add(ntk, colour, f"ν = {nu:g}", depth=4, width=nu, parameterization="ntk")
        add(mup, colour, f"ν = {nu:g}", depth=4, width=nu)
    add(mup, THEORY_COLOUR, "ν = ∞", trained=False, depth=4, width=math.inf)
    for L, colour in zip((1, 2, 4, 8), COLOURS, strict=False):
        add(depth, colour, f"L = {L}", depth=L, width=1.0)
    _draw_curves(curves, seeds, report)
    times = np.arange(steps + 1)
    kernel = (1 - 5 * rate) ** (2 * times)
    ntk.plot(times, kernel, color=THEORY_COLOUR, lw=1.4, label="ν = ∞ (kernel)")
    _finish(ntk, "(a) NTK parameterisation, L = 4", f"networks, D = {size}", ylabel=TEST_LOSS)
    _finish(mup, "(b) μP, L = 4")
    _finish(depth, "(c) depth in μP, ν = 1", ylim=(1e-5, 1.5))
    for axes in (ntk, mup, depth):
        axes.set_xlabel("training step t")
    return figure


def _at_steps(problem: Problem, steps: Sequence[int]) -> np.ndarray:
    """The test loss of the theory at a few steps; NaN where training has diverged."""
    losses = solve(problem, save_at=steps)["test_loss"].values
    return np.append(losses, np.full(len(steps) - len(losses), np.nan))


def figure_2(
    report: Report, size: int = 300, seeds: int = 8, steps: int = 12, count: int = 41
) -> Figure:
    """The loss after a few steps against the learning rate, in the NTK parameterisation and in μP."""
    figure, (panels,) = _panels(1, 2, sharey=True, sharex=True)
    rates, widths = np.geomspace(0.01, 0.5, count), (0.5, 2.0, 8.0)
    titles = {"ntk": "(a) NTK parameterisation", "mup": "(b) μP"}
    for axes, (kind, title) in zip(panels, titles.items(), strict=True):
        for done, (nu, colour) in enumerate(zip(widths, COLOURS, strict=False), 1):
            network = DeepLinear(2, nu, 4.0, centered=True, parameterization=kind)
            data = Stream(LinearMap(), batch_ratio=1.0)
            problems = [_problem(network, data, rate, steps) for rate in rates]
            over = {"training.learning_rate": rates}
            swept = sweep(problems[0], over, observables=["test_loss"], save_at=[0, steps])
            losses = swept["test_loss"].values[:, -1]
            best = int(np.nanargmin(losses))
            # Further on training is unstable, and the loss an erratic function of the rate.
            end = best + int(np.argmax(~(losses[best:] < 10 * losses[best])))
            _draw_theory(axes, rates[:end], losses[:end], colour, f"ν = {nu:g}")
            axes.plot(rates[best], losses[best], "*", color=colour, ms=12, mec="white", zorder=4)
            for k in range(0, end, 3):
                runs = simulate(problems[k], size, seeds, save_at=[0, steps])["test_loss"]
                _draw_runs(axes, rates[[k]], runs.values[:, -1:], colour)
            report((done / len(widths) + (kind == "mup")) / 2)
        axes.plot([], [], "*", color="0.4", ms=9, label="optimum")
        points = f"networks, D = {size}" if kind == "ntk" else None
        settings = {"xscale": "log", "xlabel": "learning rate η"}
        _finish(axes, title, points, {"loc": "lower left"}, **settings)
    panels[0].set_ylabel(f"test loss after {steps} steps")
    return figure


def figure_3(
    report: Report, size: int = 300, seeds: int = 8, steps: int = 640, count: int = 29
) -> Figure:
    """Reused data of different amount, and online SGD with different batches and widths."""
    figure, ((reused, amount), (batch, width)) = _panels(2, 2)
    curves = []

    def add(
        axes: Axes, nu: float, data: Supply, rate: float, length: int, label: str, **looks: Any
    ) -> None:
        colour = COLOURS[sum(curve.axes is axes for curve in curves)]
        problem = _problem(DeepLinear(4, nu, centered=True), data, rate, length)
        curves.append(Curve(axes, problem, colour, label, size, **looks))

    for alpha in (0.7, 1.0, 2.0, 4.0):
        both = {"observables": tuple(LINES)}
        add(reused, 1.0, _noisy(alpha), 0.02, steps // 4, f"α = {alpha:g}", **both)
    for ratio in (0.05, 0.1, 0.25, 1.0):
        data = Stream(LinearMap(), batch_ratio=ratio)
        add(batch, 0.5, data, 0.01, steps // 5, f"$α_B$ = {ratio:g}")
    for nu in (0.25, 0.5, 1.0, 2.0):
        add(width, nu, Stream(LinearMap(), batch_ratio=0.1), 0.015, steps // 5, f"ν = {nu:g}")
    _draw_curves(curves, seeds, lambda done: report(0.5 * done), log=True)
    _draw_amounts(amount, size, seeds, steps, count, lambda done: report(0.5 + 0.5 * done))
    points = f"networks, D = {size}"
    time: dict[str, Any] = {"xlabel": "training step t", "xscale": "log"}
    reused.plot([], [], "--", color="0.4", lw=1.4, label="training loss\n(open points)")
    _finish(reused, "(a) reused data", **time, ylabel="test and training loss")
    ticks: dict[str, Any] = {
        "xticks": (0.25, 0.5, 1, 2, 4),
        "xticklabels": ("¼", "½", "1", "2", "4"),
    }
    amount.minorticks_off()
    words: dict[str, Any] = {"xlabel": "examples per input  α = P/D", "ylabel": TEST_LOSS}
    _finish(amount, "(b) reused data", yscale="linear", **words, **ticks)
    _finish(batch, "(c) online SGD, ν = 0.5", points, **time, ylabel=TEST_LOSS)
    linear: dict[str, Any] = time | {"yscale": "linear", "ylabel": TEST_LOSS}
    _finish(width, "(d) online SGD, $α_B$ = 0.1", **linear)
    return figure


def _noisy(alpha: float) -> Dataset:
    """α examples per input dimension, with noisy labels."""
    return Dataset(LinearMap(), ratio=alpha, noise=0.5)


def _draw_amounts(
    axes: Axes, size: int, seeds: int, steps: int, count: int, report: Report
) -> None:
    """Draw the test loss against the amount of data α at several steps."""
    ratios, at = np.geomspace(0.25, 4.0, count), [steps // 64, steps // 16, steps // 4, steps]
    network = DeepLinear(4, 1.0, centered=True)
    losses = []
    for done, alpha in enumerate(ratios, 1):
        problem = _problem(network, _noisy(alpha), 0.02, steps)
        losses.append(_at_steps(problem, at))
        if done % 4 == 1:
            runs = simulate(problem, size, seeds, save_at=at)["test_loss"].values
            for values, colour in zip(runs.T, COLOURS, strict=False):
                _draw_runs(axes, [alpha], values[:, None], colour)
        report(done / count)
    for line, step, colour in zip(np.transpose(losses), at, COLOURS, strict=False):
        _draw_theory(axes, ratios, line, colour, f"t = {step}")
    axes.set(xscale="log")


def figure_6(report: Report, modes: int = 1000, seeds: int = 16, steps: int = 300) -> Figure:
    """Power-law data: batch size, width on an easy task, richness on a hard task."""
    figure, ((batch, easy, hard),) = _panels(1, 3)
    curves = []

    def add(
        axes: Axes,
        rate: float,
        source: float,
        label: str,
        width: float,
        richness: float = 1.0,
        B: int | None = None,
    ) -> None:
        spectrum = PowerLaw(1.5, source, modes)
        data = (
            Population(LinearMap(spectrum)) if B is None else Stream(LinearMap(spectrum), batch=B)
        )
        network = DeepLinear(4, width, richness, centered=True)
        colour = COLOURS[sum(curve.axes is axes for curve in curves)]
        size = None if math.isinf(width) else modes
        curves.append(Curve(axes, _problem(network, data, rate, steps), colour, label, size))

    for B in (1, 4, 16):
        add(batch, 0.03, 1.2, f"B = {B}", 128, B=B)
    for N in (16, 64, 256, math.inf):
        add(easy, 0.02, 1.5, f"N = {N:g}".replace("inf", "∞"), N)
    for gamma in (0.05, 0.7, 2.0):
        add(hard, 0.02, 0.5, f"γ₀ = {gamma:g}", 512, gamma)
    theories = _draw_curves(curves, seeds, report, log=True)
    start = steps / 12
    _draw_power(easy, theories[6], 1.5, start, 0.7, ls="--", label="$t^{-β}$ (lazy)")
    _draw_power(hard, theories[7], 0.5, start, 1.3, ls="--", label="$t^{-β}$ (lazy)")
    _draw_power(hard, theories[9], 2 / 3, start, 0.8, ls="-.", label="$t^{-2β/(1+β)}$ (paper)")
    _draw_power(hard, theories[9], 5 / 6, start, 0.8, ls=":", label="$t^{-(L+1)β/(1+Lβ)}$")
    axis = {"xscale": "log", "xlabel": "training step t"}
    points, corner = f"networks, {modes} inputs", {"loc": "lower left"}
    _finish(batch, "(a) SGD, β = 1.2, N = 128", points, corner, ylabel=TEST_LOSS, **axis)
    _finish(easy, "(b) easy task, β = 1.5", None, corner, **axis)
    _finish(hard, "(c) hard task, β = 0.5, N = 512", None, corner, **axis)
    return figure


def _trained_edge(problem: Problem, guess: float, size: int, seed: int) -> float:
    """The largest stable rate of one finite network, to 5 %: bisection between a quarter and four times the guess."""

    def stable(rate: float) -> bool:
        training = GradientDescent(rate, steps=cast(GradientDescent, problem.training).steps)
        tried = Problem(problem.network, problem.data, training)
        runs = simulate(tried, size, first_seed=seed, save_at=[0, training.steps])
        losses = runs["test_loss"].values[0]
        return runs.diverged_at is None and losses[-1] <= losses[0]

    low, high = guess / 4, 4 * guess
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return math.sqrt(low * high)


def figure_7(
    report: Report, steps: int = 30, count: int = 13, size: int = 200, seeds: int = 4
) -> Figure:
    """The largest stable learning rate against the width, lazy and rich."""
    from learndyn.analyses.rates import largest_stable_rate

    figure, (panels,) = _panels(1, 2)
    widths, richness = np.geomspace(0.5, 128.0, count), (1e-4, 100.0)
    jobs = [(k, L, kind) for k in range(2) for L in (1, 2) for kind in ("ntk", "mup")]
    looks = {"ntk": ("o-", "NTK"), "mup": ("s--", "μP")}
    guides = {1: ":", 2: "-."}
    for done, (k, L, kind) in enumerate(jobs, 1):
        edges = [0.01]
        for nu in widths:
            network = DeepLinear(L, nu, richness[k], centered=True, parameterization=kind)
            problem = _problem(network, Population(LinearMap()), edges[-1], steps)
            edges.append(largest_stable_rate(problem, rtol=1e-2))
            if any(math.isclose(nu, trained) for trained in widths[: 2 * count // 3 : 3]):
                trained_edges = [
                    _trained_edge(problem, edges[-1], size, seed) for seed in range(seeds)
                ]
                _draw_runs(panels[k], [nu], np.array(trained_edges)[:, None], "0.15")
        style, name = looks[kind]
        label = f"{name}, L = {L}"
        look = {"lw": 1.4, "ms": 5 if kind == "ntk" else 8, "mfc": "none", "label": label}
        panels[k].plot(widths, edges[1:], style, color=COLOURS[L - 1], **look)
        if k == 1 and kind == "ntk":
            slope = (widths / widths[0]) ** (L / (L + 1))
            words = f"$ν^{{L/(L+1)}}$, L = {L}"
            panels[k].plot(widths, 1.4 * edges[1] * slope, ls=guides[L], label=words, **GUIDE)
        report(done / len(jobs))
    for L, ls in guides.items():
        panels[0].axhline(2 / (L + 1), ls=ls, label=f"2/(L+1), L = {L}", **GUIDE)
    axis = {"xscale": "log", "xlabel": "width  ν = N/D"}
    words = {"ylabel": "largest stable learning rate η"}
    above = {"loc": "upper left", "ncols": 2, "columnspacing": 1.0}
    panels[0].plot([], [], "o", color="0.15", ms=4, label=f"networks, D = {size}")
    lazy: dict[str, Any] = {"yscale": "linear", "ylim": (0.0, 1.45)} | words
    _finish(panels[0], "(a) lazy: richness $10^{-4}$", None, above, **axis, **lazy)
    _finish(panels[1], "(b) rich: richness 100", None, above, ylim=(1.5e-3, 2.0), **axis)
    return figure


def figure_8(
    report: Report,
    ranks: float = 1e14,
    end: float = 1e6,
    inputs: int = 1000,
    width: int = 256,
    seeds: int = 2,
) -> Figure:
    """Hard tasks in the limit of infinite width: gradient flow over six decades, the loss and its local exponent."""
    depths, sources = (1, 2, 4), (0.4, 0.55, 0.7)
    figure, panels = _panels(2, len(depths), sharex=True, sharey="row")
    times = np.concatenate([[0.0], np.geomspace(1e-2, end, 33)])
    early = np.concatenate([[0.0], np.geomspace(1e-2, min(end, 3.0), 7)])
    done = 0
    for (top, bottom), L in zip(panels.T, depths, strict=True):
        for beta, colour in zip(sources, COLOURS, strict=False):
            data = Population(LinearMap(_long_power_law(beta, ranks)))
            network = DeepLinear(L, math.inf, 3.0, centered=True)
            problem = Problem(network, data, GradientDescent(1.0, time=end))
            theory = solve(problem, Panels(tolerance=1e-4, bins=200), save_at=times)
            _draw_theory(top, times[1:], theory["test_loss"][1:], colour, f"β = {beta:g}")
            _draw_exponents(top, bottom, theory, beta, L, colour)
            done += 1
            report(done / (len(depths) * (len(sources) + 1)))
        data = Population(LinearMap(PowerLaw(1.5, sources[1], inputs)))
        network = DeepLinear(L, width, 3.0, centered=True)
        problem = Problem(network, data, GradientDescent(1.0, time=float(early[-1])))
        runs = simulate(problem, inputs, seeds, save_at=early)
        _draw_runs(top, early[1:], runs["test_loss"].values[:, 1:], COLOURS[1])
        done += 1
        report(done / (len(depths) * (len(sources) + 1)))
        for ls, words in (("--", "2β/(1+β) (paper)"), (":", "(L+1)β/(1+Lβ)")):
            bottom.plot([], [], color="0.4", ls=ls, label=words)
        if L == 1:
            top.plot([], [], "o", color=COLOURS[1], ms=4, label=f"networks, N = {width}")
        _finish(top, f"L = {L}", xscale="log")
        axis = {"xscale": "log", "yscale": "linear", "xlabel": "training time t (gradient flow)"}
        _finish(bottom, "", None, {"loc": "lower right"}, ylim=(0.3, 1.1), **axis)
    panels[0, 0].set_ylabel(TEST_LOSS)
    panels[1, 0].set_ylabel("local exponent\n−d log(loss)/d log t")
    return figure


def _long_power_law(beta: float, ranks: float, capacity: float = 1.5) -> Spectrum:
    """λ_k = k^−capacity and w*_k² λ_k = k^(−capacity β − 1) up to very many ranks k, in groups from the tenth on.

    With infinite width and on the population only sums of w*² λ over neighbouring modes count, so that a group may be
    one mode with their sum and their mean eigenvalue.
    """
    k, s = np.arange(1.0, 11.0), capacity * beta
    edges = np.geomspace(10.5, ranks, math.ceil(8 * math.log10(ranks / 10.5)) + 1)
    left, right = edges[:-1], edges[1:]
    power = (left**-s - right**-s) / s
    eigenvalues = (left ** (-s - capacity) - right ** (-s - capacity)) / (s + capacity) / power
    eigenvalues = np.concatenate([k**-capacity, eigenvalues])
    power = np.concatenate([k ** (-s - 1), power])
    return Spectrum(eigenvalues, np.sqrt(power / eigenvalues))


def _draw_exponents(
    top: Axes, bottom: Axes, theory: Solution, beta: float, L: int, colour: str
) -> None:
    """Draw the local exponent of a curve, and the two predicted ones as lines and as slopes."""
    from learndyn.analyses.exponents import local_exponent

    exponents = local_exponent(theory["test_loss"], window=0.6)["exponent"]
    bottom.plot(exponents["time"], exponents, color=colour, lw=1.4)
    predicted = {"--": 2 * beta / (1 + beta), ":": (L + 1) * beta / (1 + L * beta)}
    for ls, exponent in predicted.items():
        look = {"color": colour, "ls": ls, "lw": 1.0}
        bottom.axhline(exponent, **look)
        _draw_power(top, theory, exponent, float(theory["time"][-1]) / 300, 1.5, **look)


register_figures(
    FACTS,
    {
        "deep-linear-1": figure_1,
        "deep-linear-2": figure_2,
        "deep-linear-3": figure_3,
        "deep-linear-6": figure_6,
        "deep-linear-7": figure_7,
        "deep-linear-8": figure_8,
    },
)
