"""Figures of neural ODEs with several neurons, windows, observations, delays and stacked systems."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.papers.captions.neural_ode_family import FACTS
from learndyn.papers.neural_ode import (
    LOSS,
    STEP,
    draw_line,
    evenly_spaced_steps,
    flow,
    name_points,
    of_one_unit,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.plotting import draw_points, finish_panel
from learndyn.pictures.style import COLOURS, THEORY_COLOUR
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream, Supply
from learndyn.problem.tasks import Observations, TeacherFlow
from learndyn.problem.training import GradientDescent

GRID = 1 / 6
"""The Euler step h, unless a figure states another."""


def asked(
    network: NeuralODE, rate: float, steps: int, data: Supply | None = None, **training: Any
) -> Problem:
    """The network, trained on a stream of single fresh trajectories unless `data` says otherwise."""
    return Problem(
        network, data or Stream(TeacherFlow()), GradientDescent(rate, steps=steps, **training)
    )


def _two_panels(height: float = 3.9, **options: Any) -> tuple[Figure, Any]:
    """A figure with two panels side by side."""
    figure = Figure(figsize=(9.6, height), layout="constrained")
    return figure, figure.subplots(1, 2, **options)


def _curve(
    axes: Axes,
    x: ArrayLike,
    values: Float[np.ndarray, " steps"],
    points: Float[np.ndarray, "seeds drawn_steps"],
    drawn_steps: Int[np.ndarray, " drawn_steps"],
    colour: str,
    label: str | None = None,
    **look: Any,
) -> None:
    """Draw the values of a theory at all steps x, and the points of finite systems at the drawn steps."""
    axes.plot(x, values, color=colour, label=label, **({"lw": 1.4, "zorder": 3} | look))
    draw_points(axes, drawn_steps, points, colour)


def neurons(report: Report, size: int = 100, seeds: int = 10, steps: int = 60) -> Figure:
    """The amplitudes of a student with more neurons than its teacher, each with a field of its own."""
    figure, (amplitudes, learned) = _two_panels()
    network = flow(
        1.0, 0.75, step=GRID, amplitudes=np.array([1.0, 1.0, -0.6]), train_amplitudes=True
    )
    problem = asked(network, 2.0, steps)
    drawn_steps = evenly_spaced_steps(steps)
    theory = solve(problem, save_at=steps + 1)
    runs = simulate(problem, size, seeds, save_at=drawn_steps)
    report(1.0)
    a, M, Q = (theory[name].values for name in ("a", "m", "Q"))
    measured = {name: runs[name].values for name in ("a", "m", "Q")}
    for unit, colour in zip(range(3), COLOURS, strict=False):
        words = "the teacher's" if unit == 0 else "superfluous"
        points = measured["a"][..., unit]
        _curve(
            amplitudes,
            theory["step"],
            a[:, unit],
            points,
            drawn_steps,
            colour,
            f"$a_{unit + 1}$, {words}",
        )
        points = measured["Q"][..., unit, unit]
        label = f"$Q_{{{unit + 1}{unit + 1}}}$"
        _curve(learned, theory["step"], Q[:, unit, unit], points, drawn_steps, colour, label)
    points = measured["a"][..., 0] * measured["m"][..., 0, 0] / 3
    _curve(
        learned, theory["step"], a[:, 0] * M[:, 0, 0] / 3, points, drawn_steps, THEORY_COLOUR,
        r"$(a_1/h_s)\, θ_1·θ^*/d_θ$", ls="--",
    )  # fmt: skip
    name_points(amplitudes, f"d = {size}, {seeds} fields")
    amplitudes.axhline(0.0, color="0.7", lw=0.8)
    finish_panel(amplitudes, "(a) amplitudes", {"loc": "center right", "fontsize": 7.5}, xlabel=STEP,
                 ylabel="amplitude a")  # fmt: skip
    finish_panel(learned, "(b) norms, and what of the teacher is learned", {"fontsize": 7.5},
                 xlabel=STEP, ylabel="overlap")  # fmt: skip
    return figure


def windows(report: Report, size: int = 100, seeds: int = 10, steps: int = 120) -> Figure:
    """Overlaps of the controls of two windows with the teacher's; the loss sees the end, or the boundary too."""
    figure, panels = _two_panels(sharey=True)
    drawn_steps = evenly_spaced_steps(steps)
    seen = (
        (None, "(a) seen at the end"),
        (Observations([0.5, 1.0]), "(b) seen at the end of each window"),
    )
    names = ((0, 0, "first, its own"), (1, 1, "second, its own"), (0, 1, "first, the other's"))
    for done, (observations, title) in enumerate(seen):
        axes = panels[done]
        network = flow(1.0, 0.75, step=GRID, windows=2)
        problem = asked(network, 1.0, steps, Stream(TeacherFlow(observations=observations)))
        theory = solve(problem, save_at=steps + 1)
        runs = simulate(problem, size, seeds, save_at=drawn_steps)
        M, measured = theory["m"].values, runs["m"].values
        for (i, j, words), colour in zip(names, COLOURS, strict=False):
            label = f"$M_{{{i + 1}{j + 1}}}$: {words}"
            _curve(
                axes, theory["step"], M[:, i, j], measured[..., i, j], drawn_steps, colour, label
            )
        total, points = M.sum(axis=(1, 2)) / 2, measured.sum(axis=(-1, -2)) / 2
        _curve(
            axes, theory["step"], total, points, drawn_steps, THEORY_COLOUR, "half the sum", ls="--"
        )
        name_points(axes, f"d = {size}, {seeds} fields")
        words = {"xlabel": STEP, "ylabel": "overlap with the teacher" if done == 0 else ""}
        finish_panel(axes, title, {"loc": "center right", "fontsize": 7.5}, **words)
        report((done + 1) / len(seen))
    return figure


