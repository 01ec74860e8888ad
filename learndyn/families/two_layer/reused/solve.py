"""`CausalSampling`: the limit of a two-layer network on a reused dataset, in one forward pass over sampled examples."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves, averaged
from learndyn.core.method import Method, Way
from learndyn.core.progress import notes_are_shown
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import NotConverged, ProblemError, TooFewSamples
from learndyn.families.two_layer.observables import TABLE, drops
from learndyn.families.two_layer.reused.equations import ReusedSetting, ReusedTraining
from learndyn.families.two_layer.reused.revealed import INPUTS, trained
from learndyn.families.two_layer.reused.time_grid import TimeSteps, time_grid
from learndyn.families.two_layer.reused.traced import TracedInputs, has_kink
from learndyn.families.two_layer.student_teacher import (
    OrderParameters,
    on_the_population,
    rule_of_test_loss,
    student_teacher,
)
from learndyn.problem.checks import choice, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Limit, ProgramRun, run
from learndyn.sampling.batches import Batch, Sampling, sampled
from learndyn.sampling.forecast import piloted, require_room, say_forecast

TRACED_SAMPLES, REVEALED_SAMPLES = 1024, 8192
"""Examples per batch unless the user says how many."""
DROP = 1e-3
"""Revealed inputs open no direction for what is shorter than this part of a vector."""
UNTRUSTED_SHARE = 0.05
"""If one sample of all batches carries more than this share of an average, its error bar cannot be trusted."""
TEST_POINTS = 2**12
"""Points of the quadrature rule for the test loss."""
PATH = "path"
"""The key of a run's `Path` in the evidence of its curves, until the batches are averaged."""


class CausalSampling(TimeSteps, Method):
    """Solve forward in training time, without iteration: each state follows from those before it.

    Examples are sampled in several independent solves, or batches, with quasi-random normals. The mean of the batches
    is the result, and their spread gives its standard error. The error falls as 1/√(samples·batches) or faster; the
    bias of a batch is of order 1/samples. A seed gives the same examples for every problem.

    - `inputs`: how the inputs act on an example. "traced": through its response to its own past, which needs a smooth
      activation; gives the response functions R_w, R_h and R_star; takes the cube of the number of steps. "revealed":
      through products of the input matrix; takes any activation and many steps, with more noise and bias for the same
      samples. Its batches are also run on halves of their examples, which shows the bias; where it is seen, it is
      extrapolated away. "automatic", traced unless the activation has a kink, unless given.
    - `samples`: examples per batch, a power of two. Not given: 1024 for traced inputs, 8192 for revealed ones, or more
      if the directions that training opens need them.
    - `batches`: independent batches, at least two. 8 unless given.
    """

    libraries = ("numba",)

    inputs: str = field(choice("automatic", "traced", "revealed"), default="automatic")
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)

    def way(self, problem: Problem) -> Way:
        return "alone"

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """Means over batches, with standard errors."""
        grid = time_grid(problem, self)
        saved = record.nearest(grid.times)
        setting = setting_of(problem, self)._replace(grid=grid.until(int(saved[-1])))
        runs = Runs(setting, saved, record.moved_to(grid.times[saved]), seed)
        if self._revealed(problem):
            return _of_revealed(self._sampled(runs, report), setting)
        samples = self.samples or TRACED_SAMPLES
        of_batch = functools.partial(TracedInputs.memory, setting)
        runs.check_memory(of_batch, samples, self.batches)
        if notes_are_shown():
            seconds = TracedInputs.seconds(setting, samples) * self.batches / workers(self.batches)
            say_forecast(
                samples, self.batches, seconds, runs.memory(of_batch, samples, self.batches)
            )
        seeds = np.random.SeedSequence(seed).spawn(self.batches)
        work = functools.partial(runs.traced, samples, seeds)
        batches = [curves for _, curves in sorted(in_threads(work, range(self.batches), report))]
        paths = [curves.evidence[PATH] for curves in batches]
        losses = [np.stack([path.train, path.test]) for path in paths]
        curves = averaged(batches).told(samples=samples, batches=self.batches, inputs="traced")
        return _finished(curves, losses, paths, setting)

    def _revealed(self, problem: Problem) -> bool:
        kink = has_kink(problem.network.activation)
        if self.inputs == "traced" and kink:
            allowed = "must be 'revealed': the activation has a kink, and tracing needs its second derivative"
            raise ProblemError("CausalSampling.inputs", self.inputs, allowed)
        return kink if self.inputs == "automatic" else self.inputs == "revealed"

    def _sampled(self, runs: "Runs", report: Report) -> Sampling:
        """Batches of revealed inputs, with halves if half of the samples are enough."""
        samples, halves = self.samples or REVEALED_SAMPLES, True
        while True:
            runs.check_memory(runs.revealed_memory, samples, self.batches)
            if notes_are_shown() and samples >= REVEALED_SAMPLES:
                seconds, memory = piloted(runs).cost(samples, self.batches)
                say_forecast(samples, self.batches, (1 + halves) * seconds, memory)
            try:
                return sampled(runs, samples, range(self.batches), halves, report)
            except TooFewSamples as error:
                if self.samples is None:
                    samples = max(2 * samples, error.needed)
                elif halves:
                    halves = False
                else:
                    raise


