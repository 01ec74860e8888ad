"""`learndyn rates`, `learndyn transfer` and `learndyn exponent`: numbers that one reads off learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import learndyn as ld
from learndyn.cli.console import remark, say, table
from learndyn.cli.options import Seeds
from learndyn.cli.outputs import writable_file, write_text
from learndyn.cli.problems import ProblemFile, Settings, read_problem, value_of
from learndyn.errors import ProblemError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure as MatplotlibFigure

    from learndyn.pictures.plotting import Picture

SHOWN = 12
"""About how many times the table of exponents shows."""

Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", show_default=False, help="Also write the table to this file."
    ),
]
Figure = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FIGURE",
        show_default="no picture",
        help="Also draw a picture: .png, .svg or .pdf by its ending.",
    ),
]


Over = Annotated[
    list[str],
    typer.Option(
        metavar="FIELD=V1,V2,…",
        show_default=False,
        help="The field that changes, named as in the problem file with its table in front, and its "
        "values: network.width=0.5,1,2. Give it twice for a map.",
    ),
]


def rates(problem_file: ProblemFile, csv: Csv = None, setting: Settings = None) -> None:
    """Print the best and the largest stable learning rate of a problem, from the theory.

    The best rate has the smallest test loss at the end of training. A rate is stable if the
    training loss (the test loss if the theory has no training loss) ends no higher than it started.
    `learndyn transfer` finds them along a field.
    """
    problem = read_problem(problem_file, setting)
    _check_files(csv, None)
    row = (problem_file.stem, *ld.best_rate(problem), ld.largest_stable_rate(problem))
    header = ["problem", "best_rate", "best_loss", "largest_stable_rate"]
    _write_csv(csv, header, [row])
    shown = [[row[0], *(f"{x:.4g}" for x in row[1:])]]
    table("learning rates", [word.replace("_", " ") for word in header], shown)


def transfer(
    problem_file: ProblemFile,
    over: Over,
    parameterization: Annotated[
        str | None,
        typer.Option(
            metavar="WORD,WORD",
            show_default="that of the problem",
            help="Parameterisations to compare, such as mup,ntk.",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="no networks",
            help="Also train networks of this size, at the best rate and at the one that is kept.",
        ),
    ] = None,
    seeds: Seeds = 8,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="V1,V2,…",
            show_default="all",
            help="The values of the field at which networks are trained.",
        ),
    ] = None,
    observable: Annotated[
        str, typer.Option(metavar="NAME", help="What should be small at the end of training.")
    ] = "test_loss",
    csv: Csv = None,
    output: Figure = None,
    setting: Settings = None,
) -> None:
    """Say whether the best learning rate still serves when a field of the problem changes.

    For each value: the best and the largest stable rate, and how much of the loss is lost by
    keeping the best rate of the first value. A rate transfers if that is at most 5 %.
    """
    problem = read_problem(problem_file, setting)
    fields = dict(map(_field_and_values, over))
    _check_files(csv, output)
    found = ld.transfer(
        problem,
        fields,
        parameterizations=None if parameterization is None else parameterization.split(","),
        observable=observable,
        size=size,
        seeds=seeds,
        check=None if check is None else [value_of(word) for word in check.split(",")],
        progress=True,
    )
    if csv is not None:
        write_text(csv, found.table.to_csv(index=False))
        remark(f"table written to {csv}")
    if output is not None:
        _save(ld.plot_transfer(found), output)
    say(str(found))


def exponent(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.nc",
            show_default=False,
            help="From `learndyn solve` or `learndyn simulate`.",
        ),
    ],
    observable: Annotated[
        str, typer.Option(metavar="NAME", help="The curve whose exponent is wanted.")
    ] = "test_loss",
    window: Annotated[
        float, typer.Option(metavar="DECADES", help="How many decades of time one fit spans.")
    ] = 0.5,
    offset: Annotated[
        float,
        typer.Option(
            metavar="LOSS",
            help="Subtracted from the curve first, such as the variance of the label noise.",
        ),
    ] = 0.0,
    csv: Csv = None,
    output: Figure = None,
) -> None:
    """Print the local exponent −d log(loss)/d log(t) of a saved curve, with its uncertainty.

    For runs, the uncertainty is the standard error over seeds. For a theory, it is half the
    difference between the exponents of the two halves of the window. The table has about 12
    times; the CSV file has all of them.
    """
    import numpy as np

    _check_files(csv, output)
    solution = ld.load(file)
    axis = solution.axis
    exponents = ld.local_exponent(solution[observable], window=window, offset=offset)
    header = [axis, "exponent", "standard_error"]
    rows = list(zip(*(exponents[name].values for name in header), strict=True))
    known = [row for row in rows if np.isfinite(row[1])]
    if not known:
        raise ProblemError(
            "--window",
            window,
            "must be larger: it holds fewer than three recorded times everywhere",
        )
    _write_csv(csv, header, rows)
    if output is not None:
        _save(_exponent_figure(exponents, axis), output)
    times = np.array([row[0] for row in known])
    wanted = np.geomspace(times[0], times[-1], SHOWN)
    nearest = np.unique(np.abs(np.log(times) - np.log(wanted)[:, None]).argmin(axis=1))
    shown = [[f"{known[k][0]:.4g}", *map(_digits, known[k][1:])] for k in nearest]
    table(f"exponent of {observable}", [word.replace("_", " ") for word in header], shown)


def _digits(value: float) -> str:
    """A number of the table; one seed has no standard error."""
    return "unknown" if value != value else f"{value:.4f}"


def _field_and_values(over: str) -> tuple[str, list]:
    """The field and its values in FIELD=V1,V2,…"""
    field, equals, words = over.partition("=")
    values = [word.strip() for word in words.split(",")]
    if not equals or not field or not all(values):
        raise ProblemError("--over", over, "must look like network.width=0.5,1,2")
    return field.strip(), [value_of(word) for word in values]


def _check_files(csv: Path | None, output: Path | None) -> None:
    from learndyn.pictures.plotting import ENDINGS

    if csv is not None:
        writable_file(csv)
    if output is not None:
        writable_file(output, tuple(f".{ending}" for ending in ENDINGS))


def _write_csv(path: Path | None, header: list[str], rows: list[tuple]) -> None:
    if path is None:
        return
    import pandas as pd

    write_text(path, pd.DataFrame(rows, columns=header).to_csv(index=False))
    remark(f"table written to {path}")


def _save(figure: Picture | MatplotlibFigure, path: Path) -> None:
    from learndyn.pictures.plotting import save_figure

    save_figure(figure, path)
    remark(f"picture written to {path}")


def _exponent_figure(data: xr.Dataset, axis: str) -> Picture:
    """The exponent over time, in a band of its uncertainty."""
    from learndyn.pictures.plotting import PANEL, Picture
    from learndyn.pictures.style import COLOURS, finish, legend_of

    figure = Picture(figsize=PANEL, layout="constrained")
    panel = figure.subplots()
    times, centre = data[axis].values, data["exponent"].values
    error = data["standard_error"].values
    band = {"color": COLOURS[0], "alpha": 0.3, "lw": 0, "label": "± its uncertainty"}
    panel.fill_between(times, centre - error, centre + error, **band)
    panel.plot(times, centre, color=COLOURS[0], label="local exponent")
    panel.set_xscale("log")
    panel.set_xlabel(str(data[axis].attrs.get("long_name", axis)))
    panel.set_ylabel(str(data["exponent"].attrs["long_name"]))
    finish(panel)
    legend_of(panel)
    return figure
