"""Figure 2 of the paper on neural ODEs, and figures of gradients, stability, chaos and reused trajectories."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.finite.descent import AdjointDescent
from learndyn.families.neural_ode.inference import inference, stationary_flow
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.recovery import recovery
from learndyn.families.neural_ode.solve import OverlapMap
from learndyn.papers.captions.neural_ode import FACTS
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS, THEORY_COLOUR
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream, Supply
from learndyn.problem.tasks import TeacherFlow
from learndyn.problem.training import GradientDescent

STEP, LOSS = "training step a", "loss  $|y − x|^2/(2d)$"
EULER = 0.1
"""The Euler step h, unless a figure states another."""
UNIT_AXES = ("unit", "unit2", "teacher_unit")


def flow(
    time: float, ratio: float, g2: float = 0.8, step: float = EULER, **settings: Any
) -> NeuralODE:
    """The flow with G(q, m) = 0.8 q m + (g_2/2) q² and μ̂(z) = z, for a time T and σ = `ratio`, with Euler step h."""
    field = PolynomialField(np.array([[0.0, 0.0], [0.0, 0.8], [g2 / 2, 0.0]]))
    return NeuralODE(field, ratio, time, round(time / step), **settings)


def trained(network: NeuralODE, rate: float, steps: int, data: Supply | None = None) -> Problem:
    """The network, trained on a stream of single fresh trajectories unless `data` says otherwise."""
    return Problem(network, data or Stream(TeacherFlow()), GradientDescent(rate, steps=steps))


def evenly_spaced_steps(steps: int, count: int = 11) -> np.ndarray:
    """About `count` training steps from 0 to `steps`, at which finite systems are drawn."""
    return np.unique(np.linspace(0, steps, count).round().astype(int))


def of_one_unit(solution: Solution, name: str) -> xr.DataArray:
    """An observable of a flow with one control, without the axes of units."""
    values = solution[name]
    return values.squeeze([axis for axis in UNIT_AXES if axis in values.dims])


def draw_line(axes: Axes, theory: Solution, name: str, label: str | None, **look: Any) -> None:
    """Draw an observable of a theory against training steps."""
    values = of_one_unit(theory, name)
    axes.plot(theory["step"], values, label=label, **({"lw": 1.4, "zorder": 3} | look))


def name_points(axes: Axes, words: str) -> None:
    """Add a legend entry for the points."""
    axes.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=words)


def _from_start(solution: Solution, name: str) -> np.ndarray:
    """Q, m, or C_θ(a, 0); in simulations the first axis is that of the seeds."""
    values = of_one_unit(solution, name)
    return (values.isel(step2=0) if name == "C_theta" else values).values


SYMBOLS = {"Q": "$Q(a)$", "m": "$m(a)$", "C_theta": "$C_θ(a, 0)$"}


def figure_2(
    report: Report,
    sizes: Sequence[int] = (150, 100),
    seeds: int = 10,
    steps: Sequence[int] = (300, 100),
) -> Figure:
    """The norm of the control, and its overlaps with the teacher's and with its initial value."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    settings = ((0.5, 1.0, "(a)"), (1.0, 0.75, "(b)"))
    for number, (time, ratio, letter) in enumerate(settings):
        axes, last, size = panels[number], steps[number], sizes[number]
        problem = trained(flow(time, ratio, adjoint="truncated"), 0.1, last)
        theory = solve(problem)
        drawn_steps = evenly_spaced_steps(last)
        runs = simulate(problem, size, seeds, save_at=drawn_steps)
        for colour, (name, symbol) in zip(COLOURS, SYMBOLS.items(), strict=False):
            line = {"color": colour, "lw": 1.4, "zorder": 3}
            axes.plot(theory["step"], _from_start(theory, name), label=symbol, **line)
            draw_points(axes, drawn_steps, _from_start(runs, name), colour)
        name_points(axes, f"d = {size}, {seeds} fields")
        title = f"{letter} T = {time:g}, σ = {ratio:g}, η = 0.1"
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.07), "ncols": 4}
        words = "overlap" if number == 0 else ""
        finish_panel(axes, title, above, xlabel=STEP, ylabel=words)
        report((number + 1) / len(settings))
    return figure


