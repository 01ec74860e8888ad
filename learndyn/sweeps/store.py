"""A folder of finished points, each a file that is whole or not there.

The name of a file is the key of its task, so that a point is found again by whoever asks the same of the same version,
and writing it twice does no harm. A file is a line with the checksum of the rest, a line of JSON, then numbers. Writers
put it there under another name first and rename it, which the operating system does at once: any number of processes
may share a store, and a killed one leaves at most a temporary file behind.
"""

import contextlib
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import xarray as xr

from learndyn.errors import FileError
from learndyn.files import writable_folder, write_atomically
from learndyn.sweeps.plan import Result

MAGIC = b"learndyn point 1 "


class Store:
    """Results by key, in a folder. `damaged` counts entries that were found broken and put aside."""

    def __init__(self, folder: str | Path):
        self.folder = writable_folder(folder)
        self.damaged = 0

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.point"

    def get(self, key: str) -> Result | None:
        """The result of this key; None if it is not there, or damaged."""
        path = self.path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror or error}") from error
        head, _, body = content.partition(b"\n")
        if head != _head(body):
            self._put_aside(path)
            return None
        return _unpacked(body)

    def put(self, key: str, result: Result) -> None:
        """Write a result, at once and whole."""
        path, body = self.path(key), _packed(result)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror or error}") from error
        content = _head(body) + b"\n" + body
        write_atomically(path, lambda temporary: temporary.write_bytes(content))

    def _put_aside(self, path: Path) -> None:
        """Out of the way, but not deleted: its owner may want to know what happened."""
        self.damaged += 1
        # Another process may have found it too.
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_suffix(".damaged"))


def _head(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).hexdigest().encode()


def _packed(result: Result) -> bytes:
    """A line of JSON that tells all but the numbers, then the numbers of one array after the other."""
    told, numbers = [], []
    for label, variables in ((False, result.arrays), (True, result.labels)):
        for name, variable in variables.items():
            values = np.asarray(variable.values)
            form = [values.dtype.str, list(values.shape)]
            told.append([name, label, list(variable.dims), variable.attrs, *form])
            numbers.append(values.tobytes())
    text = json.dumps({"variables": told, "info": result.info})
    return b"\n".join([text.encode(), b"".join(numbers)])


def _unpacked(body: bytes) -> Result:
    head, _, numbers = body.partition(b"\n")
    text, start = json.loads(head), 0
    found: tuple[dict, dict] = ({}, {})
    for name, label, dims, attributes, form, shape in text["variables"]:
        # A copy, because an array that stands in bytes cannot be written to.
        values = np.frombuffer(numbers, form, math.prod(shape), start).reshape(shape).copy()
        start += values.nbytes
        found[label][name] = xr.Variable(tuple(dims), values, attributes)
    return Result(*found, text["info"])
