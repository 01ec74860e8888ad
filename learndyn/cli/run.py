"""`learndyn run`: theory, finite networks, comparison and pictures of a problem in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import learndyn as ld
from learndyn.cli.compute import simulate_into, solve_into
from learndyn.cli.console import remark, say
from learndyn.cli.failures import DISAGREE
from learndyn.cli.options import (
    FiniteSize,
    FirstSeed,
    Level,
    SaveAt,
    Seeds,
    Size,
    recording_times,
)
from learndyn.cli.outputs import write_text
from learndyn.cli.pictures import PICTURES, pictures
from learndyn.cli.problems import ProblemFile, Settings, read_problem
from learndyn.errors import ProblemError
from learndyn.files import writable_folder

DERIVED = ("comparison.csv", "comparison.txt", *(f"{name}.png" for name in PICTURES))
"""The files that are derived from theory and runs."""


def run(
    problem_file: ProblemFile,
    size: Size = 784,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            show_default="the problem file's name without ending",
            help="Where to put the results. It is made if it does not exist; earlier results are replaced.",
        ),
    ] = None,
    save_at: SaveAt = None,
    level: Level = 0.01,
    finite_size: FiniteSize = 1.0,
    setting: Settings = None,
) -> None:
    """Solve, simulate, compare and draw: the whole answer to one problem.

    The folder then holds theory.nc and runs.nc (the curves), comparison.csv and comparison.txt
    (the agreement of each observable), and the pictures curve.png, deviations.png,
    order_parameters.png and two_times.png (maps of functions of two times, if the theory has any).
    """
    from learndyn.core.simulate import checked_ensemble

    problem = read_problem(problem_file, setting)
    if seeds < 2:
        allowed = (
            "must be at least 2, for an error bar; to train one network, use `learndyn simulate`"
        )
        raise ProblemError("--seeds", seeds, allowed)
    times = recording_times(save_at, problem)
    # Networks that cannot be trained are refused before the theory is solved.
    checked_ensemble(problem, size, seeds, save_at=times)
    folder = writable_folder(output or Path(problem_file.stem))
    theory = solve_into(folder / "theory.nc", problem, save_at=times)
    for name in DERIVED:
        # Files derived from an earlier theory must not stand beside this one.
        (folder / name).unlink(missing_ok=True)
    runs = simulate_into(folder / "runs.nc", problem, size, seeds, first_seed, save_at=times)
    comparison = ld.compare(theory, runs, level=level, finite_size=finite_size)
    write_results(folder, theory, runs, comparison)
    remark(f"table and pictures are in {folder}")
    say(str(comparison))
    if not comparison.agrees:
        raise typer.Exit(DISAGREE)


def write_results(
    folder: Path, theory: ld.Solution, runs: ld.Solution, comparison: ld.Comparison
) -> None:
    """Write the comparison as text and as a table, and the pictures."""
    from learndyn.pictures.plotting import save_figure

    write_text(folder / "comparison.csv", comparison.table.to_csv())
    write_text(folder / "comparison.txt", f"{comparison}\n")
    for name, (_, figure) in pictures(theory, runs, comparison).items():
        save_figure(figure, folder / f"{name}.png")
