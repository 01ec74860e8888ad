"""Draws images/readme.svg: a plateau, grokking, and lazy and rich learning, theory and networks. About two minutes."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.pictures.plotting import save_figure
from learndyn.pictures.style import (
    COLOURS,
    TEST,
    TRAIN,
    a_few,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)

IMAGE = Path(__file__).parent / "images" / "readme.svg"


def plateau(panel: Axes) -> None:
    """Two hidden units wait until each has chosen its teacher unit; at a larger rate they wait less."""
    teacher = ld.Teacher.orthonormal("erf", hidden=2)
    names = []
    for rate, colour in zip((0.5, 1.5), COLOURS, strict=False):
        problem = ld.Problem(
            ld.TwoLayer("erf", Q=[[0.25, 0.0], [0.0, 0.25]], R=[[0.05, 0.0], [0.0, 0.05]]),
            ld.Stream(teacher, noise=0.02),
            ld.GradientDescent(rate, time=150.0),
        )
        theory, runs = ld.solve(problem), ld.simulate(problem, size=784, seeds=10)
        names.append((draw_curve(panel, theory, runs, "test_loss", colour), f"η = {rate:g}"))
    finish(
        panel, "a plateau, and its end", xlabel="time  steps/N", ylabel="test loss", yscale="log"
    )
    name_lines(panel, names)


def grokking(panel: Axes) -> None:
    """The test loss drops long after the train loss."""
    problem = ld.Problem(
        ld.TwoLayer(
            ld.Polynomial([0, 1, 0.15]), Q=np.eye(2), R=[[0.3], [-0.3]], readout=[0.25, 0.25]
        ),
        ld.Dataset(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1]]), ratio=3.0),
        ld.GradientDescent(learning_rate=4.0, time=200.0),
    )
    theory = ld.solve(
        problem, ld.CausalSampling(step=0.75), save_at=ld.log_times(200, 80, first=0.75)
    )
    runs = ld.simulate(
        problem, 1000, 8, method=ld.FullBatch(step=0.75), save_at=theory["time"].values
    )
    names = [
        (draw_curve(panel, theory, runs, f"{kind}_loss", colour, style), kind)
        for kind, colour, style in (("test", COLOURS[0], TEST), ("train", COLOURS[1], TRAIN))
    ]
    settings = {"xlabel": "training time", "xscale": "log", "yscale": "log", "ylim": (1e-3, 1)}
    finish(panel, "grokking", xlim=(0.7, 200), ylabel="loss", **settings)
    name_lines(panel, names, room=0.12)


def richness(panel: Axes) -> None:
    """A lazy network is a kernel; a rich one changes it and accelerates."""
    names = []
    for gamma, colour in zip((0.1, 1.0, 3.0), COLOURS, strict=False):
        problem = ld.Problem(
            ld.DeepLinear(depth=2, width=4.0, richness=gamma, centered=True),
            ld.Population(ld.LinearMap()),
            ld.GradientDescent(learning_rate=0.02, steps=100),
        )
        theory, runs = ld.solve(problem), ld.simulate(problem, size=200, seeds=8)
        words = {0.1: "lazy", 1.0: "γ₀ = 1", 3.0: "rich"}[gamma]
        names.append((draw_curve(panel, theory, runs, "test_loss", colour), words))
    finish(
        panel,
        "lazy and rich",
        xlabel="training step",
        ylabel="test loss",
        yscale="log",
        ylim=(1e-6, 2),
    )
    name_lines(panel, names)


def draw_curve(
    panel: Axes, theory: ld.Solution, runs: ld.Solution, name: str, colour: str, style: str = TEST
):
    """Draw theory and networks; returns the line of the theory."""
    few = a_few(runs[runs.axis].values, 10)
    times, error = theory[theory.axis].values, theory.standard_error(name)
    draw_networks(panel, runs[runs.axis].values[few], runs[name].values[:, few], colour)
    return draw_theory(panel, times, theory[name].values, colour, ls=style, error=error)


if __name__ == "__main__":
    figure, (panels,) = new_panels(1, 3)
    for panel, draw in zip(panels, (plateau, grokking, richness), strict=True):
        draw(panel)
    legend_of(panels[0], "networks", loc="lower left")
    letter(panels)
    save_figure(figure, IMAGE)
