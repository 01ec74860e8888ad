"""`sweep`: the same question for many values of some fields, as one labelled dataset."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from learndyn.core import storage
from learndyn.core.evidence import to_json, versions
from learndyn.core.former_arrays import from_version_1
from learndyn.core.progress import progress_bar
from learndyn.core.storage import Point
from learndyn.core.theory import theory_for
from learndyn.errors import ProblemError
from learndyn.problem.checks import boolean, whole
from learndyn.problem.part import plain
from learndyn.problem.problem import Problem
from learndyn.sweeps.plan import Axis, Task, axes_of, can_be_stored, problems_of, runs_of, tasks_of
from learndyn.sweeps.run import run_all
from learndyn.sweeps.store import Store

KEYS = {
    1: ("axes", "problem", "over", "evidence"),
    2: ("problem", "over", "evidence", "attributes"),
    3: ("problem", "over", "evidence", "attributes"),
}
"""The texts in a file, by the version of its format."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Observables over a grid of problems.

    - `data`: an `xarray.Dataset` whose first axes are the swept fields. The theory's observables have their names;
      those of simulations are called `x_runs` and have the axis "seed". `diverged_at`, `error` (a text, empty where all
      went well) and `wall_time` (in seconds) are there for every point; those of simulations end in `_runs` too.
      Where a theory states the accuracy of x, `x_accuracy` is there.
    - `problem`: the problem whose fields were swept; `over`: their paths and values.
    - `evidence`: how many results were computed, reused from the store, found damaged there, and failed.
    """

    data: xr.Dataset
    problem: Problem
    over: dict[str, list]
    evidence: dict

    @property
    def axes(self) -> list[str]:
        """The names of the swept axes."""
        return list(self.data.attrs["axes"])

    @property
    def observables(self) -> list[str]:
        """The names of the observables, those of simulations (`x_runs`) included."""
        aside = {
            f"{name}{end}"
            for name in ("diverged_at", "error", "wall_time")
            for end in ("", "_runs")
        }
        return [
            str(name)
            for name, array in self.data.data_vars.items()
            if name not in aside and not {"standard_error_of", "accuracy_of"} & set(array.attrs)
        ]

    @property
    def failures(self) -> pd.DataFrame:
        """A row for each result that failed: the values of the swept fields, what it was, and the error."""
        rows = []
        for name in ("error", "error_runs"):
            if name in self.data:
                what = "theory" if name == "error" else "simulation"
                array = self.data[name]
                for index in zip(*np.nonzero(array.values != ""), strict=True):
                    at = array[index]
                    labels = {axis: at[axis].item() for axis in self.axes}
                    rows.append(labels | {"what": what, "error": at.item()})
        return pd.DataFrame(rows, columns=[*self.axes, "what", "error"])

    def __getitem__(self, name: str) -> xr.DataArray:
        return self.data[name]

    def __repr__(self):
        shape = " × ".join(f"{axis} ({self.data.sizes[axis]})" for axis in self.axes)
        counts = ", ".join(
            f"{self.evidence[key]} {key}" for key in ("computed", "reused", "failed")
        )
        return f"Sweep over {shape}: {', '.join(self.observables)}; {counts}"

    def save(self, path: str | Path) -> None:
        """Write a NetCDF file that `load_sweep` turns back into this sweep."""
        texts = {
            "problem": self.problem.to_text(),
            "over": to_json(plain({k: [plain(x) for x in v] for k, v in self.over.items()})),
            "evidence": to_json(self.evidence),
        }
        storage.save(path, "sweep", self.data, texts)


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep that `Sweep.save` wrote; also one of learndyn 0.1, in today's conventions."""
    stored = storage.load(path, "sweep", KEYS)
    problem = storage.problem_in(path, stored.texts["problem"], stored.version)
    data = stored.data
    if stored.version == 1:
        data = from_version_1(data, theory_for(problem), problem)
        data.attrs = {"axes": json.loads(stored.texts["axes"])}
    over, evidence = (json.loads(stored.texts[key]) for key in ("over", "evidence"))
    return Sweep(data, problem, over, evidence)