def early_stopping(
    report: Report,
    size: int = 80,
    seeds: int = 20,
    steps: int = 40,
    examples: Sequence[int] = (1, 2, 4),
) -> Figure:
    """Train and test loss for reused trajectories of a noisy teacher."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    drawn_steps = evenly_spaced_steps(steps)
    for done, (n, colour) in enumerate(zip(examples, COLOURS, strict=False)):
        network = flow(1.0, 1.0, step=0.2)
        problem = asked(network, 0.5, steps, Dataset(TeacherFlow(noise=1 / 3), examples=n))
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        for name, style in (("test_loss", "-"), ("train_loss", "--")):
            draw_line(
                axes, theory, name, f"n = {n}" if style == "-" else None, color=colour, ls=style
            )
            fill = {"mfc": colour} if style == "-" else {}
            draw_points(axes, drawn_steps, runs[name].values, colour, **fill)
        losses = theory["test_loss"].values
        best = int(np.argmin(losses))
        axes.plot([best], [losses[best]], "v", color=colour, ms=8, zorder=5)
        report((done + 1) / len(examples))
    for words, ls, fill in (("test loss", "-", "0.4"), ("train loss", "--", "white")):
        look: dict[str, Any] = {"ls": ls, "marker": "o", "mfc": fill, "ms": 3.5, "lw": 1.4}
        axes.plot([], [], color="0.4", label=f"{words}, d = {size}", **look)
    axes.plot([], [], "v", color="0.4", ms=8, label="where to stop")
    title = "n trajectories of a noisy teacher at every step"
    finish_panel(
        axes, title, {"ncols": 2, "fontsize": 7.5}, xlabel=STEP, ylabel=LOSS, ylim=(0, 0.75)
    )
    return figure


def next_token(report: Report, size: int = 100, seeds: int = 20, steps: int = 50) -> Figure:
    """One long trajectory cut into pieces, compared with fresh starts, without and with noise."""
    figure, panels = _two_panels(4.0)
    drawn_steps = evenly_spaced_steps(steps)
    done = 0
    for axes, noise, title in zip(
        panels, (0.0, 0.1), ("(a) without noise", "(b) with noise, $τ_s = τ_t = 0.1$"), strict=True
    ):
        for chained, colour in ((True, COLOURS[3]), (False, THEORY_COLOUR)):
            network = flow(1.0, 0.75, step=0.2, noise=noise)
            problem = asked(network, 0.4, steps, Stream(TeacherFlow(noise=noise, chained=chained)))
            theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
            label = "next piece of one trajectory" if chained else "fresh trajectories"
            names = ("test_loss", "train_loss") if noise == 0 else ("m",)
            for name in names:
                if name in theory.observables:
                    style = "--" if name == "train_loss" else "-"
                    shown = None if name == "train_loss" else label
                    draw_line(axes, theory, name, shown, color=colour, ls=style)
                    draw_points(axes, drawn_steps, of_one_unit(runs, name).values, colour)
            done += 1
            report(done / 4)
        name_points(axes, f"d = {size}, {seeds} fields")
        if noise == 0:
            axes.plot(
                [], [], color="0.4", ls="--", lw=1.4, label="loss of the pieces, before training"
            )
            finish_panel(axes, title, {"loc": "lower left", "fontsize": 7.5}, xlabel=STEP, ylabel=LOSS,
                         yscale="log", ylim=(1e-5, 1))  # fmt: skip
        else:
            axes.axhline(1.0, color="0.7", lw=0.8)
            finish_panel(axes, title, {"loc": "lower right", "fontsize": 7.5}, xlabel=STEP,
                         ylabel="overlap m with the teacher's control")  # fmt: skip
    return figure


def masks(
    report: Report, size: int = 100, seeds: int = 10, steps: int = 30, visible: float = 0.4
) -> Figure:
    """Training if the loss sees the end, two times, or a part of the components at two times."""
    figure, (overlaps, norms) = _two_panels()
    drawn_steps = evenly_spaced_steps(steps)
    kinds = (
        ("the end", None),
        ("two times", Observations([0.5, 1.0])),
        (f"two times, ρ = {visible:g}", Observations([0.5, 1.0], visible=visible)),
        ("the same, one mask", Observations([0.5, 1.0], visible=visible, mask="trajectory")),
    )
    for done, ((words, seen), colour) in enumerate(zip(kinds, COLOURS, strict=False)):
        problem = asked(
            flow(1.0, 0.75, step=GRID), 1.0, steps, Stream(TeacherFlow(observations=seen))
        )
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        for axes, name in ((overlaps, "m"), (norms, "Q")):
            draw_line(axes, theory, name, words, color=colour)
            draw_points(axes, drawn_steps, of_one_unit(runs, name).values, colour)
        report((done + 1) / len(kinds))
    name_points(overlaps, f"d = {size}, {seeds} fields")
    finish_panel(overlaps, "(a) overlap with the teacher", {}, xlabel=STEP, ylabel="overlap m")
    finish_panel(norms, "(b) norm of the control", {}, xlabel=STEP, ylabel="norm Q")
    return figure


CONTEXT = PolynomialField(np.array([[[0.0, 0.0], [0.0, 0.4]], [[0.0, 0.0], [0.0, 0.8]]]))
"""G(q, m, s) = 0.4 q m + 0.8 q m s."""


def context(
    report: Report,
    size: int = 50,
    seeds: int = 10,
    steps: int = 30,
    delays: Sequence[float] = (0.0, 0.5, 1.0),
) -> Figure:
    """Training in a field that also depends on an earlier state."""
    figure, (overlaps, losses) = _two_panels()
    drawn_steps = evenly_spaced_steps(steps)
    for done, (delay, colour) in enumerate(zip(delays, COLOURS, strict=False)):
        network = NeuralODE(CONTEXT, 0.75, 2.0, 12, delay=delay)
        problem = asked(network, 0.2, steps)
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        for axes, name in ((overlaps, "m"), (losses, "test_loss")):
            draw_line(axes, theory, name, f"delay {delay:g}", color=colour)
            draw_points(axes, drawn_steps, of_one_unit(runs, name).values, colour)
        report((done + 1) / len(delays))
    name_points(overlaps, f"d = {size}, {seeds} fields")
    finish_panel(overlaps, "(a) overlap with the teacher", {}, xlabel=STEP, ylabel="overlap m")
    finish_panel(losses, "(b) loss", {}, xlabel=STEP, ylabel=LOSS)
    return figure


DRIVEN = PolynomialField(np.array([[[0.0, 0.0], [0.0, 0.4]], [[0.0, 0.0], [0.4, 0.4]]]))
"""G(q, m, s) = 0.4 q m + 0.4 q s + 0.4 q m s."""


def stack(report: Report, size: int = 50, seeds: int = 10, steps: int = 80) -> Figure:
    """The controls of a driver and of the system that it drives."""
    figure, panels = _two_panels(sharey=True)
    drawn_steps = evenly_spaced_steps(steps)
    for done, share in enumerate((0.0, 0.3)):
        axes = panels[done]
        network = flow(1.0, 0.75, step=GRID, driven=DRIVEN, driver_loss=share)
        problem = asked(network, 0.5, steps)
        theory, runs = solve(problem), simulate(problem, size, seeds, save_at=drawn_steps)
        for unit, words in enumerate(("the driver", "the driven system")):
            values, points = theory["m"].values[:, unit, unit], runs["m"].values[..., unit, unit]
            label = f"$m_{unit + 1}$, {words}"
            _curve(axes, theory["step"], values, points, drawn_steps, COLOURS[unit], label)
        name_points(axes, f"d = {size}, {seeds} fields")
        title = "(a) the driven system is seen" if done == 0 else "(b) the driver is seen too"
        words = {"xlabel": STEP, "ylabel": "overlap with the teacher" if done == 0 else ""}
        finish_panel(axes, title, {"loc": "lower right"}, **words)
        report((done + 1) / 2)
    return figure


register_figures(
    FACTS,
    {
        "neural-ode-neurons": neurons,
        "neural-ode-windows": windows,
        "neural-ode-early-stopping": early_stopping,
        "neural-ode-next-token": next_token,
        "neural-ode-masks": masks,
        "neural-ode-context": context,
        "neural-ode-stack": stack,
    },
)
