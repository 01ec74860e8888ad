"""What the figures of wide networks share: their problems, measures of kernels, and how these are drawn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType

from learndyn.core.solution import Solution
from learndyn.families.wide.network import Wide
from learndyn.pictures.style import TEXT, colours_of, draw_theory
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent

STEP, LOSS = "training step t", "train loss  ⟨(y − f)²⟩/2"


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


def draw_curve(
    panel: Axes,
    theory: Solution,
    name: str,
    colour: ColorType,
    label: str | None = None,
    layer: int | None = None,
) -> Line2D:
    """Draw an observable of the theory, that of one layer if it is given, in a band if it was sampled."""
    values, error = theory[name], theory.standard_error(name)
    if layer is not None:
        values, error = values.isel(layer=layer), None if error is None else error.isel(layer=layer)
    return draw_theory(panel, theory[theory.axis], values, colour, label, error=error)


def parts(figure: Figure | SubFigure, rows: int, columns: int, **ratios: Any) -> list:
    """The parts of a figure, each with its own panels and title."""
    return list(figure.subfigures(rows, columns, squeeze=False, **ratios).ravel())


def few_states(states: int, count: int = 12) -> np.ndarray:
    """A few equally spaced states, at which networks are drawn as points."""
    return np.unique(np.linspace(0, states - 1, count).round().astype(int))


class MapAxes(NamedTuple):
    """The axes of maps: their two labels, `ticks` with `names`, the edges (`extent`), a `border` between classes."""

    labels: tuple[str, str]
    ticks: tuple[float, ...]
    names: tuple[str, ...]
    extent: tuple[float, float, float, float]
    border: float | None = None


def over_points(points: Points) -> MapAxes:
    """Axes of maps over points that are ordered by their targets, with the classes as names."""
    count, first = len(points.targets), int(np.sum(points.targets < 0))
    edges = (0.0, float(count), 0.0, float(count))
    return MapAxes(
        ("point α", "point μ"), (first / 2, (first + count) / 2), ("y=−1", "y=1"), edges, first
    )


def over_times(steps: int) -> MapAxes:
    """Axes of maps over two times."""
    ticks = (0, steps)
    edges = (0.0, float(steps), 0.0, float(steps))
    return MapAxes(("step s", "step t"), ticks, tuple(map(str, ticks)), edges)


def draw_maps(
    block: Figure | SubFigure,
    title: str,
    rows: dict[str, np.ndarray],
    axes: MapAxes,
    words: str,
    scale: Sequence[str] = (),
    log: bool = False,
    columns: Sequence[str] = (),
) -> None:
    """Draw heat maps, a row for each name and a column for each layer, with one colour scale.

    `words` are the label of the colours. They span the values of all rows, or of the rows named in `scale`. `columns`
    are names of columns that are not the layers.
    """
    values = np.concatenate([np.ravel(rows[name]) for name in scale or rows])
    look = colours_of(values, log=log)
    columns = columns or [f"ℓ = {k + 1}" for k in range(len(next(iter(rows.values()))))]
    panels = block.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
    image = None
    for row, (name, maps) in zip(panels, rows.items(), strict=True):
        for panel, heat_map in zip(row, maps, strict=True):
            image = panel.imshow(
                heat_map, origin="lower", interpolation="none", extent=axes.extent, **look
            )
            panel.set_xticks(axes.ticks, axes.names, fontsize=TEXT)
            panel.set_yticks(axes.ticks, axes.names, fontsize=TEXT)
            panel.tick_params(left=panel is row[0], bottom=panel in panels[-1])
            # One frame of the background in place of four lines, for small files.
            panel.spines[:].set_visible(False)
            panel.patch.set(edgecolor="black", linewidth=1.2)
            if axes.border is not None:
                panel.axhline(axes.border, color="black", lw=0.6)
                panel.axvline(axes.border, color="black", lw=0.6)
        row[0].set_ylabel(f"{name}\n{axes.labels[1]}".strip(), fontsize=TEXT)
    for column, top, bottom in zip(columns, panels[0], panels[-1], strict=True):
        top.set_title(column, fontsize=9)
        bottom.set_xlabel(axes.labels[0], fontsize=TEXT)
    block.suptitle(title, fontsize=10)
    assert image is not None
    extend = "both" if scale else "neither"
    bar = block.colorbar(image, ax=panels, pad=0.02, aspect=25, extend=extend)
    bar.set_label(words, fontsize=9)
    bar.ax.tick_params(labelsize=TEXT)
