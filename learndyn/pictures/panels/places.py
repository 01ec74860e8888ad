"""Where the values of a swept field stand on an axis of a picture, and which colour they have there."""

from typing import Any, NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from learndyn.pictures.style import COLOURS

FEW = 8
"""Up to this number, every value has a tick."""
SHADES = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, 256)))
"""Without the yellow end of viridis, on which a thin line can hardly be seen."""


class Places(NamedTuple):
    """The values of one swept field in the order of the picture.

    Finite numbers stand in increasing order at their own place, on a logarithmic axis if they are `log`
    spaced. Words, and numbers one of which is infinite, stand one after the other.
    """

    name: str
    label: str
    values: np.ndarray
    order: np.ndarray
    numbers: bool
    log: bool

    @property
    def at(self) -> np.ndarray:
        """The coordinates."""
        return (
            self.values.astype(float) if self.numbers else np.arange(len(self.values), dtype=float)
        )

    @property
    def texts(self) -> list[str]:
        """The values as texts."""
        return [_text(value) for value in self.values.tolist()]

    @property
    def edges(self) -> np.ndarray:
        """The borders of cells around the places, half way between neighbours (in the logarithm if `log`)."""
        places = np.log(self.at) if self.log else self.at
        if len(places) == 1:
            edges = places[0] + 0.5 * np.array([-1, 1])
        else:
            middles = (places[1:] + places[:-1]) / 2
            first, last = 2 * places[0] - middles[0], 2 * places[-1] - middles[-1]
            edges = np.concatenate([[first], middles, [last]])
        return np.exp(edges) if self.log else edges

    def put_on(self, panel: Axes, which: str) -> None:
        """Scale, ticks and label of the axis `which`, "x" or "y", of a panel."""
        axis = {"x": panel.xaxis, "y": panel.yaxis}[which]
        panel.set(**{f"{which}label": self.label})
        if self.log:
            panel.set(**{f"{which}scale": "log"})
            decades = np.log10(self.at[-1] / self.at[0])
            axis.set_major_locator(LogLocator(subs=(1,) if decades > 2.5 else (1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        places = np.log(self.at) if self.log else self.at
        span = np.ptp(places) or 1.0
        apart = len(places) == 1 or np.diff(places).min() > 0.08 * span
        if (len(places) <= FEW and apart) or not self.numbers:
            axis.set_ticks(self.at, self.texts)
            axis.set_minor_locator(NullLocator())


def places_of(coordinate: xr.DataArray) -> Places:
    """The places of the values on a swept axis."""
    values, name = coordinate.values, str(coordinate.name)
    numbers = values.dtype.kind in "iuf" and bool(np.isfinite(values).all())
    # An infinite value has no place of its own, but still comes last.
    order = np.argsort(values) if values.dtype.kind in "iuf" else np.arange(len(values))
    values = values[order]
    return Places(
        name, label_of(coordinate), values, order, numbers, numbers and log_spaced(values)
    )


def label_of(coordinate: xr.DataArray) -> str:
    """The words of the field's path, with the paper's symbol and the units if the axis has them."""
    words = str(coordinate.name).replace("_", " ").replace(".", " ")
    symbol, units = coordinate.attrs.get("symbol"), coordinate.attrs.get("units", "1")
    text = f"{words} {symbol}" if symbol else words
    return text if units in ("1", "") else f"{text} [{units}]"


def log_spaced(values: np.ndarray) -> bool:
    """Whether increasing values are closer to equally spaced in the logarithm than in themselves."""
    if len(values) < 2 or values[0] <= 0:
        return False
    if len(values) == 2:
        return bool(values[1] >= 10 * values[0])
    uneven = [np.std(gaps) / np.mean(gaps) for gaps in (np.diff(values), np.diff(np.log(values)))]
    return bool(uneven[1] < uneven[0])


class Hues:
    """Colours of the values of a swept field: a scale with a bar of numbers, single colours of words."""

    def __init__(self, places: Places):
        self.places = places
        self.scale = places.numbers and len(places.values) > 1
        if self.scale:
            norm = (LogNorm if places.log else Normalize)(places.at.min(), places.at.max())
            self.mappable = ScalarMappable(norm, SHADES)

    def __getitem__(self, number: int) -> Any:
        if self.scale:
            return self.mappable.to_rgba(self.places.at[number])
        return COLOURS[number % len(COLOURS)]

    def bar(self, panels: list[Axes]) -> None:
        """Draw the colour bar beside the panels; words have none."""
        if self.scale and (figure := panels[0].get_figure()) is not None:
            bar = figure.colorbar(self.mappable, ax=panels, pad=0.02)
            self.places.put_on(bar.ax, "y")


def _text(value: object) -> str:
    """A value as the picture shows it; numbers have four digits."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.4g}".replace("inf", "∞")
