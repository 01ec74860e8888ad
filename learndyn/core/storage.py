"""Files: NetCDF with a checksum for solutions and sweeps, and quick small files for the points of a sweep.

A NetCDF file of the library has a `format` and `format_version`, texts (JSON, or a problem in TOML) as attributes, and
the SHA-256 of all of it. Exact attributes of the variables are one of the texts, because NetCDF changes their types.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import netCDF4
import numpy as np
import xarray as xr

from learndyn.core.evidence import to_json
from learndyn.core.former_problems import with_task
from learndyn.errors import FileError, LearndynError
from learndyn.files import write_atomically
from learndyn.problem.problem import Problem

VERSION = 3
"""The version of the files that are written. In version 1, of learndyn 0.1, axes of length one were left out; up to
version 2, of learndyn 0.2, supplies and networks held the task."""
VISIBLE = ("long_name", "units", "convention")
"""Attributes that other readers of NetCDF see."""


class Stored(NamedTuple):
    """The contents of a file: labelled arrays, texts by name, and the version of its format."""

    data: xr.Dataset
    texts: dict[str, str]
    version: int


def save(path: str | Path, kind: str, data: xr.Dataset, texts: dict[str, str]) -> None:
    """Write a file of a kind ("solution", "sweep"); a crash never leaves half a file."""
    texts = texts | {"attributes": to_json(_attributes(data))}
    bare = data.drop_attrs().drop_encoding()
    for name, variable in bare.variables.items():
        if variable.dtype.kind not in "iubUOT" and variable.dtype not in ("float32", "float64"):
            raise FileError(f"cannot write {path}: {name} holds {variable.dtype} values")
        for key in VISIBLE:
            if isinstance(data[name].attrs.get(key), str):
                variable.attrs[key] = data[name].attrs[key]
    header = {"format": f"learndyn {kind}", "format_version": VERSION}
    bare.attrs = header | texts | {"sha256": _checksum(bare, texts)}
    encoding = {name: {"_FillValue": None} for name in bare.variables}

    def write(temporary: Path) -> None:
        try:
            bare.to_netcdf(temporary, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # how the NetCDF library reports a full disk
            raise OSError(str(error)) from error

    write_atomically(path, write)


def load(path: str | Path, kind: str, keys: dict[int, tuple[str, ...]]) -> Stored:
    """Read a file of a kind; `keys` names the texts of every version that can be read.

    Raises `FileError` if there is no such file, or it is of another kind, or it is damaged.
    """
    path = Path(path)
    try:
        missing, folder = not path.is_file(), path.is_dir()
    except OSError as error:  # a name that is too long
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    if missing:
        reason = "is a folder" if folder else "does not exist"
        raise FileError(f"cannot read {path}: it {reason}; give the path of a saved {kind}")
    try:
        with path.open("rb") as stream:
            opening = stream.read(8)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    if not opening.startswith((b"\x89HDF", b"CDF")):
        raise FileError(f"{path} is not a NetCDF file, so not a {kind} saved by learndyn")
    damaged = f"{path} is damaged or incomplete; compute it again, or restore it from a copy"
    try:
        with xr.open_dataset(
            path, engine="netcdf4", decode_times=False, decode_timedelta=False
        ) as file:
            data = file.load().drop_encoding()
    # A damaged file fails anywhere in three libraries, with almost any type of error.
    except Exception as error:
        raise FileError(f"{damaged} ({type(error).__name__}: {error})") from error
    header, data.attrs = data.attrs, {}
    if header.get("format") != f"learndyn {kind}":
        raise FileError(f"{path} is a NetCDF file, but not a {kind} saved by learndyn")
    version = header.get("format_version")
    if version not in keys:
        known = " and ".join(map(str, sorted(keys)))
        advice = f"this learndyn reads version {known}; use the learndyn that made it"
        raise FileError(f"{path} has format version {version}, but {advice}")
    texts = {key: str(header.get(key)) for key in keys[version]}
    # Sweeps had no checksum before version 2.
    checked = "sha256" in header or version > 1
    if checked and header.get("sha256") != _checksum(data, texts):
        raise FileError(f"{damaged} (the checksum does not match)")
    if "attributes" in texts:
        for name, attributes in json.loads(texts.pop("attributes")).items():
            (data[name] if name else data).attrs = attributes
    return Stored(data, texts, int(version))


def is_of_kind(path: Path, kind: str) -> bool:
    """Whether the header of a file says that it is of a kind."""
    try:
        with netCDF4.Dataset(path) as file:
            return getattr(file, "format", None) == f"learndyn {kind}"
    except OSError:
        return False


def problem_in(path: str | Path, text: str, version: int) -> Problem:
    """The problem that a file of a version holds."""
    try:
        if version < 3:
            text = with_task(text)
        return Problem.from_text(text, f"the problem in {path}")
    except LearndynError as error:
        advice = "if another package defines this kind, import it first"
        raise FileError(f"cannot read the problem in {path}: {error}; {advice}") from error


def _attributes(data: xr.Dataset) -> dict[str, dict]:
    """All attributes: of the dataset under the empty name, of each variable under its own."""
    return {"": data.attrs} | {str(name): v.attrs for name, v in data.variables.items() if v.attrs}


def _checksum(data: xr.Dataset, texts: dict[str, str]) -> str:
    """SHA-256 over every variable's name, axes, type and bytes, and over the texts."""
    digest = hashlib.sha256(to_json(texts).encode())
    for name in sorted(data.variables, key=str):
        variable = data.variables[name]
        strings = variable.dtype.kind in "UOT"
        kind = "text" if strings else variable.dtype.newbyteorder("<").str
        header = [name, variable.dims, variable.shape, kind, name in data.coords]
        digest.update(to_json(header).encode())
        if strings:
            digest.update(to_json(variable.values.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(variable.values, kind).tobytes())
    return digest.hexdigest()


POINT = f"learndyn point {VERSION} ".encode()
"""How the file of a point begins: a line with the checksum of the rest, a line of JSON, then numbers."""
Variables = dict[str, xr.Variable]


class Point(NamedTuple):
    """The observables of one point of a sweep, the labels of their axes, and how they were obtained."""

    arrays: Variables
    labels: Variables
    info: dict[str, Any]


def save_point(path: Path, point: Point) -> None:
    """Write a point; a crash never leaves half a file. Writing NetCDF would take longer than many a solve."""
    headers, numbers = [], []
    for label, variables in ((False, point.arrays), (True, point.labels)):
        for name, variable in variables.items():
            values = np.asarray(variable.values)
            form = [values.dtype.str, list(values.shape)]
            headers.append([name, label, list(variable.dims), variable.attrs, *form])
            numbers.append(values.tobytes())
    text = to_json({"variables": headers, "info": point.info})
    body = b"\n".join([text.encode(), b"".join(numbers)])
    content = _opening(body) + b"\n" + body
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def load_point(path: Path, damaged: Callable[[], None]) -> Point | None:
    """Read a point; None if it is not there. If it is broken or of another version, call `damaged` and return None."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    head, _, body = content.partition(b"\n")
    if head != _opening(body):
        damaged()
        return None
    head, _, numbers = body.partition(b"\n")
    text, start = json.loads(head), 0
    variables: tuple[Variables, Variables] = ({}, {})
    for name, label, dims, attributes, form, shape in text["variables"]:
        # A copy, because an array over the bytes of a file cannot be written to.
        values = np.frombuffer(numbers, form, math.prod(shape), start).reshape(shape).copy()
        start += values.nbytes
        variables[label][name] = xr.Variable(tuple(dims), values, attributes)
    return Point(*variables, text["info"])


def _opening(body: bytes) -> bytes:
    return POINT + hashlib.sha256(body).hexdigest().encode()
