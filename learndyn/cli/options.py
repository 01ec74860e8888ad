"""Arguments and options that several commands share, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

import learndyn as ld
from learndyn.errors import ProblemError, nearest

if TYPE_CHECKING:
    import numpy as np

    from learndyn.problem.part import Part

Chosen = TypeVar("Chosen", bound="Part")


def _level(value: float) -> float:
    """The value of --level, checked."""
    from learndyn.problem.checks import number

    return number(above=0, below=1)(value, "--level")


def _finite_size(value: float) -> float:
    """The value of --finite-size, checked."""
    from learndyn.problem.checks import number

    return number(minimum=0)(value, "--finite-size")


Size = Annotated[
    int,
    typer.Option(metavar="N", help="Size of the finite networks: the number of their inputs."),
]
Seeds = Annotated[
    int,
    typer.Option(metavar="COUNT", help="How many networks to train; at least 2 for error bars."),
]
FirstSeed = Annotated[
    int,
    typer.Option(metavar="SEED", help="The networks have this seed, the next one, and so on."),
]
SaveAt = Annotated[
    str | None,
    typer.Option(
        metavar="GRID",
        show_default="linear:201",
        help="When to record, in the units of the training's length: linear:COUNT, log:COUNT or "
        "log:COUNT:FIRST, where FIRST is the first time after 0.",
    ),
]
Level = Annotated[
    float,
    typer.Option(
        metavar="P",
        callback=_level,
        help="Chance of a false alarm: an observable differs if its deviation is less likely than "
        "this when the theory is right.",
    ),
]
FiniteSize = Annotated[
    float,
    typer.Option(
        metavar="C",
        callback=_finite_size,
        help="Deviations of C × (largest value)/N are allowed, as the theory is the limit N → ∞; "
        "0 is the strict test.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        show_default="curves for one swept field, map for two",
        help="The picture of a sweep: curves, map, best or line.",
    ),
]
Along = Annotated[
    str | None,
    typer.Option(
        "--x",
        metavar="FIELD",
        show_default="the first",
        help="The swept field along x of a map or line; for best, the field whose best value is "
        "sought (the learning rate unless given).",
    ),
]
Colour = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        show_default="the one with most values",
        help="The swept field that colours curves or lines.",
    ),
]
At = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        show_default="the end of training",
        help="The step or time at which maps, best values and lines are read off.",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        show_default=False,
        help="Fix a further swept field, or a component of the observable, for the picture; give "
        "it several times for several.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def recording_times(save_at: str | None, problem: ld.Problem) -> np.ndarray | None:
    """The times or steps that --save-at names for this problem; None for the usual ones."""
    if save_at is None:
        return None
    import numpy as np

    from learndyn.numerics.times import parse_times

    training = problem.training
    if training.time is not None:
        return parse_times(save_at, training.time)
    return np.unique(np.rint(parse_times(save_at, training.steps)))


Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="METHOD",
        show_default="what suits the problem",
        help="How to solve, where the theory has a choice, such as rows or innovation for a deep linear network.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        show_default="the method's own",
        help="Set an option of the method, such as bins=128; give it several times for several.",
    ),
]


def method_of(kinds: tuple[type[Chosen], ...], word: str | None) -> Chosen | None:
    """The method whose kind is `word`; None for the usual one."""
    if word is None:
        return None
    known = {cls.kind: cls for cls in kinds}
    if word not in known:
        raise ProblemError(
            "--method", word, f"unknown method for this problem; {nearest(word, known)}"
        )
    return known[word]()
