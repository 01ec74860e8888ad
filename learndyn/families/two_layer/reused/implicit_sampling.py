"""`ImplicitSampling`: gradient flow on a reused dataset to long times, in implicit steps that grow with time."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from learndyn.core.batches import power_of_two
from learndyn.core.curves import Curves, averaged
from learndyn.core.method import Method, Way
from learndyn.core.panels import MOST_EDGES
from learndyn.core.progressing import Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import NotConverged, ProblemError
from learndyn.families.two_layer.observables import TABLE, drops
from learndyn.families.two_layer.reused.equations import ReusedSetting
from learndyn.families.two_layer.reused.implicit import ImplicitExamples
from learndyn.families.two_layer.reused.solve import (
    CausalSampling,
    doubts,
    mean_drops,
    population_averages,
    setting_of,
)
from learndyn.families.two_layer.reused.time_grid import curvature
from learndyn.families.two_layer.reused.traced import has_kink
from learndyn.memory import require_memory
from learndyn.numerics.gram import gram
from learndyn.numerics.multistep import ORDER, lagrange
from learndyn.problem.checks import number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule, integral

SAMPLES, PILOT = 1024, 512
"""Examples per batch unless the user says how many, and in the pilot that finds the nodes."""
MOST_NODES, SPARE = 400, 20
"""With more nodes no solution would end; and how many a batch may have more than the pilot."""
FIRST_STEP, GROWTH, REJECTED = 0.02, 1.5, 2.0
"""The first step times the fastest rate at the start, the largest factor to the next step, and the error, in
tolerances, above which a step is rejected."""
LOCAL = 0.2
"""The error of a step in tolerances of the result. Steps five times as accurate change losses by no more than a
tolerance of 0.01 and the errors of sampling (`test_smaller_steps_change_losses_within_the_tolerance`)."""
SETTLED = 1e-3
"""The accuracy of the averages of a node, in tolerances of the result. The passes begin with those of the node before:
from extrapolated ones, steps long after the losses have vanished (t = 1e4) had no solution."""
RISE = 0.01
"""A training loss that rises by this part in a step, and by RISE³ of its start, is that of a wrong solution. In the
batches looked at it fell in every step."""
PARTED = 2.0
"""The ratio of the last losses of batches that have not dropped and of those that have, from which on they differ."""
FINE = 20
"""Times between two nodes at which the drops of losses are looked for."""


class ImplicitSampling(Method):
    """Gradient flow to long times: implicit steps, short at first and as long as time itself later.

    A pilot with few samples finds the steps. Examples are then sampled in independent batches, as by `CausalSampling`:
    their mean is the result, and their spread gives its standard error. For smooth activations and a training `time`.
    R_w and R_h are left out.

    Where the test loss drops late, batches of few samples may part: in the figure grokking-1 it had not dropped by
    t = 4000 in 3 of 12 batches of 1024 samples, 2 of 8 of 2048 and none of 8 of 4096. It is the sampling, and not a
    wrong solution of a step: steps half as long from t = 600 on gave the three the same losses. A warning tells of it.

    - `tolerance`: about the relative error of losses that the steps cause: a fifth of it is allowed in each of them. A
      loss that vanishes counts as a hundredth of its start at least. The error of sampling comes on top. At most 0.02:
      with 0.05, single batches were seen to stay on a wrong solution of an implicit step. Default: 0.01.
    - `samples`: examples per batch, a power of two. 1024 unless given.
    - `batches`: independent batches, at least two. 8 unless given.
    """

    libraries = ("numba",)

    tolerance: float = field(number(minimum=1e-4, maximum=0.02), default=0.01)
    samples: int | None = field(optional(power_of_two), default=None)
    batches: int = field(whole(2), default=8)

    def way(self, problem: Problem) -> Way:
        return "alone"

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the problem can be solved in implicit steps."""
        return (
            problem.training.time is not None
            and not has_kink(problem.network.activation)
            and _speed(problem) is not None
        )

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _refuse(problem)
        speed = _speed(problem)
        assert speed is not None
        setting = setting_of(problem, CausalSampling(step=problem.training.time))
        at = integral(problem.training.learning_rate, record.at)
        edges = at[at > 0] if len(at) <= MOST_EDGES else at[-1:]
        pilot = np.random.SeedSequence(seed)
        first, local = FIRST_STEP / _fastest(problem), LOCAL * self.tolerance
        settled = SETTLED * self.tolerance
        tau = _adaptive(setting, speed, pilot, edges, first, local, settled).rule.times
        report(0.1)
        samples = self.samples or SAMPLES
        needed = ImplicitExamples.memory(setting, samples, len(tau))
        words = f"{len(tau)} nodes with {samples} samples"
        require_memory(workers(self.batches) * needed, words, "use fewer samples")
        seeds = np.random.SeedSequence(seed).spawn(self.batches)
        between, times = _fine(tau, problem, record)

        def batch(number: int, advance: Report) -> tuple[Curves, np.ndarray, float]:
            examples = _trained(setting, samples, seeds[number], tau, speed, settled, advance)
            fine = _interpolation(examples.rule.times, between)
            losses = np.exp(np.log(np.maximum(_losses(examples), 1e-300)) @ fine.T)
            return _curves(examples, record, at), losses, float(np.max(examples.share))

        done = sorted(
            in_threads(batch, range(self.batches), lambda done: report(0.1 + 0.9 * done)),
            key=lambda item: item[0],
        )
        batches, losses, shares = zip(*(outcome for _, outcome in done), strict=True)
        values, errors = mean_drops(losses, times)
        share = max(shares) / len(shares)
        evidence = {
            "samples": samples,
            "batches": self.batches,
            "nodes": len(tau),
            "largest_share": share,
        }
        warnings = [*doubts(share), *parted(losses, times)]
        evidence |= {"warnings": warnings} if warnings else {}
        curves = averaged(batches)
        evidence["accuracy"] = {
            name: self.tolerance * float(np.max(np.abs(x), initial=0.0))
            for name, x in curves.arrays.items()
        }
        return dataclasses.replace(
            curves,
            arrays=curves.arrays | values,
            errors=curves.errors | errors,
            evidence=evidence,
            batches={},
        )