def setting_of(problem: Problem, steps: TimeSteps) -> ReusedSetting:
    """A problem as arrays, with the steps of a method."""
    pair, start = student_teacher(problem)
    data, training = problem.data, problem.training
    return ReusedSetting(
        pair,
        start,
        ratio=float(data.ratio),
        fraction=1.0 if data.batch_ratio is None else float(data.batch_ratio / data.ratio),
        grid=time_grid(problem, steps),
        momentum=float(training.momentum),
        decay=float(training.weight_decay),
        noise=float(data.noise),
        train_readout=bool(problem.network.train_readout),
    )


class Path(NamedTuple):
    """Train and test loss, sharpest curvature and largest share of a sample at all states that a run reached."""

    train: np.ndarray
    test: np.ndarray
    sharpest: np.ndarray
    share: np.ndarray


class Runs(NamedTuple):
    """What every batch runs: the setting, the states that are saved, their record, and the seed."""

    setting: ReusedSetting
    saved: np.ndarray
    record: Record
    seed: int

    kept_bytes = 0.0

    @staticmethod
    def averaged(batches: Sequence[Curves]) -> Curves:
        """The mean over batches with standard errors."""
        return averaged(batches)

    def traced(
        self, samples: int, seeds: Sequence[np.random.SeedSequence], number: int, report: Report
    ) -> Curves:
        """A batch of traced inputs."""
        training = ReusedTraining(self.setting, self.saved)
        inputs = TracedInputs(self.setting, samples, seeds[number])
        states = len(self.setting.grid.times)

        def reported(t: int) -> int:
            report((t / states) ** 3)
            return t

        training.follow(inputs, map(reported, range(states)))
        saved = self.saved[self.saved < training.reached]
        responses = {
            "R_w": inputs.R_w[saved][:, :, saved],
            "R_h": inputs.R_h[saved][:, :, saved],
            "R_star": inputs.R_star[saved],
        }
        training.share = [max(pair) for pair in zip(training.share, inputs.share, strict=False)]
        return self._curves(training, responses)

    def with_samples(self, samples: int) -> Limit:
        """The back end of a batch of revealed inputs."""
        return Limit(samples, drop=DROP, linear=(INPUTS,))

    def carried_out(self, backend: Limit, report: Report) -> tuple[Curves, ProgramRun]:
        """A run with revealed inputs."""
        training = ReusedTraining(self.setting, self.saved)
        program = functools.partial(trained, training=training)
        outcome = run(program, None, backend, lambda t, last: report(t / max(last, 1)))
        return self._curves(training, {}), outcome

    def _curves(self, training: ReusedTraining, responses: dict[str, np.ndarray]) -> Curves:
        """The observables at the states that are saved."""
        saved = self.saved[self.saved < training.reached]
        test, alignment = of_the_population(self.setting, training)
        path = Path(
            0.5 * np.array(training.loss),
            test,
            np.array(training.sharpest),
            np.array(training.share),
        )
        arrays = {
            "train_loss": path.train[saved],
            "test_loss": path.test[saved],
            "leading_gap": np.array(training.leading_gap),
            "kernel_alignment": alignment[saved],
            "Q": np.stack(training.Q)[saved],
            "R": np.stack(training.R)[saved],
            **training.two_time(),
            **responses,
        }
        if self.setting.train_readout:
            arrays["v"] = np.stack(training.v)[saved]
        return Curves(TABLE, self.record, arrays, len(saved), evidence={PATH: path})

    def revealed_memory(self, samples: int) -> float:
        """Bytes for one batch of revealed inputs."""
        setting, K = self.setting, self.setting.hidden
        # Every state may open K directions on both sides, which a basis, its images and their growth hold.
        most = setting.teachers + K + 2 + 2 * K * len(setting.grid.times)
        return 8.0 * samples * (5 * min(most, samples / 1.5) + K * len(self.saved))

    def memory(self, of_batch: Callable[[int], float], samples: int, batches: int) -> float:
        """Bytes for batches of so many samples, as many at a time as there are cores."""
        two_times = 8.0 * 6 * batches * (len(self.saved) * self.setting.hidden) ** 2
        return workers(batches) * of_batch(samples) + two_times

    def check_memory(self, of_batch: Callable[[int], float], samples: int, batches: int) -> None:
        """Refuse what the machine has no memory for, and say how many samples would fit."""
        require_room(
            lambda count: self.memory(of_batch, count, batches),
            samples,
            f"{len(self.setting.grid.tau)} steps with {samples} samples",
            "use larger steps or fewer recorded times",
        )


