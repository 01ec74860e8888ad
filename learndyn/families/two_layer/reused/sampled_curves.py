"""From batches of samples to curves with standard errors, for both methods on a reused dataset."""

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves, averaged
from learndyn.core.divergence import diverged
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import NotConverged
from learndyn.families.two_layer.observables import TABLE, drops
from learndyn.families.two_layer.reused.equations import (
    ReusedSetting,
    SampleProcess,
    WeightProcess,
)
from learndyn.families.two_layer.reused.time_grid import Grid, TimeSteps, time_grid
from learndyn.families.two_layer.student_teacher import (
    OrderParameters,
    StudentTeacher,
    rule_of_test_loss,
    student_teacher,
)
from learndyn.memory import require_memory
from learndyn.numerics.gram import gram
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.checks import whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem

UNTRUSTED_SHARE = 0.05
"""If one sample of all batches carries more than this share of an average, its error bar cannot be trusted."""
TEST_POINTS = 2**12
"""Points of the quadrature rule for the test loss."""


class Sampling(TimeSteps, Method, abstract=True):
    """Base of the sampled methods: several independent solves, or batches, with quasi-random examples.

    The mean of the batches is the result, and their spread gives its standard error. The error falls as
    1/√(samples·batches) or faster; the bias of a batch is of order 1/samples. A seed gives the same examples for every
    problem, so that results are smooth in the problem's parameters.

    - `samples`: examples per batch, a power of two. 1024 unless given.
    - `batches`: independent batches, at least two. 8 unless given.
    """

    libraries = ("numba",)

    samples: int = field(power_of_two, default=1024)
    batches: int = field(whole(2), default=8)

    @abc.abstractmethod
    def batch(
        self, setting: ReusedSetting, seed: np.random.SeedSequence, report: Report
    ) -> "Batch":
        """Solve one batch; `report` takes the fraction done."""

    def way(self, problem: Problem) -> Way:
        return "alone"

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """Means over batches, with standard errors."""
        grid = time_grid(problem, self)
        saved = record.nearest(grid.times)
        record = record.moved_to(grid.times[saved])
        pair, start = student_teacher(problem)
        last = int(saved[-1])
        setting = ReusedSetting(
            pair,
            Q=np.asarray(start.Q),
            R=np.asarray(start.R),
            v=np.asarray(start.v),
            ratio=float(problem.data.ratio),
            tau=grid.tau[:last],
            decay=float(problem.training.weight_decay),
            noise=float(problem.data.noise),
        )
        needed = workers(self.batches) * setting.memory(self.samples)
        needed += 8.0 * 6 * self.batches * (len(saved) * setting.hidden) ** 2
        require_memory(
            needed,
            f"{last} steps with {self.samples} samples",
            "use fewer samples, larger steps or fewer recorded times",
        )
        test_losses = _test_losses(problem)
        seeds = np.random.SeedSequence(seed).spawn(self.batches)

        def run(index: int, advance: Report) -> Outcome:
            batch = self.batch(setting, seeds[index], advance)
            states = saved[saved < batch.reached]
            arrays = batch.arrays(states, test_losses)
            train, test = arrays.pop("train"), arrays.pop("test")
            curves = Curves(TABLE, record, arrays, len(states))
            # Return copies, not the process itself, so that its samples can be freed.
            return Outcome(curves, train, test, batch.health(), batch.iterated)

        outcomes = [outcome for _, outcome in sorted(in_threads(run, range(self.batches), report))]
        reached = min(len(outcome.train) for outcome in outcomes)
        watched = _watch([outcome.health for outcome in outcomes], setting, grid, reached)
        if reached <= last and grid.axis == "time":
            raise NotConverged(
                f"single samples explode at time {grid.times[reached]:.4g}, which never happens in gradient flow: the "
                f"step is too long for them; {watched['advice']}"
            )
        curves = averaged([outcome.curves for outcome in outcomes])
        values, errors = _drops(outcomes, grid.times[:reached])
        curves = dataclasses.replace(
            curves, arrays=curves.arrays | values, errors=curves.errors | errors, batches={}
        )
        if watched["warnings"]:
            curves = curves.told(warnings=watched["warnings"])
        iterated = [outcome.iterated for outcome in outcomes if outcome.iterated is not None]
        if iterated:
            curves = curves.told(
                iterations=[batch.iterations for batch in iterated],
                residual=max(batch.residual for batch in iterated),
            )
        return curves.told(
            samples=self.samples,
            batches=self.batches,
            time_steps=last,
            largest_curvature=watched["largest_curvature"],
            largest_share=watched["largest_share"],
        )


class Outcome(NamedTuple):
    """The result of a batch: its curves, its train and test losses at all states, the health of its samples, and how
    its iteration ended, if there was one.
    """

    curves: Curves
    train: np.ndarray
    test: np.ndarray
    health: "Health"
    iterated: "Iterated | None"


class Iterated(NamedTuple):
    """How an iteration ended: the number of iterations, and the change in the last one (the residual)."""

    iterations: int
    residual: float


class Health(NamedTuple):
    """Train loss, sharpest curvature and largest share of a sample at all states, as in `SampleProcess`."""

    loss: np.ndarray
    sharpest: np.ndarray
    share: np.ndarray


