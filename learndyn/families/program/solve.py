"""The methods for programs: samples of the limit, to a number or to a tolerance, and coordinates of linear programs."""

from typing import Any

import numpy as np

from learndyn.core.curves import Curves
from learndyn.core.method import Method
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads
from learndyn.families.program.loop import loop_of, table_of
from learndyn.problem.checks import boolean, number, optional
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Coordinates, Limit
from learndyn.programs.backends import Backend
from learndyn.sampling.batches import SEEDS, Sampling, Setting
from learndyn.sampling.method import SampledMethod
from learndyn.sampling.trainee import ProgramTrainee


class ExactLimit(Method):
    """The limit of a linear program, exact to rounding and without samples.

    A program is linear if everything it averages is a product of at most two vectors that are linear in the Gaussian
    ones. Functions of averages are free.

    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-12 unless given.
    """

    drop: float = field(number(minimum=0, below=0.1), default=1e-12)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = setting_of(problem, record, seed, Limit())
        curves, run = setting.carried_out(Coordinates(drop=self.drop), report)
        return curves.told(
            ranks={name: list(ranks) for name, ranks in run.ranks.items()},
            dropped=run.dropped,
            orthonormality=run.orthonormality,
        )

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = setting_of(problem, Record.of(problem.training), seed, Limit())
        return setting.begin(Coordinates(drop=self.drop), None)


class SampledLimit(SampledMethod):
    """The limit of any program, by independent batches of samples of every dimension's site.

    The mean of the batches is the result, and their spread gives its standard error. Batches are also run on the halves
    of their points, which shows the bias of order 1/samples. Where the bias is seen, it is extrapolated away. With a
    `tolerance`, a pilot finds out how many samples that takes, and more are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1. Not given:
      a number of samples is run.
    - `samples`: samples of a batch, a power of two. Not given: 2048, or five for each direction of the fullest
      dimension; with a tolerance, as many as it takes.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    - `extrapolate`: whether the bias is removed. Not given: where it is seen. False saves the halves, half of the time.
    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-3 unless given.
    """

    extrapolate: bool | None = field(optional(boolean), default=None)
    drop: float = field(number(minimum=0, below=0.1), default=1e-3)

    def setting(self, problem: Problem, record: Record, seed: int) -> Setting:
        single = self.precision == "single"
        return setting_of(problem, record, seed, Limit(drop=self.drop, single=single))

    @property
    def judges_bias(self) -> bool:
        return self.extrapolate is not False

    @property
    def needs_halves(self) -> bool:
        return bool(self.extrapolate)

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = self.setting(problem, Record.of(problem.training), seed)
        like = setting.with_samples(self.samples or self.enough_samples(setting))
        backends = [like.reseeded(seed * SEEDS + batch) for batch in range(self.batches)]
        return SampledRun(like.samples, [setting.begin(backend, None) for backend in backends])

    def extrapolates(self, sampling: Sampling) -> bool:
        if not sampling.batches[0].halves:
            return False
        return bool(self.extrapolate) or sampling.bias_is_seen()


def setting_of(problem: Problem, record: Record, seed: int, like: Limit) -> Setting:
    """What is run for a problem."""
    loop, table = loop_of(problem, record), table_of(problem)
    names = [quantity.name for quantity in table]

    def begin(backend: Backend, record: Record | None) -> ProgramTrainee:
        return ProgramTrainee(loop, backend, names, record)

    return Setting(like, begin, table, record, seed)


class SampledRun(Progressing):
    """The limit of a program, all batches side by side: the observables are their means."""

    now: int = 0

    def __init__(self, samples: int, batches: list[ProgramTrainee]):
        self._samples, self._batches = samples, batches

    def advance(self, states: Any, report: Report) -> int:
        runs = dict(enumerate(self._batches))

        def advanced(number: int, _: Report) -> int:
            return runs[number].advance(states, lambda state: None)

        count = min(dict(in_threads(advanced, runs)).values())
        if count:
            self.now = int(states[count - 1])
        return count

    def arrays(self) -> dict[str, np.ndarray]:
        each = [batch.arrays() for batch in self._batches]
        count = min(len(array) for arrays in each for array in arrays.values())
        return {
            name: np.mean([arrays[name][:count] for arrays in each], axis=0) for name in each[0]
        }

    def observe(self) -> dict[str, np.ndarray]:
        each = [batch.observe() for batch in self._batches]
        return {name: np.mean([arrays[name] for arrays in each], axis=0) for name in each[0]}

    def after(self) -> int:
        return self.now + 1

    def evidence(self) -> dict[str, Any]:
        return {"samples": self._samples, "batches": len(self._batches)}
