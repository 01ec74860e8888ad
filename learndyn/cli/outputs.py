"""Files that the command writes."""

from pathlib import Path

from learndyn.errors import FileError
from learndyn.files import writable_folder, write_atomically


def writable_file(path: Path, endings: tuple[str, ...] = ()) -> Path:
    """Refuse a file that could not be written in the end, before long work starts."""
    if endings and path.suffix.lower() not in endings:
        raise FileError(f"cannot write {path}: its name must end in {', '.join(endings)}")
    writable_folder(path.parent)
    try:
        folder = path.is_dir()
    except OSError as error:  # a name that is too long
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    if folder:
        raise FileError(f"cannot write {path}: it is a folder; give the path of a file")
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)
