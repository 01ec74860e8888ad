"""Inputs through the responses of single examples, for activations with a second derivative.

With M = ∂g/∂h of an example,

    M_ij(t) = m [v_i φ''(h_i) Δ δ_ij − v_i φ'(h_i) v_j φ'(h_j)],
    G(t, s) = ∂g(t)/∂u(s) = M(t) [1 δ_ts + (1/γ) Σ_{s≤r<t} τ_r R_w(t, r) G(r, s)],          R_h = ⟨G⟩,
    G*(t) = ∂g(t)/∂ρ = m v φ'(h) v* σ'(ρ) + M(t) (1/γ) Σ_{r<t} τ_r R_w(t, r) G*(r),         R* = ⟨G*⟩,
    b(t, s) = βb(t−1, s) + τ_t Σ_{s<r≤t} R_h(t, r) R_w(r, s),    R_w(t+1, s) = (1 − τ_tκ) R_w(t, s) + b(t, s),

with R_w(t+1, t) = b(t, t) = 1. The readout is the work of all examples together, and has no response to one of them.

The noise η is K new normals at every step, with a causal factor of ⟨g g⟩/γ; no covariance is ever factored. Row t of
R_h follows from an adjoint recursion over the steps before it, which costs S T³K³ in all.
"""

import itertools
import time

import numpy as np

from learndyn.families.two_layer.reused.equations import Inputs, ReusedSetting, State, labels
from learndyn.numerics.causal_factor import CausalFactor
from learndyn.numerics.lower import compiled
from learndyn.numerics.normals import QuasiNormals
from learndyn.problem.activations import Activation
from learndyn.problem.activations.values import with_curvature

BLOCK = 6
"""Steps per block of the adjoint recursion: loops within a block, one matrix product between blocks."""
CHUNK = 256
"""Samples per chunk of the adjoint recursion, few enough for their arrays to stay in the cache."""
KINK = 1e-3
"""A jump of an activation or its slope, as part of the largest value, that counts as one."""


def has_kink(activation: Activation) -> bool:
    """Whether an activation or its slope changes by more than the derivative says."""
    z = np.linspace(-6, 6, 4001)
    each = [np.asarray(x) for x in with_curvature(activation, z)]
    jumps = (np.diff(x) - np.diff(z) * (y[1:] + y[:-1]) / 2 for x, y in itertools.pairwise(each))
    return any(
        np.max(np.abs(j)) > KINK * np.max(np.abs(x)) for j, x in zip(jumps, each, strict=False)
    )


