"""Pictures of neural ODEs with noise in the adjoint, with another time than the teacher's, and with many amplitudes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.papers.captions.neural_ode_variants import FACTS
from learndyn.papers.neural_ode_parts import (
    LOSS,
    STEP,
    Curve,
    evenly_spaced_steps,
    flow,
    theory_and_systems,
    trained,
    without_single_units,
)
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream
from learndyn.problem.tasks import TeacherFlow

GRID = 0.2
"""The Euler step h."""
COSINE = "cosine of the angle  $m/\\sqrt{Q}$"
DOTTED: dict[str, Any] = GUIDE | {"ls": ":"}


def cosine(solution: Solution) -> np.ndarray:
    """m/√Q: the cosine of the angle between the control and the teacher's."""
    return without_single_units(solution, "m").values / np.sqrt(
        without_single_units(solution, "Q").values
    )


def problem_of_noisy_adjoint(noise: float = 3.0, rate: float = 0.3, steps: int = 60) -> Problem:
    """A flow whose adjoint has the temperature τ_p = `noise`."""
    return trained(flow(1.0, 0.75, step=GRID, adjoint_noise=noise), rate, steps)


def noisy_adjoint(
    report: Report,
    size: int = 100,
    seeds: int = 10,
    steps: int = 60,
    noises: Sequence[float] = (0.0, 0.3, 3.0, 10.0),
    rates: Sequence[float] = (0.1, 0.3, 1.0),
    count: int = 16,
) -> Figure:
    """Loss and alignment in the course of training and at its end, against the noise of the adjoint."""
    figure, panels = new_panels(2, 2, panel=(3.4, 3.1))
    (losses, aligned), (floors, ends) = panels
    drawn_steps = evenly_spaced_steps(steps)
    for done, (noise, colour) in enumerate(zip(noises, COLOURS, strict=False)):
        problem = problem_of_noisy_adjoint(noise, steps=steps)
        pair = theory_and_systems(problem, size, seeds, drawn_steps)
        pair.curve("test_loss").draw(losses, colour, f"$τ_p$ = {noise:g}")
        draw_theory(aligned, pair.theory["step"], cosine(pair.theory), colour)
        draw_networks(aligned, drawn_steps, cosine(pair.runs), colour)
        report(0.5 * (done + 1) / len(noises))
    finish(losses, "loss, η = 0.3", xlabel=STEP, ylabel=LOSS, yscale="log", ylim=(1e-5, 1))
    finish(aligned, "alignment, η = 0.3", xlabel=STEP, ylabel=COSINE, ylim=(-0.02, 1.04))
    legend_of(losses, loc="lower left")
    legend_of(aligned, f"networks, d = {size}", loc="lower right")
    grid = np.geomspace(0.03, 15.0, count)
    for done, (rate, colour) in enumerate(zip(rates, COLOURS[3:], strict=False)):
        last = [solve(problem_of_noisy_adjoint(tau, rate, 400), save_at=[400]) for tau in grid]
        left = [float(end["test_loss"][-1]) for end in last]
        draw_theory(floors, grid, left, colour, f"η = {rate:g}")
        draw_theory(ends, grid, [float(cosine(end)[-1]) for end in last], colour)
        # Small rates take longer to come to rest, and so does strong noise with a large rate.
        long = round(steps * max(1.0, 0.3 / rate))
        for tau in (noise for noise in (0.1, 1.0, 10.0) if noise * rate < 4):
            problem = problem_of_noisy_adjoint(tau, rate, long)
            late = simulate(problem, size, seeds, save_at=evenly_spaced_steps(long, 7)[4:])
            for panel, values in ((floors, late["test_loss"].values), (ends, cosine(late))):
                draw_networks(panel, [tau], values.mean(axis=1, keepdims=True), colour)
        report(0.5 + 0.5 * (done + 1) / len(rates))
    noise_axis: dict[str, Any] = {"xlabel": "noise $τ_p$ of the adjoint", "xscale": "log"}
    finish(floors, "loss that is left", ylabel=LOSS, yscale="log", **noise_axis)
    finish(ends, "alignment that is reached", ylabel=COSINE, ylim=(-0.02, 1.04), **noise_axis)
    floors.plot(grid, 0.05 * grid, **DOTTED, label="$∝ τ_p$")
    legend_of(floors, loc="upper left")
    letter(panels.flat)
    return figure


def problem_of_student_time(time: float = 2.0, windows: int = 1, steps: int = 120) -> Problem:
    """A student that flows for T_s = `time`, and has a control for each of its windows; its teacher has T_t = 1."""
    data = Stream(TeacherFlow(time=1.0, windows=1))
    return trained(flow(time, 0.75, step=GRID, windows=windows), 0.3, steps, data)


