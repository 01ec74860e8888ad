"""Draws images/long-times.svg: late overfitting, its recovery, and what each method costs."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

import learndyn as ld
from learndyn.pictures.plotting import save_figure
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    GUIDE,
    TRAIN,
    draw_networks,
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


def recovery(panel: Axes, size: int = 40, seeds: int = 6, end: int = 10**6) -> None:
    """Test loss of a lazy start, without and with decay, and of networks as far as 10⁴ steps."""
    steps = np.unique(np.concatenate([[0], np.geomspace(1, end, 37).astype(int)]))
    trained = np.unique(np.concatenate([[0], np.geomspace(2, 10**4, 14).astype(int)]))
    data = ld.Dataset(ld.LinearMap(), ratio=1.5, noise=1.0)
    network, names = ld.DeepLinear(1, 200.0, 0.04), []
    for decay, colour in zip((0.0, 0.002, 0.01), COLOURS, strict=False):
        training = ld.GradientDescent(0.2, steps=end, weight_decay=decay)
        problem = ld.Problem(network, data, training)
        theory = ld.solve(problem, ld.Panels(tolerance=1e-3), save_at=steps)
        line = draw_theory(panel, steps[1:], theory["test_loss"][1:], colour)
        names.append((line, f"λ = {decay:g}"))
        if decay:
            look: dict[str, Any] = GUIDE | {"color": colour, "ls": ":"}
            panel.axvline(1 / (0.2 * decay), **look)
        shorter = ld.GradientDescent(0.2, steps=10**4, weight_decay=decay)
        runs = ld.simulate(ld.Problem(network, data, shorter), size, seeds, save_at=trained)
        losses = runs["test_loss"].transpose("seed", "step").values
        draw_networks(panel, trained[1:], losses[:, 1:], colour)
    panel.axhline(1.5 / 0.5, ls=":", **GUIDE)
    finish(panel, "and its recovery", **LOG, xlabel="steps T", ylabel="test loss  ⟨(y − f)²⟩")
    panel.yaxis.set_major_locator(FixedLocator([1, 2, 3, 4, 5]))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    name_lines(panel, names, room=0.2)
    legend_of(panel, networks="networks", loc="lower left")


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
            tries = []
            for _ in range(2):
                start = time.process_time()
                ld.solve(problem, method, save_at=[0, steps])
                tries.append(time.process_time() - start)
            seconds.append(min(tries))
        # The first one compiles.
        (line,) = panel.plot(all_steps, seconds[1:], color=colour, **look)
        names.append((line, name))
    finish(panel, "cost, L = 2", **LOG, xlabel="steps T", ylabel="CPU time [s]")
    name_lines(panel, names, room=0.2)


figure, (panels,) = new_panels(1, 3)
overfitting(panels[0])
recovery(panels[1])
cost(panels[2])
letter(panels)
save_figure(figure, Path(__file__).parent / "images" / "long-times.svg")
