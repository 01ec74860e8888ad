"""The theories of programs: which problems they are for, and where their methods are."""

from learndyn.core.curves import Table
from learndyn.core.method import Method
from learndyn.core.record import Record
from learndyn.core.theory import Theory, register
from learndyn.errors import NotLinearProgram, ProblemError
from learndyn.families.program import solve
from learndyn.families.program.facts import FACTS
from learndyn.families.program.files import problem_in
from learndyn.families.program.finite import ProgramNetwork
from learndyn.families.program.loop import loop_of, probe_of, table_of
from learndyn.families.program.network import OwnData, OwnTraining, Program
from learndyn.families.program.observables import POINTS
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent
from learndyn.programs import Coordinates, SteppedProgram
from learndyn.sampling.rules import refuse_in_flow


class _Programs(Theory):
    network = Program
    methods = (solve.SampledLimit, solve.ExactLimit)
    simulators = (ProgramNetwork,)
    demo_size = 1000
    demo_seeds = 8
    why_no_recipe = (
        "the program is itself the recipe: your own function says how it is scaled and trained"
    )

    def table_of(self, problem: Problem) -> Table:
        return table_of(problem)

    def automatic(self, problem: Problem, record: Record) -> Method:
        return solve.ExactLimit() if _is_linear(problem) else solve.SampledLimit()

    def check(self, problem: Problem) -> None:
        # A program that was read from a file is looked at, never run.
        if problem.network.function is not None:
            probe_of(problem)

    def example(self) -> Problem:
        return problem_in(self.template)


@register
class OwnLoop(_Programs, facts=FACTS["program/loop"]):
    task = OwnData
    supply = OwnData
    training = OwnTraining
    understands = ("network",)
    table = ()


@register
class ProgramOnPoints(_Programs, facts=FACTS["program/points"]):
    task = Points
    supply = Points
    training = GradientDescent
    understands = (
        "network",
        "data",
        "training.steps",
        "training.time",
        "training.momentum",
        "training.weight_decay",
        "training.momentum_rule",
        "training.noise",
        "training.loss",
        "training.criterion",
    )
    table = POINTS

    def check(self, problem: Problem) -> None:
        if problem.training.time is not None:
            refuse_in_flow(problem.training)
        if problem.data.gram is not None:
            allowed = (
                "a program sees the inputs themselves; give inputs instead of their Gram matrix"
            )
            raise ProblemError("data.gram", problem.data.gram.tolist(), allowed)
        super().check(problem)


def _is_linear(problem: Problem) -> bool:
    """Whether coordinates can follow the first two states of a program, and so all of them."""
    with SteppedProgram(loop_of(problem), None, Coordinates()) as program:
        try:
            program.advance()
            program.advance()
        except NotLinearProgram:
            return False
    return True
