"""What a picture shows, read back from matplotlib as arrays."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.gridspec import SubplotSpec
from matplotlib.legend import Legend
from matplotlib.lines import Line2D


def legend_of(panel: Axes) -> Legend:
    """The legend of a panel, which must have one."""
    found = panel.get_legend()
    assert found is not None
    return found


def place_of(panel: Axes) -> SubplotSpec:
    """The place of a panel, which must be in a grid."""
    found = panel.get_subplotspec()
    assert found is not None
    return found


def along_x(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_xdata())


def along_y(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata())


def drawn_lines(panel: Axes) -> list[Line2D]:
    """The lines of a panel that connect points: no circles, no samples for the legend."""
    return [line for line in panel.lines if line.get_linestyle() != "None" and len(along_x(line))]


def names_of(panels: Iterable[Axes]) -> dict[str, str]:
    """The names that lines have in the legends of panels and beside their ends, with the colours of the lines."""
    names = {}
    for panel in panels:
        for line in panel.lines:
            if not str(line.get_label()).startswith("_"):
                names[str(line.get_label())] = to_hex(line.get_color())
        names |= {text.get_text(): to_hex(text.get_color()) for text in panel.texts}
    return names


def curve_of(panel: Axes, name: str, panels: Iterable[Axes]) -> Line2D:
    """The line of a panel that has this name, or the colour that has it in one of `panels`.

    `name` may be the beginning of one.
    """
    for line in drawn_lines(panel):
        if str(line.get_label()) == name:
            return line
    names = names_of(panels)
    if name not in names:
        (name,) = (other for other in names if other.startswith(name))
    return next(line for line in drawn_lines(panel) if to_hex(line.get_color()) == names[name])


def heights(band: Collection) -> np.ndarray:
    """The y of all corners of a band."""
    return np.asarray(band.get_paths()[0].vertices)[:, 1]


def values_of(mapped: ScalarMappable) -> np.ndarray:
    """The values that colours stand for, which must be there; masked where there is none."""
    found = mapped.get_array()
    assert found is not None
    return found
