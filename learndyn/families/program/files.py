"""Programs in Python files that the user names: the only code that is ever run."""

import inspect
import runpy
from pathlib import Path
from typing import Any

from learndyn.errors import FileError, LearndynError, ProgramError
from learndyn.families.program.network import Program
from learndyn.problem.problem import Problem

RUN_NAME = "learndyn_program"
"""The `__name__` of a program file while it is run, so that what it does as a script is left out."""


def problem_in(path: str | Path) -> Problem:
    """The problem of a Python file: its `problem`, or the training loop that has the name of the file."""
    path = Path(path)
    if not path.is_file():
        reason = "it is a folder" if path.is_dir() else "it does not exist"
        raise FileError(f"cannot read the program {path}: {reason}")
    try:
        names = runpy.run_path(str(path), run_name=RUN_NAME)
    except LearndynError:
        raise
    except SyntaxError as error:
        raise ProgramError(f"{path}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ProgramError(f"{path} raised {type(error).__name__}: {error}") from error
    problem = names.get("problem")
    if isinstance(problem, Problem):
        return problem
    return Problem(Program(_loop_in(names, path)))


def _loop_in(names: dict[str, Any], path: Path) -> Any:
    """The training loop among the names of a file."""
    loops = {
        name: value
        for name, value in names.items()
        if inspect.isfunction(value)
        and value.__module__ == RUN_NAME
        and next(iter(inspect.signature(value).parameters), "") == "net"
    }
    if path.stem in loops:
        return loops[path.stem]
    if len(loops) == 1:
        return next(iter(loops.values()))
    found = f"it has {', '.join(loops)}" if loops else "it has none"
    raise ProgramError(
        f"{path} must hold `problem = ld.Problem(…)`, or a training loop def {path.stem}(net, …); of functions of "
        f"a net, {found}"
    )