def parted(losses: Sequence[Float[np.ndarray, "2 k"]], times: Float[np.ndarray, " k"]) -> list[str]:
    """A warning if the test loss of some batches has dropped at the end, and that of others has not.

    It says nothing where batches are only on the way: those that have not dropped end at `PARTED` times the loss of
    the others at least.
    """
    dropped = np.isfinite([drops(times, *each)["test_drop"] for each in losses])
    ends = np.array([each[1, -1] for each in losses])
    if np.all(dropped) or not np.any(dropped):
        return []
    low, high = float(np.median(ends[dropped])), float(np.median(ends[~dropped]))
    if high < PARTED * low:
        return []
    return [
        f"the test loss has dropped in {np.sum(dropped)} of {len(dropped)} batches, to {low:.2g} at the end, and is "
        f"{high:.2g} in the others: late values are those of few samples, and the mean is that of neither; use more "
        "samples"
    ]


def _refuse(problem: Problem) -> None:
    """Refuse what has no implicit steps."""
    if problem.training.time is None:
        allowed = (
            "is for gradient flow, and training has steps; use CausalSampling, or give it a time"
        )
    elif has_kink(problem.network.activation):
        allowed = "needs a second derivative, and the activation has a kink; use CausalSampling"
    elif _speed(problem) is None:
        allowed = (
            "needs a readout_learning_rate in proportion to the learning_rate; use CausalSampling"
        )
    else:
        return
    raise ProblemError("method", "ImplicitSampling", allowed)