def student_time(
    report: Report,
    size: int = 80,
    seeds: int = 10,
    steps: int = 120,
    shown: Sequence[float] = (0.6, 1.0, 1.4, 2.0),
    times: Sequence[float] = (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2),
    windowed: Sequence[float] = (1.2, 1.6, 2.0),
) -> Figure:
    """Training of students with less and with more time than their teacher, and where it ends."""
    figure, panels = new_panels(2, 2, panel=(3.4, 3.1))
    (losses, overlaps), (floors, ends) = panels
    last = []
    for done, (time, colour) in enumerate(zip(shown, COLOURS, strict=False)):
        problem = problem_of_student_time(time, steps=steps)
        pair = theory_and_systems(problem, size, seeds, evenly_spaced_steps(steps, 9))
        pair.curve("test_loss").draw(losses, colour, f"$T_s$ = {time:g}")
        pair.curve("m").draw(overlaps, colour)
        last.append((time, pair.runs))
        report(0.5 * (done + 1) / len(shown))
    finish(losses, "loss", xlabel=STEP, ylabel=LOSS, yscale="log", ylim=(1e-6, 1))
    finish(overlaps, "overlap with the teacher", xlabel=STEP, ylabel="overlap m")
    legend_of(losses, loc="lower right")
    legend_of(overlaps, f"networks, d = {size}", loc="lower right")
    for number, grid in enumerate((times, windowed)):
        windows, colour = number + 1, (COLOURS[4], COLOURS[3])[number]
        label = "one control" if windows == 1 else "a control for each half"
        solved = [
            solve(problem_of_student_time(time, windows, 400), save_at=[400]) for time in grid
        ]
        floor = [float(end["test_loss"][-1]) for end in solved]
        draw_theory(floors, grid, floor, colour, label)
        if windows == 1:
            m, Q = (
                np.array([float(without_single_units(end, x)[-1]) for end in solved]) for x in "mQ"
            )
            draw_theory(ends, grid, m, COLOURS[4], "overlap m")
            draw_theory(ends, grid, m / np.sqrt(Q), COLOURS[5], COSINE)
        report(0.5 + 0.25 * windows)
    for time, runs in last:
        draw_networks(floors, [time], runs["test_loss"].values[:, -1:], COLOURS[4])
        draw_networks(ends, [time], without_single_units(runs, "m").values[:, -1:], COLOURS[4])
        draw_networks(ends, [time], cosine(runs)[:, -1:], COLOURS[5])
    ends.plot(times, 1 / np.asarray(times), **DOTTED, label="$T_t/T_s$")
    time_axis = {"xlabel": "time $T_s$ of the student"}
    finish(floors, "loss that is left", ylabel=LOSS, **time_axis)
    finish(ends, "control that is found", ylabel="overlap, cosine", ylim=(0, 2.6), **time_axis)
    for panel in (floors, ends):
        legend_of(panel, loc="upper center" if panel is floors else "upper right")
    letter(panels.flat)
    return figure


def amplitudes_of(exponent: float, neurons: int) -> Float[np.ndarray, " neurons"]:
    """a*_j = h α_j for neurons j = 1 … h, with α_j ∝ j^−β and Σ_j α_j² = 1."""
    alpha = np.arange(1.0, neurons + 1) ** -exponent
    return neurons * alpha / np.sqrt(np.sum(alpha**2))


def problem_of_power_law(
    exponent: float = 1.0, steps: int = 400, neurons: int = 12, known: bool = True
) -> Problem:
    """Teacher and student have neurons with amplitudes ∝ j^−β; unless they are `known`, the student learns them."""
    amplitudes = amplitudes_of(exponent, neurons)
    start = amplitudes if known else np.full(neurons, np.sqrt(neurons))
    network = flow(1.0, 0.75, step=GRID, amplitudes=start, train_amplitudes=not known)
    return trained(network, 1.0, steps, Stream(TeacherFlow(amplitudes=amplitudes)))


def halfway(
    steps: Float[np.ndarray, " steps"], overlaps: Float[np.ndarray, "... steps neurons"]
) -> Float[np.ndarray, "... neurons"]:
    """The step, between the recorded ones, at which each overlap first exceeds 1/2; NaN where it never does."""
    after = (overlaps > 0.5).argmax(axis=-2)[..., None, :]
    high = np.take_along_axis(overlaps, after, axis=-2)
    low = np.take_along_axis(overlaps, np.maximum(after - 1, 0), axis=-2)
    start = steps[np.maximum(after - 1, 0)]
    passed = start + (steps[after] - start) * (0.5 - low) / np.where(high > low, high - low, 1.0)
    return np.where(after > 0, passed, np.nan)[..., 0, :]


