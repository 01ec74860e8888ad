"""The theories the library knows: one registration each, no central list of cases.

A theory is for certain types of network, task, supply and training, and says which of their fields it understands.
`register` is called when a family's module is imported, which `learndyn.loading` does when theories are first needed.
"""

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from learndyn.core.curves import Curves, Table
from learndyn.core.facts import Facts, combination
from learndyn.core.method import Ensemble, Method, Simulator, Way
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.core.understanding import foreign_fields, refusal
from learndyn.errors import NoTheory, ProblemError
from learndyn.loading import load_theories
from learndyn.problem.problem import Problem, review

if TYPE_CHECKING:
    from learndyn.core.blueprint import Blueprint
    from learndyn.core.symmetry import SymmetricStart

Choice = TypeVar("Choice", Method, Simulator)


class Theory(abc.ABC):
    """A limit theory, the finite network it describes, and how to show both. A family writes a class for each supply.

    - `name`: such as "two_layer/stream".
    - `network`, `task`, `supply`, `training`: the types of the parts of a problem that it is for.
    - `understands`: the fields of these parts that it uses, by their paths ("training.momentum"; "network" stands for
      all fields of the network). A field that is not among them must keep its default, or the problem is refused.
    - `summary`: one sentence on what it computes.
    - `exactness`: whether it is exact, asymptotic or approximate.
    - `reference`: the paper.
    - `table`: its observables, the same for the limit and for finite networks.
    - `methods`: the ways to solve the limit, the usual one first.
    - `simulators`: the ways to train finite networks, the usual one first.
    - `template`: a commented problem file; it is what `learndyn new` writes and what `learndyn demo` runs.
    - `demo_size`, `demo_seeds`: the size and number of the networks that `learndyn demo` trains.
    - `size_symbol`: the paper's letter for the size. "N" unless given.
    - `time_words`: what the axis of time means. "time t = steps / N" unless given.

    Name, summary, exactness, reference and template may also come from `Facts`, which the command can tell without
    importing the theory: `class MyTheory(Theory, facts=…)`.
    """

    name: ClassVar[str]
    network: ClassVar[type]
    task: ClassVar[type]
    supply: ClassVar[type]
    training: ClassVar[type]
    understands: ClassVar[tuple[str, ...]]
    summary: ClassVar[str]
    exactness: ClassVar[str]
    reference: ClassVar[str]
    table: ClassVar[Table]
    methods: ClassVar[tuple[type[Method], ...]]
    simulators: ClassVar[tuple[type[Simulator], ...]]
    template: ClassVar[Path]
    demo_size: ClassVar[int]
    demo_seeds: ClassVar[int]
    size_symbol: ClassVar[str] = "N"
    time_words: ClassVar[str] = "time t = steps / N"
    why_no_recipe: ClassVar[str] = "its theory does not describe it layer by layer"
    """Completes the sentence with which `recipe` refuses a theory without a `blueprint`."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Today's names of observables that had another name in files of learndyn 0.1, by that name."""
    former_factors: ClassVar[Mapping[str, float]] = {}
    """Factors by which observables in files of learndyn 0.1 must be multiplied."""

    def __init_subclass__(cls, facts: Facts | None = None, **options: Any):
        super().__init_subclass__(**options)
        if facts is not None:
            cls.name, cls.summary, cls.exactness = facts.name, facts.summary, facts.exactness
            cls.reference, cls.template = facts.reference, facts.template

    @property
    def facts(self) -> Facts:
        """What is told of it without computing anything."""
        return Facts(
            name=self.name,
            network=self.network.__name__,
            task=self.task.__name__,
            supply=self.supply.__name__,
            training=self.training.__name__,
            summary=self.summary,
            exactness=self.exactness,
            reference=self.reference,
            template=self.template,
        )

    @property
    def combination(self) -> str:
        """The types of the parts that it is for, as words."""
        return self.facts.combination

    def applies(self, problem: Problem) -> bool:
        """Whether it is for this problem, whose parts have its types; this tells theories for the same types apart."""
        return True

    def check(self, problem: Problem) -> None:  # noqa: B027
        """Refuse, with a `ProblemError`, values that the theory does not cover although it understands their fields."""

    def table_of(self, problem: Problem) -> Table:
        """The observables of one problem: those of `table`, unless it has others, or axes with other names."""
        return self.table

    def outputs(self, problem: Problem) -> int:
        """The number of outputs of a network, over which losses are sums."""
        for part in (problem.network, problem.data):
            if (outputs := getattr(part, "outputs", None)) is not None:
                return outputs
        return 1

    def label_noise(self, problem: Problem) -> float:
        """σ: the standard deviation of the noise of the labels, for each output."""
        return float(getattr(problem.data, "noise", 0.0))

    def multiply_adds(self, problem: Problem) -> float:
        """How many multiply-adds a finite network takes for one step of training."""
        allowed = f"work is not counted for {self.name}; use a deep linear network on data with a spectrum"
        raise ProblemError("problem", self.combination, allowed)

    def example(self) -> Problem:
        """The problem of the template."""
        return Problem.from_text(self.template.read_text(encoding="utf-8"), self.template.name)

    def automatic(self, problem: Problem, record: Record) -> Method:
        """The method that suits the problem best."""
        return self.methods[0]()

    def symmetries(self, problem: Problem) -> "SymmetricStart | None":
        """The exact symmetries of the start, which the limit never leaves; None if there are none."""
        return None

    def chosen(self, method: Method | None, problem: Problem, record: Record) -> Method:
        """`method`, or the automatic one; refuse a method that this theory does not have."""
        if method is None:
            return self.automatic(problem, record)
        return allowed(method, self.methods, "method")

    def simulator(self, method: Simulator | None, name: str = "method") -> Simulator:
        """`method`, or the usual one; refuse one that this theory does not have."""
        return self.simulators[0]() if method is None else allowed(method, self.simulators, name)

    def solve(
        self,
        problem: Problem,
        method: Method,
        record: Record,
        seed: int = 0,
        report: Report | None = None,
    ) -> Curves:
        """The limit at the recorded states."""
        return method.solve(problem, record, seed, report or (lambda done: None))

    def solves_many(self, method: Method) -> bool:
        """Whether a method has a way to solve several problems in one call."""
        return type(method).solve_many is not Method.solve_many

    def pays_together(self, problems: Sequence[Problem], method: Method, record: Record) -> bool:
        """Whether `solve_many` is faster than one problem after the other, for these."""
        return method.pays_together(problems, record)

    def solve_many(
        self,
        problems: Sequence[Problem],
        method: Method,
        record: Record,
        seed: int = 0,
        wanted: Sequence[str] | None = None,
    ) -> list[Curves]:
        """The limits of problems that differ in numbers only; observables that are not `wanted` may be left out."""
        return method.solve_many(problems, record, seed, wanted)

    def way(self, problem: Problem, method: Method) -> Way:
        """How several problems are best solved at a time."""
        return method.way(problem)

    def train(self, problem: Problem, size: int, method: Simulator, record: Record) -> Ensemble:
        """The finite networks of a size."""
        return method.ensemble(problem, size, record)

    def blueprint(self, problem: Problem, size: int) -> "Blueprint":
        """The finite network of a size with every scaling factor, for `recipe`."""
        allowed = f"there is no recipe for this network, because {self.why_no_recipe}"
        raise ProblemError("network", type(problem.network).__name__, allowed)

    def trace(self, problem: Problem, method: Method, record: Record) -> dict[str, Any]:
        """The limit as a JAX function."""
        return method.trace(problem, record)

    def start(self, problem: Problem, method: Method, seed: int = 0) -> Progressing:
        """The limit, to be advanced step by step."""
        return method.start(problem, seed)


