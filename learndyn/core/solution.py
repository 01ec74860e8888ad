"""`Solution`: labelled observables of a problem and how they were obtained; saving and loading."""

import dataclasses
import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from learndyn.core import storage
from learndyn.core.curves import Curves
from learndyn.core.evidence import Evidence, to_json
from learndyn.core.former_arrays import from_version_1
from learndyn.core.symmetry_words import escape_time
from learndyn.core.theory import Theory, theory_for
from learndyn.errors import UnknownObservable, nearest
from learndyn.problem.checks import number
from learndyn.problem.problem import Problem

KEYS = {
    1: ("problem", "evidence", "attributes", "converged", "diverged_at"),
    2: ("problem", "evidence", "diverged_at", "attributes"),
    3: ("problem", "evidence", "diverged_at", "attributes"),
}
"""The texts in a file, by the version of its format, in the order in which they enter the checksum."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, init=False)
class Solution:
    """Observables of a problem, from a theory or from finite networks.

    - `data`: an `xarray.Dataset` with the main axis "time" or "step"; a simulation has the axis
      "seed" in front. Each array says what it is in its attribute `long_name` and, for losses, in
      `convention`. Where a theory was sampled, `x_standard_error` is the standard error of the
      observable x, which its attribute `standard_error_of` names.
    - `problem`: what was solved.
    - `evidence`: how it was solved (`learndyn.core.evidence.Evidence`).
    - `diverged_at`: the earliest time or step at which training (of any seed) diverged. None unless given.
    """

    data: xr.Dataset
    problem: Problem
    evidence: Evidence
    diverged_at: float | None

    def __init__(
        self,
        data: xr.Dataset,
        problem: Problem,
        evidence: Mapping[str, Any],
        diverged_at: float | None = None,
    ):
        # Converting takes longer than some solutions.
        plain = all(isinstance(array.data, np.ndarray) for array in data.variables.values())
        values = {
            "data": data if plain else data.as_numpy(),
            "problem": problem,
            "evidence": Evidence.of(evidence),
            "diverged_at": None if diverged_at is None else float(diverged_at),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not {"time", "step"} & set(self.data.dims):
            raise ValueError(
                f"data has the axes {list(self.data.dims)}, but one of them must be time or step"
            )
        if ("seed" in self.data.dims) != self.is_simulation:
            raise ValueError("data must have the axis seed if it is a simulation, and only then")

    def __getitem__(self, name: str) -> xr.DataArray:
        if name not in self:
            raise UnknownObservable(f"no observable {name!r}; {nearest(name, self.observables)}")
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self.data.variables

    @property
    def observables(self) -> list[str]:
        """The names of the observables, without those of their standard errors."""
        arrays = self.data.data_vars.items()
        return [str(name) for name, array in arrays if "standard_error_of" not in array.attrs]

    def standard_error(self, name: str) -> xr.DataArray | None:
        """The standard error of an observable where the theory was sampled, else None."""
        if name not in self.observables:
            raise UnknownObservable(f"no observable {name!r}; {nearest(name, self.observables)}")
        for array in self.data.data_vars.values():
            if array.attrs.get("standard_error_of") == name:
                return array
        return None

    @property
    def axis(self) -> str:
        """The main axis: "time" or "step"."""
        return "time" if "time" in self.data.dims else "step"

    @property
    def is_simulation(self) -> bool:
        """Whether the numbers come from finite networks."""
        return self.evidence.kind == "simulation"

    @property
    def seeds(self) -> np.ndarray | None:
        """The seeds of a simulation; None for a theory."""
        return self.data["seed"].values if self.is_simulation else None

    @property
    def size(self) -> int | None:
        """The size of the finite networks; None for a theory."""
        return self.evidence.size

    def escape_time(self, size: float) -> float | None:
        """When a network of `size` leaves the symmetric state in which it started: about ln(size)/(2 · growth rate).

        This is for a theory whose start is exactly symmetric, so that the limit never leaves, but small deviations
        grow; see `evidence["symmetric_start"]`. None for all other solutions, and if the rate was not measured.
        """
        symmetric = self.evidence.symmetric_start
        size = number(minimum=1)(size, "size")
        return None if symmetric is None else escape_time(symmetric, size)

    def table(self, observables: str | Iterable[str] | None = None) -> pd.DataFrame:
        """The chosen observables (all unless given) as a tidy table, one number per row.

        The columns are observable, seed (of a simulation), time or step, the labels of the
        component, value. Labels along axes that an observable does not have are missing.
        """
        names = [observables] if isinstance(observables, str) else observables
        frames = []
        for name in self.observables if names is None else names:
            # The extra axis gives a single number a row, too.
            array = self[name].reset_coords(drop=True).expand_dims("row")
            frames.append(array.to_dataframe(name="value").reset_index().assign(observable=name))
        table = pd.concat(frames, ignore_index=True)
        axes = ["seed", self.axis, *table.columns.drop(["value", "row", "observable"])]
        axes = [axis for axis in dict.fromkeys(axes) if axis in table]
        for axis in axes:
            if self.data[axis].dtype.kind in "iu" and table[axis].isna().to_numpy().any():
                table[axis] = table[axis].astype("Int64")
        return table.reindex(columns=["observable", *axes, "value"])

    def save(self, path: str | Path) -> None:
        """Write a NetCDF file that `load` turns back into this solution."""
        texts = {
            "problem": self.problem.to_text(),
            "evidence": to_json(self.evidence),
            "diverged_at": to_json(self.diverged_at),
        }
        storage.save(path, "solution", self.data, texts)

    def __repr__(self) -> str:
        return "\n".join(_summary(self))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.data._repr_html_()}"


def load(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote, into memory; also one of learndyn 0.1, in today's conventions.

    Raises `FileError` if there is no such file, or it does not hold a solution, or it is damaged.
    """
    stored = storage.load(path, "solution", KEYS)
    problem = storage.problem_in(path, stored.texts["problem"], stored.version)
    evidence = json.loads(stored.texts["evidence"])
    data = stored.data
    if stored.version == 1:
        data = from_version_1(data, theory_for(problem), problem)
    return Solution(data, problem, evidence, json.loads(stored.texts["diverged_at"]))