def _speed(problem: Problem) -> float | None:
    """The rate of the readout over that of the weights; None if it changes in time."""
    training = problem.training
    eta, eta_v = training.learning_rate, training.readout_learning_rate
    if not problem.network.train_readout:
        return 0.0
    if eta_v is None:
        return 1.0
    if isinstance(eta, Schedule) or isinstance(eta_v, Schedule) or not eta:
        return None
    return eta_v / eta


def _fastest(problem: Problem) -> float:
    """About the fastest rate of the flow in τ at the start."""
    return max((1 + problem.data.ratio**-0.5) ** 2 * curvature(problem, 2.0), 1e-300)


def _adaptive(
    setting: ReusedSetting,
    speed: float,
    seed: np.random.SeedSequence,
    edges: Float[np.ndarray, " k"],
    step: float,
    tolerance: float,
    settled: float,
) -> ImplicitExamples:
    """A pilot whose steps have errors of about `tolerance`, and which ends some of them at the `edges`."""
    examples = ImplicitExamples(setting, PILOT, seed, MOST_NODES, speed, settled=settled)
    examples.add(0.0)
    states, now = [_summary(examples)], 0.0
    while now < edges[-1] * (1 - 1e-12):
        left = edges[edges > now * (1 + 1e-12)][0] - now
        # Two steps of half the length, rather than a long and a very short one.
        length = left if step >= left else min(step, left / 2) if step > left / 2 else step
        if examples.count == MOST_NODES or length < 1e-12 * edges[-1]:
            raise NotConverged(
                f"implicit steps reach time {now:.4g} of {edges[-1]:.4g} (times the learning rate) with "
                f"{examples.count} nodes; use a larger tolerance or a shorter time"
            )
        if not _added(examples, now + length):
            step = length / 2
            continue
        state = _summary(examples)
        error = _error(examples.rule.times, [*states, state])
        if error > REJECTED * tolerance:
            examples.withdraw()
            step = length * max(0.3, 0.8 * (tolerance / error) ** (1 / (ORDER + 1)))
            continue
        now += length
        states.append(state)
        grown = 0.9 * (tolerance / max(error, 1e-300)) ** (1 / (ORDER + 1))
        # A step that was cut short to meet an edge says little of the next one.
        step = max(length, step if length < step else 0.0) * min(GROWTH, grown)
    return examples


def _summary(examples: ImplicitExamples) -> np.ndarray:
    """Losses, overlaps and the readout at the last node."""
    Q, R, v = _overlaps(examples, slice(examples.count - 1, examples.count))
    test, _ = population_averages(examples.setting, Q, R, v)
    return np.concatenate(
        [examples.loss[examples.count - 1 :][:1] / 2, test, Q.ravel(), R.ravel(), v[0]]
    )


def _error(times: np.ndarray, states: list[np.ndarray]) -> float:
    """The error of the last step: its difference from extrapolation, times the share of an implicit rule in it."""
    count = min(ORDER + 1, len(states) - 1)
    if count < 2:
        return 0.0
    known = times[-count - 1 : -1]
    predicted = (lagrange(known, times[-1:]) @ np.stack(states[-count - 1 : -1]))[0]
    scales = np.abs(states[-1])
    scales[:2] += 1e-2 * np.abs(states[0][:2])
    scales[2:] = np.max(scales[2:])
    share = (times[-1] - times[-2]) / (times[-1] - known[0])
    return float(share * np.max(np.abs(states[-1] - predicted) / scales))


def _added(examples: ImplicitExamples, time: float) -> bool:
    """Add a node, unless it has no solution, or one at which the training loss has risen.

    Implicit steps have several solutions, and gradient flow without decay lowers the loss.
    """
    if not examples.add(time):
        return False
    first, before, now = examples.loss[[0, examples.count - 2, examples.count - 1]]
    if now > (1 + RISE) * before + RISE**3 * first and not examples.setting.decay:
        examples.withdraw()
        return False
    return True


