"""Figures 1 and 2 of the paper on delayed feature learning: losses that part, and when they meet again."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.analyses.grokking import LEVEL
from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.core.solve import solve
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.families.two_layer.reused.implicit_sampling import ImplicitSampling
from learndyn.numerics.times import log_times
from learndyn.papers.captions.delayed_features import FACTS
from learndyn.papers.grokking_setting import LOSS, TIME, GrokkingSetting, theory_of
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    GUIDE,
    TEST,
    THEORY_COLOUR,
    TRAIN,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    new_panels,
)

LOSSES = {"test_loss": TEST, "train_loss": TRAIN}
LATE = GrokkingSetting(0.5, 0.05, 2.25, 4e3, (0.5, -0.5))
"""The problem of the first picture: the paper's α and ε, and little data."""
FIRST = 0.1
"""The first time in the pictures."""


def _draw_loss(panel: Axes, theory: Solution, name: str, colour: str, label: str | None) -> None:
    """Draw a loss of the theory, with its errors."""
    few = _drawn(theory)
    times, values = theory["time"].values[few], theory[name].values[few]
    error = cast(Any, theory.standard_error(name)).values[few]
    draw_theory(panel, times, values, colour, label, error=error, ls=LOSSES[name])


def _drawn(theory: Solution) -> np.ndarray:
    """The states that are drawn: some per decade, without the start, which has no place on the axis."""
    times = theory["time"].values[1:]
    wanted = np.geomspace(times[0], times[-1], 25)
    return 1 + np.unique(np.abs(np.log(times[:, None] / wanted)).argmin(axis=0))


def figure_1(
    report: Report,
    sizes: Sequence[int] = (400, 1200),
    seeds: Sequence[int] = (8, 10),
    time: float = LATE.time,
    samples: int = 8192,
    batches: int = 4,
) -> Figure:
    """A problem that groks late, with the times at which the two losses drop, and networks of two sizes."""
    setting = LATE._replace(time=time)
    method = ImplicitSampling(tolerance=0.02, samples=samples, batches=batches)
    theory = solve(setting.problem(), method, save_at=log_times(time, 160, first=FIRST))
    report(0.5)
    figure, ((panel,),) = new_panels(1, 1, panel=(7.0, 5.0))
    drops = {"theory": [_drop(theory, name) for name in DROPS]}
    for name in LOSSES:
        _draw_loss(panel, theory, name, THEORY_COLOUR, None)
    for colour, size, count in zip(COLOURS, sizes, seeds, strict=False):
        runs = simulate(
            setting.problem(),
            size,
            count,
            method=FullBatch(**setting.steps(0.8, first=0.05)),
            save_at=np.geomspace(1.5 * FIRST, time, 28),
        )
        for name in LOSSES:
            draw_networks(panel, runs["time"], runs[name].values, colour)
        words = f"{count} networks, D = {size}"
        draw_networks(panel, [], np.empty((1, 0)), colour, words)
        drops[f"D = {size}"] = [_median(runs[name].values) for name in DROPS]
        report(1.0 if size == sizes[-1] else 0.6)
    level = LEVEL * float(theory["test_loss"][0])
    panel.axhline(level, ls=":", **GUIDE)
    panel.text(1.1 * FIRST, 0.9 * level, "10 % of the first value", va="top", fontsize=9)
    words = f"α = {setting.alpha:g}, ε = {setting.epsilon:g}, γ = {setting.gamma:g}"
    axis = {"xscale": "log", "yscale": "log", "xlabel": TIME, "ylabel": LOSS}
    finish(panel, words, xlim=(FIRST, 1.1 * time), ylim=(1e-5, 2.0), **axis)
    _mark_drops(panel, drops, [float(theory[name]) for name in ("train_drop", "test_drop")], level)
    for style, words in ((TEST, "theory, test loss"), (TRAIN, "theory, train loss")):
        panel.plot([], [], style, color=THEORY_COLOUR, lw=1.4, label=words)
    legend_of(panel, loc="lower left", fontsize=9)
    return figure


DROPS = {"train_drop": "train", "test_drop": "test", "grokking_delay": "delay"}


def _plain(value: float) -> str:
    """Three digits, without a power of ten."""
    return "∞" if np.isinf(value) else f"{float(f'{value:.3g}'):g}"


def _drop(theory: Solution, name: str) -> str:
    """When a loss drops, or the ratio of these times, and its standard error."""
    error = float(f"{float(cast(Any, theory.standard_error(name))):.1g}")
    return f"{_plain(float(theory[name]))} ± {error:g}"


def _median(values: np.ndarray) -> str:
    """The median over networks and the quartiles; a loss that does not drop does so at ∞."""
    late = np.where(np.isnan(values), np.inf, values)
    low, middle, high = np.quantile(late, (0.25, 0.5, 0.75), method="nearest")
    return f"{_plain(middle)} [{_plain(low)}, {_plain(high)}]"


