"""What a sweep computes: its axes, its points, and a job for each theory or set of runs."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from learndyn.core.evidence import versions
from learndyn.core.method import Method, Simulator
from learndyn.core.record import Record, SaveAt
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import ProblemError, nearest
from learndyn.problem.checks import whole
from learndyn.problem.part import Part, plain
from learndyn.problem.paths import changed, check_paths
from learndyn.problem.problem import Problem

RESERVED = {"seed", "step", "time", "step2", "time2"}


class Axis(NamedTuple):
    """One swept field.

    - `path`: its path in the problem, such as "network.width".
    - `name`: the name of its axis, such as "width".
    - `values`, `labels`: its values, and their labels on the axis.
    """

    path: str
    name: str
    values: tuple[Any, ...]
    labels: np.ndarray


class Runs(NamedTuple):
    """The simulations of every point: networks of `size`, as many as `seeds`, trained by `method`."""

    size: int
    seeds: int
    first_seed: int
    method: Simulator


class Job(NamedTuple):
    """One thing to compute: the theory of a problem, or its simulations where `runs` is given.

    `theory` is None in a job that is sent to another process, which looks it up for itself.
    """

    problem: Problem
    theory: Theory | None
    method: Method | None
    record: Record
    seed: int
    runs: Runs | None
    observables: tuple[str, ...] | None

    @property
    def key(self) -> str:
        """SHA-256 of everything that the result depends on, including the versions of the libraries."""
        inputs = {
            "problem": self.problem.to_dict(),
            "method": plain(self.method),
            "record": [self.record.at.tolist(), self.record.chosen],
            "seed": self.seed,
            "runs": None if self.runs is None else plain(list(self.runs)),
            "observables": self.observables,
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def axes_of(problem: Problem, over: Mapping[str, Any]) -> list[Axis]:
    """The axes of a sweep, checked."""
    if not isinstance(over, Mapping) or not over:
        allowed = 'must map paths of fields to lists of values, as {"network.width": [1, 2]}'
        raise ProblemError("over", over, allowed)
    check_paths(problem, list(over), "over")
    last_words = [path.rpartition(".")[2] for path in over]
    axes = []
    for path, values in over.items():
        listed = _listed(path, values)
        short = path.rpartition(".")[2]
        name = path if last_words.count(short) > 1 or short in RESERVED else short
        axes.append(Axis(path, name, listed, labels_of(listed)))
    return axes


def _listed(path: str, values: Any) -> tuple[Any, ...]:
    """The values of a swept field as a tuple, checked."""
    if isinstance(values, str | Mapping | Part) or not np.iterable(values):
        raise ProblemError(f"over[{path!r}]", values, "must be a list of values")
    listed = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if not listed:
        raise ProblemError(f"over[{path!r}]", list(listed), "needs at least one value")
    return listed


def labels_of(values: tuple[Any, ...]) -> np.ndarray:
    """The labels of an axis, all different: numbers and words as they are, other values as texts."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        labels = np.array(values, dtype=None if all(isinstance(v, int) for v in values) else float)
    else:
        labels = np.array([v if isinstance(v, str) else _words(v) for v in values])
    if len(set(labels.tolist())) < len(labels):
        raise ProblemError("over", list(labels.tolist()), "must not contain a value twice")
    return labels


def _words(value: Any) -> str:
    """A value that is neither a number nor a word, as text."""
    if callable(value) and not isinstance(value, Part):
        return getattr(value, "__name__", "function")
    return json.dumps(plain(value), default=str)


def problems_of(problem: Problem, axes: list[Axis]) -> np.ndarray:
    """The problem of every point, as an array of objects with the shape of the sweep; all are checked here."""
    problems = np.empty([len(axis.values) for axis in axes], dtype=object)
    for index in np.ndindex(problems.shape):
        values = {axis.path: axis.values[i] for axis, i in zip(axes, index, strict=True)}
        problems[index] = changed(problem, values)
    return problems


def can_be_stored(problems: np.ndarray, axes: list[Axis]) -> None:
    """Refuse a store for problems with Python functions, which cannot be told apart by their text."""
    numeric = all(axis.labels.dtype.kind in "if" for axis in axes)
    for problem in problems.ravel()[: 1 if numeric else None]:
        if Problem.from_text(problem.to_text()) != problem:
            allowed = (
                "must be left out, because the problem holds a Python function, which cannot be told from another "
                'of the same name; write it as a Formula("…") or FormulaField("…")'
            )
            raise ProblemError("store", "…", allowed)


def runs_of(simulate: int | Mapping[str, Any] | None, problem: Problem) -> Runs | None:
    """The simulations that `simulate` describes: None, a size, or a table with size, seeds, first_seed and method."""
    if simulate is None:
        return None
    table: dict[str, Any] = dict(simulate) if isinstance(simulate, Mapping) else {"size": simulate}
    allowed = ("size", "seeds", "first_seed", "method")
    for key in table:
        if key not in allowed:
            raise ProblemError(
                f"simulate[{key!r}]", table[key], f"unknown; {nearest(key, allowed)}"
            )
    if "size" not in table:
        raise ProblemError("simulate", simulate, "must give the size of the networks")
    method = theory_for(problem).simulator(table.get("method"), "simulate['method']")
    return Runs(
        whole(1)(table["size"], "simulate['size']"),
        whole(1)(table.get("seeds", 1), "simulate['seeds']"),
        whole(0)(table.get("first_seed", 0), "simulate['first_seed']"),
        method,
    )


def jobs_of(
    problems: np.ndarray,
    method: Method | None,
    save_at: SaveAt,
    seed: int,
    theory: bool,
    runs: Runs | None,
    observables: Iterable[str] | None,
) -> list[tuple[tuple[int, ...], Job]]:
    """(index of a point, job) for everything to compute."""
    wanted = None if observables is None else tuple(observables)
    jobs: list[tuple[tuple[int, ...], Job]] = []
    methods: dict[str, Method] = {}
    records: dict[tuple, Record] = {}
    for index in itertools.product(*map(range, problems.shape)):
        problem = problems[index]
        problem_theory, training = theory_for(problem), problem.training
        length = (training.steps, training.time)
        if length not in records:
            records[length] = Record.of(training, save_at)
        record = records[length]
        if theory:
            chosen = problem_theory.chosen(method, problem, record)
            # One object for equal methods, by which problems are grouped.
            own = methods.setdefault(json.dumps(plain(chosen), sort_keys=True), chosen)
            jobs.append((index, Job(problem, problem_theory, own, record, seed, None, wanted)))
        if runs is not None:
            jobs.append((index, Job(problem, problem_theory, None, record, seed, runs, wanted)))
    return jobs
