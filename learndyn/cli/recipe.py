"""`learndyn recipe`: how to train the network of a problem with PyTorch or JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import learndyn as ld
from learndyn.cli.console import remark, say
from learndyn.cli.outputs import writable_file, write_text
from learndyn.cli.problems import ProblemFile, Settings, read_problem
from learndyn.errors import ProblemError, nearest

FRAMEWORKS = ("table", "torch", "optax")


def recipe(
    problem_file: ProblemFile,
    size: Annotated[
        int, typer.Option(metavar="N", help="Size of the network, as of `learndyn simulate`.")
    ] = 784,
    framework: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="table: initial deviations, multipliers and rates of all layers, in all "
            "parameterisations; torch or optax: a program that trains the network.",
        ),
    ] = "table",
    parameterization: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="That of the program: standard, ntk or mup; all learn the same."
        ),
    ] = "standard",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default="the screen",
            help="Write it to this file; arrays that are too large for a program go into "
            "FILE.npz beside it.",
        ),
    ] = None,
    setting: Settings = None,
) -> None:
    """Print the recipe of a network: its layers as a table, or a program for PyTorch or JAX.

    The program trains the same network on the same data as `learndyn simulate`, and prints its
    learning curve as CSV.
    """
    if framework not in FRAMEWORKS:
        raise ProblemError("--framework", framework, f"unknown; {nearest(framework, FRAMEWORKS)}")
    made = ld.recipe(read_problem(problem_file, setting), size)
    made.layers(parameterization)  # refuses an unknown one, also beside a table
    path = None if output is None else writable_file(output)
    data_file = Path("data.npz") if path is None else path.with_name(f"{path.name}.npz")
    text = str(made)
    if framework != "table":
        text = getattr(made, framework)(parameterization, data_file.name)
        if made.needs_data_file and path is None:
            remark(f"the program reads {data_file}, which --output writes too")
    if path is None:
        say(text)
        return
    write_text(path, text if text.endswith("\n") else f"{text}\n")
    if framework != "table" and made.needs_data_file:
        made.save_data(data_file)
        remark(f"arrays written to {data_file}")
    remark(f"written to {path}")
