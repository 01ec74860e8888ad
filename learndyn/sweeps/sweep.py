"""`sweep`: the same question for many values of some fields, as one labelled dataset."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from learndyn.core import storage
from learndyn.core.evidence import to_json, versions
from learndyn.core.former_arrays import from_version_1
from learndyn.core.method import Method
from learndyn.core.progress import progress_bar
from learndyn.core.record import SaveAt
from learndyn.core.storage import Point
from learndyn.core.theory import theory_for
from learndyn.errors import ProblemError
from learndyn.problem.checks import boolean, whole
from learndyn.problem.part import plain
from learndyn.problem.problem import Problem
from learndyn.sweeps.plan import Axis, Job, axes_of, can_be_stored, jobs_of, problems_of, runs_of
from learndyn.sweeps.run import run_all
from learndyn.sweeps.store import Store

KEYS = {
    1: ("axes", "problem", "over", "evidence"),
    2: ("problem", "over", "evidence", "attributes"),
    3: ("problem", "over", "evidence", "attributes"),
}
"""The texts in a file, by the version of its format."""
Results = dict[tuple[tuple[int, ...], bool], Point]
"""Points by index, and by whether they are of the theory (True) or of simulations (False)."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Observables over a grid of problems.

    - `data`: an `xarray.Dataset` whose first axes are the swept fields. An observable x of the theory is called `x`;
      that of simulations is called `x_runs` and has the axis "seed". Every point has `diverged_at`, `error` (a text,
      empty if all went well) and `wall_time` (in seconds); those of simulations end in `_runs`, too. If a theory states
      the accuracy of x, it is called `x_accuracy`.
    - `problem`: the problem whose fields were swept.
    - `over`: the paths of the swept fields, and their values.
    - `evidence`: how many results were computed, reused from the store, damaged in the store, and failed.
    """

    data: xr.Dataset
    problem: Problem
    over: dict[str, list]
    evidence: dict[str, Any]

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
                kind = "theory" if name == "error" else "simulation"
                array = self.data[name]
                for index in zip(*np.nonzero(array.values != ""), strict=True):
                    at = array[index]
                    labels = {axis: at[axis].item() for axis in self.axes}
                    rows.append(labels | {"what": kind, "error": at.item()})
        return pd.DataFrame(rows, columns=[*self.axes, "what", "error"])

    def __getitem__(self, name: str) -> xr.DataArray:
        return self.data[name]

    def __repr__(self) -> str:
        shape = " × ".join(f"{axis} ({self.data.sizes[axis]})" for axis in self.axes)
        counts = ", ".join(
            f"{self.evidence[key]} {key}" for key in ("computed", "reused", "failed")
        )
        return f"Sweep over {shape}: {', '.join(self.observables)}; {counts}"

    def save(self, path: str | Path) -> None:
        """Write a NetCDF file that `load_sweep` turns back into this sweep."""
        texts = {
            "problem": self.problem.to_text(),
            "over": to_json(
                plain({path: [plain(x) for x in values] for path, values in self.over.items()})
            ),
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
    simulate: int | Mapping[str, Any] | None = None,
    observables: str | Iterable[str] | None = None,
    method: Method | None = None,
    save_at: SaveAt = None,
    seed: int = 0,
    store: str | Path | None = None,
    retry_failed: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Sweep:
    """Solve, simulate, or both, for all combinations of values of some fields of `problem`.

    - `over`: paths of fields, as in a problem file, and their values:
      {"training.learning_rate": [0.1, 0.2], "network.width": [1, 2]}.
    - `solve`: whether to solve the theory. True unless given.
    - `simulate`: the size of networks to train, or a table with size, seeds, first_seed and method. No networks unless
      given.
    - `observables`: the names of those to keep. All unless given.
    - `method`, `save_at`, `seed`: as for `solve`.
    - `store`: a folder to which every finished point is written at once. Points that it already holds are not computed
      again. None unless given.
    - `retry_failed`: whether to compute points of the store that failed once more. False unless given.
    - `scheduler`: the address of a dask scheduler, or "local" for a cluster of processes on this machine.
    - `workers`: how many cores to use. All unless given.
    - `progress`: whether to show a progress bar. False unless given.

    All points are checked before the first is computed. A point that fails does not stop the others: see
    `Sweep.failures`.
    """
    axes = axes_of(problem, over)
    problems = problems_of(problem, axes)
    runs = runs_of(simulate, problem)
    if not boolean(solve, "solve") and runs is None:
        raise ProblemError("solve", False, "nothing to do: give simulate, or leave solve at True")
    if isinstance(observables, str):
        observables = [observables]
    count = None if workers is None else whole(1)(workers, "workers")
    indexed = jobs_of(problems, method, save_at, whole(0)(seed, "seed"), solve, runs, observables)
    if store is not None:
        can_be_stored(problems, axes)
    folder = None if store is None else Store(store)
    results, missing = _stored(indexed, folder, retry_failed)
    reused = len(results)
    with progress_bar(progress, f"sweep of {problems.size} points") as report:
        results |= _computed(missing, folder, scheduler, count, report)
    evidence = {
        "computed": len(missing),
        "reused": reused,
        "versions": versions(),
        "failed": sum("error" in result.info for result in results.values()),
        "damaged": 0 if folder is None else folder.damaged,
    }
    data = _dataset(axes, problems.shape, results, solve, runs is not None)
    return Sweep(data, problem, {axis.path: list(axis.values) for axis in axes}, evidence)


class _MissingJob(NamedTuple):
    """A job to compute: the index of its point (`place`), and its key in the store (empty without a store)."""

    place: tuple[int, ...]
    key: str
    job: Job


def _stored(
    indexed: list[tuple[tuple[int, ...], Job]], store: Store | None, retry_failed: bool
) -> tuple[Results, list[_MissingJob]]:
    """The results that the store already holds, and the jobs that are left to compute."""
    results: Results = {}
    missing = []
    for index, job in indexed:
        key = job.key if store is not None else ""
        point = None if store is None else store.get(key)
        if point is None or (retry_failed and "error" in point.info):
            missing.append(_MissingJob(index, key, job))
        else:
            results[index, job.runs is None] = point
    return results, missing


def _computed(
    missing: list[_MissingJob],
    store: Store | None,
    scheduler: str | None,
    workers: int | None,
    report: Callable[[float], None],
) -> Results:
    """The results of the missing jobs; each is written to the store as soon as it is finished."""
    results: Results = {}
    places = {id(job): (index, key) for index, key, job in missing}

    def done(job: Job, result: Point) -> None:
        index, key = places[id(job)]
        if store is not None:
            store.put(key, result)
        results[index, job.runs is None] = result
        report(len(results) / len(missing))

    if missing:
        run_all([job for _, _, job in missing], scheduler, workers, done)
    return results


def _dataset(
    axes: list[Axis], shape: tuple[int, ...], results: Results, solved: bool, simulated: bool
) -> xr.Dataset:
    """The theories and the simulations of all points in one dataset."""
    axes = _apart(axes, results.values())
    data = _assembled(axes, shape, results, theory=True) if solved else xr.Dataset()
    if simulated:
        data = data.merge(_assembled(axes, shape, results, theory=False), join="outer")
    data.attrs = {"axes": [axis.name for axis in axes]}
    return data


def _apart(axes: list[Axis], results: Iterable[Point]) -> list[Axis]:
    """The axes; one whose name is also that of an observable, or of its axis, is called by its whole path."""
    taken = {
        name for result in results for names in (result.arrays, result.labels) for name in names
    }
    return [axis._replace(name=axis.path) if axis.name in taken else axis for axis in axes]


def _assembled(
    axes: list[Axis], shape: tuple[int, ...], results: Results, theory: bool
) -> xr.Dataset:
    """The theories, or the simulations, of all points in one dataset; NaN where there is nothing."""
    end = "" if theory else "_runs"
    names = [axis.name for axis in axes]
    points = {index: result for (index, kind), result in results.items() if kind == theory}
    coordinates = {
        axis.name: xr.Variable((axis.name,), axis.labels, {"long_name": axis.path}) for axis in axes
    }
    notes = {
        "error": np.full(shape, "", dtype=object),
        "diverged_at": np.full(shape, np.nan),
        "wall_time": np.full(shape, np.nan),
    }
    for index, result in points.items():
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
    successes = {index: result for index, result in points.items() if "error" not in result.info}
    if not successes:
        return data
    labels = _union(result.labels for result in successes.values())
    example: dict[str, xr.Variable] = {}
    for result in successes.values():
        example = result.arrays | example
    for name, variable in example.items():
        inner = [labels[str(axis)].size for axis in variable.dims]
        values = np.full((*shape, *inner), np.nan)
        for index, result in successes.items():
            if name in result.arrays:
                array = result.arrays[name]
                values[index][_places(array, result.labels, labels)] = array.values
        attributes = dict(variable.attrs)
        if "standard_error_of" in attributes:
            attributes["standard_error_of"] += end
        data[f"{name}{end}"] = ((*names, *variable.dims), values, attributes)
        stated = [
            r.info.get("evidence", {}).get("accuracy", {}).get(name) for r in successes.values()
        ]
        if any(value is not None for value in stated):
            accuracy = np.full(shape, np.nan)
            for index, value in zip(successes, stated, strict=True):
                accuracy[index] = np.nan if value is None else value
            words = {"long_name": f"stated accuracy of {name}", "accuracy_of": f"{name}{end}"}
            data[f"{name}_accuracy{end}"] = (names, accuracy, words)
    return data.assign_coords(labels)


def _texts(values: np.ndarray) -> np.ndarray:
    """An array of objects as one of texts; others are left alone."""
    return values.astype(str) if values.dtype == object else values


def _union(all_labels: Iterable[dict[str, xr.Variable]]) -> dict[str, xr.Variable]:
    """All labels that occur on every axis, in order; a curve that diverged has only the first of them."""
    union: dict[str, xr.Variable] = {}
    for labels in all_labels:
        for axis, label in labels.items():
            known = union.setdefault(axis, label)
            if not np.array_equal(known.values, label.values):
                both = np.union1d(known.values, label.values)
                union[axis] = xr.Variable((axis,), both, known.attrs)
    return union


def _places(
    array: xr.Variable, own: dict[str, xr.Variable], labels: dict[str, xr.Variable]
) -> EllipsisType | tuple[np.ndarray, ...]:
    """The index of an array, whose labels are `own`, among the labels of all."""
    dims = [str(dim) for dim in array.dims]
    if all(own[dim].size == labels[dim].size for dim in dims):
        return ...
    return np.ix_(*(np.searchsorted(labels[dim].values, own[dim].values) for dim in dims))
