"""Figure 2 of the paper on neural ODEs, and pictures of gradients, stability and reused trajectories."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solve import solve
from learndyn.families.neural_ode.recovery import recovery
from learndyn.papers.captions.neural_ode import FACTS
from learndyn.papers.neural_ode_parts import (
    LOSS,
    STEP,
    evenly_spaced_steps,
    flow,
    theory_and_systems,
    trained,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    GUIDE,
    NEUTRAL,
    THEORY_COLOUR,
    TRAIN,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream, Supply
from learndyn.problem.tasks import TeacherFlow

SYMBOLS = {"Q": "$Q(a)$", "m": "$m(a)$", "C_theta": "$C_θ(a, 0)$"}
SETTINGS = ((0.5, 1.0), (1.0, 0.75))
"""T and σ of the panels of Figure 2."""


def problem_of_figure_2(panel: int = 1, steps: int = 100) -> Problem:
    """The problem of a panel of Figure 2."""
    time, ratio = SETTINGS[panel]
    return trained(flow(time, ratio, adjoint="truncated"), 0.1, steps)


def figure_2(
    report: Report,
    sizes: Sequence[int] = (150, 100),
    seeds: int = 10,
    steps: Sequence[int] = (300, 100),
) -> Figure:
    """The norm of the control, and its overlaps with the teacher's and with its initial value."""
    figure, panels = new_panels(1, 2, sharey=True)
    for number, (time, ratio) in enumerate(SETTINGS):
        panel, last, size = panels[0, number], steps[number], sizes[number]
        pair = theory_and_systems(
            problem_of_figure_2(number, last), size, seeds, evenly_spaced_steps(last)
        )
        lines = []
        for colour, (name, symbol) in zip(COLOURS, SYMBOLS.items(), strict=False):
            # Of C_θ(a, b) the column b = 0.
            column = {"step2": 0} if name == "C_theta" else {}
            lines.append((pair.curve(name, **column).draw(panel, colour), symbol))
        finish(panel, f"T = {time:g}, σ = {ratio:g}", xlabel=STEP)
        name_lines(panel, lines, room=0.24)
        legend_of(panel, f"networks, d = {size}", loc="center right", bbox_to_anchor=(1.0, 0.42))
        report((number + 1) / len(SETTINGS))
    panels[0, 0].set_ylabel("overlap")
    letter(panels.flat)
    return figure


def gradients(report: Report, size: int = 100, seeds: int = 10, steps: int = 40) -> Figure:
    """The true gradient and the truncated one of the paper."""
    figure, panels = new_panels(2, 2)
    (losses, norms), (overlaps, plane) = panels
    drawn_steps = evenly_spaced_steps(steps)
    for number, adjoint in enumerate(("true", "truncated")):
        problem, colour = trained(flow(2.0, 0.75, adjoint=adjoint), 0.1, steps), COLOURS[number]
        pair = theory_and_systems(problem, size, seeds, drawn_steps)
        for panel, name in ((losses, "test_loss"), (norms, "Q"), (overlaps, "m")):
            pair.curve(name).draw(panel, colour, f"{adjoint} gradient")
        m, Q = pair.curve("m"), pair.curve("Q")
        draw_theory(plane, m.values, Q.values, colour)
        draw_networks(plane, m.runs.mean(axis=0), Q.runs, colour)
        report((number + 1) / 2)
    finish(losses, "loss of fresh trajectories", yscale="log", xlabel=STEP, ylabel=LOSS)
    finish(norms, "norm of the control", xlabel=STEP, ylabel="norm Q")
    finish(overlaps, "overlap with the teacher", xlabel=STEP, ylabel="overlap m")
    finish(plane, "from the start to the teacher", xlabel="overlap m", ylabel="norm Q")
    plane.plot([0.0], [1.0], "s", color=NEUTRAL, ms=5, label="start")
    plane.plot([1.0], [1.0], "*", color=NEUTRAL, ms=9, label="teacher", zorder=4)
    legend_of(plane, loc="upper center")
    legend_of(losses, f"networks, d = {size}", loc="lower left")
    letter(panels.flat)
    return figure


STARTS = ((0.0, "truncated"), (0.3, "truncated"), (0.8, "truncated"), (0.0, "true"))
"""Initial overlaps and adjoints from which training at a stable rate is shown."""


