"""`learndyn sweep`: a problem for all combinations of values of some of its fields."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import learndyn as ld
from learndyn.cli.compute import chosen_method
from learndyn.cli.console import remark, say
from learndyn.cli.failures import GAVE_UP
from learndyn.cli.grids import fields_and_values
from learndyn.cli.looks import check_look, look_of, picture_of, refuse_look
from learndyn.cli.options import (
    Along,
    At,
    Colour,
    FirstSeed,
    Kind,
    Method,
    Options,
    SaveAt,
    Select,
    recording_times,
)
from learndyn.cli.outputs import writable_file
from learndyn.cli.problems import ProblemFile, Settings, read_problem
from learndyn.errors import ProblemError

if TYPE_CHECKING:
    import pandas as pd

SOME_FAILED = 1
SHOWN = 5
"""How many errors are printed; the file has all of them."""


def sweep(
    problem_file: ProblemFile,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="FIELD=VALUES",
            show_default=False,
            help="A field of the problem, named as in the problem file with its table in front, and "
            "its values: V1,V2,… (numbers, words, true, false, inf), lin:LOW:HIGH:COUNT or "
            "log:LOW:HIGH:COUNT. Give it several times for a grid.",
        ),
    ],
    simulate: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE", show_default="theory only", help="Also train networks of this size."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT", show_default="4", help="How many networks to train at every point."
        ),
    ] = None,
    first_seed: FirstSeed = 0,
    no_solve: Annotated[
        bool, typer.Option("--no-solve", help="Only train networks, without the theory.")
    ] = False,
    observable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="all",
            help="What to keep of every point; give it several times for several. The picture "
            "shows the first of them, or else the test loss.",
        ),
    ] = None,
    save_at: SaveAt = None,
    method: Method = None,
    option: Options = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the sweep.")
    ] = Path("sweep.nc"),
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default="beside the output: sweep.points for sweep.nc",
            help="Where finished points are kept; those found there are not computed again, so "
            "that a sweep that was stopped goes on.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute points again that failed before.")
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default="this machine",
            help="A dask scheduler, such as tcp://host:8786; or local, for processes here.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="COUNT", show_default="all cores", help="How many cores to use."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FIGURE",
            show_default="no picture",
            help="Also draw a picture: .png, .svg or .pdf by its ending.",
        ),
    ] = None,
    kind: Kind = None,
    x: Along = None,
    colour: Colour = None,
    at: At = None,
    select: Select = None,
    setting: Settings = None,
) -> None:
    """Solve a problem, or train networks too, for all combinations of values of some fields.

    All points are checked before the first is computed, and one that fails does not stop the
    others. The exit code is 1 if some points failed and 3 if all did. `learndyn plot` draws the
    saved sweep.
    """
    from learndyn.pictures.plotting import save_figure

    problem = read_problem(problem_file, setting)
    fields = fields_and_values(over)
    _check_simulation(simulate, seeds, no_solve)
    look = look_of(kind, x, colour, at, select)
    _check_picture(picture, look, fields)
    _check_recording(save_at, fields)
    times = recording_times(save_at, problem)
    chosen = chosen_method(problem, times, method, option or [], None)
    folder = store or writable_file(output).with_suffix(".points")
    if folder == output:
        raise ProblemError("--store", str(store), "must be another path than the output")
    runs = {"size": simulate, "seeds": seeds or 4, "first_seed": first_seed}
    try:
        swept = ld.sweep(
            problem,
            fields,
            solve=not no_solve,
            simulate=None if simulate is None else runs,
            observables=observable or None,
            method=chosen,
            save_at=times,
            store=folder,
            retry_failed=retry_failed,
            scheduler=scheduler,
            workers=workers,
            progress=True,
        )
    except KeyboardInterrupt as error:
        text = f"finished points are in {folder}; the same command goes on from there"
        raise KeyboardInterrupt(text) from error
    swept.save(output)
    remark(f"sweep saved in {output}, its points in {folder}")
    failures = swept.failures
    total = math.prod(map(len, fields.values())) * (1 + (simulate is not None and not no_solve))
    if picture is not None and len(failures) < total:
        save_figure(picture_of(swept, observable, look), picture)
        remark(f"picture written to {picture}")
    say(_summary(swept, failures))
    if len(failures):
        raise typer.Exit(GAVE_UP if len(failures) == total else SOME_FAILED)


def _check_picture(picture: Path | None, look: dict[str, Any], fields: dict[str, list]) -> None:
    """Refuse options of a picture that could not be drawn, before long work starts."""
    from learndyn.pictures.plotting import ENDINGS

    check_look(look, [path.rpartition(".")[2] for path in fields] + list(fields))
    if picture is None:
        refuse_look(look, "needs --picture FIGURE")
    else:
        writable_file(picture, tuple(f".{ending}" for ending in ENDINGS))


def _check_recording(save_at: str | None, fields: dict[str, list]) -> None:
    """Refuse --save-at if the length of training is swept."""
    lengths = {"training.steps", "training.time"} & fields.keys()
    if save_at is not None and lengths:
        allowed = f"must be left out if {lengths.pop()} is swept, as each point has its own times"
        raise ProblemError("--save-at", save_at, allowed)


def _check_simulation(simulate: int | None, seeds: int | None, no_solve: bool) -> None:
    """Refuse options of simulations that make no sense together."""
    if simulate is None and seeds is not None:
        raise ProblemError("--seeds", seeds, "needs --simulate SIZE")
    if simulate is None and no_solve:
        raise ProblemError("--no-solve", True, "leaves nothing to do without --simulate SIZE")
    for name, value in (("--simulate", simulate), ("--seeds", seeds)):
        if value is not None and value < 1:
            raise ProblemError(name, value, "must be a whole number of at least 1")


def _summary(swept: ld.Sweep, failures: pd.DataFrame) -> str:
    """What was computed, reused and lost, with the first errors."""
    shape = " × ".join(f"{axis} ({swept.data.sizes[axis]})" for axis in swept.axes)
    points = math.prod(swept.data.sizes[axis] for axis in swept.axes)
    evidence = swept.evidence
    lines = [
        f"sweep over {shape}: {points} points",
        f"  {evidence['computed']} results computed, {evidence['reused']} reused, "
        f"{len(failures)} failed",
    ]
    if evidence.get("damaged"):
        lines.append(f"  {evidence['damaged']} damaged files of the store were computed again")
    for row in failures.head(SHOWN).to_dict("records"):
        values = ", ".join(f"{axis} = {row[axis]}" for axis in swept.axes)
        lines.append(f"  failed at {values} ({row['what']}): {row['error']}")
    if len(failures) > SHOWN:
        lines.append(f"  … and {len(failures) - SHOWN} more, in the variable error of the file")
    return "\n".join(lines)
