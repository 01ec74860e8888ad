"""The pictures of the papers, made anew: a registry that the families fill."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from matplotlib.figure import Figure

from learndyn.core.theory import theories


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """A picture of a paper. `make(report)` draws it and calls `report` with the fraction done.

    `minutes` is a rough duration on two cores; `caption` says what is shown and with which parameters.
    """

    name: str
    title: str
    caption: str
    reference: str
    minutes: float
    make: Callable[[Callable[[float], None]], Figure]


_figures: dict[str, PaperFigure] = {}


def register_figure(figure: PaperFigure) -> PaperFigure:
    """Make a picture known to `learndyn figures`."""
    _figures[figure.name] = figure
    return figure


@contextlib.contextmanager
def registered_alone(*some: PaperFigure) -> Iterator[None]:
    """Within a `with` block these pictures, and no others, are known."""
    before = {figure.name: figure for figure in figures()}
    _figures.clear()
    try:
        for figure in some:
            register_figure(figure)
        yield
    finally:
        _figures.clear()
        _figures.update(before)


def figures() -> list[PaperFigure]:
    """All pictures, by name; loads those of other packages first."""
    theories()
    return [_figures[name] for name in sorted(_figures)]