def _mark_drops(
    panel: Axes, drops: dict[str, list[str]], between: Sequence[float], level: float
) -> None:
    """Draw an arrow between the two drops of the theory, and write all drops with their errors or quartiles."""
    if not np.isfinite(between).all():
        return
    arrow = {"arrowstyle": "<->", "color": THEORY_COLOUR, "lw": 1.2}
    panel.annotate("", xy=(between[0], level), xytext=(between[1], level), arrowprops=arrow)
    lines = [
        f"{who}: "
        + ", ".join(f"{name} {value}" for name, value in zip(DROPS.values(), of, strict=True))
        for who, of in drops.items()
    ]
    place = {"transform": panel.transAxes, "va": "bottom", "fontsize": 9, "linespacing": 1.5}
    panel.text(0.02, 0.25, "\n".join(lines), in_layout=False, **place)


class Varied(NamedTuple):
    """Problems that differ in one number: what it is, its `symbol`, and the problems by its values."""

    title: str
    symbol: str
    settings: dict[float, GrokkingSetting]


def _varied(time: float) -> tuple[Varied, Varied, Varied]:
    usual = GrokkingSetting(0.5, 0.3, 3.0, time)
    small = usual._replace(start=(0.5, -0.1))
    return (
        Varied("amount of data", "γ", {x: usual._replace(gamma=x) for x in (1.5, 3.0, 6.0)}),
        Varied("output scale", "α", {x: usual._replace(alpha=x) for x in (0.1, 0.5, 2.0)}),
        Varied("activation", "ε", {x: small._replace(epsilon=x) for x in (0.05, 0.1, 0.3)}),
    )


def figure_2(
    report: Report,
    size: int = 2000,
    seeds: int = 6,
    time: float = 100.0,
    samples: int = 512,
    batches: int = 4,
) -> Figure:
    """Train and test loss for several amounts of data, scales of the output, activations; and how units align."""
    figure, grid = new_panels(2, 2, panel=(3.6, 3.3))
    *panels, aligned = grid.ravel()
    # One problem is in two panels.
    results, sampled, done = {}, {"samples": samples, "batches": batches}, 0
    axis: dict[str, Any] = {"xscale": "log", "yscale": "log", "xlabel": TIME}
    for panel, (title, symbol, settings) in zip(panels, _varied(time), strict=True):
        for colour, (value, setting) in zip(COLOURS, settings.items(), strict=False):
            if setting not in results:
                results[setting] = _theory_and_runs(setting, size, seeds, sampled)
            theory, runs = results[setting]
            label = f"{symbol} = {value:g}"
            for name in LOSSES:
                _draw_loss(panel, theory, name, colour, label if name == "test_loss" else None)
                draw_networks(panel, runs["time"], runs[name].values, colour)
            if symbol == "ε":
                _draw_alignment(aligned, theory, runs, colour, label)
            done += 1
            report(done / 9.5)
        finish(panel, title, ylabel=LOSS, xlim=(FIRST, 1.05 * time), ylim=(2e-4, 2.0), **axis)
        panel.minorticks_off()
    _draw_online(panels[0], GrokkingSetting(0.5, 0.3, math.inf, time))
    legend_of(panels[0], loc="lower left")
    legend_of(panels[1], f"networks, D = {size}", train=True, loc="lower left")
    legend_of(panels[2], loc="lower left")
    words = "$A_1(t) = w_1·β/D$"
    finish(aligned, "alignment of the first unit", ylabel=words, xlim=(FIRST, 1.05 * time), **axis)
    letter(grid.ravel())
    report(1.0)
    return figure


def _draw_online(panel: Axes, setting: GrokkingSetting) -> None:
    """The loss on fresh data, in which train and test loss are one."""
    online = solve(setting.problem(), save_at=log_times(setting.time, 160, FIRST))
    label = "γ = ∞ (online)"
    draw_theory(panel, online["time"][1:], online["test_loss"][1:], label=label, ls=":")


def _draw_alignment(panel: Axes, theory: Solution, runs: Solution, colour: str, label: str) -> None:
    """A_1(t), our R_11, of theory and networks."""
    R, error = theory["R"], cast(Any, theory.standard_error("R"))
    first = {"student": 0, "teacher": 0}
    few = _drawn(theory)
    values, spread = (x.isel(first).values[few] for x in (R, error))
    draw_theory(panel, theory["time"].values[few], values, colour, label, error=spread)
    draw_networks(panel, runs["time"], runs["R"].isel(first).values, colour)


def _theory_and_runs(
    setting: GrokkingSetting, size: int, seeds: int, sampled: dict
) -> tuple[Solution, Solution]:
    """The theory, and networks trained with its steps."""
    steps = setting.steps(0.9, first=FIRST)
    theory = theory_of(setting, steps, sampled, log_times(setting.time, 160, first=FIRST))
    used_steps = {name: theory.evidence["method"][name] for name in steps}
    points = np.geomspace(1.5 * FIRST, setting.time, 12)
    return theory, simulate(
        setting.problem(), size, seeds, method=FullBatch(**used_steps), save_at=points
    )


register_figures(
    FACTS,
    {"grokking-1": figure_1, "grokking-2": figure_2},
    {"grokking-1": LATE.problem, "grokking-2": GrokkingSetting(0.5, 0.3, 3.0, 100.0).problem},
)
