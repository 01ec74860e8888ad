"""What the figures of wide networks share: their problems, measures of kernels, and how these are drawn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from learndyn.core.solution import Solution
from learndyn.families.wide.network import Wide
from learndyn.pictures.style import SAMPLED_BAND
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

STEP, LOSS = "training step t", "train loss  ⟨(y − f)²⟩/2"
KERNELS, TIMES = "magma", "viridis"
"""Colours of kernels over points, and over times."""


class RichnessSeries(NamedTuple):
    """Wide networks that differ only in γ_0, and their training; the loss is the mean over points.

    - `depth` (L), `activation` (φ): those of `Wide`.
    - `points`: inputs and targets.
    - `rate` (η), `steps`: learning rate and number of steps.
    - `weight_decay` (λ): 0 unless given.
    """

    depth: int
    activation: str
    points: Points
    rate: float
    steps: int
    weight_decay: float = 0.0

    def problem(self, richness: float) -> Problem:
        """The problem at this γ_0. Finite networks have their initial function subtracted, unless weights decay.

        With decay a network forgets its initial function, but not what was subtracted.
        """
        activation = as_activation(self.activation)
        network = Wide(self.depth, activation, richness, centered=self.weight_decay == 0)
        training = GradientDescent(self.rate, steps=self.steps, weight_decay=self.weight_decay)
        return Problem(network, self.points, training)

    def all_states(self) -> int:
        """The number of states, if all of them are recorded."""
        return self.steps + 1


def cosine(first: np.ndarray, second: np.ndarray, axes: int) -> np.ndarray:
    """The alignment A(X, Y) = ΣXY/(|X||Y|), sums over the last `axes` axes."""
    over = tuple(range(-axes, 0))
    products = [np.sum(a * b, axis=over) for a, b in ((first, second), (first, first))]
    return products[0] / np.sqrt(products[1] * np.sum(second * second, axis=over))


def one_output(array: xr.DataArray) -> xr.DataArray:
    """An observable of networks with one output, without the axes of outputs."""
    axes = [axis for axis in ("output", "output2") if axis in array.dims]
    return array.squeeze(axes, drop=True)


def equal_times(kernel: np.ndarray) -> np.ndarray:
    """X(t, t) (…, states, points, points) from X (…, states, points, states, points)."""
    return np.einsum("...tmtn->...tmn", kernel)


def traced(kernel: np.ndarray) -> np.ndarray:
    """Σ_μ X_μμ(t, s) (…, states, states) from X (…, states, points, states, points)."""
    return np.einsum("...tmsm->...ts", kernel)


def by_target(points: Points) -> np.ndarray:
    """The trained points with negative targets first."""
    return np.argsort(points.targets, kind="stable")


def final(kernel: np.ndarray, order: np.ndarray) -> np.ndarray:
    """X(T, T) with the points in this order."""
    return equal_times(kernel)[..., -1, order, :][..., order]


def draw_line(axes: Axes, theory: Solution, name: str, label: str | None, **look: Any) -> None:
    """Draw an observable of the theory, with a band of two standard errors if it was sampled."""
    steps, values, error = theory["step"].values, theory[name].values, theory.standard_error(name)
    axes.plot(steps, values, label=label, **({"lw": 1.4, "zorder": 3} | look))
    if error is not None:
        low, high = values - 2 * error.values, values + 2 * error.values
        axes.fill_between(steps, low, high, color=look["color"], **SAMPLED_BAND)


def parts(figure: Figure | SubFigure, rows: int, columns: int, **ratios: Any) -> list:
    """The parts of a figure, each with its own panels and title."""
    return list(figure.subfigures(rows, columns, squeeze=False, **ratios).ravel())


def few_states(states: int, count: int = 12) -> np.ndarray:
    """A few equally spaced states, at which networks are drawn as points."""
    return np.unique(np.linspace(0, states - 1, count).round().astype(int))


def draw_maps(
    block: Figure | SubFigure,
    title: str,
    rows: dict[str, np.ndarray],
    layers: Sequence[int] | np.ndarray,
    **look: Any,
) -> None:
    """Draw heat maps, a row for each name and a column for each layer, with one colour scale.

    `axis` are the labels of the axes and `words` that of the colours. The colour scale spans the values of all rows, or
    of the rows named in `scale`.
    """
    axis, words, scale = look.pop("axis"), look.pop("words"), look.pop("scale", tuple(rows))
    values = np.concatenate([np.ravel(rows[name]) for name in scale])
    norm = Normalize(min(0.0, values.min()), values.max())
    panels = block.subplots(len(rows), len(layers), squeeze=False, sharex=True, sharey=True)
    image = None
    for row, (name, maps) in zip(panels, rows.items(), strict=True):
        for axes, heat_map, layer in zip(row, maps, layers, strict=True):
            image = axes.imshow(heat_map, norm=norm, origin="lower", interpolation="none", **look)
            axes.tick_params(labelsize=7)
            if axes in panels[0]:
                axes.set_title(f"ℓ = {layer}", fontsize=8)
            if axes in panels[-1]:
                axes.set_xlabel(axis[0], fontsize=8)
        row[0].set_ylabel(f"{name}\n{axis[1]}", fontsize=7)
    block.suptitle(title, fontsize=10)
    extend = "neither" if len(scale) == len(rows) else "both"
    assert image is not None
    bar = block.colorbar(image, ax=panels, shrink=0.85, pad=0.02, extend=extend)
    bar.set_label(words, fontsize=8)
    bar.ax.tick_params(labelsize=7)


OVER_POINTS: dict[str, Any] = {"axis": ("point α", "point μ"), "cmap": KERNELS}


def over_times(steps: int) -> dict[str, Any]:
    """How `draw_maps` draws functions of two times."""
    return {"axis": ("step s", "step t"), "cmap": TIMES, "extent": (0, steps, 0, steps)}
