"""What a sweep computes: its axes, its points, and a task for each theory or set of runs."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from learndyn.core.solve import versions
from learndyn.core.theory import Theory, choose, theory_for
from learndyn.errors import ProblemError, nearest
from learndyn.numerics.times import resolve_steps, resolve_times
from learndyn.part import Part, plain, whole
from learndyn.paths import changed, check_paths
from learndyn.problem import Problem

RESERVED = {"seed", "step", "time", "step2", "time2"}


class Axis(NamedTuple):
    """One swept field: its path, the name of its axis, its values and their labels on the axis."""

    path: str
    name: str
    values: tuple
    labels: np.ndarray


class Runs(NamedTuple):
    """The simulations of every point: networks of `size`, with so many seeds."""

    size: int
    seeds: int
    first_seed: int
    method: Any


class Task(NamedTuple):
    """One thing to compute: the theory of a problem, or its simulations where `runs` is given.

    `theory` is left out where a task travels to another process, which has its own.
    """

    problem: Problem
    theory: Theory | None
    method: Any
    save_at: Any
    seed: int
    runs: Runs | None
    observables: tuple[str, ...] | None

    @property
    def key(self) -> str:
        """SHA-256 of all that the result depends on, the versions of the libraries included."""
        what = {
            "problem": self.problem.to_dict(),
            "method": plain(self.method),
            "save_at": np.asarray(self.save_at).tolist(),
            "seed": self.seed,
            "runs": None if self.runs is None else plain(list(self.runs)),
            "observables": self.observables,
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


class Result(NamedTuple):
    """What a task gave: observables, labels of their axes, and how they were obtained; a failure has `info["error"]`.

    Variables, not datasets: making a dataset takes longer than many a solve.
    """

    arrays: dict[str, xr.Variable]
    labels: dict[str, xr.Variable]
    info: dict


def axes_of(problem: Problem, over: Mapping[str, Any]) -> list[Axis]:
    """The axes of a sweep, checked."""
    if not isinstance(over, Mapping) or not over:
        allowed = 'must map paths of fields to lists of values, as {"network.width": [1, 2]}'
        raise ProblemError("over", over, allowed)
    check_paths(problem, list(over), "over")
    last_words = [path.rpartition(".")[2] for path in over]
    made = []
    for path, values in over.items():
        listed = _listed(path, values)
        short = path.rpartition(".")[2]
        name = path if last_words.count(short) > 1 or short in RESERVED else short
        made.append(Axis(path, name, listed, labels_of(listed)))
    return made


def _listed(path: str, values) -> tuple:
    if isinstance(values, str | Mapping | Part) or not np.iterable(values):
        raise ProblemError(f"over[{path!r}]", values, "must be a list of values")
    listed = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if not listed:
        raise ProblemError(f"over[{path!r}]", list(listed), "needs at least one value")
    return listed


def labels_of(values: tuple) -> np.ndarray:
    """Labels of an axis: the numbers or words themselves, otherwise texts; each only once."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        labels = np.array(values, dtype=None if all(isinstance(v, int) for v in values) else float)
    else:
        labels = np.array([v if isinstance(v, str) else _words(v) for v in values])
    if len(set(labels.tolist())) < len(labels):
        raise ProblemError("over", list(labels.tolist()), "has a value twice")
    return labels


def _words(value) -> str:
    if callable(value) and not isinstance(value, Part):
        return getattr(value, "__name__", "function")
    return json.dumps(plain(value))


def problems_of(problem: Problem, axes: list[Axis]) -> np.ndarray:
    """The problem of every point, an array of objects with the shape of the sweep; all are checked here."""
    found = np.empty([len(axis.values) for axis in axes], dtype=object)
    for index in np.ndindex(found.shape):
        values = {axis.path: axis.values[i] for axis, i in zip(axes, index, strict=True)}
        found[index] = changed(problem, values)
    return found


def can_be_stored(problems: np.ndarray, axes: list[Axis]) -> None:
    """Refuse a store for what cannot be told apart by its text: Python functions."""
    numeric = all(axis.labels.dtype.kind in "if" for axis in axes)
    for problem in problems.ravel()[: 1 if numeric else None]:
        if Problem.from_text(problem.to_text()) != problem:
            allowed = (
                "must be left out: a Python function in the problem cannot be told from another one of its name; write "
                'it as a Formula("…") or FormulaField("…")'
            )
            raise ProblemError("store", "…", allowed)


def runs_of(simulate, problem: Problem) -> Runs | None:
    """The simulations that `simulate` means: None, a size, or a table with size, seeds, first_seed and method."""
    if simulate is None:
        return None
    table = dict(simulate) if isinstance(simulate, Mapping) else {"size": simulate}
    allowed = ("size", "seeds", "first_seed", "method")
    for key in table:
        if key not in allowed:
            raise ProblemError(f"simulate[{key!r}]", table[key], nearest(key, allowed))
    if "size" not in table:
        raise ProblemError("simulate", simulate, "must give the size of the networks")
    method = choose(table.get("method"), theory_for(problem).simulators, "simulate['method']")
    return Runs(
        whole(1)(table["size"], "simulate['size']"),
        whole(1)(table.get("seeds", 1), "simulate['seeds']"),
        whole(0)(table.get("first_seed", 0), "simulate['first_seed']"),
        method,
    )


def tasks_of(problems: np.ndarray, method, save_at, seed: int, theory: bool, runs, observables):
    """(index of a point, task) for everything to compute."""
    wanted = None if observables is None else tuple(observables)
    found, methods, lengths = [], {}, set()
    for index in itertools.product(*map(range, problems.shape)):
        problem = problems[index]
        known = theory_for(problem)
        length = tuple(getattr(problem.training, name, None) for name in ("steps", "time"))
        if length not in lengths:
            _check_save_at(save_at, *length)
            lengths.add(length)
        if theory:
            if known.name not in methods:
                methods[known.name] = choose(method, known.methods, "method")
            own = methods[known.name]
            found.append((index, Task(problem, known, own, save_at, seed, None, wanted)))
        if runs is not None:
            found.append((index, Task(problem, known, None, save_at, seed, runs, wanted)))
    return found


def _check_save_at(save_at, steps: int | None, time: float | None) -> None:
    """Refuse recording times that a training of this length has not got."""
    if steps is not None:
        resolve_steps(save_at, steps)
    elif time is not None:
        resolve_times(save_at, time)
