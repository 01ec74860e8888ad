"""`learndyn solve` and `learndyn simulate`: one half each of `learndyn run`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import learndyn as ld
from learndyn.cli.console import remark, say
from learndyn.cli.options import (
    Chosen,
    FirstSeed,
    Method,
    Options,
    SaveAt,
    Seeds,
    Size,
    method_of,
    recording_times,
)
from learndyn.cli.outputs import writable_file
from learndyn.cli.problems import ProblemFile, Settings, read_problem, value_of
from learndyn.errors import Interrupted, LearndynError, ProblemError, nearest

if TYPE_CHECKING:
    import learndyn.core.method as core
    from learndyn.core.record import SaveAt as RecordedAt


def solve(
    problem_file: ProblemFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the theory.")
    ] = Path("theory.nc"),
    rtol: Annotated[
        float | None,
        typer.Option(
            metavar="TOLERANCE",
            show_default="the theory's own",
            help="Relative tolerance of the solver; smaller is more accurate and slower.",
        ),
    ] = None,
    method: Method = None,
    option: Options = None,
    save_at: SaveAt = None,
    setting: Settings = None,
) -> None:
    """Compute the learning curve in the limit of a large network, and save it."""
    problem = read_problem(problem_file, setting)
    times = recording_times(save_at, problem)
    chosen = chosen_method(problem, times, method, option or [], rtol)
    say(repr(solve_into(writable_file(output), problem, chosen, times)))


def simulate(
    problem_file: ProblemFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the runs.")
    ] = Path("runs.nc"),
    size: Size = 784,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 0,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            show_default="the theory's first",
            help="How to train, for a two-layer network on a stream: sgd (the weights) or "
            "overlap_chain (their overlaps, at a cost per step that does not grow with N).",
        ),
    ] = None,
    save_at: SaveAt = None,
    setting: Settings = None,
) -> None:
    """Train finite networks, measure what the theory predicts, and save it.

    Ctrl-C ends the training early; the networks that were finished are saved.
    """
    from learndyn.core.theory import theory_for

    problem = read_problem(problem_file, setting)
    chosen = method_of(theory_for(problem).simulators, method)
    times = recording_times(save_at, problem)
    path = writable_file(output)
    say(repr(simulate_into(path, problem, size, seeds, first_seed, chosen, times)))


def chosen_method(
    problem: ld.Problem,
    times: RecordedAt,
    word: str | None,
    options: list[str],
    rtol: float | None,
) -> core.Method | None:
    """The method that --method names, or the automatic one, with the fields that --option and --rtol give it.

    None if no option says anything about it.
    """
    from learndyn.core.record import Record
    from learndyn.core.theory import theory_for

    theory = theory_for(problem)
    named = method_of(theory.methods, word)
    usual = named or theory.automatic(problem, Record.of(problem.training, times))
    return method_with(type(usual), options, rtol) or named


def method_with(cls: type[Chosen], options: list[str], rtol: float | None) -> Chosen | None:
    """A method of this class with the fields that --option and --rtol give it; None if they give none."""
    known = [item.name for item in dataclasses.fields(cls)]
    values = {}
    for option in options:
        name, equals, word = option.partition("=")
        if not equals:
            raise ProblemError("--option", option, "must look like NAME=VALUE")
        if name not in known:
            allowed = f"the method {cls.__name__} has no such option; {nearest(name, known)}"
            raise ProblemError(f"--option {name}", word, allowed)
        values[name] = value_of(word)
    if rtol is not None:
        if "rtol" not in known:
            raise ProblemError("--rtol", rtol, f"the method {cls.__name__} has no tolerance")
        if "rtol" in values:
            raise ProblemError("--option rtol", values["rtol"], "give this or --rtol, not both")
        return _new_method(cls, values | {"rtol": rtol}, values)
    return _new_method(cls, values, values) if values else None


def _new_method(cls: type[Chosen], values: dict[str, Any], options: dict[str, Any]) -> Chosen:
    """A method with these fields; an error in a field that an option set names the option."""
    try:
        return cls(**values)
    except ProblemError as error:
        name = error.field.rpartition(".")[2]
        if name not in options:
            raise
        raise ProblemError(f"--option {name}", error.value, error.allowed) from error


def solve_into(
    path: Path,
    problem: ld.Problem,
    method: core.Method | None = None,
    save_at: RecordedAt = None,
) -> ld.Solution:
    """Solve and save; returns the solution. What was finished before an error is saved, too."""
    try:
        theory = ld.solve(problem, method, save_at=save_at, progress=True)
    except (LearndynError, Interrupted) as error:
        if error.solution is not None:
            error.solution.save(path)
            remark(f"what was finished is saved in {path}")
        raise
    theory.save(path)
    remark(f"theory solved in {theory.evidence['wall_time']:.3g} s, saved in {path}")
    return theory


def simulate_into(
    path: Path,
    problem: ld.Problem,
    size: int,
    seeds: int,
    first_seed: int = 0,
    method: core.Simulator | None = None,
    save_at: RecordedAt = None,
) -> ld.Solution:
    """Simulate and save; if interrupted, save the networks that were finished and say how many."""
    try:
        runs = ld.simulate(
            problem,
            size,
            seeds,
            method=method,
            first_seed=first_seed,
            save_at=save_at,
            progress=True,
        )
    except Interrupted as error:
        if error.solution is None:
            text = f"none of the {seeds} networks was finished, so there are no runs to save"
            raise KeyboardInterrupt(text) from error
        error.solution.save(path)
        finished = error.solution.data.sizes["seed"]
        text = f"{finished} of {seeds} networks were finished and are saved in {path}"
        raise KeyboardInterrupt(text) from error
    except LearndynError as error:
        if error.solution is not None:
            error.solution.save(path)
            remark(f"what was finished is saved in {path}")
        raise
    runs.save(path)
    count = f"{seeds} network{'s' * (seeds != 1)} of size {size}"
    remark(f"{count} trained in {runs.evidence['wall_time']:.3g} s, saved in {path}")
    return runs
