"""Errors as a line or two for the user, and exit codes (`learndyn --help` says what each means)."""

import sys
import traceback
from typing import Any

from typer import Abort, Exit
from typer.core import TyperGroup

from learndyn.cli.console import complain
from learndyn.errors import Interrupted, LearndynError, NotConverged

DISAGREE, BAD_INPUT, GAVE_UP, BUG, INTERRUPTED = 1, 2, 3, 70, 130


def exit_code(error: BaseException) -> int:
    """The exit code that an error calls for."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, NotConverged | MemoryError) or _out_of_memory(error):
        return GAVE_UP
    return BAD_INPUT if isinstance(error, LearndynError) else BUG


def explain(error: BaseException) -> str:
    """An error as text for the user, with the word it starts with."""
    if isinstance(error, KeyboardInterrupt):
        text = "" if isinstance(error, Interrupted) else str(error)
        return f"interrupted: {text}" if text else "interrupted"
    if isinstance(error, LearndynError):
        return f"error: {error}"
    if exit_code(error) == GAVE_UP:
        return (
            f"error: not enough memory: {_first_line(error) or 'an array could not be allocated'}"
        )
    return (
        f"error: unexpected {type(error).__name__}: {_first_line(error)}\n"
        "This is a bug in learndyn; run again with LEARNDYN_DEBUG=1 for the traceback to report."
    )


def report(error: BaseException, debug: bool) -> int:
    """Print an error, below its traceback if `debug`, and give its exit code."""
    if debug:
        traceback.print_exception(error)
    complain(explain(error))
    return exit_code(error)


class GuardedGroup(TyperGroup):
    """A command group that ends with an exit code and a short text, whatever happens inside."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exit, Abort):
            raise
        except BrokenPipeError:
            # The reader of the pipe has seen enough; Typer ends quietly.
            raise
        except (Exception, KeyboardInterrupt) as error:
            if _about_usage(error):
                raise
            raise Exit(report(error, debug=ctx.params["debug"])) from error

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **options)
        try:
            code = super().main(*args, standalone_mode=False, **options)
        except Exception as error:
            if not _about_usage(error):
                raise
            usage: Any = error
            code = usage.exit_code
            if text := usage.format_message():
                context = getattr(usage, "ctx", None)
                hint = f"\nTry: {context.command_path} --help" if context else ""
                complain(f"error: {text}{hint}")
        sys.exit(code)


def _about_usage(error: Any) -> bool:
    """Whether Typer raised it for wrong usage; the base class of these errors moves from release to release."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _out_of_memory(error: BaseException) -> bool:
    """XLA has one type for all run-time errors; the text says which."""
    return isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
