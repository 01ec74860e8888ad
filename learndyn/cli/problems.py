"""The problem that a command is about: a problem file, or a Python file with a program."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

import learndyn as ld
from learndyn.errors import ProblemError, nearest

ProblemFile = Annotated[
    Path,
    typer.Argument(
        metavar="PROBLEM",
        show_default=False,
        help="A problem file, such as `learndyn new` writes; or a Python file with a program, which is run.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        show_default=False,
        help="Change a field of the problem, such as training.learning_rate=0.1, or a parameter of "
        "a program, such as alpha=2; give it several times for several.",
    ),
]


def read_problem(path: Path, settings: list[str] | None = None) -> ld.Problem:
    """The problem of a file, with the fields that --set changes."""
    if path.suffix == ".py":
        from learndyn.families.program.files import problem_in

        problem = problem_in(path)
    else:
        problem = ld.Problem.from_toml(path)
    if not settings:
        return problem
    from learndyn.problem.paths import changed, field_paths

    known, values = field_paths(problem), {}
    for setting in settings:
        field, equals, word = setting.partition("=")
        if not equals:
            raise ProblemError("--set", setting, "must look like FIELD=VALUE")
        values[_path(field, known)] = value_of(word)
    return changed(problem, values)


def _path(field: str, known: list[str]) -> str:
    """The whole path of a field, of which the last word is enough if no other field has it."""
    fitting = [path for path in known if path == field or path.rpartition(".")[2] == field]
    if len(fitting) > 1:
        raise ProblemError("--set", field, f"could be {' or '.join(fitting)}; give the whole path")
    if not fitting:
        raise ProblemError(
            "--set", field, f"is not a field of the problem; {nearest(field, known)}"
        )
    return fitting[0]


def value_of(word: str) -> Any:
    """The value that a word on the command line stands for: a number or another TOML value, or else the word."""
    for parse in (int, float, lambda text: tomllib.loads(f"value = {text}")["value"]):
        with contextlib.suppress(ValueError, RecursionError):
            return parse(word)
    return word
