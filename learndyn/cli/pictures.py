"""The pictures that `learndyn run` and `learndyn demo` make of any theory and its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import learndyn as ld

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = ("curve", "deviations", "order_parameters", "two_times")
"""The names of the pictures; not every theory has all of them."""
MOST_CURVES = 100
"""An observable of more components than this is left out: its curves would hide each other."""


def pictures(
    theory: ld.Solution, runs: ld.Solution, comparison: ld.Comparison
) -> dict[str, tuple[str, Figure]]:
    """Captions and figures by name, of those `PICTURES` that the theory has."""
    from learndyn.pictures.plotting import agreement_panel
    from learndyn.pictures.two_times import has_two_times

    figures = {"curve": ("The learning curve.", ld.plot(theory, runs))}
    # Deviations are measured in standard errors, which runs without any spread do not have.
    if bool((comparison.table["looks"].to_numpy() > 0).any()):
        caption = "Mean of the runs minus theory, in standard errors."
        figures["deviations"] = (caption, agreement_panel(comparison))
    moving = [name for name in _moving(theory) if name != "test_loss"]
    maps = [name for name in moving if has_two_times(theory[name], theory.axis)]
    counts = {
        name: theory[name].size // theory[name].sizes[theory.axis]
        for name in moving
        if name not in maps
    }
    curves = [name for name, count in counts.items() if count <= MOST_CURVES]
    if curves:
        left_out = [f"{name} ({counts[name]} curves)" for name in counts if name not in curves]
        caption = "The other observables" + (
            f", except {', '.join(left_out)}." if left_out else "."
        )
        figures["order_parameters"] = (caption, ld.plot(theory, runs, observables=curves))
    if maps:
        caption = (
            f"Functions of two {theory.axis}s, and how far the runs deviate from them if the runs measure them. "
            "Of a function with many components, a few are shown."
        )
        figures["two_times"] = (caption, ld.plot(theory, runs, observables=maps))
    return figures


def _moving(theory: ld.Solution) -> list[str]:
    """The observables that change in the course of training."""
    axis = theory.axis
    arrays = [theory[name] for name in theory.observables if axis in theory[name].dims]
    return [str(array.name) for array in arrays if (array != array.isel({axis: 0})).any()]
