"""The methods for programs: samples of the limit, to a number or to a tolerance, and coordinates of linear programs."""

import math
from typing import Any

import numpy as np

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads
from learndyn.errors import TooFewSamples
from learndyn.families.program.finite import ProgramTrainee
from learndyn.families.program.sampling import FULLEST, SEEDS, Sampling, Setting, sampled
from learndyn.families.program.tolerance import sampled_to_tolerance
from learndyn.problem.checks import boolean, choice, number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Coordinates, Limit

PILOT_SAMPLES = 1024
"""Samples of a batch of the pilot."""
USUAL_SAMPLES = 2048
"""Samples of a batch unless given; more if a dimension has many directions."""


class ExactLimit(Method):
    """The limit of a linear program, exact to rounding and without samples.

    A program is linear if everything it averages is a product of at most two vectors that are linear in the Gaussian
    ones. Functions of averages are free.

    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-12 unless given.
    """

    drop: float = field(number(minimum=0, below=0.1), default=1e-12)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = Setting.of(problem, record, seed)
        curves, run = setting.carried_out(Coordinates(drop=self.drop), report)
        return curves.told(
            ranks={name: list(ranks) for name, ranks in run.ranks.items()},
            dropped=run.dropped,
            orthonormality=run.orthonormality,
        )

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = Setting.of(problem, Record.of(problem.training), seed)
        return setting.trainee(Coordinates(drop=self.drop))


class SampledLimit(Method):
    """The limit of any program, by independent batches of samples of every dimension's site.

    The mean of the batches is the result, and their spread gives its standard error. Batches are also run on the halves
    of their points, which shows the bias of order 1/samples. Where the bias is seen, it is extrapolated away. With a
    `tolerance`, a pilot finds out how many samples that takes, and more are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1. Not given:
      a number of samples is run.
    - `samples`: samples of a batch, a power of two. Not given: 2048, or five for each direction of the fullest
      dimension; with a tolerance, as many as it takes.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `extrapolate`: whether the bias is removed. Not given: where it is seen. False saves the halves, half of the time.
    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-3 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    """

    tolerance: float | None = field(optional(number(above=0)), default=None)
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)
    extrapolate: bool | None = field(optional(boolean), default=None)
    drop: float = field(number(minimum=0, below=0.1), default=1e-3)
    precision: str = field(choice("single", "double"), default="single")

    def way(self, problem: Problem) -> Way:
        """One problem at a time, because batches run on all cores."""
        return "alone"

    def backend(self, samples: int) -> Limit:
        """Samples for one batch."""
        return Limit(samples, drop=self.drop, single=self.precision == "single")

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = Setting.of(problem, record, seed)
        if self.tolerance is not None:
            return sampled_to_tolerance(self, setting, self.tolerance, report)
        samples = self.samples or self._enough_samples(setting)
        sampling = self._sampled(
            setting, samples, self.batches, self.extrapolate is not False, report
        )
        return sampling.curves(self.extrapolates(sampling))

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = Setting.of(problem, Record.of(problem.training), seed)
        like = self.backend(self.samples or self._enough_samples(setting))
        backends = [like.reseeded(seed * SEEDS + batch) for batch in range(self.batches)]
        return SampledRun(like.samples, [setting.trainee(backend) for backend in backends])

    def extrapolates(self, sampling: Sampling) -> bool:
        """Whether the bias is removed from these batches."""
        if not sampling.batches[0].halves:
            return False
        return bool(self.extrapolate) or sampling.bias_is_seen()

    def pilot(self, setting: Setting, count: int, halves: bool, report: Report) -> Sampling:
        """Batches of few samples; more samples if those are too few."""
        samples = self.samples or PILOT_SAMPLES
        while True:
            try:
                return self._sampled(setting, samples, count, halves, report)
            except TooFewSamples as error:
                if self.samples is not None:
                    raise
                samples = max(2 * samples, error.needed)

    def _sampled(
        self, setting: Setting, samples: int, count: int, halves: bool, report: Report
    ) -> Sampling:
        """The first batches; without halves if the user's samples are enough, but half of them are not."""
        like, numbers = self.backend(samples), range(count)
        try:
            return sampled(setting, like, numbers, halves, report)
        except TooFewSamples:
            if not halves or self.extrapolate or self.samples is None:
                raise
        return sampled(setting, like, numbers, False, report)

    def _enough_samples(self, setting: Setting) -> int:
        """A number of samples of which the directions fill no more than a fifth."""
        directions = self.pilot(setting, 1, False, lambda done: None).directions
        return max(USUAL_SAMPLES, 2 ** math.ceil(math.log2(max(directions / FULLEST, 1.0))))


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
