"""Draws images/long-times.png: late overfitting, and what each method costs."""

import time
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.pictures.style import COLOURS

DATA = ld.Dataset(ld.LinearMap(), ratio=1.1, noise=0.7)
NETWORK = ld.DeepLinear(2, 1.0)


def overfitting(axes: Axes, end: float = 1e5) -> None:
    """Test and training loss of gradient flow from a lazy, a usual and a rich start."""
    times = np.concatenate([[0.0], np.geomspace(0.01, end, 35)])
    for richness, colour in zip((0.1, 1.0, 10.0), COLOURS, strict=False):
        network = ld.DeepLinear(2, 1.0, richness, centered=True)
        problem = ld.Problem(network, DATA, ld.GradientDescent(1.0, time=end))
        theory = ld.solve(problem, ld.Panels(tolerance=1e-3), save_at=times)
        axes.plot(times[1:], theory["test_loss"][1:], color=colour, label=f"richness {richness:g}")
        axes.plot(times[1:], theory["train_loss"][1:], "--", color=colour)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="training time t (gradient flow)",
        ylabel="loss  ⟨(y − f)²⟩",
    )
    axes.plot([], [], "-", color="0.4", label="test")
    axes.plot([], [], "--", color="0.4", label="train")
    axes.set_title("(a) late overfitting")
    axes.legend(frameon=False, fontsize="small")


def cost(axes: Axes) -> None:
    """Seconds of CPU against the number of steps, with the last step recorded."""
    methods = {
        "Rows": (ld.Rows(), (50, 100, 200, 400, 800)),
        "Innovation": (ld.Innovation(), (50, 100, 200, 400, 800, 1600, 3200)),
        "Panels": (ld.Panels(), (100, 400, 1600, 6400, 10**5, 10**6)),
    }
    for (name, (method, all_steps)), colour in zip(methods.items(), COLOURS, strict=False):
        seconds = []
        for steps in (all_steps[0], *all_steps):
            problem = ld.Problem(NETWORK, DATA, ld.GradientDescent(0.02, steps=steps))
            start = time.process_time()
            ld.solve(problem, method, save_at=[0, steps])
            seconds.append(time.process_time() - start)
        # The first one compiles.
        axes.plot(all_steps, seconds[1:], "o-", color=colour, mfc="white", label=name)
    axes.set(xscale="log", yscale="log", xlabel="steps T", ylabel="CPU time [s]")
    axes.set_title("(b) cost, L = 2")
    axes.legend(frameon=False, fontsize="small")


figure = Figure(figsize=(7.6, 3.3), layout="constrained")
left, right = figure.subplots(1, 2)
overfitting(left)
cost(right)
figure.savefig(Path(__file__).parent / "images" / "long-times.png", dpi=150)
