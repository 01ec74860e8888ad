"""Draws images/depth-horizon.svg: when residual networks of several depths should stop, so which rate is best."""

import math
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

import learndyn as ld
from learndyn.pictures.plotting import save_figure
from learndyn.pictures.style import (
    CIRCLE,
    COLOURS,
    THEORY_COLOUR,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)

DEPTHS = (2, 4, 8, 16, math.inf)
TIMES = np.geomspace(0.05, 20, 28)
SIZE, SEEDS = 150, 12
RICHNESS = (0.3, 1.0)


def problem(depth: float, richness: float) -> ld.Problem:
    """β = 1/√L, ν = 1, centred, on α = 1.2 noisy examples for each input."""
    network = ld.DeepLinear(depth, 1.0, richness, centered=True, skip=ld.ScaledSkip(1.0))
    data = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5)
    return ld.Problem(network, data, ld.GradientDescent(1.0, time=TIMES[-1]))


def lowest(losses: Float[np.ndarray, " k"]) -> tuple[float, float]:
    """The time at which the loss is smallest, and the loss there: by a parabola in the logarithm of time."""
    k = int(np.clip(np.argmin(losses), 1, len(TIMES) - 2))
    parabola = np.polyfit(np.log(TIMES[k - 1 : k + 2]), losses[k - 1 : k + 2], 2)
    log_time = -parabola[1] / (2 * parabola[0])
    return math.exp(log_time), float(np.polyval(parabola, log_time))


figure, ((curves, stops),) = new_panels(1, 2)
colours = dict(zip(DEPTHS, (*COLOURS[:4], THEORY_COLOUR), strict=True))
depth_names, richness_names = [], []
at = np.append(0.0, TIMES)
for richness, colour in zip(RICHNESS, COLOURS[4:], strict=True):
    best = []
    for depth in DEPTHS:
        asked = problem(depth, richness)
        theory = ld.solve(asked, ld.Panels(tolerance=1e-4), save_at=at)
        losses = theory["test_loss"].values[1:]
        best.append(lowest(losses))
        kept = CubicSpline(np.log(TIMES), losses)(math.log(best[0][0]))
        print(richness, depth, best[-1], f"lost {kept / best[-1][1] - 1:.4f}", flush=True)
        if richness != 1.0:
            continue
        name = "L = ∞" if math.isinf(depth) else f"L = {depth}"
        depth_names.append((draw_theory(curves, TIMES, losses, colours[depth]), name))
        if depth in (2, 8):
            runs = ld.simulate(asked, SIZE, SEEDS, save_at=at)["test_loss"]
            draw_networks(curves, TIMES[::3], runs.values[:, 1::3], colours[depth])
    look = CIRCLE | {"ls": "-", "color": colour}
    (line,) = stops.plot(range(len(DEPTHS)), [t for t, _ in best], **look)
    richness_names.append((line, f"γ₀ = {richness:g}"))
finish(
    curves,
    "gradient flow, γ₀ = 1",
    xscale="log",
    yscale="log",
    xlabel="time t = ηT",
    ylabel="test loss  ⟨(y − f)²⟩",
)
name_lines(curves, depth_names, room=0.2)
legend_of(curves, f"networks, D = {SIZE}", loc="upper left")
finish(stops, "where the test loss is smallest", xlabel="depth L", ylabel="best time t* = η*T")
stops.set(xticks=range(len(DEPTHS)), xticklabels=["2", "4", "8", "16", "∞"], ylim=(0, None))
name_lines(stops, richness_names, room=0.24)
letter((curves, stops))
save_figure(figure, Path(__file__).parent / "images" / "depth-horizon.svg")
