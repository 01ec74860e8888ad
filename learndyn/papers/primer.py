"""Figures 1, 2 and 3 of the primer: theory against finite networks of N = 784 inputs."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.two_layer.network import TwoLayer
from learndyn.families.two_layer.online.finite import OverlapChain
from learndyn.numerics.times import log_times
from learndyn.papers.captions.primer import FACTS, SIZE, UNITS
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    RUNS_COLOUR,
    a_few,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    new_panels,
)
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent

HIDDEN = (2, 4, 6)
"""Units K of the students in figures 1 and 2."""
SCALES, STATES = (0.3, 1.0, 2.0), (0, 2, 3, 8)
"""Initial scales in figure 3, and seeds of the initial states."""
NARROW = (2.6, 2.8)
TIME, LOSS = "time t = steps / N", "test loss ½⟨(y − ŷ)²⟩"
LOG: dict[str, Any] = {"xscale": "log", "yscale": "log"}


def alignment(theory: xr.DataArray, runs: xr.DataArray) -> xr.DataArray:
    """Cosine between a measured order parameter and the predicted one, at each time and for each seed."""
    axes = [axis for axis in theory.dims if axis != "time"]
    product = (theory * runs).sum(axes)
    return product / np.sqrt((theory**2).sum(axes) * (runs**2).sum(axes))


def _pairs(
    problems: Sequence[Problem], seeds: int, times: np.ndarray, report: Report
) -> list[tuple[Solution, Solution]]:
    """(theory, runs) for each problem, on the same times. The overlaps are drawn from their exact law in SGD."""
    results = []
    for done, problem in zip(count(1), problems, strict=False):
        runs = simulate(problem, SIZE, seeds, method=OverlapChain(), save_at=times)
        results.append((solve(problem, save_at=runs["time"].values), runs))
        report(done / len(problems))
    return results


def _draw_loss(panel: Axes, theory: Solution, runs: Solution, colour: str, **look: Any) -> None:
    """Draw the test loss of the theory after the start, and of the runs at a few times."""
    draw_theory(panel, theory["time"][1:], theory["test_loss"][1:], colour, **look)
    few = a_few(runs["time"], 16)
    draw_networks(panel, runs["time"][few], runs["test_loss"].values[:, few], colour)


def _problem(hidden: int, rate: float, time: float, **start: Any) -> Problem:
    """K = `hidden` student units on a stream from the teacher; `start` goes to `TwoLayer.random`."""
    teacher = Teacher.random("erf", UNITS, SIZE, seed=0)
    network = TwoLayer.random(hidden, teacher, size=SIZE, **start)
    return Problem(network, Stream(teacher), GradientDescent(rate, time=time))


def _committee(hidden: int, time: float = 1500.0) -> Problem:
    return _problem(hidden, 0.5, time, scale=0.3, seed=1)


def figure_1(report: Report, seeds: int = 4, time: float = 1500.0) -> Figure:
    """Soft committee machines of different size."""
    times = log_times(time, 160, first=1.0)
    pairs = _pairs([_committee(K, time) for K in HIDDEN], seeds, times, report)
    figure, (panels,) = new_panels(1, len(HIDDEN), panel=NARROW, sharey=True)
    for panel, K, (theory, runs) in zip(panels, HIDDEN, pairs, strict=True):
        _draw_loss(panel, theory, runs, RUNS_COLOUR)
        finish(panel, f"K = {K}, M = {UNITS}", xlabel=TIME, ylim=(1e-7, 2.0), **LOG)
    panels[0].set_ylabel(LOSS)
    legend_of(panels[0], f"exact law of SGD, N = {SIZE}", loc="lower left")
    letter(panels)
    return figure


def _two_layer(hidden: int, time: float = 2500.0) -> Problem:
    start = {"scale": 1.0, "seed": 2, "readout_scale": 0.5, "train_readout": True}
    return _problem(hidden, 0.2, time, **start)


def figure_2(report: Report, seeds: int = 4, time: float = 2500.0) -> Figure:
    """Two-layer networks with a trained readout: the loss, the readouts, and how well the order parameters align."""
    times = log_times(time, 160, first=0.1)
    pairs = _pairs([_two_layer(K, time) for K in HIDDEN], seeds, times, report)
    figure, panels = new_panels(3, len(HIDDEN), panel=(2.6, 2.3), sharex=True, sharey="row")
    for (loss, readout, misfit), K, (theory, runs) in zip(panels.T, HIDDEN, pairs, strict=True):
        _draw_loss(loss, theory, runs, RUNS_COLOUR)
        finish(loss, f"K = {K}, M = {UNITS}", **LOG)
        few = a_few(runs["time"], 16)
        for unit in range(K):
            line, circles = theory["v"][1:, unit], runs["v"].values[:, few, unit]
            draw_theory(readout, theory["time"][1:], line, COLOURS[unit])
            draw_networks(readout, runs["time"][few], circles, COLOURS[unit])
        finish(readout, xscale="log")
        misfit.axhline(1 / SIZE, ls=":", **GUIDE, label="1/N")
        for name, colour in zip(("Q", "R", "v"), COLOURS[1:], strict=False):
            gap = 1 - alignment(theory[name], runs[name]).transpose("seed", "time").values
            draw_networks(misfit, runs["time"][few], gap[:, few], colour, name, ls="-", lw=0.8)
        finish(misfit, xlabel=TIME, ylim=(1e-7, 2.0), **LOG)
    for panel in panels.flat:
        panel.minorticks_off()
    for panel, words in zip(panels[:, 0], (LOSS, "readouts $v_i$", "1 − cosine"), strict=True):
        panel.set_ylabel(words)
    legend_of(panels[0, 0], f"exact law of SGD, N = {SIZE}", loc="lower left")
    legend_of(panels[2, 0], loc="upper left", ncols=2, columnspacing=1.0)
    letter(panels.flat)
    return figure


def _state(scale: float, seed: int, time: float = 3000.0) -> Problem:
    start = {"scale": scale, "seed": seed, "readout_scale": scale, "train_readout": True}
    return _problem(UNITS, 1.0, time, **start)


def figure_3(report: Report, time: float = 3000.0) -> Figure:
    """Large initial weights: every initial state has its own learning curve."""
    times = log_times(time, 160, first=0.1)
    problems = [_state(scale, seed, time) for scale in SCALES for seed in STATES]
    pairs = iter(_pairs(problems, 1, times, report))
    figure, (panels,) = new_panels(1, len(SCALES), panel=NARROW, sharey=True)
    for panel, scale in zip(panels, SCALES, strict=True):
        for number, colour in zip(range(1, len(STATES) + 1), COLOURS, strict=False):
            _draw_loss(panel, *next(pairs), colour, label=f"start {number}")
        limits: dict[str, Any] = {"xlim": (0.5, 1.4 * time), "ylim": (1e-5, 20.0)}
        finish(panel, f"initial scale {scale:g}", xlabel=TIME, **LOG, **limits)
    panels[0].set_ylabel(LOSS)
    legend_of(panels[0], f"exact law of SGD, N = {SIZE}", loc="lower left")
    letter(panels)
    return figure


register_figures(
    FACTS,
    {
        "primer-1": figure_1,
        "primer-2": figure_2,
        "primer-3": figure_3,
    },
    {
        "primer-1": lambda: _committee(UNITS),
        "primer-2": lambda: _two_layer(UNITS),
        "primer-3": lambda: _state(SCALES[-1], STATES[0]),
    },
)
