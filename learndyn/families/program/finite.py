"""Networks of a program, trained for real."""

from learndyn.core.method import Ensemble, Simulator
from learndyn.core.record import Record
from learndyn.families.program.loop import PROBED_SIZE, loop_of, probe_of
from learndyn.problem.checks import choice, number
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Dense, Lazy
from learndyn.sampling.trainee import ProgramTrainee

LAZY_FROM = 1500
"""The size from which matrices are lazy: from about here on arrays take longer."""
COPIES = 4
"""Arrays of the size of the matrices that training needs: gradients, momentum, the second moments of Adam."""


class ProgramNetwork(Simulator):
    """Networks of a program, trained for real.

    - `matrices`: "dense" for arrays, "lazy" for matrices that are revealed as far as they are asked, which has exactly
      the same law and costs less in large networks. "automatic", lazy from a size of 1500 on, unless given.
    - `drop`: a lazy matrix leaves out what is shorter than this part of a vector. 1e-7 unless given.
    """

    matrices: str = field(choice("automatic", "dense", "lazy"), default="automatic")
    drop: float = field(number(minimum=0, below=0.1), default=1e-7)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        loop, probe = loop_of(problem, record), probe_of(problem)
        names = list(probe.shapes)
        lazy = self.matrices == "lazy" or (self.matrices == "automatic" and size >= LAZY_FROM)

        def draw(seed: int) -> ProgramTrainee:
            backend = Lazy(size, seed, drop=self.drop) if lazy else Dense(size, seed)
            return ProgramTrainee(loop, backend, names, record)

        # A lazy network grows while it is trained, and is checked then.
        power = 1 if lazy else 2
        return Ensemble(
            draw,
            record,
            bytes=COPIES * probe.bytes * (size / PROBED_SIZE) ** power,
            what=f"a network of size {size} with {'lazy' if lazy else 'dense'} matrices",
            advice="use a smaller size" if lazy else "use a smaller size, or matrices='lazy'",
            evidence={
                "limiting_size": max(1, round(probe.smallest * size)),
                "matrices": "lazy" if lazy else "dense",
            },
        )