def of_the_population(setting: ReusedSetting, training: ReusedTraining) -> np.ndarray:
    """½⟨(y − ŷ)²⟩ on clean labels and the alignment of the kernel at every state that was reached."""
    # All runs of a length have one shape, so that those that diverge early need no new compilation.
    missing = len(setting.grid.times) - training.reached
    states = [
        np.stack(values + [values[-1]] * missing) for values in (training.Q, training.R, training.v)
    ]
    return population_averages(setting, *states)[:, : training.reached]


def population_averages(
    setting: ReusedSetting, Q: np.ndarray, R: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """½⟨(y − ŷ)²⟩ on clean labels and the alignment of the kernel, at states (the first axis of the overlaps)."""
    rule = rule_of_test_loss(setting.pair, sum(setting.start.R.shape), TEST_POINTS)
    states = OrderParameters(*map(jnp.asarray, (Q, R, v)))
    return np.asarray(on_the_population(setting.pair, rule, states))


def _of_revealed(sampling: Sampling, setting: ReusedSetting) -> Curves:
    """The mean of batches of revealed inputs, without their bias if it is seen."""
    extrapolate = sampling.bias_is_seen()
    losses = [_losses_of(batch, extrapolate) for batch in sampling.batches]
    paths = [batch.curves.evidence[PATH] for batch in sampling.batches]
    curves = sampling.curves(extrapolate, inputs="revealed")
    return _finished(curves, losses, paths, setting)


def _losses_of(batch: Batch, extrapolate: bool) -> np.ndarray:
    """Train and test loss of a batch at the states that all its runs reached, without bias if it is extrapolated."""
    paths = [curves.evidence[PATH] for curves in (batch.curves, *batch.halves)]
    reached = min(len(path.train) for path in paths)
    F, *halves = (np.stack([path.train[:reached], path.test[:reached]]) for path in paths)
    return 2 * F - np.mean(halves, axis=0) if extrapolate else F


def _finished(
    curves: Curves,
    losses: Sequence[Float[np.ndarray, "2 states"]],
    paths: Sequence[Path],
    setting: ReusedSetting,
) -> Curves:
    """The mean of the batches with the times at which losses drop, and what there is to say of it."""
    grid, reached = setting.grid, min(each.shape[1] for each in losses)
    watched = _watch(paths, setting, reached)
    if reached <= len(grid.tau) and grid.axis == "time":
        raise NotConverged(
            f"single samples explode at time {grid.times[reached]:.4g}, which never happens in gradient flow: the "
            f"step is too long for them; {watched['advice']}"
        )
    values, errors = mean_drops([each[:, :reached] for each in losses], grid.times[:reached])
    evidence = {name: value for name, value in curves.evidence.items() if name != PATH}
    warnings = [*evidence.pop("warnings", []), *watched["warnings"]]
    evidence |= {
        "time_steps": len(grid.tau),
        "largest_curvature": watched["largest_curvature"],
        "largest_share": watched["largest_share"],
    }
    return dataclasses.replace(
        curves,
        arrays=curves.arrays | values,
        errors=curves.errors | errors,
        evidence=evidence | ({"warnings": warnings} if warnings else {}),
        batches={},
    )


def mean_drops(
    losses: Sequence[Float[np.ndarray, "2 states"]], times: Float[np.ndarray, " states"]
) -> tuple[dict, dict]:
    """The times at which the mean losses drop, with jackknife errors, because a drop is not linear in the curve."""
    count, total = len(losses), np.sum(losses, axis=0)
    values = drops(times, *(total / count))
    without = [drops(times, *((total - each) / (count - 1))) for each in losses]
    errors = {}
    for name in values:
        spread = np.array([leaving_out[name] for leaving_out in without])
        errors[name] = np.sqrt((count - 1) * np.mean((spread - spread.mean()) ** 2))
    return {name: np.asarray(value) for name, value in values.items()}, errors


def doubts(share: float) -> list[str]:
    """A warning if one sample carries a large share of an average."""
    if share <= UNTRUSTED_SHARE:
        return []
    return [
        f"a single sample carries up to {100 * share:.0f} % of an average, so error bars cannot be trusted; use more "
        "samples"
    ]


def _watch(paths: Sequence[Path], setting: ReusedSetting, reached: int) -> dict:
    """The largest curvature and share of a sample, the warnings they call for, and advice on the step."""
    grid, tau = setting.grid, setting.grid.tau
    end = min(reached, len(tau))
    sharpest = np.max([p.sharpest[:end] for p in paths], axis=0, initial=0.0)
    curvature = tau[:end] * sharpest
    # Once samples explode their curvature is meaningless: look at the states before the loss doubles.
    loss = np.max([p.train[:end] / p.train[0] for p in paths], axis=0, initial=0.0)
    risen = np.flatnonzero(loss > 2)
    sound = int(risen[0]) if len(risen) else end
    worst = int(np.argmax(curvature[:sound])) if sound else 0
    largest = float(curvature[worst]) if sound else 0.0
    share = max(float(np.max(p.share[:reached], initial=0.0)) for p in paths) / len(paths)
    step = grid.times[worst + 1] - grid.times[worst] if grid.axis == "time" else tau[worst]
    enough = float(f"{0.9 * 2 / max(largest, 1e-300) * step:.2g}")
    remedy = "steps of at most" if grid.axis == "time" else "a learning rate of at most"
    advice = f"{remedy} {enough:g} would do"
    if grid.axis == "time":
        advice += f" (step, or largest_step = {enough:g})"
    warnings = []
    if largest > 2:
        warnings.append(
            f"the step at {grid.axis} {grid.times[worst]:.4g} is unstable for rare samples (largest curvature κ = "
            f"{largest:.3g}, above 2); {advice}"
        )
    warnings += doubts(share)
    return {
        "largest_curvature": largest,
        "largest_share": share,
        "advice": advice,
        "warnings": warnings,
    }