class Batch:
    """One batch of samples: its processes, R_h (states, K, states, K), R* (states, K, M), and the states reached.

    `iterated` says how an iteration ended; it is None if there was none.
    """

    def __init__(self, setting: ReusedSetting, weights: WeightProcess, process: SampleProcess):
        n, K, M = setting.states, setting.hidden, setting.teachers
        self.setting, self.weights, self.process = setting, weights, process
        self.R_h = np.zeros((n, K, n, K))
        self.R_star = np.zeros((n, K, M))
        self.reached = 0
        self.iterated: Iterated | None = None

    def exploded(self, t: int) -> bool:
        """Whether the train loss at state t has diverged."""
        loss = self.process.loss
        return bool(diverged(loss[t], max(loss[0], 1e-300)))

    def health(self) -> "Health":
        """The quantities that show whether the samples can be trusted."""
        process = self.process
        return Health(process.loss, process.sharpest, process.share)

    def arrays(self, saved: np.ndarray, test_losses: Callable) -> dict[str, np.ndarray]:
        """The observables at the states `saved`, and the losses `train` and `test` at all states, for the drops."""
        setting, weights, process = self.setting, self.weights, self.process
        n = self.reached
        W = weights.W[:n]
        Q = np.einsum("tik,tjk->tij", W, W)
        R = W[..., : setting.teachers] @ weights.root.T
        test, train = test_losses(Q, R), 0.5 * process.loss[:n]
        C, _ = weights.overlaps(saved)
        return {
            "train_loss": train[saved],
            "test_loss": test[saved],
            "leading_gap": self._leading_gap(saved),
            "Q": Q[saved],
            "R": R[saved],
            "C": C,
            "C_g": gram(process.g[saved], mean=True),
            "R_w": weights.R_w[saved][:, :, saved],
            "R_h": self.R_h[saved][:, :, saved],
            "R_star": self.R_star[saved],
            "train": train,
            "test": test,
        }

    def _leading_gap(self, saved: np.ndarray) -> np.ndarray:
        """(1/γ) Σ_{s<t} τ_s Σ_ij R_w,ij(t, s) C_g,ij(t, s)."""
        g, kernel, K = self.process.g, self.weights.kernel, self.setting.hidden
        gap = np.zeros(len(saved))
        for index, t in enumerate(saved):
            forces = kernel[t, :, :t].reshape(K, t * K) @ g[:t].reshape(t * K, self.process.samples)
            gap[index] = np.sum(forces * g[t]) / self.process.samples
        return gap


@eqx.filter_jit
def _losses(
    pair: StudentTeacher,
    v: Float[Array, " K"],
    rule: GaussianRule | None,
    Q: Float[Array, "states K K"],
    R: Float[Array, "states K M"],
) -> Float[Array, " states"]:
    """½⟨(y − ŷ)²⟩ on clean labels at every state."""

    def loss(overlaps: tuple[Array, Array]) -> Float[Array, ""]:
        Q, R = overlaps
        return pair.test_loss(OrderParameters(Q, R, v), rule)

    return jax.lax.map(loss, (Q, R))


def _test_losses(problem: Problem) -> Callable:
    """½⟨(y − ŷ)²⟩ on clean labels, as a function of Q (n, K, K) and R (n, K, M)."""
    pair, start = student_teacher(problem)
    rule = rule_of_test_loss(pair, sum(start.R.shape), TEST_POINTS)
    return lambda Q, R: np.asarray(_losses(pair, start.v, rule, Q, R))


def _drops(outcomes: list[Outcome], times: Float[np.ndarray, " states"]) -> tuple[dict, dict]:
    """The times at which the mean losses drop, with jackknife errors, because a drop is not linear in the curve."""
    train, test = (
        np.stack([getattr(outcome, name)[: len(times)] for outcome in outcomes])
        for name in ("train", "test")
    )
    count = len(outcomes)
    values = drops(times, train.mean(0), test.mean(0))
    without = [
        drops(times, *((losses.sum(0) - losses[i]) / (count - 1) for losses in (train, test)))
        for i in range(count)
    ]
    errors = {}
    for name in values:
        spread = np.array([leaving_out[name] for leaving_out in without])
        errors[name] = np.sqrt((count - 1) * np.mean((spread - spread.mean()) ** 2))
    return {name: np.asarray(value) for name, value in values.items()}, errors


def _watch(batches: list[Health], setting: ReusedSetting, grid: Grid, reached: int) -> dict:
    """The largest curvature and share of a sample, the warnings they call for, and advice on the step."""
    end = min(reached, len(setting.tau))
    sharpest = np.max([p.sharpest[:end] for p in batches], axis=0, initial=0.0)
    curvature = setting.tau[:end] * sharpest
    # Once samples explode their curvature is meaningless: look at the states before the loss doubles.
    loss = np.max([p.loss[:end] / p.loss[0] for p in batches], axis=0, initial=0.0)
    risen = np.flatnonzero(loss > 2)
    sound = int(risen[0]) if len(risen) else end
    worst = int(np.argmax(curvature[:sound])) if sound else 0
    largest = float(curvature[worst]) if sound else 0.0
    share = max(float(np.max(p.share[:reached], initial=0.0)) for p in batches) / len(batches)
    step = grid.times[worst + 1] - grid.times[worst] if grid.axis == "time" else setting.tau[worst]
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
