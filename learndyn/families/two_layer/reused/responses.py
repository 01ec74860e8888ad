"""Responses of the limit on a reused dataset, from the tangents of single examples.

Given h, v and m of an example at all states, with M = ∂g/∂h,

    M_ij(t) = m [v_i φ''(h_i) Δ δ_ij − v_i φ'(h_i) v_j φ'(h_j)],
    G(t, s) = ∂g(t)/∂u(s) = M(t) [1 δ_ts + (1/γ) Σ_{s≤r<t} τ_r R_w(t, r) G(r, s)],          R_h = ⟨G⟩,
    G*(t) = ∂g(t)/∂ρ = m v φ'(h) v* σ'(ρ) + M(t) (1/γ) Σ_{r<t} τ_r R_w(t, r) G*(r),         R* = ⟨G*⟩,
    b(t, s) = βb(t−1, s) + τ_t Σ_{s<r≤t} R_h(t, r) R_w(r, s),    R_w(t+1, s) = (1 − τ_tκ) R_w(t, s) + b(t, s),

with R_w(t+1, t) = b(t, t) = 1. The readout is the work of all examples together, and has no response to one of them.

Row t of R_h follows from an adjoint recursion over the steps before it, which costs S T³K³ in all: the examples
themselves cost far less, because X need not know these entries. Read off X they are the solution of Σ_s τ_s R_w(t, s)
⟨g(s) V_j⟩ = √γ c_j(t), whose matrix is singular to any precision for small steps.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.errors import ProblemError
from learndyn.families.two_layer.reused.equations import ReusedSetting, State
from learndyn.numerics.lower import compiled
from learndyn.problem.activations.values import with_curvature
from learndyn.problem.problem import Problem

BLOCK = 8
"""Steps per block of the adjoint recursion: loops within a block, one matrix product between blocks."""
KINK = 1e-3
"""A jump of the slope, as part of its largest value, from which an activation has a kink."""
CHUNK = 256
"""Samples per chunk of the adjoint recursion, few enough for their arrays to stay in the cache."""


def require_curvature(problem: Problem, method: str) -> None:
    """Refuse responses of an activation with a kink, whose slope changes by more than φ'' says."""
    activation, z = problem.network.activation, np.linspace(-6, 6, 4001)
    _, slope, curvature = map(np.asarray, with_curvature(activation, z))
    unexplained = np.diff(slope) - np.diff(z) * (curvature[1:] + curvature[:-1]) / 2
    if np.max(np.abs(unexplained)) > KINK * np.max(np.abs(slope)):
        allowed = "must be False: the activation has a kink, and responses need its second derivative"
        raise ProblemError(f"{method}.responses", True, allowed)


class Responses(NamedTuple):
    """R_w (states, K, states, K), R_h (states, K, states, K) and R_star (states, K, M)."""

    R_w: np.ndarray
    R_h: np.ndarray
    R_star: np.ndarray


class Tangents:
    """M (states, K, K, S) and m v φ' (states, K, S) of the first `samples` examples, noted state by state."""

    def __init__(self, setting: ReusedSetting, samples: int):
        self.setting, self.samples = setting, samples
        self.M: list[np.ndarray] = []
        self.pull: list[np.ndarray] = []

    def __call__(self, state: State) -> None:
        """Note a state."""
        first = slice(self.samples)
        h, pull, Delta, m = state.h[:, first], state.pull[:, first], state.Delta[first], state.m
        m = np.broadcast_to(m, state.Delta.shape)[first]
        curvature = np.asarray(with_curvature(self.setting.pair.student, h)[2])
        M = -pull[:, None] * pull[None]
        diagonal = np.arange(len(h))
        M[diagonal, diagonal] += state.v[:, None] * curvature * Delta
        self.M.append(m * M)
        self.pull.append(m * pull)

    def responses(self, label_slope: Float[np.ndarray, "M S"]) -> Responses:
        """All responses; `label_slope` holds v*_n σ'(ρ_n) of all examples."""
        n, K, teachers = len(self.M), self.setting.hidden, len(label_slope)
        M, S = np.stack(self.M), self.M[0].shape[-1]
        label_slope = label_slope[:, :S]
        R_w, R_h = np.zeros((2, n, K, n, K))
        R_star, G_star = np.zeros((n, K, teachers)), np.zeros((n, K, teachers, S))
        kernel, buffer = np.zeros((n, K, n, K)), np.zeros((K, n, K))
        Y = np.empty((n, K, K, min(CHUNK, S)))
        grid, setting = self.setting.grid, self.setting
        for t in range(n):
            past = kernel[t, :, :t].reshape(K, t * K)
            memory = (past @ G_star[:t].reshape(t * K, teachers * S)).reshape(K, teachers, S)
            G_star[t] = self.pull[t][:, None] * label_slope
            G_star[t] += np.einsum("ijs,jns->ins", M[t], memory)
            R_star[t] = np.mean(G_star[t], axis=-1)
            R_h[t, :, : t + 1] = _row(t, kernel.reshape(n * K, n * K), M, Y)
            if t + 1 == n:
                break
            tau = grid.tau[t]
            row = R_h[t, :, : t + 1].reshape(K, -1)
            driven = row @ R_w[: t + 1, :, :t].reshape((t + 1) * K, t * K)
            buffer[:, :t] = setting.momentum * buffer[:, :t] + tau * driven.reshape(K, t, K)
            buffer[:, t] = np.eye(K)
            R_w[t + 1, :, : t + 1] = buffer[:, : t + 1]
            R_w[t + 1, :, :t] += (1 - tau * setting.decay) * R_w[t, :, :t]
            weights = grid.tau[: t + 1, None] / setting.ratio
            kernel[t + 1, :, : t + 1] = R_w[t + 1, :, : t + 1] * weights
        return Responses(R_w, R_h, R_star)


