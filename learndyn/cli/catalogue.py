"""`learndyn new`, `learndyn theories` and `learndyn figures`: what there is."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from learndyn.cli.console import entries, remark, say, table
from learndyn.cli.options import Force
from learndyn.cli.outputs import writable_file, write_text
from learndyn.core.facts import known_facts
from learndyn.errors import FileError, ProblemError, nearest
from learndyn.files import writable_folder
from learndyn.papers.figure_facts import known_figures


class Ending(StrEnum):
    """The kinds of file of a picture."""

    png = "png"
    svg = "svg"
    pdf = "pdf"


def new(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            show_default=False,
            help="The theory that the problem is for, such as two_layer/stream; without it, the "
            "kinds are listed.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default="the kind, with a dash for the slash, and .toml or .py",
            help="The problem file to write.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write a commented problem file to start from, or list the kinds there are."""
    known = {facts.name: facts for facts in known_facts()}
    if kind is None:
        table(
            "kinds of problem",
            ["kind", "what it is"],
            [[facts.name, facts.summary] for facts in known.values()],
        )
        return
    if kind not in known:
        raise ProblemError("KIND", kind, f"unknown kind of problem; {nearest(kind, known)}")
    template = known[kind].template
    path = writable_file(output or Path(f"{kind.replace('/', '-')}{template.suffix}"))
    if path.exists() and not force:
        raise FileError(
            f"{path} already exists; use --force to replace it, or -o to name another file"
        )
    write_text(path, template.read_text(encoding="utf-8"))
    say(f"{path} written; edit it, then: learndyn run {path}")


def theories() -> None:
    """List the theories: which network, on which data, by which training, and how exact."""
    columns = ["name", "what it is for", "what it computes", "exactness", "reference"]
    rows = [
        [facts.name, facts.combination, facts.summary, facts.exactness, facts.reference]
        for facts in known_facts()
    ]
    table("theories", columns, rows)


def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES...]",
            show_default=False,
            help="The pictures to make, or `all`; without names, the pictures are listed.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to put the pictures.")
    ] = Path("figures"),
    ending: Annotated[
        Ending, typer.Option("--format", help="The kind of file; svg and pdf are drawn by lines.")
    ] = Ending.png,
) -> None:
    """Make pictures of the papers anew, or list them."""
    known = {facts.name: facts for facts in known_figures()}
    if not known:
        say("there are no pictures to make")
        return
    if not names:
        entries(
            [
                (f"{f.name}: {f.title} (about {f.minutes:g} min)", [f.caption, f.reference])
                for f in known.values()
            ]
        )
        return
    for name in names:
        if name not in known and name != "all":
            raise ProblemError("NAMES", name, f"unknown picture; {nearest(name, [*known, 'all'])}")
    chosen = list(known) if "all" in names else list(dict.fromkeys(names))
    folder = writable_folder(output)
    from learndyn.core.progress import progress_bar
    from learndyn.papers.registry import figures as all_figures
    from learndyn.pictures.plotting import save_figure

    makers = {figure.name: figure for figure in all_figures()}
    for name in chosen:
        figure, path = makers[name], folder / f"{name}.{ending}"
        remark(f"making {name}: about {figure.minutes:g} min")
        with progress_bar(True, name) as report:
            save_figure(figure.make(report), path)
        entries([(f"{path}: {figure.title}", [figure.caption, figure.reference])])