def _draw_unknown_amplitudes(panel: Axes, size: int, seeds: int, steps: int, neurons: int) -> None:
    """Draw what is learned of each neuron, (a_j/h) m_j, if amplitudes are trained too, at a few steps."""
    number = np.arange(1, neurons + 1)
    problem = problem_of_power_law(1.0, steps, neurons, known=False)
    kept = [0, steps // 40, steps // 8, steps]
    theory, runs = solve(problem, save_at=kept), simulate(problem, size, seeds, save_at=kept)
    target = amplitudes_of(1.0, neurons) / neurons
    panel.plot(number, target, **DOTTED, label="the teacher's")
    for row, colour in zip(range(4), COLOURS[2:], strict=False):
        strength, measured = (
            found["a"].values[..., row, :] / neurons
            * np.diagonal(found["m"].values[..., row, :, :], axis1=-2, axis2=-1)
            for found in (theory, runs)
        )  # fmt: skip
        if row:
            draw_theory(panel, number, strength, colour, f"step {kept[row]}")
            draw_networks(panel, number, measured, colour)


def power_law(
    report: Report,
    size: int = 40,
    seeds: int = 6,
    steps: int = 400,
    neurons: int = 12,
    exponents: Sequence[float] = (0.0, 1.0, 1.5),
) -> Figure:
    """Loss, overlaps and times of learning if the teacher's neurons have power-law amplitudes."""
    figure, panels = new_panels(2, 2, panel=(3.4, 3.1))
    (losses, overlaps), (halves, spectrum) = panels
    grid = np.unique(np.geomspace(1, steps, 48).round().astype(int))
    drawn_steps = grid[::4]
    for done, (exponent, colour) in enumerate(zip(exponents, COLOURS, strict=False)):
        problem = problem_of_power_law(exponent, steps, neurons)
        theory, runs = solve(problem, save_at=grid), simulate(problem, size, seeds, save_at=grid)
        here = np.searchsorted(grid, drawn_steps)
        Curve(
            grid, theory["test_loss"].values, drawn_steps, runs["test_loss"].values[:, here]
        ).draw(losses, colour, f"β = {exponent:g}")
        m, measured = (
            np.diagonal(found["m"].values, axis1=-2, axis2=-1) for found in (theory, runs)
        )
        if exponent > 0:
            alpha = amplitudes_of(exponent, neurons) / neurons
            times = halfway(grid, m)
            learned = np.isfinite(times)
            draw_theory(halves, alpha[learned], times[learned], colour)
            passed = halfway(grid, measured)
            everywhere = np.isfinite(passed).all(axis=0)
            draw_networks(halves, alpha[everywhere], passed[:, everywhere], colour)
            middle = (grid > 3) & (grid < 0.3 * steps)
            # Above the curve of the smaller exponent, below that of the larger one.
            level = (1.6 if exponent == 1 else 0.55) * theory["test_loss"].values[middle][0]
            guide = level * (grid[middle] / grid[middle][0]) ** (1 / (2 * exponent) - 1)
            label = "$∝ a^{1/(2β) - 1}$" if exponent == 1 else None
            losses.plot(grid[middle], guide, **DOTTED, label=label)
        if exponent == 1:
            for j, shade in zip((1, 2, 4, 8), COLOURS[2:], strict=False):
                curve = Curve(grid, m[:, j - 1], drawn_steps, measured[:, here, j - 1])
                curve.draw(overlaps, shade, f"j = {j}")
        report(0.75 * (done + 1) / len(exponents))
    _draw_unknown_amplitudes(spectrum, size, seeds, steps, neurons)
    report(1.0)
    logarithmic = {"xscale": "log", "yscale": "log"}
    finish(losses, "loss", xlabel=STEP, ylabel=LOSS, ylim=(1e-4, 1), **logarithmic)
    finish(overlaps, "overlaps, β = 1", xlabel=STEP, ylabel="overlap $m_j$", xscale="log")
    overlaps.set_ylim(-0.05, 1.55)
    words = {"xlabel": "amplitude $α_j$ of the neuron", "ylabel": "step at which $m_j = 1/2$"}
    finish(halves, "when a neuron is learned", **words, **logarithmic)
    places = np.array([0.07, 0.6])
    halves.plot(places, 1.3 / places**2, **DOTTED, label="$∝ α_j^{-2}$")
    words = {"xlabel": "neuron j", "ylabel": "$(a_j/h)\\, m_j$"}
    finish(spectrum, "unknown amplitudes, β = 1", **words, **logarithmic)
    legend_of(losses, loc="lower left")
    legend_of(overlaps, f"networks, d = {size}", loc="upper left", ncols=2)
    legend_of(halves)
    legend_of(spectrum, loc="lower left")
    letter(panels.flat)
    return figure


register_figures(
    FACTS,
    {
        "neural-ode-noisy-adjoint": noisy_adjoint,
        "neural-ode-student-time": student_time,
        "neural-ode-power-law": power_law,
    },
    {
        "neural-ode-noisy-adjoint": problem_of_noisy_adjoint,
        "neural-ode-student-time": problem_of_student_time,
        "neural-ode-power-law": problem_of_power_law,
    },
)