def _row(t: int, kernel: np.ndarray, M: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Row t of R_h (K, t+1, K): Y(t) = M(t), Y(r) = [Σ_{r<q≤t} Y(q) τ_r R_w(q, r)/γ] M(r), R_h(t, r) = ⟨Y(r)⟩."""
    K, S = M.shape[1], M.shape[-1]
    total = np.zeros((t + 1, K, K))
    for first in range(0, S, CHUNK):
        _adjoint(t, kernel, M[: t + 1, :, :, first : first + CHUNK], Y, total)
    return total.transpose(2, 0, 1) / S


def _adjoint(
    t: int, kernel: np.ndarray, M: np.ndarray, Y: np.ndarray, total: np.ndarray
) -> None:
    """Y(r)_ij of a chunk of samples, stored as Y[r, j, i]; adds ΣY to `total`."""
    K, width = M.shape[1], M.shape[-1]
    Y[t, :, :, :width] = M[t].transpose(1, 0, 2)
    flat = Y.reshape(len(Y) * K, K * Y.shape[-1])
    last = t
    while last > 0:
        first = max(0, last - BLOCK)
        block = slice(first * K, last * K)
        later = slice(last * K, (t + 1) * K)
        np.matmul(kernel[later, block].T, flat[later], out=flat[block])
        _within_block(first, last, kernel, M, Y)
        last = first
    total += Y[: t + 1, :, :, :width].sum(axis=-1)


@compiled
def _within_block(first: int, last: int, kernel: np.ndarray, M: np.ndarray, Y: np.ndarray) -> None:
    """Complete Y(last−1) … Y(first), which hold the sums over q ≥ last."""
    K, width = M.shape[1], M.shape[3]
    row = np.empty((K, width))
    for r in range(last - 1, first - 1, -1):
        for q in range(r + 1, last):
            for k in range(K):
                for j in range(K):
                    a = kernel[q * K + k, r * K + j]
                    for i in range(K):
                        for s in range(width):
                            Y[r, j, i, s] += a * Y[q, k, i, s]
        for i in range(K):
            row[:] = 0.0
            for j in range(K):
                for l in range(K):
                    for s in range(width):
                        row[j, s] += Y[r, l, i, s] * M[r, l, j, s]
            for j in range(K):
                for s in range(width):
                    Y[r, j, i, s] = row[j, s]
