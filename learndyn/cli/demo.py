"""`learndyn demo`: every theory against trained networks, in one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import learndyn as ld
from learndyn.cli.console import remark, say
from learndyn.cli.failures import DISAGREE, INTERRUPTED, explain, report
from learndyn.cli.outputs import writable_file, write_text
from learndyn.cli.pictures import pictures

if TYPE_CHECKING:
    from learndyn.report import Chapter

STYLES = {"agrees": "green", "differs": "bold red", "failed": "bold red"}


def demo(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The report, one HTML file.")
    ] = Path("demo-report.html"),
) -> None:
    """Run every theory on its example problem, train networks beside it, and write a report.

    It takes about two minutes on two cores. A theory that fails is shown as failed; the others still
    run, and the report is still written.
    """
    from learndyn.report import html_report

    writable_file(output)
    chapters, worst = [], 0
    for theory in ld.theories():
        chapter, code = _chapter(theory, debug=context.find_root().params["debug"])
        chapters.append(chapter)
        worst = max(worst, code)
        say(f"{theory.name}: {chapter.verdict} ({chapter.reason})", STYLES[chapter.verdict])
        if code == INTERRUPTED:
            break
    write_text(output, html_report(chapters))
    say(f"report: {output}")
    if worst:
        raise typer.Exit(worst)


def _chapter(theory: ld.Theory, debug: bool) -> tuple[Chapter, int]:
    """The chapter of one theory, with the results that were reached before an error, and the exit code."""
    from learndyn.report import Chapter

    text = ""
    results: dict[str, Any] = {}
    try:
        text = theory.template.read_text(encoding="utf-8")
        problem = theory.example()
        size, seeds = theory.demo_size, theory.demo_seeds
        remark(f"{theory.name}: solving, then training {seeds} networks of size {size}")
        solution = results["solution"] = ld.solve(problem, progress=True)
        runs = results["runs"] = ld.simulate(problem, size, seeds, progress=True)
        comparison = results["comparison"] = ld.compare(solution, runs)
        results["pictures"] = tuple(pictures(solution, runs, comparison).values())
        code = 0 if comparison.agrees else DISAGREE
    except (Exception, KeyboardInterrupt) as error:
        results["error"] = explain(error)
        code = report(error, debug)
    return Chapter(theory, text, **results), code
