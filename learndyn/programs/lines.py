"""Which line of the user's program is at work: errors name it."""

import linecache
import os
import sys
from pathlib import Path
from typing import NamedTuple

_LEARNDYN = Path(__file__).parents[1]
PACKAGE = (
    str(_LEARNDYN / "programs") + os.sep,
    str(_LEARNDYN / "sampling") + os.sep,
    str(_LEARNDYN / "families" / "program" / "loop.py"),
)
"""Files whose lines are not the user's."""


class Line(NamedTuple):
    """A line of a file."""

    file: str
    number: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.number).strip()
        return f"{Path(self.file).name}:{self.number}" + (f": {text}" if text else "")


def users_line() -> Line:
    """The innermost line that is running outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)
