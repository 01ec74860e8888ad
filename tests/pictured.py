"""What a picture shows, read back from matplotlib as arrays."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection
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


def heights(band: Collection) -> np.ndarray:
    """The y of all corners of a band."""
    return np.asarray(band.get_paths()[0].vertices)[:, 1]


def values_of(mapped: ScalarMappable) -> np.ndarray:
    """The values that colours stand for, which must be there; masked where there is none."""
    found = mapped.get_array()
    assert found is not None
    return found
