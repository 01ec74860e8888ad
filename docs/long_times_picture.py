"""Draws images/long-times.svg: late overfitting, and what each method costs."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.pictures.plotting import save_figure
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    GUIDE,
    TRAIN,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)

DATA = ld.Dataset(ld.LinearMap(), ratio=1.1, noise=0.7)
NETWORK = ld.DeepLinear(2, 1.0)
LOG: dict[str, Any] = {"xscale": "log", "yscale": "log"}


def overfitting(panel: Axes, end: float = 1e5) -> None:
    """Test and training loss of gradient flow from a lazy, a usual and a rich start, and where the test loss ends."""
    times = np.concatenate([[0.0], np.geomspace(0.01, end, 35)])
    for richness, colour in zip((0.1, 1.0, 10.0), COLOURS, strict=False):
        network = ld.DeepLinear(2, 1.0, richness, centered=True)
        problem = ld.Problem(network, DATA, ld.GradientDescent(1.0, time=end))
        theory = ld.solve(problem, ld.Panels(tolerance=1e-3), save_at=times)
        draw_theory(panel, times[1:], theory["test_loss"][1:], colour, f"$γ_0$ = {richness:g}")
        draw_theory(panel, times[1:], theory["train_loss"][1:], colour, ls=TRAIN)
    panel.axhline(0.7**2 * 1.1 / 0.1, ls=":", **GUIDE)
    words = {"xlabel": "time t (gradient flow)", "ylabel": "loss  ⟨(y − f)²⟩"}
    finish(panel, "late overfitting", **LOG, **words)
    legend_of(panel, train=True, loc="center right")


def cost(panel: Axes) -> None:
    """Seconds of CPU against the number of steps, with the last step recorded."""
    methods = {
        "Rows": (ld.Rows(), (50, 100, 200, 400, 800)),
        "Innovation": (ld.Innovation(), (50, 100, 200, 400, 800, 1600, 3200)),
        "Panels": (ld.Panels(), (100, 400, 1600, 6400, 10**5, 10**6)),
    }
    names = []
    look: dict[str, Any] = CIRCLE | {"ls": "-"}
    for (name, (method, all_steps)), colour in zip(methods.items(), COLOURS[3:], strict=False):
        seconds = []
        for steps in (all_steps[0], *all_steps):
            problem = ld.Problem(NETWORK, DATA, ld.GradientDescent(0.02, steps=steps))
            start = time.process_time()
            ld.solve(problem, method, save_at=[0, steps])
            seconds.append(time.process_time() - start)
        # The first one compiles.
        (line,) = panel.plot(all_steps, seconds[1:], color=colour, **look)
        names.append((line, name))
    finish(panel, "cost, L = 2", **LOG, xlabel="steps T", ylabel="CPU time [s]")
    name_lines(panel, names, room=0.2)


figure, (panels,) = new_panels(1, 2)
overfitting(panels[0])
cost(panels[1])
letter(panels)
save_figure(figure, Path(__file__).parent / "images" / "long-times.svg")
