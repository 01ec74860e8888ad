"""Batches of samples of a program's limit: run, averaged, and their bias of order 1/samples.

A batch of S samples gives F(S) = F + c/S + noise. On the two halves of the same points it gives F_1 and F_2 at S/2
samples, so that H = ½(F_1 + F_2) estimates F + 2c/S: H − F(S) is the bias of F(S), and 2F(S) − H is without it.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from learndyn.core.curves import Curves, Table, averaged, of_batches
from learndyn.core.progressing import Report, of_states
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import Interrupted, ProgramError
from learndyn.numerics.max_t import max_t_test
from learndyn.numerics.statistics import mean_and_error
from learndyn.programs.backends import Backend, Limit
from learndyn.programs.run import ProgramRun
from learndyn.sampling.trainee import ProgramTrainee

SEEN = 0.01
"""A bias counts as seen if batches without one would show as much with this chance."""
SEEDS = 2**20
"""Batches that a seed may have."""
GROWTH_OF_TIME = 0.8
"""Time grows as this power of the samples, fitted from 1024 to 16384: few samples leave processors idle."""
FULLEST = 0.2
"""Directions per sample of the fullest dimension above which users are warned: a rule of thumb, not measured."""


def _as_it_is(batches: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return batches


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is run, and how its batches become curves.

    - `like`: the back end, with another number of samples and seed for every batch.
    - `begin`: makes the program at its beginning in a back end; all states may be kept unless a record says which.
    - `table`, `record`, `seed`: what it records, which states are kept, and the seed.
    - `labels`: the labels of axes that are not numbered from 0. None unless given.
    - `combined`: from the arrays of all batches, along a first axis, to those that are averaged. Functions of averages,
      such as losses, are jackknifed here. The batches' own arrays unless given.
    - `aside`: observables of which the first batch is taken, because they have no mean. None unless given.
    - `doubtful`: observables that a tolerance does not concern. None unless given.
    - `kept_bytes`: memory for each sample of what is kept beside matrices and dimensions. 0 unless given.
    """

    like: Limit
    begin: Callable[[Backend, Record | None], ProgramTrainee]
    table: Table
    record: Record
    seed: int
    labels: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    combined: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = _as_it_is
    aside: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    kept_bytes: float = 0.0

    def with_samples(self, samples: int) -> Limit:
        """The back end of a batch of so many samples."""
        return dataclasses.replace(self.like, samples=samples)

    def carried_out(self, backend: Backend, report: Report) -> tuple[Curves, ProgramRun]:
        """The program, run to the end of the record or until it diverges."""
        at, trainee = self.record.at, self.begin(backend, self.record)
        try:
            reached = trainee.advance(at, of_states(report, at[-1]))
        except ProgramError as error:
            error.curves = self._unfinished(error.run)
            raise
        curves = Curves(self.table, self.record, trainee.arrays(), reached, labels=self.labels)
        return curves, trainee.outcome

    def averaged(self, batches: Sequence[Curves]) -> Curves:
        """The mean over batches with standard errors, at the states that all reached."""
        count, first = min(curves.count for curves in batches), batches[0]
        cut = [curves.cut(count) for curves in batches]
        names = [name for name in first.arrays if name not in self.aside]
        stacked = self.combined(
            {name: np.stack([curves[name] for curves in cut]) for name in names}
        )
        mean = of_batches(first, stacked, count)
        alone = {name: cut[0][name] for name in self.aside if name in first.arrays}
        return dataclasses.replace(mean, arrays=mean.arrays | alone)

    def _unfinished(self, run: ProgramRun | None) -> Curves | None:
        """The states that a program recorded before it failed."""
        if run is None or not run.records:
            return None
        states = min(len(values) for values in run.records.values())
        at = self.record.at[self.record.at < states]
        if not len(at) or self.record.axis == "time":
            return None
        arrays = {q.name: run.records[q.name][at] for q in self.table if q.name in run.records}
        return Curves(self.table, self.record.moved_to(at), arrays)


class Batch(NamedTuple):
    """One batch: its curves, those on the halves of its points, how its matrices were represented, and its seconds."""

    curves: Curves
    halves: tuple[Curves, ...]
    run: ProgramRun
    seconds: float

    @property
    def states(self) -> int:
        """The number of states that all its runs reached."""
        return min(curves.count for curves in (self.curves, *self.halves))

    def bias(self) -> Curves:
        """H − F(S)."""
        first, second = (half.cut(self.states) for half in self.halves)
        whole = self.curves.cut(self.states)
        arrays = {n: (first[n] + second[n]) / 2 - x for n, x in whole.arrays.items()}
        return dataclasses.replace(whole, arrays=arrays)

    def extrapolated(self) -> Curves:
        """2F(S) − H."""
        bias, whole = self.bias(), self.curves.cut(self.states)
        arrays = {name: x - bias[name] for name, x in whole.arrays.items()}
        return dataclasses.replace(whole, arrays=arrays)


