"""A folder of finished points, each a file that is whole or not there.

The name of a file is the key of its job, so that the same question to the same version finds the point again, and
writing it twice does no harm. A file is written under a temporary name and then renamed, which the operating system
does at once: any number of processes may share a store, and one that is killed leaves at most a temporary file behind.
"""

import contextlib
from pathlib import Path

from learndyn.core.storage import Point, load_point, save_point
from learndyn.errors import FileError
from learndyn.files import writable_folder


class Store:
    """Results by key, in a folder. `damaged` counts the entries that were broken and were put aside."""

    def __init__(self, folder: str | Path):
        self.folder = writable_folder(folder)
        self.damaged = 0

    def path(self, key: str) -> Path:
        """The file of this key."""
        return self.folder / key[:2] / f"{key}.point"

    def get(self, key: str) -> Point | None:
        """The point of this key; None if it is not there, or damaged."""
        path = self.path(key)
        return load_point(path, lambda: self._put_aside(path))

    def put(self, key: str, point: Point) -> None:
        """Write a point; a crash never leaves half a file."""
        path = self.path(key)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror or error}") from error
        save_point(path, point)

    def _put_aside(self, path: Path) -> None:
        """Rename a damaged file instead of deleting it: its owner may want to know what happened."""
        self.damaged += 1
        # Another process may have found it too.
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_suffix(".damaged"))
