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
from learndyn.numerics.times import log_times
from learndyn.papers.captions.primer import FACTS, SIZE, UNITS
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import RUNS_COLOUR, THEORY_COLOUR
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import GradientDescent


def alignment(theory: xr.DataArray, runs: xr.DataArray) -> xr.DataArray:
    """Cosine between a measured order parameter and the predicted one, at each time and for each seed."""
    axes = [axis for axis in theory.dims if axis != "time"]
    product = (theory * runs).sum(axes)
    return product / np.sqrt((theory**2).sum(axes) * (runs**2).sum(axes))


def _pairs(
    problems: Sequence[Problem], seeds: int, times: np.ndarray, report: Report
) -> list[tuple[Solution, Solution]]:
    """(theory, runs) for each problem, on the same times."""
    results = []
    for done, problem in zip(count(1), problems, strict=False):
        runs = simulate(problem, SIZE, seeds, save_at=times)
        results.append((solve(problem, save_at=runs["time"].values), runs))
        report(done / len(problems))
    return results


def _draw_loss(axes: Axes, theory: Solution, runs: Solution, label: bool = True) -> None:
    """Draw the test loss of the theory over those of the runs."""
    for index, curve in enumerate(runs["test_loss"]):
        name = f"SGD, N = {SIZE}" if label and index == 0 else None
        axes.plot(curve["time"], curve, color=RUNS_COLOUR, lw=0.8, alpha=0.7, label=name)
    name = "theory, N → ∞" if label else None
    axes.plot(theory["time"], theory["test_loss"], color=THEORY_COLOUR, lw=1.6, ls="--", label=name)
    axes.set(xscale="log", yscale="log", xlabel="time t = steps / N")


def _problem(hidden: int, rate: float, time: float, **start: Any) -> Problem:
    """K = `hidden` student units on a stream from the teacher; `start` goes to `TwoLayer.random`."""
    teacher = Teacher.random("erf", UNITS, SIZE, seed=0)
    network = TwoLayer.random(hidden, teacher, size=SIZE, **start)
    return Problem(network, Stream(teacher), GradientDescent(rate, time=time))


def figure_1(report: Report) -> Figure:
    """Soft committee machines of different size."""
    hidden = (2, 4, 6)
    times = log_times(1500.0, 160, first=0.1)
    problems = [_problem(K, 0.5, times[-1], scale=0.3, seed=1) for K in hidden]
    pairs = _pairs(problems, 4, times, report)
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, len(hidden), sharey=True)
    for axes, K, (theory, runs) in zip(panels, hidden, pairs, strict=True):
        _draw_loss(axes, theory, runs)
        axes.set_title(f"K = {K}, M = {UNITS}")
    # Smaller losses are differences of terms of order one, and dominated by rounding.
    panels[0].set_ylim(bottom=1e-9)
    panels[0].set_ylabel("test loss ½⟨(y − ŷ)²⟩")
    panels[0].legend(frameon=False)
    return figure


def figure_2(report: Report) -> Figure:
    """Two-layer networks with a trained readout, and the alignment of the order parameters."""
    hidden = (2, 4, 6)
    times = log_times(2500.0, 160, first=0.1)
    start = {"scale": 1.0, "seed": 2, "readout_scale": 0.5, "train_readout": True}
    pairs = _pairs([_problem(K, 0.2, times[-1], **start) for K in hidden], 4, times, report)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    panels = figure.subplots(2, len(hidden), sharex=True, sharey="row")
    for column, K, (theory, runs) in zip(panels.T, hidden, pairs, strict=True):
        _draw_loss(column[0], theory, runs)
        column[0].set(title=f"K = {K}, M = {UNITS}", xlabel="")
        for name, style in (("Q", "-"), ("R", "--"), ("v", ":")):
            mean = alignment(theory[name], runs[name]).mean("seed")
            column[1].plot(mean["time"], mean, style, color="0.15", label=name)
        column[1].set_xlabel("time t = steps / N")
    panels[0, 0].set_ylabel("test loss ½⟨(y − ŷ)²⟩")
    panels[0, 0].legend(frameon=False)
    panels[1, 0].set_ylabel("alignment (cosine)\nof theory and SGD")
    panels[1, 0].legend(frameon=False)
    return figure


def figure_3(report: Report) -> Figure:
    """Large initial weights: every initial state has its own learning curve."""
    times = log_times(400.0, 160, first=0.1)
    scales = (0.3, 1.0, 2.0)
    draws = range(4)
    problems = [
        _problem(
            UNITS, 0.5, times[-1], scale=scale, seed=seed, readout_scale=scale, train_readout=True
        )
        for scale in scales
        for seed in draws
    ]
    pairs = iter(_pairs(problems, 1, times, report))
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, len(scales), sharey=True)
    for axes, scale in zip(panels, scales, strict=True):
        for draw in draws:
            _draw_loss(axes, *next(pairs), label=draw == 0)
        axes.set_title(f"initial scale {scale:g}")
    panels[0].set_ylabel("test loss ½⟨(y − ŷ)²⟩")
    panels[0].legend(frameon=False)
    return figure


register_figures(
    FACTS,
    {
        "primer-1": figure_1,
        "primer-2": figure_2,
        "primer-3": figure_3,
    },
)