class Sampling(NamedTuple):
    """Batches of so many `samples` each."""

    setting: Setting
    samples: int
    batches: tuple[Batch, ...]

    def joined(self, more: "Sampling") -> "Sampling":
        """These batches and more of the same; halves count only if all have them."""
        batches = (*self.batches, *more.batches)
        if not all(batch.halves for batch in batches):
            batches = tuple(batch._replace(halves=()) for batch in batches)
        return self._replace(batches=batches)

    @property
    def bytes(self) -> float:
        """The memory of one batch."""
        return max(batch.run.bytes for batch in self.batches)

    def cost(self, samples: int, batches: int) -> tuple[float, float]:
        """Seconds and bytes of so many batches of so many samples on all cores, by what these batches cost."""
        at_once, ratio = workers(batches), samples / self.samples
        kept = self.setting.kept_bytes * samples
        seconds = self.seconds * ratio**GROWTH_OF_TIME * batches / at_once
        return seconds, at_once * (self.bytes * ratio + kept)

    @property
    def seconds(self) -> float:
        """The mean time of a batch."""
        return float(np.mean([batch.seconds for batch in self.batches]))

    @property
    def directions(self) -> float:
        """Directions of the fullest dimension."""
        return self.samples * max(batch.run.fullness for batch in self.batches)

    def bias(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The bias of every observable and its standard error; empty if halves were not run."""
        if not self.batches[0].halves:
            return {}
        curves = averaged([batch.bias() for batch in self.batches])
        return {name: (curves[name], curves.errors[name]) for name in curves.arrays}

    def bias_is_seen(self) -> bool:
        """Whether the batches show a bias in any observable."""
        if not self.batches[0].halves:
            return False
        each = [batch.bias() for batch in self.batches]
        count, names = min(curves.count for curves in each), list(each[0].arrays)
        for name in names:
            values = np.stack([curves.cut(count)[name].ravel() for curves in each])
            moving = mean_and_error(values)[1] > 0
            if np.any(moving) and max_t_test(values[:, moving], 0.0, SEEN)[1] < SEEN / len(names):
                return True
        return False

    def curves(self, extrapolate: bool, **evidence: Any) -> Curves:
        """The mean of the batches with standard errors, and how it was obtained."""
        each = [batch.extrapolated() if extrapolate else batch.curves for batch in self.batches]
        runs = [batch.run for batch in self.batches]
        fullness = max(run.fullness for run in runs)
        bias = {name: float(np.max(np.abs(b), initial=0.0)) for name, (b, _) in self.bias().items()}
        curves = self.setting.averaged(each).told(
            samples=self.samples,
            batches=len(self.batches),
            extrapolated=extrapolate,
            **({"bias": bias} if bias else {}),
            ranks={
                name: np.max([run.ranks[name] for run in runs], axis=0).tolist()
                for name in runs[0].ranks
            },
            dropped=max(run.dropped for run in runs),
            orthonormality=max(run.orthonormality for run in runs),
            fullness=fullness,
            bytes=max(run.bytes for run in runs),
            **({"nodes": max(run.nodes for run in runs)} if runs[0].nodes else {}),
            **evidence,
        )
        if fullness > FULLEST:
            text = (
                f"{self.samples} samples are few for {round(fullness * self.samples)} directions of a dimension, and "
                "the result may be off by more than its standard errors; use more samples"
            )
            curves = curves.told(warnings=[text])
        return dataclasses.replace(curves, batches={})


def sampled(
    setting: Setting, samples: int, numbers: Iterable[int], halves: bool, report: Report
) -> Sampling:
    """Run batches of so many samples on all cores. Ctrl-C leaves the mean of those that are finished in the error."""
    like = setting.with_samples(samples)
    finished: dict[int, Batch] = {}

    def run(number: int, advance: Report) -> Batch:
        backend, start = like.reseeded(setting.seed * SEEDS + number), time.perf_counter()
        # All samples take as long as both halves.
        shares = (0.5, 0.25, 0.25) if halves else (1.0,)
        outcomes, done = [], 0.0
        for part, share in zip(_parts(backend, halves), shares, strict=True):

            def advanced(x: float, done: float = done, share: float = share) -> None:
                advance(done + share * x)

            outcomes.append(setting.carried_out(part, advanced))
            done += share
        (curves, outcome), *rest = outcomes
        seconds = time.perf_counter() - start
        return Batch(curves, tuple(half for half, _ in rest), outcome, seconds)

    try:
        finished |= in_threads(run, numbers, report)
    except KeyboardInterrupt as error:
        interrupted = Interrupted()
        if len(finished) > 1:
            part = Sampling(setting, samples, tuple(finished.values()))
            interrupted.curves = part.curves(extrapolate=False)
        raise interrupted from error
    in_order = tuple(finished[number] for number in sorted(finished))
    return Sampling(setting, samples, in_order)


def _parts(backend: Limit, halves: bool) -> Iterator[Limit]:
    """The back end, and with `halves` the two halves of its points."""
    yield backend
    if halves:
        yield from (dataclasses.replace(backend, half=number) for number in (0, 1))