def stability(
    report: Report,
    times: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    rate: float = 1.7,
    steps: int = 30,
    size: int = 100,
    seeds: int = 6,
) -> Figure:
    """The growth of small deviations from recovery against the rate, and training from far away at a stable rate."""
    figure, panels = new_panels(2, 2)
    near, *far = panels.flat
    rates = np.geomspace(0.05, 10.0, 121)
    near.axhline(1.0, **GUIDE)
    for done, (time, colour) in enumerate(zip(times, COLOURS, strict=False)):
        network = flow(time, 0.75, adjoint="truncated")
        recoveries = [recovery(trained(network, eta, 1)) for eta in rates]
        radii = np.array([result.spectral_radius for result in recoveries])
        edge = recoveries[0].largest_rate
        draw_theory(near, rates, radii, colour, f"T = {time:g}: η < {edge:.2f}")
        near.plot([edge], [1.0], "D", color=colour, ms=4, zorder=4)
        report(0.5 * (done + 1) / len(times))
    words = {"xlabel": "learning rate η", "ylabel": "spectral radius at recovery"}
    finish(near, "small deviations, per step", xscale="log", ylim=(0, 2), **words)
    legend_of(near, loc="lower left", ncols=2, handlelength=1.2, columnspacing=1.0)
    for done, (overlap, adjoint) in enumerate(STARTS):
        panel, colour = far[(0, 1, 1, 2)[done]], COLOURS[done]
        network = flow(1.0, 0.75, adjoint=adjoint, initial_overlap=overlap)
        problem = trained(network, rate, steps)
        theory = solve(problem)
        label = f"theory, $m_0$ = {overlap:g}"
        draw_theory(panel, theory["step"], theory["test_loss"], colour, label)
        for seed in range(seeds):
            # One by one, because each stops where it diverges.
            run = simulate(problem, size, first_seed=seed)
            label = f"networks, d = {size}" if seed == 0 else None
            look: dict[str, Any] = {"color": colour, "lw": 0.7, "alpha": 0.5, "zorder": 1}
            panel.plot(run["step"], run["test_loss"].values[0], label=label, **look)
        report(0.5 + 0.5 * (done + 1) / len(STARTS))
    titles = (
        "truncated gradient, from far",
        "truncated gradient, nearer",
        "true gradient, from far",
    )
    limits = {"yscale": "log", "ylim": (1e-5, 3e2), "xlim": (0, steps)}
    for panel, title in zip(far, titles, strict=True):
        finish(panel, title, xlabel=STEP, ylabel=LOSS, **limits)
        legend_of(panel, loc="upper right")
    letter(panels.flat)
    return figure


def reuse(
    report: Report,
    sizes: Sequence[int] = (80, 160),
    seeds: int = 20,
    steps: int = 40,
    examples: Sequence[int] = (1, 2, 4),
) -> Figure:
    """Train and test loss for a few reused trajectories, for fresh ones, and for the pieces of one long trajectory."""
    figure, panels = new_panels(1, 2, sharey=True, panel=(3.4, 3.4))
    reused, streamed = panels.flat
    small, large = sizes
    curves: list[tuple[Axes, Supply, str, str, int]] = [
        (reused, Dataset(TeacherFlow(), examples=n), f"n = {n}", colour, small)
        for n, colour in zip(examples, COLOURS, strict=False)
    ]
    curves += [
        (reused, Stream(TeacherFlow()), "fresh", THEORY_COLOUR, small),
        (streamed, Stream(TeacherFlow(chained=True)), "chained", COLOURS[3], large),
        (streamed, Stream(TeacherFlow()), "fresh", THEORY_COLOUR, large),
    ]
    drawn_steps = evenly_spaced_steps(steps, 9)
    lines: dict[Axes, list[Any]] = {reused: [], streamed: []}
    for done, (panel, data, label, colour, size) in enumerate(curves):
        problem = problem_of_reuse(data, steps)
        pair = theory_and_systems(problem, size, seeds, drawn_steps)
        lines[panel].append((pair.curve("test_loss").draw(panel, colour), label))
        if "train_loss" in pair.theory.observables:
            pair.curve("train_loss").draw(panel, colour, ls=TRAIN)
        if panel is streamed:
            smaller = simulate(problem, small, seeds, save_at=drawn_steps)["test_loss"].values
            draw_networks(panel, drawn_steps, smaller, colour, marker="s")
        report((done + 1) / len(curves))
    axis: dict[str, Any] = {"xlabel": STEP, "yscale": "log", "ylim": (2e-5, 1.0)}
    finish(reused, "n trajectories at every step", ylabel=LOSS, **axis)
    finish(streamed, "one new trajectory a step", **axis)
    streamed.plot([], [], color=NEUTRAL, **(CIRCLE | {"marker": "s"}), label=f"d = {small}")
    for panel, size in ((reused, small), (streamed, large)):
        name_lines(panel, lines[panel], room=0.22)
        legend_of(panel, f"networks, d = {size}", train=True, loc="lower left")
    letter(panels.flat)
    return figure


def problem_of_reuse(data: Supply | None = None, steps: int = 40) -> Problem:
    """Trained on one trajectory again and again unless `data` says otherwise.

    One trajectory has d numbers, and there are 1.5 d controls.
    """
    data = data or Dataset(TeacherFlow(), examples=1)
    return trained(flow(1.0, 1.5, step=0.2), 0.5, steps, data)


register_figures(
    FACTS,
    {
        "neural-ode-2": figure_2,
        "neural-ode-gradient": gradients,
        "neural-ode-stability": stability,
        "neural-ode-reuse": reuse,
    },
    {
        "neural-ode-2": problem_of_figure_2,
        "neural-ode-gradient": lambda: trained(flow(2.0, 0.75), 0.1, 40),
        "neural-ode-stability": lambda: trained(flow(1.0, 0.75, adjoint="truncated"), 1.7, 30),
        "neural-ode-reuse": problem_of_reuse,
    },
)
