"""`CausalSampling`: the limit of a two-layer network on a reused dataset, in one forward pass over sampled examples."""

import numpy as np

from learndyn.errors import ProblemError
from learndyn.numerics.causal_factor import CausalFactor
from learndyn.part import field, whole
from learndyn.two_layer.reused import SampleProcess, Setting, WeightProcess
from learndyn.two_layer.sampled_curves import Batch, solve_in_batches
from learndyn.two_layer.time_grid import TimeSteps


def power_of_two(value, name: str) -> int:
    """A check: a power of two, as quasi-random samples need."""
    value = whole(16)(value, name)
    if value & (value - 1):
        raise ProblemError(name, value, "must be a power of two")
    return value


class Sampling(TimeSteps, abstract=True):
    """Base of the sampled methods: `batches` independent solves with `samples` quasi-random examples each.

    Their mean is the result and their spread its standard error. The error falls as 1/√(samples·batches) or faster; the
    bias of a batch is of order 1/samples. The same seed takes the same examples for every problem, so that results are
    smooth in its parameters.
    """

    samples: int = field(power_of_two, default=1024)
    batches: int = field(whole(2), default=8)


class CausalSampling(Sampling):
    """Solve forward in training time, without iteration: each state follows from those before it."""


def sweep(setting: Setting, samples: int, seed: np.random.SeedSequence, report) -> Batch:
    """One batch, state by state."""
    K, states = setting.hidden, setting.states
    weights = WeightProcess(setting)
    process = SampleProcess(setting, samples, seed, weights.root)
    factor = CausalFactor((states - 1) * K, samples)
    batch = Batch(setting, weights, process)
    for t in range(states):
        process.advance(t, weights)
        if batch.exploded(t):
            break
        batch.R_h[t, :, : t + 1], batch.R_star[t] = process.response(t, weights)
        batch.reached = t + 1
        if t + 1 < states:
            L = np.stack([factor.append(g) for g in process.g[t]])
            weights.advance(t, batch.R_h[t, :, : t + 1], batch.R_star[t], L[:, : (t + 1) * K])
        report(((t + 1) / states) ** 3)
    return batch


def solve(problem, method: CausalSampling, save_at, seed: int, report):
    """All observables at the recorded states, with standard errors."""
    return solve_in_batches(problem, method, save_at, seed, report, sweep)
