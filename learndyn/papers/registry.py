"""The pictures that `learndyn figures` makes."""

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator

from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.theory import theories


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """A picture of a paper. `make(report)` draws it and calls `report` with the fraction done.

    - `name`: such as "primer-1".
    - `title`: one line.
    - `caption`: what is shown, and with which parameters.
    - `reference`: the paper.
    - `minutes`: a rough duration on two cores.
    """

    name: str
    title: str
    caption: str
    reference: str
    minutes: float
    make: Callable[[Report], Figure]


MODULES = (
    "convolutional",
    "deep_linear",
    "delayed_features",
    "neural_ode",
    "neural_ode_family",
    "primer",
    "residual",
    "wide",
)
"""Modules of this package that register pictures."""

_figures: dict[str, PaperFigure] = {}


def register_figure(figure: PaperFigure) -> PaperFigure:
    """Make a picture known to `learndyn figures`."""
    _figures[figure.name] = figure
    return figure


@contextlib.contextmanager
def registered_alone(*added: PaperFigure) -> Iterator[None]:
    """Make these pictures, and no others, known within a `with` block."""
    before = {figure.name: figure for figure in figures()}
    _figures.clear()
    try:
        for figure in added:
            register_figure(figure)
        yield
    finally:
        _figures.clear()
        _figures.update(before)


def figures() -> list[PaperFigure]:
    """All pictures, by name; imports those of the papers, and those of other packages, first."""
    theories()
    for module in MODULES:
        importlib.import_module(f"learndyn.papers.{module}")
    return [_figures[name] for name in sorted(_figures)]