def as_dataset(curves: Curves, theory: Theory) -> xr.Dataset:
    """The curves of a theory as labelled arrays."""
    return xr.Dataset(*curves.variables(theory.time_words))


def _summary(solution: Solution) -> list[str]:
    """The lines that a solution prints as."""
    data, evidence, problem = solution.data, solution.evidence, solution.problem
    parts = [type(p).__name__ for p in (problem.network, problem.data, problem.training)]
    lines = [f"Solution ({evidence['kind']}) of {parts[0]} on {parts[1]} by {parts[2]}"]
    if solution.is_simulation:
        seeds = data.sizes["seed"]
        lines[0] += f", {seeds} seed{'s' * (seeds != 1)} at size {solution.size}"
    times = data[solution.axis].values
    if times.size:
        lines.append(f"  {solution.axis}: {times.size} values from {times[0]:g} to {times[-1]:g}")
    for name in solution.observables:
        array = solution[name]
        shape = ", ".join(f"{d}: {n}" for d, n in array.sizes.items())
        text = f"{name} ({shape})"
        if array.ndim == 0:
            text = f"{name} = {array.item():.4g}" if array.dtype.kind in "iuf" else str(name)
        line = f"  {text}{_sampled(solution, name)}  {array.attrs.get('long_name', '')}"
        lines.append(line.rstrip())
    if solution.diverged_at is not None:
        lines.append(f"  training diverged at {solution.axis} {solution.diverged_at:g}")
    lines += [f"  warning: {text}" for text in evidence.get("warnings", [])]
    shown = [f"{key}: {_short(evidence[key])}" for key in ("theory", "method") if key in evidence]
    if "wall_time" in evidence:
        shown.append(f"wall time: {evidence['wall_time']:.3g} s")
    if evidence.get("accuracy"):
        shown.append(f"accuracy: {max(evidence['accuracy'].values()):.1g} or better")
    return [*lines, "  " + "; ".join(shown)] if shown else lines


def _sampled(solution: Solution, name: str) -> str:
    """The standard error of an observable, or the largest of several, in words; empty if there is none."""
    error = solution.standard_error(name)
    finite = [] if error is None else error.values[np.isfinite(error.values)]
    if not len(finite):
        return ""
    return f" ± {np.max(finite):.1g}" + (" at most" if solution[name].ndim else "")


def _short(value: object) -> str:
    """A piece of evidence as text; only its `kind` if it is a table that has one."""
    return str(value.get("kind", value)) if isinstance(value, dict) else str(value)