class TracedInputs(Inputs):
    """X by its responses: R_w and R_h (states, K, states, K) and R_star (states, K, M), filled in as training goes.

    `share` is the largest share of one sample in Σ|G|, at each state.
    """

    def __init__(self, setting: ReusedSetting, samples: int, seed: np.random.SeedSequence):
        K, M, n = setting.hidden, setting.teachers, len(setting.grid.times)
        self.setting, self.samples, self.t = setting, samples, 0
        self._normals = QuasiNormals(samples, seed)
        self._batches = np.random.default_rng(
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1))
        )
        self._xi = np.empty((M + K + n * K, samples))
        self._drawn = 0
        self.W = np.zeros((n, K, M + K + n * K))
        self.g = np.zeros((n, K, samples))
        self.M = np.zeros((n, K, K, samples))
        self.G_star = np.zeros((n, K, M, samples))
        self.R_w, self.R_h, self.kernel = np.zeros((3, n, K, n, K))
        self.R_star, self.share = np.zeros((n, K, M)), np.zeros(n)
        self._buffer = np.zeros((K, n, K))
        self._factor = CausalFactor(n * K, samples)
        self._Y = np.empty((n, K, K, min(CHUNK, samples)))

    @staticmethod
    def memory(setting: ReusedSetting, samples: int) -> float:
        """Bytes for one batch of samples."""
        K, M = setting.hidden, setting.teachers
        n = len(setting.grid.times) * K
        return 8.0 * (samples * (n * (3 + 2 * K + M) + K * K * CHUNK) + 6 * n * n)

    @staticmethod
    def seconds(setting: ReusedSetting, samples: int) -> float:
        """A forecast for one batch: row t of R_h costs as t², and the last row of one chunk is timed."""
        K, n = setting.hidden, len(setting.grid.times)
        kernel, M, Y = (
            np.zeros((n * K, n * K)),
            np.zeros((n, K, K, CHUNK)),
            np.empty((n, K, K, CHUNK)),
        )
        began = 0.0
        for t in (0, n - 1):  # the first compiles
            began = time.perf_counter()
            adjoint(t, kernel, M[: t + 1], Y, np.zeros((t + 1, K, K)), np.zeros(CHUNK))
        return (time.perf_counter() - began) * n / 3 * samples / CHUNK

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        w_star, w = self.setting.coordinates()
        count = w.shape[1]
        first = self._normals.columns(0, count + 1).T
        # Label noise comes before the noise of the steps, so that a longer training has the same samples.
        self._xi[:count], self._drawn = first[:count], count
        rho = w_star @ self._xi[:count]
        self.w_star, self.label_slope = w_star, np.asarray(labels(self.setting.pair, rho)[1])
        return w_star, w, rho, first[count]

    def fields(self, w: np.ndarray) -> np.ndarray:
        count = w.shape[1]
        if count > self._drawn:
            self._xi[self._drawn : count] = self._normals.columns(self._drawn + 1, count + 1).T
            self._drawn = count
        return w @ self._xi[:count] + self.forced(w)

    def forced(self, w: np.ndarray) -> np.ndarray:
        t, K = self.t, self.setting.hidden
        past = self.g[:t].reshape(t * K, self.samples)
        return self.kernel[t, :, :t].reshape(K, t * K) @ past

    def chosen(self, fraction: float) -> np.ndarray:
        return np.where(self._batches.random(self.samples) < fraction, 1 / fraction, 0.0)

    def force(self, w: np.ndarray, state: State) -> np.ndarray:
        t, setting = self.t, self.setting
        K, M = setting.hidden, setting.teachers
        self.W[t, :, : w.shape[1]] = w
        self._note(state)
        self._row()
        coordinates = M + K + (t + 1) * K
        past = self.W[: t + 1, :, :coordinates].reshape((t + 1) * K, coordinates)
        force = self.R_h[t, :, : t + 1].reshape(K, -1) @ past
        force[:, : M + K] += self.R_star[t] @ self.w_star
        L = np.stack([self._factor.append(g) for g in self.g[t]])
        force[:, M + K :] += L[:, : (t + 1) * K] / np.sqrt(setting.ratio)
        self._advance()
        return force

    def _note(self, state: State) -> None:
        """M, G* and g of the present state."""
        t, K, S = self.t, self.setting.hidden, self.samples
        pull, curvature = state.pull, with_curvature(self.setting.pair.student, state.h)[2]
        self.g[t] = state.g
        np.multiply(-pull[:, None], pull[None], out=self.M[t])
        self.M[t, np.arange(K), np.arange(K)] += (
            state.v[:, None] * np.asarray(curvature) * state.Delta
        )
        self.M[t] *= state.m
        past = self.G_star[:t].reshape(t * K, self.setting.teachers * S)
        memory = self.kernel[t, :, :t].reshape(K, t * K) @ past
        np.multiply((state.m * pull)[:, None], self.label_slope, out=self.G_star[t])
        self.G_star[t] += np.einsum("ijs,jns->ins", self.M[t], memory.reshape(K, -1, S))

    def _row(self) -> None:
        """Rows t of R_h and R*.

        G of every sample by the adjoint recursion Y(t) = M(t), Y(r) = [Σ_{r<q≤t} Y(q) τ_r R_w(q, r)/γ] M(r); R_h(t, r)
        is the mean of Y(r).
        """
        t, K, S = self.t, self.setting.hidden, self.samples
        kernel = self.kernel.reshape(len(self.kernel) * K, -1)
        total, largest = np.zeros((t + 1, K, K)), np.zeros(S)
        for first in range(0, S, CHUNK):
            chunk = slice(first, min(first + CHUNK, S))
            adjoint(t, kernel, self.M[: t + 1, :, :, chunk], self._Y, total, largest[chunk])
        self.share[t] = np.max(largest) / max(np.sum(largest), 1e-300)
        self.R_h[t, :, : t + 1] = total.transpose(2, 0, 1) / S
        self.R_star[t] = np.mean(self.G_star[t], axis=-1)

    def _advance(self) -> None:
        """Row t + 1 of R_w, and of the kernel τ_s R_w/γ."""
        t, K, setting = self.t, self.setting.hidden, self.setting
        self.t += 1
        if self.t == len(self.R_w):
            return
        tau = setting.grid.tau[t]
        row = self.R_h[t, :, : t + 1].reshape(K, -1)
        driven = (row @ self.R_w[: t + 1, :, :t].reshape((t + 1) * K, t * K)).reshape(K, t, K)
        self._buffer[:, :t] = setting.momentum * self._buffer[:, :t] + tau * driven
        self._buffer[:, t] = np.eye(K)
        R_w = self.R_w[t + 1]
        R_w[:, : t + 1] = self._buffer[:, : t + 1]
        R_w[:, :t] += (1 - tau * setting.decay) * self.R_w[t, :, :t]
        weights = setting.grid.tau[: t + 1, None] / setting.ratio
        self.kernel[t + 1, :, : t + 1] = R_w[:, : t + 1] * weights


def adjoint(
    t: int, kernel: np.ndarray, M: np.ndarray, Y: np.ndarray, total: np.ndarray, size: np.ndarray
) -> None:
    """Y(r)_ij of a chunk of samples, stored as Y[r, j, i]; adds ΣY to `total` and Σ|Y| of each sample to `size`."""
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
    _add_up(t, Y, width, total, size)


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


@compiled
def _add_up(t: int, Y: np.ndarray, width: int, total: np.ndarray, size: np.ndarray) -> None:
    """Add Σ_s Y to `total`, and Σ|Y| of each sample to `size`."""
    K = Y.shape[1]
    for r in range(t + 1):
        for j in range(K):
            for i in range(K):
                sum_ = 0.0
                for s in range(width):
                    sum_ += Y[r, j, i, s]
                    size[s] += abs(Y[r, j, i, s])
                total[r, j, i] += sum_
