"""The methods for programs: samples of the limit, to a number or to a tolerance, and coordinates of linear programs."""

import dataclasses
import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import psutil

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves, Table, averaged
from learndyn.core.method import Method, Way
from learndyn.core.progress import note
from learndyn.core.progressing import Progressing, Report, of_states
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import Interrupted, NotConverged, ProgramError, TooFewSamples
from learndyn.families.program.finite import ProgramTrainee
from learndyn.families.program.loop import Loop, loop_of, table_of
from learndyn.problem.checks import choice, number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Coordinates, Limit, ProgramRun
from learndyn.programs.backends import Backend

FEWEST_SAMPLES = 2048
"""Samples of a batch unless given; more if a dimension has many directions."""
PILOT_SAMPLES = 1024
FULLEST = 0.2
"""Directions per sample of the fullest dimension, up to which a bias has not been seen beyond the error."""
SEEDS = 2**20
"""Batches that a seed may have."""
MOST_BATCHES = 4096
SHARE_OF_MEMORY = 0.5
"""Of the free memory, what batches may fill."""


class Setting(NamedTuple):
    """What is run: the loop, what it records, which states are kept, and the seed."""

    loop: Loop
    table: Table
    record: Record
    seed: int

    @classmethod
    def of(cls, problem: Problem, record: Record, seed: int) -> "Setting":
        """The setting of a problem."""
        return cls(loop_of(problem), table_of(problem), record, seed)

    def trainee(self, backend: Backend, record: Record | None = None) -> ProgramTrainee:
        """The program at its beginning; all states may be kept unless a record says which."""
        names = [quantity.name for quantity in self.table]
        return ProgramTrainee(self.loop, backend, names, record)

    def outcome(self, backend: Backend, report: Report) -> "Batch":
        """The program, run to the end of the record or until it diverges."""
        start, at = time.thread_time(), self.record.at
        trainee = self.trainee(backend, self.record)
        try:
            reached = trainee.advance(at, of_states(report, at[-1]))
        except ProgramError as error:
            error.curves = self.unfinished(error.run)
            raise
        curves = Curves(self.table, self.record, trainee.arrays(), reached)
        return Batch(curves, trainee.outcome, time.thread_time() - start)

    def unfinished(self, run: ProgramRun | None) -> Curves | None:
        """The states that a program recorded before it failed."""
        if run is None or not run.records:
            return None
        states = min(len(values) for values in run.records.values())
        at = self.record.at[self.record.at < states]
        if not len(at):
            return None
        arrays = {q.name: run.records[q.name][at] for q in self.table if q.name in run.records}
        return Curves(self.table, self.record.moved_to(at), arrays)


class Batch(NamedTuple):
    """One batch: its curves, how its matrices were represented, and the seconds it took."""

    curves: Curves
    run: ProgramRun
    seconds: float


class ExactLimit(Method):
    """The limit of a linear program, exact to rounding and without samples.

    A program is linear if everything it averages is a product of at most two vectors that are linear in the Gaussian
    ones. Functions of averages are free.

    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-12 unless given.
    """

    drop: float = field(number(minimum=0, below=0.1), default=1e-12)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        batch = Setting.of(problem, record, seed).outcome(Coordinates(drop=self.drop), report)
        return batch.curves.told(
            ranks={name: list(ranks) for name, ranks in batch.run.ranks.items()},
            dropped=batch.run.dropped,
            orthonormality=batch.run.orthonormality,
        )

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = Setting.of(problem, Record.of(problem.training), seed)
        return setting.trainee(Coordinates(drop=self.drop))


