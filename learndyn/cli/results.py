"""`learndyn compare` and `learndyn plot`: what to do with saved results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import learndyn as ld
from learndyn.cli.console import remark, say
from learndyn.cli.failures import DISAGREE
from learndyn.cli.looks import check_look, look_of, picture_of, refuse_look
from learndyn.cli.options import Along, At, Colour, FiniteSize, Kind, Level, Select
from learndyn.cli.outputs import writable_file, write_text
from learndyn.errors import FileError, ProblemError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compare(
    theory: Annotated[
        Path,
        typer.Argument(metavar="THEORY.nc", show_default=False, help="From `learndyn solve`."),
    ],
    runs: Annotated[
        Path,
        typer.Argument(metavar="RUNS.nc", show_default=False, help="From `learndyn simulate`."),
    ],
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Also write the table to this file."),
    ] = None,
    level: Level = 0.01,
    finite_size: FiniteSize = 1.0,
) -> None:
    """Test whether saved runs agree with a saved theory, observable by observable."""
    if csv is not None:
        writable_file(csv)
    comparison = ld.compare(ld.load(theory), ld.load(runs), level=level, finite_size=finite_size)
    if csv is not None:
        write_text(csv, comparison.table.to_csv())
        remark(f"table written to {csv}")
    say(str(comparison))
    if not comparison.agrees:
        raise typer.Exit(DISAGREE)


def plot(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES.nc...",
            show_default=False,
            help="Saved theories and runs, of one problem or of several; or one saved sweep.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The picture: .png, .svg or .pdf by its ending."
        ),
    ] = Path("curve.png"),
    observable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="test_loss",
            help="What to draw, one panel each; give the option several times for several.",
        ),
    ] = None,
    kind: Kind = None,
    x: Along = None,
    colour: Colour = None,
    at: At = None,
    select: Select = None,
) -> None:
    """Draw saved theories and runs over time in one picture, or a saved sweep.

    The options --kind, --x, --colour, --at and --select are for sweeps, of which one observable
    is drawn.
    """
    from learndyn.pictures.plotting import ENDINGS, save_figure

    writable_file(output, tuple(f".{ending}" for ending in ENDINGS))
    look = look_of(kind, x, colour, at, select)
    if is_sweep(files[0]):
        save_figure(_sweep_picture(files, observable or [], look), output)
        say(str(output))
        return
    refuse_look(look, "is for a saved sweep only")
    solutions = [ld.load(path) for path in files]
    # Theories first, so that their line leads the legend.
    solutions.sort(key=lambda solution: solution.is_simulation)
    save_figure(ld.plot(*solutions, observables=observable or None), output)
    say(str(output))


def is_sweep(path: Path) -> bool:
    """Whether the header of a file says that it holds a sweep."""
    from learndyn.core.storage import is_of_kind

    return is_of_kind(path, "sweep")


def _sweep_picture(files: list[Path], observables: list[str], look: dict[str, Any]) -> Figure:
    """The picture of a saved sweep."""
    if len(files) > 1:
        raise FileError(f"{files[0]} is a sweep, which is drawn alone; leave out {files[1]}")
    if len(observables) > 1:
        raise ProblemError("--observable", observables[1], "must be given once for a sweep")
    sweep = ld.load_sweep(files[0])
    check_look(look, sweep.axes)
    return picture_of(sweep, observables, look)
