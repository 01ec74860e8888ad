"""Pictures of neural ODEs with several neurons, windows, observations, delays and stacked systems."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.families.neural_ode.fields import PolynomialField
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.papers.captions.neural_ode_family import FACTS
from learndyn.papers.neural_ode_parts import (
    LOSS,
    STEP,
    Curve,
    evenly_spaced_steps,
    flow,
    theory_and_systems,
    trained,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    NEUTRAL,
    THEORY_COLOUR,
    TRAIN,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import Observations, TeacherFlow

GRID = 1 / 6
"""The Euler step h, unless a picture states another."""


def problem_of_neurons(steps: int = 60) -> Problem:
    """Three trained neurons, of which the teacher has one."""
    amplitudes = np.array([1.0, 1.0, -0.6])
    network = flow(1.0, 0.75, step=GRID, amplitudes=amplitudes, train_amplitudes=True)
    return trained(network, 2.0, steps)


def neurons(report: Report, size: int = 100, seeds: int = 10, steps: int = 60) -> Figure:
    """The amplitudes of a student with more neurons than its teacher, each with a field of its own."""
    figure, panels = new_panels(1, 2)
    amplitudes, learned = panels.flat
    pair = theory_and_systems(problem_of_neurons(steps), size, seeds, evenly_spaced_steps(steps))
    report(1.0)
    amplitudes.axhline(0.0, **GUIDE)
    names = []
    for unit, colour in zip(range(3), COLOURS, strict=False):
        names.append((pair.curve("a", unit=unit).draw(amplitudes, colour), f"$a_{unit + 1}$"))
        label = f"$Q_{{{unit + 1}{unit + 1}}}$"
        pair.curve("Q", unit=unit, unit2=unit).draw(learned, colour, label)
    a, m = pair.curve("a", unit=0), pair.curve("m", unit=0)
    product = Curve(a.steps, a.values * m.values / 3, a.drawn_steps, a.runs * m.runs / 3)
    product.draw(learned, THEORY_COLOUR, r"$(a_1/h_s)\, θ_1·θ^*/d_θ$")
    finish(amplitudes, "amplitudes", xlabel=STEP, ylabel="amplitude a")
    finish(learned, "norms, and what is learned", xlabel=STEP, ylabel="overlap", ylim=(-0.2, 4.6))
    name_lines(amplitudes, names, room=0.1)
    legend_of(amplitudes, f"networks, d = {size}", loc="center right", bbox_to_anchor=(1.0, 0.55))
    legend_of(learned, loc="upper right", ncols=2)
    letter(panels.flat)
    return figure


def problem_of_windows(observations: Observations | None = None, steps: int = 120) -> Problem:
    """A flow with one control for each half of its time."""
    data = Stream(TeacherFlow(observations=observations))
    return trained(flow(1.0, 0.75, step=GRID, windows=2), 1.0, steps, data)


def windows(report: Report, size: int = 100, seeds: int = 10, steps: int = 120) -> Figure:
    """Overlaps of the controls of two windows with the teacher's; the loss sees the end, or the boundary too."""
    figure, panels = new_panels(1, 2, sharey=True, panel=(3.4, 3.2))
    seen = ((None, "seen at the end"), (Observations([0.5, 1.0]), "seen after each window"))
    names = ((0, 0, "first, its own"), (1, 1, "second, its own"), (0, 1, "first, the other's"))
    for done, (observations, title) in enumerate(seen):
        panel = panels[0, done]
        problem = problem_of_windows(observations, steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
        for (i, j, words), colour in zip(names, COLOURS, strict=False):
            curve = pair.curve("m", unit=i, teacher_unit=j)
            curve.draw(panel, colour, f"$M_{{{i + 1}{j + 1}}}$: {words}")
        total, runs = (solution["m"].values.sum(axis=(-1, -2)) / 2 for solution in pair)
        steps_of = [solution["step"].values for solution in pair]
        Curve(steps_of[0], total, steps_of[1], runs).draw(panel, THEORY_COLOUR, "half the sum")
        finish(panel, title, xlabel=STEP)
        report((done + 1) / len(seen))
    panels[0, 0].set_ylabel("overlap with the teacher")
    legend_of(panels[0, 0], f"networks, d = {size}", loc="center right", bbox_to_anchor=(1, 0.45))
    letter(panels.flat)
    return figure


def problem_of_early_stopping(examples: int = 2, steps: int = 40) -> Problem:
    """A few noisy trajectories, used at every step."""
    data = Dataset(TeacherFlow(noise=1 / 3), examples=examples)
    return trained(flow(1.0, 1.0, step=0.2), 0.5, steps, data)


def early_stopping(
    report: Report,
    size: int = 80,
    seeds: int = 20,
    steps: int = 40,
    examples: Sequence[int] = (1, 2, 4),
) -> Figure:
    """Train and test loss for reused trajectories of a noisy teacher."""
    figure, panels = new_panels(1, 2, sharey=True)
    tested, fitted = panels.flat
    names: tuple[list, list] = ([], [])
    for done, (n, colour) in enumerate(zip(examples, COLOURS, strict=False)):
        problem = problem_of_early_stopping(n, steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
        losses = pair.curve("test_loss")
        names[0].append((losses.draw(tested, colour), f"n = {n}"))
        names[1].append((pair.curve("train_loss").draw(fitted, colour, ls=TRAIN), f"n = {n}"))
        best = int(np.argmin(losses.values))
        tested.plot([best], [losses.values[best]], "v", color=colour, ms=8, zorder=5)
        report((done + 1) / len(examples))
    tested.plot([], [], "v", color=NEUTRAL, ms=8, label="where to stop")
    finish(tested, "test loss", xlabel=STEP, ylabel=LOSS, ylim=(0, 0.75))
    finish(fitted, "train loss", xlabel=STEP)
    for panel, named in zip((tested, fitted), names, strict=True):
        name_lines(panel, named, room=0.17)
    legend_of(tested, f"networks, d = {size}", loc="lower left")
    letter(panels.flat)
    return figure


def problem_of_next_token(chained: bool = True, noise: float = 0.0, steps: int = 50) -> Problem:
    """Trained on the pieces of one long trajectory, or on fresh ones."""
    data = Stream(TeacherFlow(noise=noise, chained=chained))
    return trained(flow(1.0, 0.75, step=0.2, noise=noise), 0.4, steps, data)


def next_token(report: Report, size: int = 100, seeds: int = 20, steps: int = 50) -> Figure:
    """One long trajectory cut into pieces, compared with fresh starts, without and with noise."""
    figure, panels = new_panels(1, 2)
    losses, overlaps = panels.flat
    overlaps.axhline(1.0, **GUIDE)
    done = 0
    for panel, noise in ((losses, 0.0), (overlaps, 0.1)):
        for chained, colour in ((True, COLOURS[3]), (False, THEORY_COLOUR)):
            problem = problem_of_next_token(chained, noise, steps)
            pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
            label = "next piece of one trajectory" if chained else "fresh trajectories"
            if noise:
                pair.curve("m").draw(panel, colour, label)
            else:
                pair.curve("test_loss").draw(panel, colour)
            if chained and not noise:
                pair.curve("train_loss").draw(panel, colour, ls=TRAIN)
            done += 1
            report(done / 4)
    finish(losses, "without noise", xlabel=STEP, ylabel=LOSS, yscale="log", ylim=(1e-6, 1))
    finish(overlaps, "with noise, $τ_s = τ_t = 0.1$", xlabel=STEP, ylabel="overlap m")
    legend_of(losses, train=True, loc="lower left")
    legend_of(overlaps, f"networks, d = {size}", loc="lower right")
    letter(panels.flat)
    return figure


def problem_of_masks(observations: Observations | None = None, steps: int = 30) -> Problem:
    """A flow whose teacher is seen at the end, or as the observations say."""
    data = Stream(TeacherFlow(observations=observations))
    return trained(flow(1.0, 0.75, step=GRID), 1.0, steps, data)


def masks(
    report: Report, size: int = 100, seeds: int = 10, steps: int = 30, visible: float = 0.4
) -> Figure:
    """Training if the loss sees the end, two times, or a part of the components at two times."""
    figure, panels = new_panels(1, 2)
    overlaps, norms = panels.flat
    kinds = (
        ("the end", None),
        ("two times", Observations([0.5, 1.0])),
        (f"two times, ρ = {visible:g}", Observations([0.5, 1.0], visible=visible)),
        ("the same, one mask", Observations([0.5, 1.0], visible=visible, mask="trajectory")),
    )
    for done, ((words, seen), colour) in enumerate(zip(kinds, COLOURS, strict=False)):
        problem = problem_of_masks(seen, steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
        pair.curve("m").draw(overlaps, colour, words)
        pair.curve("Q").draw(norms, colour)
        report((done + 1) / len(kinds))
    finish(overlaps, "overlap with the teacher", xlabel=STEP, ylabel="overlap m")
    finish(norms, "norm of the control", xlabel=STEP, ylabel="norm Q")
    legend_of(overlaps, loc="lower right")
    legend_of(norms, f"networks, d = {size}", loc="upper right")
    letter(panels.flat)
    return figure


CONTEXT = PolynomialField(np.array([[[0.0, 0.0], [0.0, 0.4]], [[0.0, 0.0], [0.0, 0.8]]]))
"""G(q, m, s) = 0.4 q m + 0.8 q m s."""


def problem_of_context(delay: float = 0.5, steps: int = 30) -> Problem:
    """A flow whose field also depends on the state a `delay` ago."""
    return trained(NeuralODE(CONTEXT, 0.75, 2.0, 12, delay=delay), 0.2, steps)


def context(
    report: Report,
    size: int = 50,
    seeds: int = 10,
    steps: int = 30,
    delays: Sequence[float] = (0.0, 0.5, 1.0),
) -> Figure:
    """Training in a field that also depends on an earlier state."""
    figure, panels = new_panels(1, 2)
    overlaps, losses = panels.flat
    for done, (delay, colour) in enumerate(zip(delays, COLOURS, strict=False)):
        problem = problem_of_context(delay, steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
        pair.curve("m").draw(overlaps, colour, f"delay {delay:g}")
        pair.curve("test_loss").draw(losses, colour)
        report((done + 1) / len(delays))
    finish(overlaps, "overlap with the teacher", xlabel=STEP, ylabel="overlap m")
    finish(losses, "loss", xlabel=STEP, ylabel=LOSS)
    legend_of(overlaps, loc="lower right")
    legend_of(losses, f"networks, d = {size}", loc="upper right")
    letter(panels.flat)
    return figure


DRIVEN = PolynomialField(np.array([[[0.0, 0.0], [0.0, 0.4]], [[0.0, 0.0], [0.4, 0.4]]]))
"""G(q, m, s) = 0.4 q m + 0.4 q s + 0.4 q m s."""


def problem_of_stack(driver_loss: float = 0.0, steps: int = 80) -> Problem:
    """A system that is driven by another one."""
    network = flow(1.0, 0.75, step=GRID, driven=DRIVEN, driver_loss=driver_loss)
    return trained(network, 0.5, steps)


def stack(report: Report, size: int = 50, seeds: int = 10, steps: int = 80) -> Figure:
    """The controls of a driver and of the system that it drives."""
    figure, panels = new_panels(1, 2, sharey=True)
    titles = ("the driven system is seen", "the driver is seen too")
    for done, (share, title) in enumerate(zip((0.0, 0.3), titles, strict=True)):
        panel = panels[0, done]
        problem = problem_of_stack(share, steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps))
        for unit, words in enumerate(("driver", "driven system")):
            curve = pair.curve("m", unit=unit, teacher_unit=unit)
            curve.draw(panel, COLOURS[unit], f"$m_{unit + 1}$, {words}")
        finish(panel, title, xlabel=STEP)
        report((done + 1) / 2)
    panels[0, 0].set_ylabel("overlap with the teacher")
    legend_of(panels[0, 1], f"networks, d = {size}", loc="lower right")
    letter(panels.flat)
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
    {
        "neural-ode-neurons": problem_of_neurons,
        "neural-ode-windows": problem_of_windows,
        "neural-ode-early-stopping": problem_of_early_stopping,
        "neural-ode-next-token": problem_of_next_token,
        "neural-ode-masks": lambda: problem_of_masks(Observations([0.5, 1.0], visible=0.4)),
        "neural-ode-context": problem_of_context,
        "neural-ode-stack": problem_of_stack,
    },
)