class SampledLimit(Method):
    """The limit of any program, by independent batches of samples of every dimension's site.

    The mean of the batches is the result, and their spread gives its standard error. With a `tolerance`, a pilot finds
    out how many samples that takes, and more batches are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1. Not given:
      a number of samples is run.
    - `samples`: samples of a batch, a power of two. Not given: 2048, or five for each direction of the fullest
      dimension.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `drop`: a matrix leaves out what is shorter than this part of a vector. 1e-3 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    """

    tolerance: float | None = field(optional(number(above=0)), default=None)
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)
    drop: float = field(number(minimum=0, below=0.1), default=1e-3)
    precision: str = field(choice("single", "double"), default="single")

    def way(self, problem: Problem) -> Way:
        return "alone"

    def backend(self, samples: int, seed: int, batch: int) -> Limit:
        """The samples of one batch."""
        single = self.precision == "single"
        return Limit(samples, seed * SEEDS + batch, drop=self.drop, single=single)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = Setting.of(problem, record, seed)
        if self.tolerance is not None:
            return self._to_tolerance(setting, self.tolerance, report)
        samples = self.samples or self._enough_samples(setting)
        return self._averaged(samples, self._batches(setting, samples, range(self.batches), report))

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        setting = Setting.of(problem, Record.of(problem.training), seed)
        samples = self.samples or self._enough_samples(setting)
        backends = [self.backend(samples, seed, batch) for batch in range(self.batches)]
        return SampledRun([setting.trainee(backend) for backend in backends])

    def _enough_samples(self, setting: Setting) -> int:
        """A number of samples of which the directions fill no more than a fifth."""
        samples, (pilot,) = self._pilot(setting, 1, lambda done: None)
        directions = pilot.run.fullness * samples
        return max(FEWEST_SAMPLES, 2 ** math.ceil(math.log2(max(directions / FULLEST, 1.0))))

    def _pilot(self, setting: Setting, count: int, report: Report) -> tuple[int, list[Batch]]:
        """A few batches of few samples; more samples if those are too few."""
        samples = PILOT_SAMPLES
        while True:
            try:
                return samples, self._batches(setting, samples, range(count), report)
            except TooFewSamples as error:
                samples = max(2 * samples, error.needed)

    def _batches(
        self, setting: Setting, samples: int, numbers: Iterable[int], report: Report
    ) -> list[Batch]:
        """Run batches on all cores; Ctrl-C leaves those that are finished in the error."""
        finished: dict[int, Batch] = {}

        def run(number: int, advance: Report) -> Batch:
            return setting.outcome(self.backend(samples, setting.seed, number), advance)

        try:
            finished |= in_threads(run, numbers, report)
        except KeyboardInterrupt as error:
            interrupted = Interrupted()
            if len(finished) > 1:
                interrupted.curves = self._averaged(samples, list(finished.values()))
            raise interrupted from error
        return [finished[number] for number in sorted(finished)]

    def _averaged(self, samples: int, batches: list[Batch], **evidence: Any) -> Curves:
        """Means with standard errors, and how they were obtained."""
        runs = [batch.run for batch in batches]
        fullness = max(run.fullness for run in runs)
        curves = averaged([batch.curves for batch in batches]).told(
            samples=samples,
            batches=len(batches),
            ranks={
                name: list(np.max([run.ranks[name] for run in runs], axis=0))
                for name in runs[0].ranks
            },
            dropped=max(run.dropped for run in runs),
            orthonormality=max(run.orthonormality for run in runs),
            fullness=fullness,
            bytes=max(run.bytes for run in runs),
            **evidence,
        )
        if fullness > FULLEST:
            text = (
                f"{samples} samples are few for {round(fullness * samples)} directions of a dimension, so that the bias "
                "may exceed the standard errors; use more samples"
            )
            curves = curves.told(warnings=[text])
        return dataclasses.replace(curves, batches={})

    def _to_tolerance(self, setting: Setting, tolerance: float, report: Report) -> Curves:
        """A pilot, then batches of as many samples as it calls for, until the standard errors are small enough."""
        samples, pilot = self._pilot(setting, self.batches, lambda done: report(0.1 * done))
        if self.samples is not None and self.samples != samples:
            pilot = self._batches(setting, self.samples, range(self.batches), report)
            samples = self.samples
        batches = pilot
        excess = _excess(self._averaged(samples, pilot), tolerance)
        if excess > 1 and self.samples is None:
            larger = self._larger(samples, pilot, excess)
            if larger > samples:
                self._announce(samples, pilot, larger, excess, tolerance)
                batches = self._batches(
                    setting, larger, range(self.batches), lambda done: report(0.1 + 0.4 * done)
                )
                samples = larger
        while (excess := _excess(self._averaged(samples, batches), tolerance)) > 1:
            # A tenth more than the spread calls for, because the spread of few batches is not known well.
            count = max(len(batches) + 1, math.ceil(1.1 * len(batches) * excess**2))
            if count > MOST_BATCHES:
                largest = tolerance * excess
                raise NotConverged(
                    f"the standard error is {largest:.2g} after {len(batches)} batches of {samples} samples; a tolerance of "
                    f"{tolerance:g} would take {count} batches. Use a larger tolerance or more samples"
                )
            self._announce(samples, batches, samples, excess, tolerance)
            batches += self._batches(
                setting, samples, range(len(batches), count), lambda done: report(0.5 + 0.5 * done)
            )
        return self._averaged(samples, batches, tolerance=tolerance)

    def _larger(self, samples: int, pilot: list[Batch], excess: float) -> int:
        """The smallest number of samples that reaches the tolerance with the same batches, if memory allows it."""
        # Errors fall at least as one over the square root of the samples.
        wanted = samples * 2 ** math.ceil(math.log2(excess**2))
        each = max(batch.run.bytes for batch in pilot) / samples * workers(self.batches)
        room = SHARE_OF_MEMORY * psutil.virtual_memory().available / max(2 * each, 1.0)
        most = 2 ** math.floor(math.log2(max(room, samples)))
        return max(samples, min(wanted, most))

    def _announce(
        self, samples: int, batches: list[Batch], next_samples: int, excess: float, tolerance: float
    ) -> None:
        """Say what the tolerance will cost."""
        sampled = np.mean([batch.seconds for batch in batches]) / samples
        total = samples * len(batches) * excess**2
        at_once = workers(max(2, math.ceil(total / next_samples)))
        memory = max(batch.run.bytes for batch in batches) / samples * next_samples * at_once
        note(
            f"standard error {tolerance * excess:.2g} so far; {tolerance:g} takes about {total:.2g} samples in batches of "
            f"{next_samples}, {sampled * total / at_once:.2g} s on {at_once} cores, {memory / 2**20:.3g} MB"
        )


def _excess(curves: Curves, tolerance: float) -> float:
    """The largest standard error in units of the tolerance."""
    shares = [
        np.max(error, initial=0.0) / max(1.0, np.max(np.abs(curves[name]), initial=0.0))
        for name, error in curves.errors.items()
    ]
    return float(max(shares, default=0.0)) / tolerance


class SampledRun(Progressing):
    """The limit of a program, all batches side by side: the observables are their means."""

    now: int = 0

    def __init__(self, batches: list[ProgramTrainee]):
        self._batches = batches

    def advance(self, states: Any, report: Report) -> int:
        runs = dict(enumerate(self._batches))
        reached = dict(
            in_threads(lambda number, _: runs[number].advance(states, lambda state: None), runs)
        )
        count = min(reached.values())
        if count:
            self.now = states[count - 1]
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
        return {"batches": len(self._batches)}
