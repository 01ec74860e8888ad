"""Figure 3 of the paper on delayed feature learning: overlaps and responses of reused data at two times."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.simulate import simulate
from learndyn.core.solution import Solution
from learndyn.families.two_layer.reused.finite import FullBatch
from learndyn.papers.captions.delayed_memory import FACTS
from learndyn.papers.grokking_setting import HIDDEN, TIME, GrokkingSetting, theory_of
from learndyn.papers.registry import register_figures
from learndyn.pictures.style import (
    COLOURS,
    NEUTRAL,
    POSITIVE,
    THEORY_LINE,
    a_few,
    colours_of,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
    letter,
    name_lines,
    new_panels,
)

SETTING = GrokkingSetting(0.5, 0.3, 3.0, 40.0, (0.4, -0.2))


def figure_3(
    report: Report,
    size: int = 2000,
    seeds: int = 6,
    time: float = 40.0,
    step: float = 0.25,
    samples: int = 1024,
    batches: int = 4,
) -> Figure:
    """Two-time overlaps and responses at finite γ and online; alignments and lengths of the weights."""
    setting = SETTING._replace(time=time)
    theories, sampled = [], {"samples": samples, "batches": batches}
    for limit in (setting, setting._replace(gamma=1e6)):
        theories.append(theory_of(limit, {"step": step}, sampled, 1 + round(time / step)))
        report(0.3 * len(theories))
    points = np.linspace(0, time, 11)
    runs = simulate(setting.problem(), size, seeds, method=FullBatch(step=step), save_at=points)
    report(1.0)
    figure, panels = new_panels(3, 2, panel=(3.6, 3.1))
    _draw_overlaps(figure, panels[0], theories, setting.gamma)
    _draw_responses(figure, panels[1], theories[0], setting)
    _draw_units(panels[2, 0], theories, runs, "R")
    _draw_units(panels[2, 1], theories, runs, "Q")
    finish(panels[2, 0], "alignment", xlabel=TIME, ylabel="$A_i(t) = w_i·β/D$")
    words = "$C_{ii}(t, t) = |w_i|^2/D$"
    finish(panels[2, 1], "squared length", xlabel=TIME, ylabel=words)
    for ls, words in (("-", f"theory, γ = {setting.gamma:g}"), ("--", "online, γ → ∞")):
        panels[2, 1].plot([], [], color=NEUTRAL, ls=ls, lw=THEORY_LINE["lw"], label=words)
    draw_networks(panels[2, 1], [], np.empty((1, 0)), NEUTRAL, f"networks, γ = 3, D = {size}")
    legend_of(panels[2, 1], loc="lower right")
    letter(panels.ravel())
    return figure


def _draw_units(panel: Axes, theories: Sequence[Solution], runs: Solution, name: str) -> None:
    """A_i(t), our R, or C_ii(t, t), our Q, of both hidden units, at finite γ and online."""
    names = []
    for i, colour in enumerate(COLOURS[:HIDDEN]):
        for theory, ls in zip(theories, ("-", "--"), strict=True):
            values, error = (
                _of_unit(x, name, i) for x in (theory[name], theory.standard_error(name))
            )
            few = a_few(theory["time"].values, 41)
            times = theory["time"].values[few]
            line = draw_theory(panel, times, values[few], colour, error=error[few], ls=ls)
            if ls == "-":
                names.append((line, f"i = {i + 1}"))
        draw_networks(panel, runs["time"], _of_unit(runs[name], name, i), colour)
    name_lines(panel, names, room=0.15)


def _of_unit(values: Any, name: str, i: int) -> np.ndarray:
    """R or Q of one hidden unit with the teacher or with itself, with the seeds first if there are any."""
    other = {"teacher": 0} if name == "R" else {"student2": i}
    return values.isel(student=i, **other).values


def _edges(times: np.ndarray) -> np.ndarray:
    """Edges of the cells around the times."""
    middle = 0.5 * (times[1:] + times[:-1])
    return np.concatenate([times[:1], middle, times[-1:]])


def _draw_map(panel: Axes, theory: Solution, values: np.ndarray, title: str, **look: Any) -> Any:
    """A function of two times."""
    edges = _edges(theory["time"].values)
    drawn = panel.pcolormesh(edges, edges, values, rasterized=True, **look)
    panel.set_title(title, fontsize=10)
    panel.set(xlabel="time s", ylabel="time t", aspect="equal")
    return drawn


def _draw_overlaps(
    figure: Figure, panels: np.ndarray, theories: Sequence[Solution], gamma: float
) -> None:
    """Draw C_11(t, s) as heat maps with one colour scale."""
    values = [theory["C"].isel(student=0, student2=0).values for theory in theories]
    look, drawn = colours_of(np.stack(values)), None
    for panel, theory, value, name in zip(
        panels, theories, values, (f"γ = {gamma:g}", "online"), strict=True
    ):
        drawn = _draw_map(panel, theory, value, f"weight overlap, {name}", **look)
    assert drawn is not None
    figure.colorbar(drawn, ax=panels, label="$C_{11}(t, s)$", pad=0.02)


def responses(theory: Solution, alpha: float) -> np.ndarray:
    """The paper's R^h_11(t, s) for s < t, NaN elsewhere.

    Its g has no factor α/K and its step is dt, so R^h = (K/α) R_h(t, s)/dt; the weight of δ(t − s) is left out.
    """
    R_h = theory["R_h"].isel(student=0, student2=0).values
    dt = np.diff(theory["time"].values)
    response = np.full_like(R_h, np.nan)
    response[:, :-1] = HIDDEN / alpha * R_h[:, :-1] / dt
    return np.where(np.tri(len(R_h), k=-1, dtype=bool), response, np.nan)


def _draw_responses(
    figure: Figure, panels: np.ndarray, theory: Solution, setting: GrokkingSetting
) -> None:
    """Draw R^h_11(t, s), s < t, as a heat map, and its decay with t − s after three times s.

    Online it is zero off the diagonal, which needs no map.
    """
    values = responses(theory, setting.alpha)
    times, top = theory["time"].values, float(np.nanmax(values))
    low = max(float(np.nanmin(values)), 1e-3 * top)
    panels[0].set_facecolor("0.85")
    title = f"response, γ = {setting.gamma:g}"
    norm = LogNorm(low, top)
    shown = np.where(np.isnan(values), values, np.maximum(values, low))
    drawn = _draw_map(panels[0], theory, shown, title, cmap=POSITIVE, norm=norm)
    figure.colorbar(drawn, ax=panels[0], label="$R^h_{11}(t, s)$, $s < t$", extend="min")
    for colour, part in zip(COLOURS, (0.0, 0.25, 0.5), strict=False):
        first = round(part * (len(times) - 1))
        after = slice(first + 1, None)
        label = f"s = {times[first]:g}"
        later = times[after] - times[first]
        draw_theory(panels[1], later, values[after, first], colour, label)
    settings = {"xlabel": "t − s", "ylabel": "$R^h_{11}(t, s)$", "yscale": "symlog"}
    finish(panels[1], f"its memory, γ = {setting.gamma:g}", **settings)
    panels[1].set_yscale("symlog", linthresh=1e-3)
    legend_of(panels[1])


register_figures(FACTS, {"grokking-3": figure_3}, {"grokking-3": SETTING.problem})
