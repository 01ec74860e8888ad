"""Fields of a problem by their dotted paths, as in a problem file: "network.width", "training.learning_rate"."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from learndyn.errors import ProblemError, nearest
from learndyn.problem.part import Part
from learndyn.problem.problem import SECTIONS, Problem


def field_paths(problem: Problem) -> list[str]:
    """The paths of all fields of a problem, those of parts within parts included."""
    return [path for name in SECTIONS for path in _below(getattr(problem, name), name)]


def _below(part: Part, name: str) -> Iterator[str]:
    """The paths of the fields of a part whose own path is `name`."""
    for field, value in part.named_values().items():
        path = f"{name}.{field}"
        yield path
        if isinstance(value, Part):
            yield from _below(value, path)


def check_paths(problem: Problem, paths: Sequence[str], name: str = "field") -> None:
    """Refuse paths that are not fields of the problem, and a path that lies within another one."""
    known = field_paths(problem)
    for path in paths:
        if path not in known:
            raise ProblemError(name, path, f"is not a field of the problem; {nearest(path, known)}")
        for other in paths:
            if other.startswith(f"{path}."):
                raise ProblemError(name, other, f"lies within {path}, which is varied too")


def changed(problem: Problem, values: Mapping[str, Any]) -> Problem:
    """The problem with other values of some fields, all changed at once; checked as a new problem is."""
    check_paths(problem, list(values))
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *words, last = path.split(".")
        branch = tree
        for word in words:
            branch = branch.setdefault(word, {})
        branch[last] = _New(value)
    return _rebuilt(problem, tree)


class _New:
    """A new value in the tree of changes; it tells values that are dictionaries from the branches of the tree."""

    def __init__(self, value: Any):
        self.value = value


def _rebuilt(part: Any, tree: dict[str, Any]) -> Any:
    """The part with the new values of the tree."""
    values = {
        name: branch.value if isinstance(branch, _New) else _rebuilt(getattr(part, name), branch)
        for name, branch in tree.items()
    }
    return part.with_values(**values)