def gradients(report: Report, size: int = 100, seeds: int = 10, steps: int = 40) -> Figure:
    """The true gradient and the truncated one of the paper."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    losses, overlaps = figure.subplots(1, 2)
    drawn_steps = evenly_spaced_steps(steps)
    for number, adjoint in enumerate(("true", "truncated")):
        problem = trained(flow(2.0, 0.75, adjoint=adjoint), 0.1, steps)
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        look = {"color": COLOURS[number]}
        draw_line(losses, theory, "test_loss", f"{adjoint} gradient", **look)
        draw_points(losses, drawn_steps, runs["test_loss"].values, COLOURS[number])
        for name, style in (("Q", "-"), ("m", "--")):
            label = f"{SYMBOLS[name]}, {adjoint}"
            draw_line(overlaps, theory, name, label, ls=style, **look)
            draw_points(overlaps, drawn_steps, of_one_unit(runs, name).values, COLOURS[number])
        report((number + 1) / 2)
    name_points(losses, f"d = {size}, {seeds} fields")
    corner = {"loc": "lower left"}
    title, words = "(a) loss of fresh trajectories", {"xlabel": STEP, "ylabel": LOSS}
    finish_panel(losses, title, corner, yscale="log", **words)
    title, words = "(b) norm and overlap of the control", {"xlabel": STEP, "ylabel": "overlap"}
    finish_panel(overlaps, title, {"loc": "lower right"}, **words)
    return figure


def stability(
    report: Report,
    times: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    rate: float = 1.7,
    steps: int = 30,
    size: int = 100,
    seeds: int = 6,
) -> Figure:
    """The growth of small deviations from recovery against the rate, and training from far away at a stable rate."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    near, far = figure.subplots(1, 2)
    rates = np.geomspace(0.05, 10.0, 121)
    near.axhline(1.0, color="0.55", lw=0.8)
    for done, (time, colour) in enumerate(zip(times, COLOURS, strict=False)):
        network = flow(time, 0.75, adjoint="truncated")
        recoveries = [recovery(trained(network, eta, 1)) for eta in rates]
        radii = np.array([result.spectral_radius for result in recoveries])
        edge = recoveries[0].largest_rate
        near.plot(rates, radii, color=colour, lw=1.4, label=f"T = {time:g}, η < {edge:.2f}")
        near.plot([edge], [1.0], "o", color=colour, ms=5, zorder=4)
        report(0.5 * (done + 1) / len(times))
    words = {"xlabel": "learning rate η", "ylabel": "spectral radius at recovery"}
    title = "(a) deviations from Q = m = 1, a step"
    finish_panel(near, title, {}, xscale="log", ylim=(0, 2), **words)
    starts = ((0.0, "truncated"), (0.3, "truncated"), (0.8, "truncated"), (0.0, "true"))
    for done, (overlap, adjoint) in enumerate(starts):
        network = flow(1.0, 0.75, adjoint=adjoint, initial_overlap=overlap)
        problem, colour = trained(network, rate, steps), COLOURS[done]
        label = f"$m_0$ = {overlap:g}, {adjoint} gradient"
        draw_line(far, solve(problem), "test_loss", label, color=colour)
        for seed in range(seeds):
            run = simulate(problem, size, first_seed=seed)
            look: dict[str, Any] = {"color": colour, "lw": 0.6, "alpha": 0.45, "zorder": 1}
            far.plot(run["step"], run["test_loss"].values[0], **look)
        report(0.5 + 0.5 * (done + 1) / len(starts))
    far.plot([], [], color="0.4", lw=0.6, alpha=0.7, label=f"single fields, d = {size}")
    limits = {"yscale": "log", "ylim": (1e-5, 2e2), "xlim": (0, steps)}
    title = f"(b) T = 1, η = {rate:g}, from far and near"
    finish_panel(far, title, {"ncols": 2, "fontsize": 7.5}, xlabel=STEP, ylabel=LOSS, **limits)
    return figure


def closed_lyapunov(g2: float) -> float:
    """λ = √(g_1 + ¾g_2q) − μ with μ² = g_1 + g_2q/3, for g_1 = 0.8, G(q, 1) = g_1q + g_2q²/2 and μ = q."""
    q = g2 / 6 + np.sqrt(g2**2 / 36 + 0.8)
    return float(np.sqrt(0.8 + 0.75 * g2 * q) - q)


