"""`Problem`: a network, its data and its training; and problem files."""

import tomllib
from pathlib import Path

import tomli_w

from learndyn.core.files import write_atomically
from learndyn.core.theory import theories
from learndyn.errors import FileError, ProblemError, nearest
from learndyn.problem.data import Data
from learndyn.problem.network import Network
from learndyn.problem.part import Part, content_hash, field, from_plain, part
from learndyn.problem.training import Training


class Problem(Part):
    """What is to be learnt, by which network, by which rule. Immutable; everything else is a function of it.

    Two problems are equal if and only if they describe the same thing; `problem.hash` is the same for equal problems
    on every machine.
    """

    network: Network = field(part(Network))
    data: Data = field(part(Data))
    training: Training = field(part(Training))

    def validate(self):
        # A bound method of a module takes longer to make than most checks to run.
        type(self.network).check(self.network, self.data, self.training)

    @property
    def hash(self) -> str:
        """SHA-256 of the content, as hexadecimal digits."""
        return content_hash(self)

    def to_dict(self):
        return {
            "network": self.network.to_dict(),
            "data": self.data.to_dict(),
            "training": self.training.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict, name: str = "problem", context=None) -> "Problem":
        """The problem that plain data (a parsed problem file) describes."""
        theories()  # those of other packages bring kinds of their own
        sections = {"data": Data, "network": Network, "training": Training}
        for key in values:
            if key not in sections:
                raise ProblemError(key, values[key], f"unknown table; {nearest(key, sections)}")
        parts = {}
        for key, base in sections.items():
            if key not in values:
                raise ProblemError(key, None, f"missing; {name} needs the table [{key}]")
            parts[key] = from_plain(values[key], key, (base,), {"teacher": _teacher(parts)})
        return cls(**parts)

    def to_text(self) -> str:
        """The problem as the text of a problem file (TOML)."""
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_text(cls, text: str, name: str = "problem") -> "Problem":
        """The problem that the text of a problem file describes. Nothing in a file is ever run."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ProblemError(name, "…", f"is not valid TOML: {error}") from error
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
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"cannot read the problem file {path}: {error}") from error
        return cls.from_text(text, str(path))


def _teacher(parts: dict):
    return getattr(parts.get("data"), "teacher", None)