def sweep(
    problem: Problem,
    over: Mapping[str, Iterable],
    *,
    solve: bool = True,
    simulate: Any = None,
    observables: Iterable[str] | None = None,
    method=None,
    save_at=None,
    seed: int = 0,
    store: str | Path | None = None,
    retry_failed: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Sweep:
    """Solve, simulate, or both, for all combinations of values of some fields of `problem`.

    `over` maps paths, as in a problem file, to values: {"training.learning_rate": [0.1, 0.2], "network.width": [1, 2]}.
    All points are checked before the first is computed. `simulate` is a size, or a table with size, seeds, first_seed
    and method. `observables` are all unless given; `method`, `save_at` and `seed` are those of `solve`.

    With a `store`, a folder, every finished point is written there at once, and points that are there already are not
    computed again; neither are those that failed, unless `retry_failed`. A point that fails does not stop the others:
    see `Sweep.failures`.

    All cores are used, or `workers` of them. `scheduler` is the address of a dask scheduler, or "local" for a cluster
    of processes on this machine.
    """
    axes = axes_of(problem, over)
    problems = problems_of(problem, axes)
    runs = runs_of(simulate, problem)
    if not boolean(solve, "solve") and runs is None:
        raise ProblemError("solve", False, "nothing to do: give simulate, or leave solve at True")
    if isinstance(observables, str):
        observables = [observables]
    count = None if workers is None else whole(1)(workers, "workers")
    indexed = tasks_of(problems, method, save_at, whole(0)(seed, "seed"), solve, runs, observables)
    if store is not None:
        can_be_stored(problems, axes)
    kept = None if store is None else Store(store)
    results: dict[tuple, Point] = {}
    missing: list[tuple[tuple, str, Task]] = []
    for index, task in indexed:
        key = task.key if kept is not None else ""
        found = None if kept is None else kept.get(key)
        if found is None or (retry_failed and "error" in found.info):
            missing.append((index, key, task))
        else:
            results[index, task.runs is None] = found
    evidence = {"computed": 0, "reused": len(results), "versions": versions()}
    with progress_bar(progress, f"sweep of {problems.size} points") as report:
        places = {id(task): (index, key) for index, key, task in missing}

        def done(task: Task, result: Point) -> None:
            index, key = places[id(task)]
            if kept is not None:
                kept.put(key, result)
            results[index, task.runs is None] = result
            evidence["computed"] += 1
            report(evidence["computed"] / len(missing))

        if missing:
            run_all([task for _, _, task in missing], scheduler, count, done)
    evidence["failed"] = sum("error" in result.info for result in results.values())
    evidence["damaged"] = 0 if kept is None else kept.damaged
    axes = _apart(axes, results.values())
    data = _assembled(axes, problems.shape, results, theory=True) if solve else xr.Dataset()
    if runs is not None:
        data = data.merge(_assembled(axes, problems.shape, results, theory=False), join="outer")
    data.attrs = {"axes": [axis.name for axis in axes]}
    return Sweep(data, problem, {axis.path: list(axis.values) for axis in axes}, evidence)


def _apart(axes: list[Axis], results: Iterable[Point]) -> list[Axis]:
    """The axes, called by their whole path where an observable, or an axis of one, has the name."""
    taken = {
        name for result in results for names in (result.arrays, result.labels) for name in names
    }
    return [axis._replace(name=axis.path) if axis.name in taken else axis for axis in axes]


def _assembled(axes: list[Axis], shape: tuple, results: dict, theory: bool) -> xr.Dataset:
    """The theories, or the simulations, of all points in one dataset; NaN where there is nothing."""
    end = "" if theory else "_runs"
    names = [axis.name for axis in axes]
    found = {index: result for (index, kind), result in results.items() if kind == theory}
    coordinates = {
        axis.name: xr.Variable((axis.name,), axis.labels, {"long_name": axis.path}) for axis in axes
    }
    notes = {
        "error": np.full(shape, "", dtype=object),
        "diverged_at": np.full(shape, np.nan),
        "wall_time": np.full(shape, np.nan),
    }
    for index, result in found.items():
        notes["error"][index] = result.info.get("error", "")
        notes["wall_time"][index] = result.info.get("wall_time", np.nan)
        diverged = result.info.get("diverged_at")
        notes["diverged_at"][index] = np.nan if diverged is None else diverged
    words = {
        "error": {"long_name": "why a point failed"},
        "diverged_at": {"long_name": "where training diverged"},
        "wall_time": {"long_name": "time taken", "units": "s"},
    }
    data = xr.Dataset(
        {f"{name}{end}": (names, _texts(values), words[name]) for name, values in notes.items()},
        coordinates,
    )
    made = {index: result for index, result in found.items() if "error" not in result.info}
    if not made:
        return data
    labels = _union(result.labels for result in made.values())
    example: dict[str, xr.Variable] = {}
    for result in made.values():
        example = result.arrays | example
    for name, variable in example.items():
        inner = [labels[str(axis)].size for axis in variable.dims]
        values = np.full((*shape, *inner), np.nan)
        for index, result in made.items():
            if name in result.arrays:
                array = result.arrays[name]
                values[index][_places(array, result.labels, labels)] = array.values
        attributes = dict(variable.attrs)
        if "standard_error_of" in attributes:
            attributes["standard_error_of"] += end
        data[f"{name}{end}"] = ((*names, *variable.dims), values, attributes)
        stated = [r.info.get("evidence", {}).get("accuracy", {}).get(name) for r in made.values()]
        if any(value is not None for value in stated):
            accuracy = np.full(shape, np.nan)
            for index, value in zip(made, stated, strict=True):
                accuracy[index] = np.nan if value is None else value
            words = {"long_name": f"stated accuracy of {name}", "accuracy_of": f"{name}{end}"}
            data[f"{name}_accuracy{end}"] = (names, accuracy, words)
    return data.assign_coords(labels)


def _texts(values: np.ndarray) -> np.ndarray:
    return values.astype(str) if values.dtype == object else values


def _union(some: Iterable[dict[str, xr.Variable]]) -> dict[str, xr.Variable]:
    """For every axis all labels that occur, in order; a curve that diverged has the first of them only."""
    found: dict[str, xr.Variable] = {}
    for labels in some:
        for axis, label in labels.items():
            known = found.setdefault(axis, label)
            if not np.array_equal(known.values, label.values):
                both = np.union1d(known.values, label.values)
                found[axis] = xr.Variable((axis,), both, known.attrs)
    return found


def _places(array: xr.Variable, own: dict, labels: dict):
    """Where an array stands among the labels of all."""
    if all(own[axis].size == labels[axis].size for axis in array.dims):
        return ...
    return np.ix_(*(np.searchsorted(labels[axis].values, own[axis].values) for axis in array.dims))
