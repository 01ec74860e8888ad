"""`learndyn rates` and `learndyn exponent`: numbers that one reads off learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import learndyn as ld
from learndyn.cli.console import remark, table
from learndyn.cli.outputs import writable_file, write_text
from learndyn.cli.problems import ProblemFile, Settings, read_problem, value_of
from learndyn.errors import ProblemError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

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


def rates(
    problem_file: ProblemFile,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=V1,V2,…",
            show_default="the problem as it is",
            help="Find them for several values of one field of the problem, named as in the problem "
            "file with its table in front: network.width=0.5,1,2.",
        ),
    ] = None,
    csv: Csv = None,
    output: Figure = None,
    setting: Settings = None,
) -> None:
    """Find the best learning rate and the largest stable one, by the theory.

    The best rate has the smallest test loss at the end of training. A rate is stable if the
    training loss (the test loss if the theory has no training loss) ends no higher than it started.
    """
    problem = read_problem(problem_file, setting)
    field, values = (None, []) if over is None else _field_and_values(over)
    if output is not None and field is None:
        raise ProblemError(
            "--output",
            str(output),
            "needs --over, because the picture shows the rates against a field",
        )
    _check_files(csv, output)
    name = field.rpartition(".")[2] if field else "problem"
    if field is None:
        best = ld.best_rate(problem)
        rows = [(problem_file.stem, *best, ld.largest_stable_rate(problem))]
    else:
        data = ld.rates_over(problem, field, values, progress=True)
        columns = (data[key].values for key in ("best_rate", "best_loss", "largest_stable_rate"))
        rows = list(zip(values, *columns, strict=True))
        if output is not None:
            _save(_rates_figure(data, name), output)
    header = [name, "best_rate", "best_loss", "largest_stable_rate"]
    _write_csv(csv, header, rows)
    shown = [[str(label), *(f"{x:.4g}" for x in numbers)] for label, *numbers in rows]
    table("learning rates", [word.replace("_", " ") for word in header], shown)


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


def _save(figure: Picture, path: Path) -> None:
    from learndyn.pictures.plotting import save_figure

    save_figure(figure, path)
    remark(f"picture written to {path}")


def _rates_figure(data: xr.Dataset, name: str) -> Picture:
    """The best and the largest stable rate against the field."""
    import numpy as np
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    from learndyn.pictures.plotting import COLOURS, PANEL, Picture

    figure = Picture(figsize=PANEL, layout="constrained")
    panel = figure.subplots()
    labels = data[name].values
    numbers = labels.dtype.kind in "iuf" and np.isfinite(labels).all()
    order = np.argsort(labels) if numbers else np.arange(len(labels))
    # Words have no order in which a line could join them, and an infinite width is drawn as a word.
    places = labels[order] if numbers else [str(label) for label in labels]
    for key, colour, marker in (
        ("largest_stable_rate", COLOURS[1], "s"),
        ("best_rate", COLOURS[0], "o"),
    ):
        style = {"color": colour, "marker": marker, "ms": 5, "ls": "-" if numbers else ""}
        panel.plot(places, data[key].values[order], label=key.replace("_", " "), **style)
    if numbers and labels.min() > 0 and labels.max() >= 10 * labels.min():
        panel.set_xscale("log")
        panel.set_yscale("log")
        # Room for a tick above and below, where all rates lie within one decade.
        lowest, highest = data["best_rate"].values.min(), data["largest_stable_rate"].values.max()
        panel.set_ylim(lowest / 1.5, highest * 1.5)
        if len(labels) <= 8:
            panel.set_xticks(places, [f"{label:g}" for label in places])
            panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())
    else:
        panel.set_ylim(bottom=0)
    if not numbers:
        panel.margins(x=0.3)
    panel.set_xlabel(str(data[name].attrs["long_name"]))
    panel.set_ylabel("learning rate η")
    _finish(panel)
    return figure


def _exponent_figure(data: xr.Dataset, axis: str) -> Picture:
    """The exponent over time, in a band of its uncertainty."""
    from learndyn.pictures.plotting import COLOURS, PANEL, Picture

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
    _finish(panel)
    return figure


def _finish(panel: Axes) -> None:
    """Grid and legend."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25, lw=0.5)
    panel.legend(frameon=False, fontsize=8)
