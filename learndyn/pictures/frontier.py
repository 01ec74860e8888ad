"""Pictures of `Frontier`."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from learndyn.analyses.frontier import Frontier
from learndyn.errors import LearndynError, shown
from learndyn.pictures.plotting import PANEL, Picture
from learndyn.pictures.style import COLOURS, THEORY_COLOUR, finish, legend_of


def plot_frontier(frontier: Frontier) -> Figure:
    """Draw all trainings and their frontier against the budget, and how the budget is best spent.

    Trainings are coloured by the first field that was varied. Budgets whose optimum is not inside the values tried
    are drawn thin; they are not part of the fits.
    """
    if not isinstance(frontier, Frontier):
        raise LearndynError(f"cannot plot {shown(frontier)}: it must be a Frontier")
    data, first = frontier.data, frontier.fields[0]
    figure = Picture(figsize=(2 * PANEL[0], PANEL[1] + 0.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    loss, compute = data["loss_of_all"].values - frontier.floor, data["compute_of_all"].values
    count = len(data[first])
    for place in np.ndindex(loss.shape[:-1]):
        colour = matplotlib.colormaps["viridis"](0.85 * place[0] / max(count - 1, 1))
        leads = not any(place[1:])
        value = data[first].values[place[0]]
        label = f"{first} {value:g}" if leads and not isinstance(value, str) else None
        left.plot(compute[place], loss[place], color=colour, lw=0.7, alpha=0.7, label=label)
    inside = data["inside"].values
    budgets, excess = data["compute"].values, data["excess"].values
    left.plot(budgets, excess, color=THEORY_COLOUR, lw=0.8, ls=":")
    left.plot(
        budgets, np.where(inside, excess, np.nan), color=THEORY_COLOUR, lw=2.2, label="frontier"
    )
    left.set_ylabel("loss above the floor")
    for name, row in frontier.exponents.iterrows():
        if name == "excess":
            left.set_title(
                f"loss − floor ∝ C^({row['exponent']:.3f} ± {row['error']:.2g})", fontsize=9
            )
    for (name, row), colour in zip(
        frontier.exponents.drop(index="excess", errors="ignore").iterrows(), COLOURS, strict=False
    ):
        values = data[str(name)].values.astype(float)
        word = str(name).removeprefix("best_")
        label = f"{word} ∝ C^({row['exponent']:.2f} ± {row['error']:.2g})"
        right.plot(budgets, values, color=colour, lw=0.8, ls=":")
        right.plot(budgets, np.where(inside, values, np.nan), color=colour, lw=1.8, label=label)
    right.set_ylabel("best use of the budget")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("multiply-adds C")
        finish(panel)
        legend_of(panel)
    return figure
