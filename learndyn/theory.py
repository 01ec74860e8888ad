"""The theories the library knows: one registration each, no central list of cases.

A theory belongs to the types of a problem's three parts. `register` is called when a family's module is imported; other
packages join through the entry-point group `learndyn.theories`, whose entries are modules to import.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from learndyn.errors import NoTheory, ProblemError


@dataclasses.dataclass(frozen=True)
class Observable:
    """One array of a curve: its values, the names of its axes and what it is, in words with the symbol.

    `judged` is False for a quantity that `compare` should leave out of its verdict because finite networks deviate from
    the limit by more than O(1/N) in it: one with a kink, such as a maximum. `error` is the standard error of `values`,
    an array of the same shape, where they were sampled.
    """

    dims: tuple[str, ...]
    values: object
    long_name: str
    units: str = "1"
    judged: bool = True
    error: object = None


@dataclasses.dataclass(frozen=True)
class Curves:
    """What a theory or one finite network returns.

    `observables` maps names to `Observable`; `axis` is "time" or "step" and `times` its values; `diverged_at` is the
    first of them not reached because training diverged; `axis_words` say what the axis is, unless it is steps / N or
    steps. `coordinates` are the labels of other axes, numbered from 0 unless given. `evidence` says how the numbers
    were obtained.
    """

    observables: dict[str, Observable]
    times: object
    axis: str = "time"
    axis_words: str | None = None
    diverged_at: float | None = None
    coordinates: dict = dataclasses.field(default_factory=dict)
    evidence: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Trainer:
    """How one finite network is trained, `run(seed, report) -> Curves`, and the memory that it needs.

    `simulate` refuses what the machine has no memory for: `bytes` for each of the networks that train at a time. `what`
    and `advice` go into its message.
    """

    run: Callable[..., Curves]
    bytes: float
    what: str
    advice: str

    def __call__(self, seed: int, report: Callable[[float], None]) -> Curves:
        return self.run(seed, report)


@dataclasses.dataclass(frozen=True)
class Theory:
    """A limit theory, the finite network it describes, and how to show both.

    - `solve(problem, method, save_at, seed, report) -> Curves`: the limit; `report` is called with the fraction done.
    - `trace(problem, method, save_at) -> dict of arrays`: the same as a pure JAX function, or None.
    - `finite(problem, size, method, save_at) -> run`, with `run(seed, report) -> Curves`: one finite network. The same
      seed gives the same result whatever else runs; `report` may raise to stop the run. A `Trainer` is such a `run`
      that knows how much memory it needs.
    - `many(problems, method, save_at, seed, wanted) -> list of Curves`: the limits of problems that differ in numbers
      only, in one call; None where they cannot be solved so, or it does not pay. `wanted` names the observables that
      are asked for, None if all are; others need not be made.
    - `parallel(problem, method)`: how several such problems are best solved at a time: on "threads" (what releases
      Python's lock), "alone" (what uses all cores by itself) or in "processes".
    - `applies(problem) -> bool`: which problems of these types the theory is for; all unless given.
    - `symmetries(problem) -> SymmetricStart | None`: the exact symmetries of the start (`learndyn.symmetry`), which the
      limit never leaves; None if there are none.
    - `methods`, `simulators`: the method classes each accepts, the default first.
    - `template`: a commented problem file; it is what `learndyn new` writes and what `learndyn demo` runs.
    """

    name: str
    network: type
    data: type
    training: type
    summary: str
    exactness: str
    reference: str
    solve: Callable[..., Curves]
    finite: Callable[..., Callable[..., Curves]]
    methods: tuple[type, ...]
    simulators: tuple[type, ...]
    template: Path
    demo_size: int
    demo_seeds: int
    trace: Callable[..., dict] | None = None
    many: Callable[..., list[Curves] | None] | None = None
    parallel: Callable[..., str] = lambda problem, method: "threads"
    applies: Callable[..., bool] | None = None
    symmetries: Callable[..., Any] | None = None


_theories: dict[str, Theory] = {}


def register(theory: Theory) -> Theory:
    """Make a theory known to `solve`, `simulate` and the command."""
    _theories[theory.name] = theory
    return theory


@contextlib.contextmanager
def registered(*some: Theory, alone: bool = False) -> Iterator[None]:
    """Make theories known within a `with` block only, where each takes the place of a known one of its name.

    With `alone`, no others are known there. Afterwards all is as it was before.
    """
    before = {theory.name: theory for theory in theories()}
    if alone:
        _theories.clear()
    try:
        for theory in some:
            register(theory)
        yield
    finally:
        _theories.clear()
        _theories.update(before)


def theories() -> list[Theory]:
    """All theories, by name; loads those of other packages first."""
    _load_other_packages()
    return [_theories[name] for name in sorted(_theories)]


@functools.cache
def _load_other_packages() -> None:
    for entry in importlib.metadata.entry_points(group="learndyn.theories"):
        entry.load()


def theory_for(problem) -> Theory:
    """The theory for the types of the problem's parts, or `NoTheory` with the combinations there are."""
    known = theories()
    for theory in known:
        types = (theory.network, theory.data, theory.training)
        fits = all(isinstance(p, t) for p, t in zip(_parts(problem), types, strict=True))
        if fits and (theory.applies is None or theory.applies(problem)):
            return theory
    asked = " on ".join(type(p).__name__ for p in _parts(problem)[:2])
    rows = [f"  {t.network.__name__} on {t.data.__name__} by {t.training.__name__}" for t in known]
    raise NoTheory(
        f"there is no theory for {asked} by {type(problem.training).__name__}; there is one for\n"
        + "\n".join(rows)
    )


def choose(method, allowed: tuple[type, ...], name: str):
    """`method`, or the default one; refuse a method that this theory does not have."""
    if method is None:
        return allowed[0]()
    if not isinstance(method, allowed):
        names = ", ".join(cls.__name__ for cls in allowed)
        raise ProblemError(name, method, f"must be one of {names} here")
    return method


def _parts(problem):
    return problem.network, problem.data, problem.training