def chaos(
    report: Report,
    strengths: Sequence[float] = (0.8, 3.0, 8.0),
    count: int = 33,
    grids: Sequence[float] = (0.1, 0.05, 0.025),
    time: float = 12.0,
) -> Figure:
    """The teacher's flow alone: stationary correlation, Lyapunov exponent, growth of perturbations."""
    figure = Figure(figsize=(11.4, 3.6), layout="constrained")
    decay, exponent, growth = figure.subplots(1, 3)
    for colour, g2 in zip(COLOURS, strengths, strict=False):
        C = stationary_flow(flow(1.0, 1.0, g2)).correlation
        decay.plot(C["tau"], C, color=colour, lw=1.4, label=f"$g_2$ = {g2:g}")
        q, tau = float(C[0]), np.linspace(0.0, 8.0, 17)
        closed = q / np.cosh(tau * np.sqrt(g2 * q / 12)) ** 2
        decay.plot(tau, closed, "o", color=colour, mfc="white", ms=3.5)
    name_points(decay, "$q\\,\\mathrm{sech}^2(τ\\sqrt{g_2q/12})$")
    words = {"xlabel": "time difference τ", "ylabel": "$C(τ)$", "xlim": (0, 8)}
    finish_panel(decay, "(a) stationary correlation", {}, **words)
    report(0.2)
    g2_grid = np.linspace(0.05, 8.0, count)
    exponents = [stationary_flow(flow(1.0, 1.0, g2)).lyapunov for g2 in g2_grid]
    exponent.plot(g2_grid, exponents, color=COLOURS[0], lw=1.4, label="from C(τ)")
    dots: dict[str, Any] = {"color": THEORY_COLOUR, "mfc": "white", "ms": 3.5}
    closed = [closed_lyapunov(g2) for g2 in g2_grid[::3]]
    exponent.plot(g2_grid[::3], closed, "o", label="closed form", **dots)
    words = {"xlabel": "strength $g_2$ of the part without control"}
    words |= {"ylabel": "Lyapunov exponent λ [1/time]"}
    finish_panel(exponent, "(b) chaos of the teacher", {"loc": "lower right"}, **words)
    report(0.7)
    shown = strengths[1]
    for done, (step, style) in enumerate(zip(grids, (":", "--", "-"), strict=False)):
        rates = inference(flow(1.0, 1.0, shown, step=step), time=time)["growth"]
        look: dict[str, Any] = {"color": COLOURS[1], "ls": style, "lw": 1.4}
        growth.plot(rates["middle"], rates, label=f"h = {step:g}", **look)
        report(0.7 + 0.3 * (done + 1) / len(grids))
    label = f"λ = {closed_lyapunov(shown):.3f}"
    growth.axhline(closed_lyapunov(shown), color=THEORY_COLOUR, lw=0.8, label=label)
    words = {"xlabel": "time t from the start", "ylabel": "growth rate [1/time]"}
    title = f"(c) growth of perturbations, $g_2$ = {shown:g}"
    finish_panel(growth, title, {}, ylim=(0.3, 0.66), **words)
    return figure


