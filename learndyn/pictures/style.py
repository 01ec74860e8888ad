"""The one language of all pictures.

- A theory is a line. If it was sampled, the line lies in a band of two standard errors to both sides.
- Networks are open circles at the mean over the seeds, with bars of one standard error. A band around them holds the
  middle two thirds of the seeds.
- What is tested is solid, what is trained on is dashed: `TEST` and `TRAIN`.
- Every panel of several has a letter; curves carry their names where there is room (`name_lines`).
- Maps of positive values use `POSITIVE`, of signed ones `SIGNED`, with zero in the middle (`colours_of`).
"""

import itertools
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike

from learndyn.numerics.statistics import mean_and_error
from learndyn.pictures.scales import is_logarithmic

THEORY_COLOUR = "#1a1a1a"
RUNS_COLOUR = "#0072B2"
# Distinct under every common colour blindness (Okabe and Ito 2008), dark enough for thin lines.
COLOURS = (RUNS_COLOUR, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
NEUTRAL = "0.35"
"""The colour of what stands for lines of several colours in a legend."""
TEST, TRAIN = "-", "--"
THEORY_LINE: dict[str, Any] = {"lw": 1.4, "zorder": 3}
CIRCLE: dict[str, Any] = {"marker": "o", "ms": 4, "mfc": "white", "mew": 1.0, "ls": ""}
CIRCLES: dict[str, Any] = CIRCLE | {"elinewidth": 1.0, "zorder": 2.5}
SAMPLED_BAND: dict[str, Any] = {"alpha": 0.2, "lw": 0, "zorder": 1.5}
SEEDS_BAND: dict[str, Any] = {"alpha": 0.15, "lw": 0, "zorder": 1}
GUIDE: dict[str, Any] = {"color": "0.55", "lw": 1.0, "zorder": 1}
"""A line that is neither theory nor network: a limit, a power law, a level."""
POSITIVE, SIGNED = "viridis", "RdBu_r"
PANEL = (3.4, 3.0)
"""Width and height of one panel of the picture of a paper, in inches."""
TEXT = 8
"""Size of the letters of legends and names, in points."""


def new_panels(
    rows: int, columns: int, *, panel: tuple[float, float] = PANEL, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A new figure and the array of its panels; `shared` goes to `Figure.subplots`."""
    width, height = panel
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def draw_theory(
    panel: Axes,
    x: ArrayLike,
    y: ArrayLike,
    colour: ColorType = THEORY_COLOUR,
    label: str | None = None,
    *,
    error: ArrayLike | None = None,
    **look: Any,
) -> Line2D:
    """Draw the curve of a theory; `error` is its standard error if it was sampled."""
    times, values = np.asarray(x), np.asarray(y)
    (line,) = panel.plot(times, values, **(THEORY_LINE | {"color": colour, "label": label} | look))
    if error is not None:
        half = 2 * np.asarray(error)
        panel.fill_between(times, values - half, values + half, color=colour, **SAMPLED_BAND)
    return line


def draw_networks(
    panel: Axes,
    x: ArrayLike,
    runs: Float[np.ndarray, "seeds points"],
    colour: ColorType = RUNS_COLOUR,
    label: str | None = None,
    *,
    band: bool = False,
    **look: Any,
) -> None:
    """Draw networks: means over the seeds with standard errors; with `band`, also where the seeds are."""
    times, values = np.asarray(x), np.asarray(runs)
    mean, error = mean_and_error(values)
    several = len(values) > 1
    if band and several:
        draw_band(panel, times, values, colour)
    panel.errorbar(
        times,
        mean,
        error if several else None,
        **(CIRCLES | {"color": colour, "label": label} | look),
    )


def draw_band(
    panel: Axes, x: ArrayLike, runs: Float[np.ndarray, "seeds points"], colour: ColorType
) -> None:
    """Draw the band from the first to the last sixth of the seeds; for normal deviations, one standard deviation.

    Unlike mean ± standard deviation it stays positive where the values are, as logarithmic axes need.
    """
    low, high = np.quantile(np.asarray(runs), [1 / 6, 5 / 6], axis=0)
    panel.fill_between(np.asarray(x), low, high, color=colour, **SEEDS_BAND)


def a_few(x: ArrayLike, count: int = 12) -> list[int]:
    """Indices of about `count` of the points of x, equally far apart on the axis that suits them."""
    places = np.asarray(x, float)
    if len(places) <= count:
        return list(range(len(places)))
    log = is_logarithmic(places)
    first = int(np.argmax(places > 0)) if log else 0
    scaled = np.log(places[first:]) if log else places
    wanted = np.linspace(scaled[0], scaled[-1], count)
    nearest = np.abs(scaled[None, :] - wanted[:, None]).argmin(axis=1)
    return sorted(set((first + nearest).tolist()))


def legend_of(panel: Axes, networks: str | None = None, train: bool = False, **look: Any) -> None:
    """Give a panel a legend; `networks` says what the circles are, `train` that dashed is the training loss."""
    if networks is not None:
        panel.plot([], [], color=NEUTRAL, lw=THEORY_LINE["lw"], label="theory")
        panel.plot([], [], color=NEUTRAL, **CIRCLE, label=networks)
    if train:
        for style, label in ((TEST, "test"), (TRAIN, "train")):
            panel.plot([], [], style, color=NEUTRAL, lw=THEORY_LINE["lw"], label=label)
    if panel.get_legend_handles_labels()[0]:
        style = {"frameon": False, "fontsize": TEXT, "title_fontsize": TEXT, "handlelength": 2.2}
        panel.legend(**(style | look))


def finish(panel: Axes, title: str | None = None, **settings: Any) -> None:
    """Give a panel its title, `settings` such as labels and scales, an open frame and a light grid."""
    if title is not None:
        panel.set_title(title, fontsize=10)
    panel.set(**settings)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25, lw=0.5)


def letter(panels: Iterable[Axes]) -> None:
    """Put (a), (b), … before the titles of panels."""
    for panel, name in zip(panels, string.ascii_lowercase, strict=False):
        panel.set_title(f"({name}) {panel.get_title()}".rstrip(), fontsize=10)


def name_lines(
    panel: Axes, names: Sequence[tuple[Line2D, str]], *, gap: float = 0.055, room: float = 0.22
) -> None:
    """Write the names of lines beside their last visible points, at least `gap` of the height of the panel apart.

    Call it when limits and scales are set. `room` is the part of the width that the names may take.
    """
    low, high = panel.get_xlim()
    scale = panel.xaxis.get_transform()
    span = scale.transform([low, high])
    wider = span[1] + room / (1 - room) * (span[1] - span[0])
    panel.set_xlim(low, scale.inverted().transform([wider])[0])
    to_panel = panel.transData + panel.transAxes.inverted()
    ends = []
    for line, name in names:
        x, y = (np.asarray(values, float) for values in line.get_data())
        low, high = sorted(panel.get_ylim())
        last = np.flatnonzero((low <= y) & (y <= high))[-1]
        ends.append((*to_panel.transform((x[last], y[last])), line.get_color(), name))
    ends.sort(key=lambda end: end[1])
    heights = _apart([end[1] for end in ends], gap)
    for (x, _, colour, name), height in zip(ends, heights, strict=True):
        place = {"transform": panel.transAxes, "va": "center", "ha": "left"}
        panel.text(x + 0.02, height, name, color=colour, fontsize=TEXT, **place)


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights moved as little as a few sweeps find, until neighbours are `gap` apart, within 0 and 1."""
    moved = np.clip(heights, 0.02, 0.98)
    for _ in range(200):
        for low, high in itertools.pairwise(range(len(moved))):
            short = gap - (moved[high] - moved[low])
            if short > 0:
                moved[low] -= short / 2
                moved[high] += short / 2
        moved = np.clip(moved, 0.02, 0.98)
    return moved.tolist()


def colours_of(values: ArrayLike, *, log: bool = False) -> dict[str, Any]:
    """The colour map and its norm that suit values: symmetric about zero if some are negative, else positive."""
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if finite.size and finite.min() < 0:
        largest = float(np.abs(finite).max())
        return {"cmap": SIGNED, "norm": Normalize(-largest, largest)}
    if log:
        above = finite[finite > 0]
        return {"cmap": POSITIVE, "norm": LogNorm(above.min(), above.max())}
    return {"cmap": POSITIVE, "norm": Normalize(finite.min(), finite.max())}
