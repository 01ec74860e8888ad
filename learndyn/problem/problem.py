"""`Problem`: a network, its data and its training; and problem files."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from learndyn.errors import FileError, ProblemError, nearest
from learndyn.files import write_atomically
from learndyn.loading import load_theories
from learndyn.problem.checks import optional
from learndyn.problem.kinds import from_plain, part
from learndyn.problem.network import Network
from learndyn.problem.part import Part, content_hash, field
from learndyn.problem.supplies import Supply
from learndyn.problem.tasks import Teacher
from learndyn.problem.training import Training

SECTIONS = ("network", "data", "training")


class Problem(Part):
    """A network, its data and its training. Immutable; everything else is a function of it.

    - `network`: what is trained, and from which initial state (`TwoLayer`, `DeepLinear`, `Wide`, `NeuralODE`,
      `Program`).
    - `data`: a supply of a task: how examples arrive, and what is to be learnt (`Stream(Teacher(…))`).
    - `training`: the rule that moves the weights (`GradientDescent`).

    A `Program` that is a whole training loop has data and training of its own; they are then left out.

    Two problems are equal if and only if they describe the same thing; `problem.hash` is the same for equal problems
    on every machine.
    """

    # The classes are checked when a problem is made; which ones they are depends on the family.
    network: Any = field(part(Network))
    data: Any = field(optional(part(Supply)), default=None)
    training: Any = field(optional(part(Training)), default=None)

    def validate(self) -> None:
        parts = type(self.network).completed(self.network, self.data, self.training)
        for name, value in zip(("data", "training"), parts, strict=True):
            if value is None:
                raise ProblemError(f"Problem.{name}", None, "missing; Problem needs it")
            object.__setattr__(self, name, value)
        # A bound method of a module takes longer to make than most checks to run.
        type(self.network).check(self.network, self.data)
        load_theories(type(self.network))  # they review it
        for review in _reviews:
            review(self)

    @property
    def task(self) -> Any:
        """What is to be learnt."""
        return self.data.task

    @property
    def hash(self) -> str:
        """SHA-256 of the content, as hexadecimal digits."""
        return content_hash(self)

    def to_dict(self) -> dict:
        return {
            "network": self.network.to_dict(),
            "data": self.data.to_dict(),
            "training": self.training.to_dict(),
        }

    @classmethod
    def from_dict(
        cls, values: dict, name: str = "problem", context: dict | None = None
    ) -> "Problem":
        """The problem that plain data (a parsed problem file) describes."""
        if not isinstance(values, dict):
            raise ProblemError(name, values, f"must have the tables {', '.join(SECTIONS)}")
        sections = {"data": Supply, "network": Network, "training": Training}
        for key in values:
            if key not in sections:
                raise ProblemError(key, values[key], f"unknown table; {nearest(key, sections)}")
        parts = {}
        for key, base in sections.items():
            if key not in values:
                raise ProblemError(key, None, f"missing; {name} needs the table [{key}]")
            parts[key] = from_plain(values[key], key, (base,), _context(parts))
        return cls(**parts)

    def to_text(self) -> str:
        """The problem as the text of a problem file (TOML)."""
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_text(cls, text: str, name: str = "problem") -> "Problem":
        """The problem that the text of a problem file describes. Nothing in a file is ever run."""
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # Besides mistakes of syntax: numbers of thousands of digits, and lists within lists without end.
            reason = "it is too deeply nested" if isinstance(error, RecursionError) else error
            raise ProblemError(name, "…", f"is not valid TOML: {reason}") from error
        return cls.from_dict(values, name)

    def to_toml(self, path: str | Path) -> None:
        """Write a problem file; `from_toml` gives back an equal problem."""
        text = self.to_text()
        if self != Problem.from_text(text):
            allowed = (
                'a Python function cannot be written to a file; use a name or Formula("…") instead'
            )
            raise ProblemError("activation", "custom", allowed)
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def from_toml(cls, path: str | Path) -> "Problem":
        """Read a problem file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise FileError(f"cannot read the problem file {path}: {reason}") from error
        except ValueError as error:
            # Bytes that are no text, or a name with a character that no name may have.
            wrong = "it is not a text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise FileError(f"cannot read the problem file {path}: {wrong}") from error
        return cls.from_text(text, str(path))


def _context(parts: dict[str, Part]) -> dict[str, Part]:
    """Arguments for constructors of later parts that come from earlier ones: `TwoLayer.random` needs the teacher."""
    task = getattr(parts.get("data"), "task", None)
    return {"teacher": task} if isinstance(task, Teacher) else {}


_reviews: list[Callable[[Problem], None]] = []


def review(check: Callable[[Problem], None]) -> Callable[[Problem], None]:
    """Call `check`, which may raise `ProblemError`, for every new problem; `core.theory` registers its check here."""
    _reviews.append(check)
    return check