def adjoints(
    report: Report,
    g2: float = 3.0,
    time: float = 12.0,
    short: float = 3.0,
    size: int = 80,
    seeds: int = 20,
) -> Figure:
    """The adjoint of a chaotic flow, back from its end: without training, and before the first training step."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    alone, training = figure.subplots(1, 2)
    kinds = (("true", 1), ("truncated", 2))
    rate = closed_lyapunov(g2)
    for done, (adjoint, factor) in enumerate(kinds):
        colour = COLOURS[done]
        network = flow(1.0, 0.75, g2, adjoint=adjoint)
        flow_alone = inference(network, time=time, adjoint_end="state")
        back = time - flow_alone["time"].values
        C_pp = np.diagonal(flow_alone["C_pp"].values)
        alone.plot(back, C_pp, color=colour, lw=1.4, label=f"{adjoint} adjoint")
        slope = C_pp[0] * np.exp(2 * factor * rate * (back - back[0]))
        label = f"$e^{{{2 * factor}λt}}$"
        alone.plot(back, slope, color=colour, lw=0.9, ls=":", label=label)
        problem = trained(flow(short, 0.75, g2, adjoint=adjoint), 0.1, 1)
        theory = solve(problem, OverlapMap(inference_steps=(0,)))
        method = AdjointDescent(inference_steps=(0,))
        runs = simulate(problem, size, seeds, method=method)["C_pp"].values[:, 0]
        times = short - theory["inference_time"].values
        training.plot(
            times, np.diagonal(theory["C_pp"].values[0]), color=colour, lw=1.4,
            label=f"{adjoint} adjoint",
        )  # fmt: skip
        every_third = slice(None, None, 3)
        points = np.diagonal(runs, axis1=1, axis2=2)[:, every_third]
        draw_points(training, times[every_third], points, colour)
        report((done + 1) / len(kinds))
    name_points(training, f"d = {size}, {seeds} fields")
    words = {"xlabel": "time before the end", "ylabel": "$C_{pp}(t, t)$", "yscale": "log"}
    finish_panel(alone, "(a) the flow alone, from $p_N = x_N$", {"loc": "upper left"}, **words)
    finish_panel(training, "(b) before the first training step", {"loc": "upper left"}, **words)
    return figure


def reuse(
    report: Report,
    sizes: Sequence[int] = (80, 160),
    seeds: int = 20,
    steps: int = 40,
    examples: Sequence[int] = (1, 2, 4),
) -> Figure:
    """Train and test loss for a few reused trajectories, for fresh ones, and for the pieces of one long trajectory."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    reused, streamed = figure.subplots(1, 2, sharey=True)
    small, large = sizes
    curves: list[tuple[Axes, Supply, str, str, int]] = [
        (reused, Dataset(TeacherFlow(), examples=n), f"n = {n}", colour, small)
        for n, colour in zip(examples, COLOURS, strict=False)
    ]
    curves += [
        (reused, Stream(TeacherFlow()), "fresh ones", THEORY_COLOUR, small),
        (streamed, Stream(TeacherFlow(chained=True)), "chained", COLOURS[3], large),
        (streamed, Stream(TeacherFlow()), "fresh ones", THEORY_COLOUR, large),
    ]
    drawn_steps = evenly_spaced_steps(steps, 9)
    for done, (axes, data, label, colour, size) in enumerate(curves):
        # One trajectory has d numbers, and there are 1.5 d controls.
        problem = trained(flow(1.0, 1.5, step=0.2), 0.5, steps, data)
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        draw_line(axes, theory, "test_loss", label, color=colour)
        draw_points(axes, drawn_steps, runs["test_loss"].values, colour, mfc=colour)
        if "train_loss" in theory.observables:
            draw_line(axes, theory, "train_loss", None, color=colour, ls="--")
            draw_points(axes, drawn_steps, runs["train_loss"].values, colour)
        if axes is streamed:
            smaller = simulate(problem, small, seeds, save_at=drawn_steps)
            mean = smaller["test_loss"].values.mean(axis=0)
            axes.plot(drawn_steps, mean, "x", color=colour, ms=5)
        report((done + 1) / len(curves))
    for axes, size in ((reused, small), (streamed, large)):
        for words, ls, fill in (("test loss", "-", "0.4"), ("train loss", "--", "white")):
            look: dict[str, Any] = {"ls": ls, "marker": "o", "mfc": fill, "ms": 3.5, "lw": 1.4}
            axes.plot([], [], color="0.4", label=f"{words}, d = {size}", **look)
    streamed.plot([], [], "x", color="0.4", ms=5, label=f"test loss, d = {small}, mean")
    axis: dict[str, Any] = {"xlabel": STEP, "yscale": "log", "ylim": (2e-5, 1.0)}
    corner = {"loc": "lower left"}
    finish_panel(reused, "(a) n trajectories at every step", corner, ylabel=LOSS, **axis)
    finish_panel(streamed, "(b) one new trajectory a step", corner, **axis)
    return figure


register_figures(
    FACTS,
    {
        "neural-ode-2": figure_2,
        "neural-ode-gradient": gradients,
        "neural-ode-stability": stability,
        "neural-ode-chaos": chaos,
        "neural-ode-adjoint": adjoints,
        "neural-ode-reuse": reuse,
    },
)