def allowed(method: object, classes: tuple[type[Choice], ...], name: str) -> Choice:
    """The method, if it is of one of the `classes`; otherwise an error in the name of the argument `name`."""
    if not isinstance(method, classes):
        names = ", ".join(cls.__name__ for cls in classes)
        raise ProblemError(name, method, f"must be one of {names} for this problem")
    return method


_theories: dict[str, Theory] = {}


def register(theory: Theory | type[Theory]) -> Theory:
    """Make a theory known to `solve`, `simulate` and the command; a class is made into an object."""
    load_theories()  # first, so that a theory of the same name replaces one of the library
    instance = theory() if isinstance(theory, type) else theory
    missing = [name for name in Theory.__annotations__ if not hasattr(instance, name)]
    if missing:
        raise TypeError(
            f"the theory {type(instance).__name__} does not say its {', '.join(missing)}"
        )
    _theories[instance.name] = instance
    return instance


@contextlib.contextmanager
def registered(*added: Theory, alone: bool = False) -> Iterator[None]:
    """Make theories known only within a `with` block; each replaces a known theory of the same name.

    With `alone`, no other theories are known there. The known theories are restored afterwards.
    """
    before = {theory.name: theory for theory in theories()}
    if alone:
        _theories.clear()
    try:
        for theory in added:
            register(theory)
        yield
    finally:
        _theories.clear()
        _theories.update(before)


def theories() -> list[Theory]:
    """All theories, by name; the first call imports them."""
    load_theories()
    return [_theories[name] for name in sorted(_theories)]


def theory_for(problem: Problem) -> Theory:
    """The one theory for a problem.

    Raises `NoTheory` if there is none for the types of its parts, or more than one, and `ProblemError` if the theories
    for these types do not understand one of its fields.
    """
    fitting = _fitting(problem)
    if len(fitting) == 1:
        return fitting[0]
    parts = (problem.network, problem.task, problem.data, problem.training)
    words = combination(*(type(part).__name__ for part in parts))
    if fitting:
        names = " and ".join(theory.name for theory in fitting)
        raise NoTheory(
            f"several theories fit {words}: {names}; their `applies` must tell them apart"
        )
    rows = [f"  {theory.combination}" for theory in theories()]
    raise NoTheory(f"there is no theory for {words}; there are theories for\n" + "\n".join(rows))


def _fitting(problem: Problem) -> list[Theory]:
    """The theories for a problem; raises `ProblemError` if there are some for its types, but none understands it."""
    parts = (problem.network, problem.task, problem.data, problem.training)
    load_theories(type(problem.network))
    applying = [
        theory
        for _, theory in sorted(_theories.items())
        if all(
            map(isinstance, parts, (theory.network, theory.task, theory.supply, theory.training))
        )
        and theory.applies(problem)
    ]
    foreign = {theory.name: foreign_fields(problem, theory.understands) for theory in applying}
    fitting = [theory for theory in applying if not foreign[theory.name]]
    if applying and not fitting:
        nearest = min(applying, key=lambda theory: len(foreign[theory.name]))
        raise refusal(problem, foreign[nearest.name][0], nearest.understands, nearest.name)
    return fitting


@review
def _review(problem: Problem) -> None:
    """Refuse a new problem that the theories for its types do not understand, or do not cover."""
    for theory in _fitting(problem):
        theory.check(problem)
