"""`CausalSampling`: the limit of a two-layer network on a reused dataset, in one forward pass over sampled examples."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.core.threads import workers
from learndyn.errors import NotConverged, TooFewSamples
from learndyn.families.two_layer.observables import TABLE, drops
from learndyn.families.two_layer.reused.equations import INPUTS, ReusedSetting, ReusedTraining
from learndyn.families.two_layer.reused.responses import Tangents, require_curvature
from learndyn.families.two_layer.reused.sampling import Batch, Sampling, sampled
from learndyn.families.two_layer.reused.time_grid import TimeSteps, time_grid
from learndyn.families.two_layer.student_teacher import (
    OrderParameters,
    StudentTeacher,
    rule_of_test_loss,
    student_teacher,
)
from learndyn.memory import require_memory
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.checks import boolean, number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.programs import Limit, ProgramRun, run

USUAL_SAMPLES = 4096
"""Examples per batch unless the user says how many."""
TRACED = 1024
"""Examples of a batch, at most, whose tangents make the responses."""
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
    bias of a batch is of order 1/samples. Batches are also run on the halves of their examples, which shows this bias;
    where it is seen, it is extrapolated away.

    - `samples`: examples per batch, a power of two. Not given: 4096, or as many as the directions of training need.
    - `batches`: independent batches, at least two. 8 unless given.
    - `extrapolate`: whether the bias is removed. Not given: where it is seen. False saves the halves, half of the time.
    - `drop`: training opens no new direction for what is shorter than this part of a vector. 1e-3 unless given.
    - `responses`: also compute the response functions R_w, R_h and R_star, from the tangents of up to 1024 examples per
      batch; this takes the cube of the number of steps. False unless given.
    """

    libraries = ("numba",)

    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)
    extrapolate: bool | None = field(optional(boolean), default=None)
    drop: float = field(number(minimum=0, below=0.1), default=1e-3)
    responses: bool = field(boolean, default=False)

    def way(self, problem: Problem) -> Way:
        return "alone"

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """Means over batches, with standard errors."""
        if self.responses:
            require_curvature(problem, "CausalSampling")
        grid = time_grid(problem, self)
        saved = record.nearest(grid.times)
        setting = setting_of(problem, self)._replace(grid=grid.until(int(saved[-1])))
        runs = Runs(setting, saved, record.moved_to(grid.times[saved]), seed, self.responses)
        sampling = self._sampled(runs, report)
        extrapolate = bool(sampling.batches[0].halves) and (
            bool(self.extrapolate) or sampling.bias_is_seen()
        )
        return _finished(sampling, setting, extrapolate)

    def _sampled(self, runs: "Runs", report: Report) -> Sampling:
        """The batches, with halves if the bias may be removed and half of the samples are enough."""
        samples, halves = self.samples or USUAL_SAMPLES, self.extrapolate is not False
        while True:
            runs.check_memory(samples, self.batches)
            like = Limit(samples, drop=self.drop, linear=(INPUTS,))
            try:
                return sampled(runs, like, range(self.batches), halves, report)
            except TooFewSamples as error:
                if self.samples is None:
                    samples = max(2 * samples, error.needed)
                elif halves and self.extrapolate is None:
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
    """What every batch runs: the setting, the states that are saved, their record, the seed, with or without responses."""

    setting: ReusedSetting
    saved: np.ndarray
    record: Record
    seed: int
    responses: bool

    def carried_out(self, backend: Limit, report: Report) -> tuple[Curves, ProgramRun]:
        """One run, as curves."""
        tangents = Tangents(self.setting, min(TRACED, backend.samples)) if self.responses else None
        training = ReusedTraining(self.setting, self.saved, tangents)
        # Tangents take the cube of the time, at the end.
        last = 0.5 if self.responses else 1.0
        outcome = run(training, None, backend, lambda t, end: report(last * t / max(end, 1)))
        saved = self.saved[self.saved < training.reached]
        losses = clean_losses(self.setting, training)
        path = Path(
            0.5 * np.array(training.loss),
            losses,
            np.array(training.sharpest),
            np.array(training.share),
        )
        arrays = {
            "train_loss": path.train[saved],
            "test_loss": losses[saved],
            "leading_gap": np.array(training.leading_gap),
            "Q": np.stack(training.Q)[saved],
            "R": np.stack(training.R)[saved],
            **training.two_time(scale=1.0),
        }
        if self.setting.train_readout:
            arrays["v"] = np.stack(training.v)[saved]
        if tangents is not None:
            found = tangents.responses(training.label_slope)
            arrays["R_w"], arrays["R_h"] = (x[saved][:, :, saved] for x in found[:2])
            arrays["R_star"] = found.R_star[saved]
        curves = Curves(TABLE, self.record, arrays, len(saved), evidence={PATH: path})
        return curves, outcome

    def check_memory(self, samples: int, batches: int) -> None:
        """Refuse what the machine has no memory for."""
        setting, states = self.setting, len(self.setting.grid.times)
        K, M, saved = setting.hidden, setting.teachers, len(self.saved)
        # Every state may open K directions on both sides, which a basis, its images and their growth hold.
        directions = min(M + K + 2 + 2 * K * states, samples / 1.5)
        needed = 8.0 * samples * (5 * directions + K * saved)
        if self.responses:
            traced = min(TRACED, samples)
            needed += 8.0 * (traced * states * K * (2 * K + 1 + M) + 6 * (states * K) ** 2)
        needed = workers(batches) * needed + 8.0 * 6 * batches * (saved * K) ** 2
        require_memory(
            needed,
            f"{states - 1} steps with {samples} samples",
            "use fewer samples, larger steps or fewer recorded times",
        )


