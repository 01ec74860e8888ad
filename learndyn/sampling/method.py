"""The base of the methods that sample the limit of a program, to a number of samples or to a tolerance."""

import abc
import math

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.errors import TooFewSamples
from learndyn.problem.checks import choice, number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.sampling.batches import FULLEST, Sampling, Setting, sampled
from learndyn.sampling.forecast import forecast, piloted
from learndyn.sampling.tolerance import sampled_to_tolerance

MANY_SAMPLES = 8192
"""From so many samples on, a pilot tells what they will take."""
USUAL_SAMPLES = 2048
"""Samples of a batch unless given; more if a dimension has many directions."""


class SampledMethod(Method, abstract=True):
    """Base of the methods that sample every dimension's site in independent batches.

    The mean of the batches is the result, and their spread gives its standard error. With a `tolerance`, a pilot finds
    out how many samples that takes, and more are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1. Not given:
      a number of samples is run.
    - `samples`: samples of a batch, a power of two. Not given: 2048, or five for each direction of the fullest
      dimension; with a tolerance, as many as it takes.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    """

    tolerance: float | None = field(optional(number(above=0)), default=None)
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)
    precision: str = field(choice("single", "double"), default="single")

    @abc.abstractmethod
    def setting(self, problem: Problem, record: Record, seed: int) -> Setting:
        """What is run, and in which back end."""

    @property
    def judges_bias(self) -> bool:
        """Whether batches are run on their halves too, which shows the bias."""
        return False

    @property
    def needs_halves(self) -> bool:
        """Whether batches without halves are of no use."""
        return False

    def extrapolates(self, sampling: Sampling) -> bool:
        """Whether the bias is removed from these batches."""
        return False

    def way(self, problem: Problem) -> Way:
        """One problem at a time, because batches run on all cores."""
        return "alone"

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = self.setting(problem, record, seed)
        if self.tolerance is not None:
            return sampled_to_tolerance(self, setting, self.tolerance, report)
        samples = self._samples_to_run(setting)
        sampling = self._sampled(setting, samples, self.batches, self.judges_bias, report)
        return sampling.curves(self.extrapolates(sampling))

    def pilot(self, setting: Setting, count: int, halves: bool, report: Report) -> Sampling:
        """The first batches on the way to a tolerance: of few samples, unless the user says how many."""
        if self.samples is None:
            return piloted(setting, count, halves, report)
        return self._sampled(setting, self.samples, count, halves, report)

    def _sampled(
        self, setting: Setting, samples: int, count: int, halves: bool, report: Report
    ) -> Sampling:
        """The first batches; without halves if the user's samples are enough, but half of them are not."""
        try:
            return sampled(setting, samples, range(count), halves, report)
        except TooFewSamples:
            if not halves or self.needs_halves or self.samples is None:
                raise
        return sampled(setting, samples, range(count), False, report)

    def enough_samples(self, setting: Setting) -> int:
        """A number of samples of which the directions fill no more than a fifth."""
        return _enough(piloted(setting))

    def _samples_to_run(self, setting: Setting) -> int:
        """The samples of a batch. What many of them will take is said, and too much memory is refused."""
        if self.samples is not None and self.samples < MANY_SAMPLES:
            return self.samples
        pilot = piloted(setting)
        samples = self.samples or _enough(pilot)
        forecast(pilot, samples, self.batches)
        return samples


def _enough(pilot: Sampling) -> int:
    """A number of samples of which the directions of a pilot fill no more than a fifth."""
    return max(USUAL_SAMPLES, 2 ** math.ceil(math.log2(max(pilot.directions / FULLEST, 1.0))))
