"""`Solution`: labelled observables of a problem and how they were obtained; saving and loading."""

import dataclasses
import hashlib
import html
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from learndyn.errors import FileError, LearndynError, UnknownObservable, nearest
from learndyn.files import write_atomically
from learndyn.part import number
from learndyn.problem import Problem
from learndyn.symmetry_words import escape_time

FORMAT = "learndyn solution"
FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Observables of a problem, from a theory or from finite networks.

    - `data`: an `xarray.Dataset` with the main axis "time" or "step"; a simulation has the axis
      "seed" in front. Each array says what it is in its attributes `long_name` and `units`. Where
      a theory was sampled, `x_standard_error` is the standard error of the observable x, which its
      attribute `standard_error_of` names.
    - `problem`: what was solved.
    - `evidence`: how, as plain data. `kind` is "theory" or "simulation"; further keys as they
      apply: theory, method, accuracy (an absolute error per observable), warnings (sentences),
      symmetric_start (what is symmetric, and how fast small deviations grow), size, seeds,
      size_symbol (the paper's letter for the size, N unless given), limiting_size (the smallest
      of the sizes that the theory takes to be large), wall_time.
    - `converged`: whether the solver reached its tolerance.
    - `diverged_at`: the earliest time at which training (of any seed) diverged, or None.
    """

    data: xr.Dataset
    problem: Problem
    evidence: dict
    converged: bool = True
    diverged_at: float | None = None

    def __post_init__(self):
        set_field = object.__setattr__
        set_field(self, "data", self.data.as_numpy())
        set_field(self, "evidence", json.loads(_json(self.evidence)))
        set_field(self, "converged", bool(self.converged))
        if self.diverged_at is not None:
            set_field(self, "diverged_at", float(self.diverged_at))
        kind = self.evidence.get("kind")
        if kind not in ("theory", "simulation"):
            raise ValueError(f"evidence['kind'] = {kind!r}: must be 'theory' or 'simulation'")
        if not {"time", "step"} & set(self.data.dims):
            raise ValueError(f"data has the axes {list(self.data.dims)}: one must be time or step")
        if ("seed" in self.data.dims) != self.is_simulation:
            raise ValueError("data must have the axis seed if and only if it is a simulation")

    def __getitem__(self, name: str) -> xr.DataArray:
        if name not in self:
            raise UnknownObservable(f"no observable {name!r}; {nearest(name, self.observables)}")
        return self.data[name]

    def __contains__(self, name) -> bool:
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
        return self.evidence["kind"] == "simulation"

    @property
    def seeds(self) -> np.ndarray | None:
        """The seeds of a simulation; None for a theory."""
        return self.data["seed"].values if self.is_simulation else None

    @property
    def size(self) -> int | None:
        """The size of the finite networks; None for a theory."""
        return self.evidence.get("size")

    def escape_time(self, size: float) -> float | None:
        """When a network of `size` leaves the symmetric state in which it started: about ln(size)/(2 · growth rate).

        For a theory whose start is exactly symmetric, so that the limit never leaves, while small deviations grow; see
        `evidence["symmetric_start"]`. None for all other solutions, and where the rate was not measured.
        """
        symmetric = self.evidence.get("symmetric_start")
        size = number(minimum=1)(size, "size")
        return None if symmetric is None else escape_time(symmetric, size)

    def table(self, observables: str | Iterable[str] | None = None) -> pd.DataFrame:
        """The chosen observables (all unless given) as a tidy table, one number per row.

        The columns are observable, seed (of a simulation), time or step, the labels of the
        component, value. A label that an observable has not got is missing.
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
            "evidence": _json(self.evidence),
            "attributes": _json(_attributes(self.data)),
            "converged": _json(self.converged),
            "diverged_at": _json(self.diverged_at),
        }
        data = self.data.drop_attrs().drop_encoding()
        for name, variable in data.variables.items():
            if variable.dtype.kind not in "iubUOT" and variable.dtype not in ("float32", "float64"):
                raise FileError(f"cannot write {path}: {name} holds {variable.dtype} values")
            # Other readers see these two; the exact attributes are in the JSON text.
            for key in ("long_name", "units"):
                if isinstance(self.data[name].attrs.get(key), str):
                    variable.attrs[key] = self.data[name].attrs[key]
        header = {"format": FORMAT, "format_version": FORMAT_VERSION}
        data.attrs = header | texts | {"sha256": _checksum(data, texts)}
        encoding = {name: {"_FillValue": None} for name in data.variables}

        def write(temporary: Path):
            try:
                data.to_netcdf(temporary, engine="netcdf4", encoding=encoding)
            except RuntimeError as error:  # how the NetCDF library reports a full disk
                raise OSError(str(error)) from error

        write_atomically(path, write)

    def __repr__(self):
        return "\n".join(_summary(self))

    def _repr_html_(self):
        return f"<pre>{html.escape(repr(self))}</pre>{self.data._repr_html_()}"


