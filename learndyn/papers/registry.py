"""The pictures that `learndyn figures` makes."""

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping

from matplotlib.figure import Figure

from learndyn.core.progressing import Report
from learndyn.core.theory import theories
from learndyn.papers.figure_facts import FigureFacts, modules
from learndyn.problem.problem import Problem


@dataclasses.dataclass(frozen=True)
class PaperFigure(FigureFacts):
    """A picture of a paper. `make(report)` draws it and calls `report` with the fraction done.

    `problem()` is the problem of one of its curves, for a start of one's own; None if a picture has none.
    """

    make: Callable[[Report], Figure]
    problem: Callable[[], Problem] | None = None


_figures: dict[str, PaperFigure] = {}


def register_figure(figure: PaperFigure) -> PaperFigure:
    """Make a picture known to `learndyn figures`."""
    _figures[figure.name] = figure
    return figure


def register_figures(
    facts: Mapping[str, FigureFacts],
    makers: Mapping[str, Callable[[Report], Figure]],
    problems: Mapping[str, Callable[[], Problem]] | None = None,
) -> None:
    """Make the pictures of a paper known, by the names that `facts` and `makers` have in common."""
    if facts.keys() != makers.keys():
        raise ValueError(f"not both told of and made: {sorted(facts.keys() ^ makers.keys())}")
    for name, told in facts.items():
        problem = (problems or {}).get(name)
        register_figure(PaperFigure(**dataclasses.asdict(told), make=makers[name], problem=problem))


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
    for module in modules():
        importlib.import_module(f"learndyn.papers.{module}")
    return [_figures[name] for name in sorted(_figures)]
