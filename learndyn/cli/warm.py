"""`learndyn warm`: compile now what would otherwise be compiled in the first solution."""

import time
from typing import Annotated

import typer

from learndyn.cli.console import remark, say, table
from learndyn.errors import ProblemError, nearest


def warm(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[THEORIES...]",
            show_default=False,
            help="The theories to compile, such as deep_linear/dataset; all of them without names.",
        ),
    ] = None,
) -> None:
    """Compile the theories now, once on this machine, so that the first solution does not wait.

    Every theory solves its example problem, as `learndyn new` writes it. Deep linear networks are then compiled for
    problems of all sizes; other theories also compile for each new number of units, points or recorded times.
    """
    from learndyn.core.solve import solve
    from learndyn.core.theory import theories

    known = {theory.name: theory for theory in theories()}
    for name in names or []:
        if name not in known:
            raise ProblemError("THEORIES", name, f"unknown theory; {nearest(name, known)}")
    chosen = [known[name] for name in dict.fromkeys(names or known)]
    start, compiling, rows = time.perf_counter(), 0.0, []
    for number, theory in enumerate(chosen, 1):
        remark(f"{number} of {len(chosen)}: {theory.name}")
        evidence = solve(theory.example(), progress=True).evidence
        compiling += evidence["compile_time"]
        rows.append(
            [theory.name, f"{evidence['compile_time']:.1f} s", f"{evidence['wall_time']:.1f} s"]
        )
    table("compiled", ["theory", "compiling", "in all"], rows)
    say(f"compiled in {compiling:.1f} s of {time.perf_counter() - start:.1f} s")