def load(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote, into memory.

    Raises `FileError` if there is no such file, or it is not such a solution, or it is damaged.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileError(f"cannot read {path}: it {what}; give the path of a saved solution")
    try:
        with path.open("rb") as stream:
            opening = stream.read(8)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    if not opening.startswith((b"\x89HDF", b"CDF")):
        raise FileError(f"{path} is not a NetCDF file, so not a solution saved by learndyn")
    damaged = f"{path} is damaged or incomplete; make it again, or take it from a copy"
    try:
        with xr.open_dataset(
            path, engine="netcdf4", decode_times=False, decode_timedelta=False
        ) as file:
            data = file.load().drop_encoding()
    # A damaged file fails anywhere in three libraries, with almost any type of error.
    except Exception as error:
        raise FileError(f"{damaged} ({type(error).__name__}: {error})") from error
    header, data.attrs = data.attrs, {}
    if header.get("format") != FORMAT:
        raise FileError(f"{path} is a NetCDF file, but not a solution saved by learndyn")
    version = header.get("format_version")
    if version != FORMAT_VERSION:
        advice = f"this learndyn reads version {FORMAT_VERSION}; use the learndyn that made it"
        raise FileError(f"{path} has format version {version}, but {advice}")
    keys = ("problem", "evidence", "attributes", "converged", "diverged_at")
    texts = {key: str(header.get(key)) for key in keys}
    if header.get("sha256") != _checksum(data, texts):
        raise FileError(f"{damaged} (the checksum does not match)")
    for name, attributes in json.loads(texts["attributes"]).items():
        (data[name] if name else data).attrs = attributes
    try:
        problem = Problem.from_text(texts["problem"], f"the problem in {path}")
    except LearndynError as error:
        advice = "if another package defines this kind, import it first"
        raise FileError(f"cannot read the problem in {path}: {error}; {advice}") from error
    plain = {key: json.loads(texts[key]) for key in ("evidence", "converged", "diverged_at")}
    return Solution(data, problem, **plain)


def _attributes(data: xr.Dataset) -> dict:
    """All attributes: of the dataset under the empty name, of each variable under its own."""
    return {"": data.attrs} | {str(name): v.attrs for name, v in data.variables.items() if v.attrs}


def _checksum(data: xr.Dataset, texts: dict) -> str:
    """SHA-256 over every variable's name, axes, type and bytes, and over the texts."""
    digest = hashlib.sha256(_json(texts).encode())
    for name in sorted(data.variables, key=str):
        variable = data.variables[name]
        strings = variable.dtype.kind in "UOT"
        kind = "text" if strings else variable.dtype.newbyteorder("<").str
        what = [name, variable.dims, variable.shape, kind, name in data.coords]
        digest.update(_json(what).encode())
        if strings:
            digest.update(_json(variable.values.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(variable.values, kind).tobytes())
    return digest.hexdigest()


def _json(value) -> str:
    """JSON, with numbers and arrays of numpy as plain ones."""

    def plain(item):
        if isinstance(item, np.ndarray | np.generic):
            return item.tolist()
        raise TypeError(f"{item!r} is not plain data and cannot be saved")

    return json.dumps(value, default=plain)


def _summary(solution: Solution) -> list[str]:
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
        what = f"{name} ({shape})"
        if array.ndim == 0:
            what = f"{name} = {array.item():.4g}" if array.dtype.kind in "iuf" else str(name)
        line = f"  {what}{_sampled(solution, name)}  {array.attrs.get('long_name', '')}"
        lines.append(line.rstrip())
    if not solution.converged:
        lines.append("  not converged")
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
    known = [] if error is None else error.values[np.isfinite(error.values)]
    if not len(known):
        return ""
    return f" ± {np.max(known):.1g}" + (" at most" if solution[name].ndim else "")


def _short(value) -> str:
    """A piece of evidence in one word, where it is a table with a `kind`."""
    return str(value.get("kind", value)) if isinstance(value, dict) else str(value)