def _trained(
    setting: ReusedSetting,
    samples: int,
    seed: np.random.SeedSequence,
    tau: Float[np.ndarray, " n"],
    speed: float,
    settled: float,
    report: Report,
) -> ImplicitExamples:
    """A batch on given nodes, and on nodes halfway to one that has no solution."""
    examples = ImplicitExamples(setting, samples, seed, len(tau) + SPARE, speed, settled=settled)
    examples.add(0.0)
    for node, end in enumerate(tau[1:], 2):
        length = end - examples.rule.times[-1]
        while (now := examples.rule.times[-1]) < end:
            last = now + length >= end * (1 - 1e-12)
            if examples.count == examples.room or length < 1e-9 * end:
                raise NotConverged(
                    f"a batch of {samples} samples has no solution at time {end:.4g} (times the learning rate); use "
                    "more samples or a smaller tolerance"
                )
            if not _added(examples, end if last else now + length):
                length /= 2
        report((node / len(tau)) ** 3)
    return examples


def _overlaps(
    examples: ImplicitExamples, nodes: slice
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, R and v at the nodes."""
    w = examples.W[nodes]
    along = w[..., : examples.w_star.shape[1]] @ examples.w_star.T
    return w @ w.transpose(0, 2, 1), along, examples.v[nodes]


def _losses(examples: ImplicitExamples) -> Float[np.ndarray, "2 n"]:
    """Train and test loss at all nodes."""
    Q, R, v = _overlaps(examples, slice(examples.count))
    test, _ = population_averages(examples.setting, Q, R, v)
    return np.stack([examples.loss[: examples.count] / 2, test])


def _interpolation(
    tau: Float[np.ndarray, " n"], at: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k n"]:
    """From values at nodes to values at other times: cubic through the four nearest, in the logarithm of time."""
    E = np.zeros((len(at), len(tau)))
    x, y = np.log(tau + tau[1]), np.log(at + tau[1])
    for row, now in enumerate(y):
        first = min(max(int(np.searchsorted(x, now)) - 2, 0), max(len(x) - 4, 0))
        E[row, first : first + 4] = lagrange(x[first : first + 4], np.array([now]))[0]
    return E


def _fine(tau: np.ndarray, problem: Problem, record: Record) -> tuple[np.ndarray, np.ndarray]:
    """Many times between nodes, in τ and as times."""
    inner = [np.linspace(a, b, FINE, endpoint=False) for a, b in itertools.pairwise(tau)]
    at, rate = np.append(np.concatenate(inner), tau[-1]), problem.training.learning_rate
    if not isinstance(rate, Schedule):
        return at, at / rate
    grid = np.linspace(0, record.last, 100_001)
    return at, np.interp(at, integral(rate, grid), grid)


def _curves(examples: ImplicitExamples, record: Record, at: Float[np.ndarray, " k"]) -> Curves:
    """The observables of a batch at the recorded times, which are `at` in τ."""
    n, setting = examples.count, examples.setting
    E = _interpolation(examples.rule.times, at)
    Q, R, v = _overlaps(examples, slice(n))
    train, test = np.exp(np.log(np.maximum(_losses(examples), 1e-300)) @ E.T)
    K = setting.hidden

    def two_times(vectors: np.ndarray, mean: bool) -> np.ndarray:
        both = gram(vectors.reshape(n, K, -1), mean=mean)
        return np.einsum("kt,tisj,ls->kilj", E, both, E, optimize=True)

    arrays = {
        "train_loss": train,
        "test_loss": test,
        "leading_gap": E @ examples.leading_gap[:n],
        "kernel_alignment": E @ population_averages(setting, Q, R, v)[1],
        "Q": np.tensordot(E, Q, 1),
        "R": np.tensordot(E, R, 1),
        "C": two_times(examples.W[:n], mean=False),
        "C_g": two_times(examples.g[:n], mean=True),
        "R_star": np.tensordot(E, examples.R_star[:n], 1),
    }
    if setting.train_readout:
        arrays["v"] = E @ v
    return Curves(TABLE, record, arrays)
