"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from learndyn.errors import FileError


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path in the same folder, then rename the result to `path`.

    A crash leaves the old file or none, never half a file. Raises `FileError` where the folder cannot be written to.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as stream:
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def writable_folder(path: str | Path) -> Path:
    """Make the folder if need be and check that files can be written there, before long work starts."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise FileError(f"cannot write to the folder {path}: {error.strerror or error}") from error
    return path
