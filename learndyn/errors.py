"""What can go wrong, as sentences for the user.

Every error of the library derives from `LearndynError`; the command prints its text and nothing else.
"""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learndyn.core.curves import Curves
    from learndyn.core.solution import Solution
    from learndyn.programs.run import ProgramRun


LONGEST_WORD = 80
"""Longer words are cut before similar ones are looked for, which takes time."""

LONGEST_FIELD = 200
"""Longer names of fields, which a file may hold, are cut in messages."""


class LearndynError(Exception):
    """An error whose text is meant for the user.

    `solution` holds what `solve` or `simulate` had finished by then, or is None.
    """

    solution: "Solution | None" = None
    curves: "Curves | None" = None
    """What a method had finished; `solve` makes the solution of it."""


class ProblemError(LearndynError, ValueError):
    """A field of a problem has a value that is not allowed."""

    def __init__(self, field: str, value: Any, allowed: str):
        field = field or '""'  # a file may hold an empty key
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{_cut(field, LONGEST_FIELD)} = {shown(value)}: {allowed}")


class NoTheory(LearndynError, LookupError):
    """No theory, or no finite network, is known for this combination of parts."""


class NotConverged(LearndynError, RuntimeError):
    """A solver did not converge; the text says how far it came and what to try."""


class AtTheEdge(NotConverged):
    """A solver cannot follow a training at the edge of stability, where gradients change sign at every step."""


class NotEnoughMemory(LearndynError, MemoryError):
    """The estimated memory exceeds what the machine has free."""


class ProgramError(LearndynError, ValueError):
    """A program asks for something that has no limit, or that a back end cannot do; the text names the user's line.

    `run` holds what was recorded before, or is None.
    """

    def __init__(self, text: str, run: "ProgramRun | None" = None):
        super().__init__(text)
        self.run = run


class NotLinearProgram(ProgramError):
    """Coordinates cannot follow a program, because it is not linear."""


class TooFewSamples(ProgramError):
    """A dimension of a program has more directions than its samples can tell apart; `needed` samples would do."""

    def __init__(self, text: str, needed: int):
        super().__init__(text)
        self.needed = needed


class FileError(LearndynError, OSError):
    """A file cannot be written, or is not what it should be."""


class CannotCompare(LearndynError, ValueError):
    """Two solutions do not describe the same problem, or lack error bars."""


class UnknownObservable(LearndynError, KeyError):
    """A solution has no observable of this name."""

    def __str__(self):
        return str(self.args[0])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. `solution` holds the seeds of a simulation, or the batches of a sampled theory, that were finished.

    It is None if there are none. A method leaves what it had finished in `curves`; `solve` makes the solution of it.
    """

    def __init__(self, solution: "Solution | None" = None):
        super().__init__("interrupted")
        self.solution = solution
        self.curves: Curves | None = None


def shown(value: object, length: int = 80) -> str:
    """`value` as one short line."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}, too long to show"  # a number of thousands of digits
    return _cut(text, length)


def _cut(text: str, length: int) -> str:
    """The text, without its end if it is longer than `length`."""
    return text if len(text) <= length else text[: length - 1] + "…"


def nearest(word: object, known: Iterable[str]) -> str:
    """The list of known words, after « did you mean …? » if one of them is close to `word`."""
    words = sorted(known)
    start = word[:LONGEST_WORD] if isinstance(word, str) else shown(word)
    match = difflib.get_close_matches(start, words, n=1, cutoff=0.5)
    hint = f"did you mean {match[0]!r}? " if match else ""
    return f"{hint}known: {', '.join(words)}"
