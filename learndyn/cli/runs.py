"""`learndyn runs`: logs of networks that were trained elsewhere, made into runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import learndyn as ld
from learndyn.cli.console import remark, say
from learndyn.cli.outputs import writable_file
from learndyn.cli.problems import ProblemFile, Settings, read_problem
from learndyn.errors import ProblemError


def runs(
    problem_file: ProblemFile,
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOGS.csv...",
            show_default=False,
            help="Logs of training: one for each network, or one with a column for the seed.",
        ),
    ],
    size: Annotated[
        int,
        typer.Option(metavar="N", show_default=False, help="Size of the networks, as in simulate."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the runs.")
    ] = Path("runs.nc"),
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMN",
            show_default="columns called like observables",
            help="The column of an observable, such as test_loss=val/mse; give it several times.",
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            show_default="step",
            help="The column of steps; step k is the state after k updates.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", show_default=False, help="The column of times, instead of steps."
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            show_default=False,
            help="The column that tells networks in one file apart.",
        ),
    ] = None,
    half: Annotated[
        bool | None,
        typer.Option(
            "--half/--no-half", show_default=False, help="Whether your losses have the factor ½."
        ),
    ] = None,
    noise: Annotated[
        bool | None,
        typer.Option(
            "--noise/--no-noise",
            show_default=False,
            help="Whether your test loss is on noisy labels.",
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="sum|mean",
            show_default=False,
            help="What your losses are over several outputs (PyTorch's MSELoss: mean).",
        ),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(
            metavar="mean|sum", show_default=False, help="What your losses are over given points."
        ),
    ] = None,
    setting: Settings = None,
) -> None:
    """Read logs of networks that you trained yourself, and save them as runs.

    `learndyn compare` and `learndyn plot` take them like those of `learndyn simulate`. What a log
    does not say about its losses must be said here: nothing is guessed.
    """
    problem = read_problem(problem_file, setting)
    path = writable_file(output)
    solution = ld.runs.from_csv(
        problem,
        logs,
        size=size,
        columns=_columns(column or []),
        step=step,
        time=time,
        seed=seed,
        half=half,
        noise=noise,
        outputs=outputs,  # pyright: ignore[reportArgumentType]
        points=points,  # pyright: ignore[reportArgumentType]
    )
    solution.save(path)
    remark(f"saved in {path}")
    say(repr(solution))


def _columns(options: list[str]) -> dict[str, str]:
    """The columns by observable."""
    columns = {}
    for option in options:
        name, equals, word = option.partition("=")
        if not (name and equals and word):
            raise ProblemError("--column", option, "must look like NAME=COLUMN")
        columns[name] = word
    return columns