@eqx.filter_jit
def _losses(
    pair: StudentTeacher, rule: GaussianRule | None, states: OrderParameters
) -> Float[Array, " states"]:
    """½⟨(y − ŷ)²⟩ on clean labels at every state."""
    return jax.lax.map(lambda state: pair.test_loss(state, rule), states)


def clean_losses(setting: ReusedSetting, training: ReusedTraining) -> np.ndarray:
    """½⟨(y − ŷ)²⟩ on clean labels at every state that was reached."""
    rule = rule_of_test_loss(setting.pair, sum(setting.start.R.shape), TEST_POINTS)
    # All runs of a length have one shape, so that those that diverge early need no new compilation.
    missing = len(setting.grid.times) - training.reached
    states = (
        np.stack(values + [values[-1]] * missing)
        for values in (training.Q, training.R, training.v)
    )
    losses = _losses(setting.pair, rule, OrderParameters(*map(jax.numpy.asarray, states)))
    return np.asarray(losses)[: training.reached]


def _finished(sampling: Sampling, setting: ReusedSetting, extrapolate: bool) -> Curves:
    """The mean of the batches with the times at which losses drop, and what there is to say of it."""
    grid, whole_paths = setting.grid, [b.curves.evidence[PATH] for b in sampling.batches]
    halves = [half.evidence[PATH] for batch in sampling.batches for half in batch.halves]
    reached = min(len(path.train) for path in (*whole_paths, *halves))
    watched = _watch(whole_paths, setting, reached)
    if reached <= len(grid.tau) and grid.axis == "time":
        raise NotConverged(
            f"single samples explode at time {grid.times[reached]:.4g}, which never happens in gradient flow: the "
            f"step is too long for them; {watched['advice']}"
        )
    curves = sampling.curves(extrapolate)
    losses = [_losses_of(batch, reached, extrapolate) for batch in sampling.batches]
    values, errors = _drops(losses, grid.times[:reached])
    evidence = {name: value for name, value in curves.evidence.items() if name != PATH}
    warnings = [*evidence.pop("warnings", []), *watched["warnings"]]
    told = dict(
        time_steps=len(grid.tau),
        largest_curvature=watched["largest_curvature"],
        largest_share=watched["largest_share"],
    )
    return dataclasses.replace(
        curves,
        arrays=curves.arrays | values,
        errors=curves.errors | errors,
        evidence=evidence | told | ({"warnings": warnings} if warnings else {}),
    )


def _losses_of(batch: Batch, reached: int, extrapolate: bool) -> np.ndarray:
    """Train and test loss of a batch at all states."""

    def losses(curves: Curves) -> np.ndarray:
        path = curves.evidence[PATH]
        return np.stack([path.train[:reached], path.test[:reached]])

    F = losses(batch.curves)
    return 2 * F - np.mean([losses(half) for half in batch.halves], axis=0) if extrapolate else F


def _drops(
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


def _watch(paths: list[Path], setting: ReusedSetting, reached: int) -> dict:
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
    if share > UNTRUSTED_SHARE:
        warnings.append(
            f"a single sample carries up to {100 * share:.0f} % of an average, so error bars cannot be trusted; "
            "use more samples"
        )
    return {
        "largest_curvature": largest,
        "largest_share": share,
        "advice": advice,
        "warnings": warnings,
    }
