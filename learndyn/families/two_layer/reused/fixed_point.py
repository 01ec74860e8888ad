"""`FixedPoint`: the limit of a two-layer network on a reused dataset by damped iteration of whole trajectories.

This is the method of the paper (its appendix A.6): guess the order parameters at all times, sample whole trajectories,
average, and go part of the way to the result, until nothing changes. One iteration costs as much as all of
`CausalSampling`. Without damping, and with the same normals throughout, every iteration makes at least one more state
exact, so that after as many iterations as states it ends at the result of `CausalSampling`.
"""

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.families.two_layer.reused.equations import ReusedSetting, SampleProcess, WeightProcess
from learndyn.families.two_layer.reused.sampled_curves import Batch, Iterated, Sampling
from learndyn.problem.checks import number, whole
from learndyn.problem.part import field


class FixedPoint(Sampling):
    """Iterate whole trajectories: new = (1 − `damping`) old + `damping` sampled, from the limit of infinite data.

    - `damping`: the part of the way to the sampled result, above 0 and at most 1. 0.5 unless given.
    - `tolerance`: the largest change of a train loss (relative to the first) or of an overlap Q (relative to the
      largest) at which the iteration has converged. 1e-6 unless given.
    - `iterations`: the number of iterations after which it fails. 200 unless given.

    The evidence has the `iterations` of every batch and the `residual`, the largest change in their last iteration.
    """

    damping: float = field(number(above=0, maximum=1), default=0.5)
    tolerance: float = field(number(above=0), default=1e-6)
    iterations: int = field(whole(1), default=200)

    def batch(self, setting: ReusedSetting, seed: np.random.SeedSequence, report: Report) -> Batch:
        n, K = setting.states, setting.hidden
        weights = WeightProcess(setting)
        process = SampleProcess(setting, self.samples, seed, weights.root)
        batch = Batch(setting, weights, process)
        L = np.zeros((n * K, n * K))
        _start_without_memory(batch)
        before, change = None, np.inf
        for iteration in range(self.iterations):
            R_h, R_star = np.zeros_like(batch.R_h), np.zeros_like(batch.R_star)
            for t in range(n):
                process.advance(t, weights)
                if batch.exploded(t):
                    raise NotConverged(
                        f"iteration {iteration} of whole trajectories diverged at state {t} of {n}; use "
                        "CausalSampling, or a smaller damping"
                    )
                R_h[t, :, : t + 1], R_star[t] = process.response(t, weights)
                report(iteration / self.iterations)
            step = self.damping
            batch.R_h += step * (R_h - batch.R_h)
            batch.R_star += step * (R_star - batch.R_star)
            L = _damped_factor(L, process.g.reshape(n * K, self.samples), step)
            _weights_from(batch, L)
            present = _watched(batch)
            if before is not None:
                change = np.max(np.abs(present - before))
            if change <= self.tolerance:
                batch.reached, batch.iterated = n, Iterated(iteration + 1, float(change))
                return batch
            before = present
        raise NotConverged(
            f"after {self.iterations} iterations a loss or overlap still changes by {change:.2g} of its scale; use "
            "more iterations, another damping, or CausalSampling, which does not iterate"
        )


def _watched(batch: Batch) -> np.ndarray:
    """Losses and overlaps at all states, each relative to its scale."""
    loss, W = batch.process.loss, batch.weights.W
    Q = np.einsum("tik,tik->ti", W, W)
    return np.concatenate([loss / loss[0], Q.ravel() / np.max(Q)])


def _start_without_memory(batch: Batch) -> None:
    """Start from trajectories without memory, as for infinitely many examples."""
    weights, process, n = batch.weights, batch.process, batch.setting.states
    for t in range(n):
        process.advance(t, weights)
        batch.R_h[t, :, t] = np.mean(process.M[t], axis=-1)
        batch.R_star[t] = np.mean(process.G_star[t], axis=-1)
        if t + 1 < n:
            _advance(batch, t, np.zeros((batch.setting.hidden, n * batch.setting.hidden)))
            weights.kernel[t + 1] = 0.0
    _weights_from(batch, np.zeros((n * batch.setting.hidden,) * 2))


def _weights_from(batch: Batch, L: Float[np.ndarray, "noises noises"]) -> None:
    """Compute the weights at all states from R_h, R* and a factor L of C_g."""
    K = batch.setting.hidden
    for t in range(batch.setting.states - 1):
        _advance(batch, t, L[t * K : (t + 1) * K])


def _advance(batch: Batch, t: int, L: Float[np.ndarray, "K noises"]) -> None:
    """Compute the weights at state t + 1 from rows t of R_h and R* and of the factor L."""
    row = batch.R_h[t, :, : t + 1]
    batch.weights.advance(t, row, batch.R_star[t], L[:, : (t + 1) * batch.setting.hidden])


def _damped_factor(
    L: Float[np.ndarray, "n n"], g: Float[np.ndarray, "n S"], step: float
) -> Float[np.ndarray, "n n"]:
    """The lower-triangular factor of (1 − step) LLᵀ + step ⟨g gᵀ⟩, without forming either."""
    stacked = np.concatenate([np.sqrt(1 - step) * L.T, np.sqrt(step / g.shape[1]) * g.T])
    upper = np.asarray(np.linalg.qr(stacked, mode="r"))
    return (upper * np.where(np.diagonal(upper) < 0, -1.0, 1.0)[:, None]).T
