"""Two-layer networks on a reused dataset: the limit of many inputs and examples, as two coupled processes.

Finite network: see `TwoLayer` (its part on a `Dataset`). Limit: D, P → ∞ at fixed ratio γ = P/D, with K hidden and M
teacher units and T steps τ_t fixed. Exact for these steps; gradient flow is the further limit of small ones.

One sample: fields u_i(t) and ρ_n, jointly Gaussian with ⟨u_i(t)u_j(s)⟩ = C_ij(t, s), ⟨u_iρ_n⟩ = A_in, ⟨ρρᵀ⟩ = T; label
y = Σ_n v*_n σ(ρ_n) + ςz; and

    h_i(t) = u_i(t) + (1/γ) Σ_{s<t} τ_s Σ_j R_w,ij(t, s) g_j(s),    g_i = v_i φ'(h_i) Δ,    Δ = y − Σ_k v_k φ(h_k),

    G(t, s) = ∂g(t)/∂u(s) = M(t) [1 δ_ts + (1/γ) Σ_{s≤r<t} τ_r R_w(t, r) G(r, s)],
    M_ij = ∂g_i/∂h_j = v_i φ''(h_i) Δ δ_ij − v_i φ'(h_i) v_j φ'(h_j),        R_h = ⟨G⟩,
    G*(t) = ∂g(t)/∂ρ = v φ'(h) v* σ'(ρ) + M(t) (1/γ) Σ_{r<t} τ_r R_w(t, r) G*(r),    R* = ⟨G*⟩.

One weight, with decay κ: Gaussian, driven by noise η with ⟨η_i(t)η_j(s)⟩ = C_g,ij(t, s)/γ, C_g = ⟨g g⟩,

    w(t+1) = (1 − τ_tκ) w(t) + τ_t [η(t) + Σ_{s≤t} R_h(t, s) w(s) + R*(t) w*],    C = ⟨w w⟩,  A = ⟨w w*⟩,
    R_w(t+1, s) = (1 − τ_tκ) R_w(t, s) + τ_t Σ_{s<r≤t} R_h(t, r) R_w(r, s),    R_w(t+1, t) = 1.

Everything on the right is known when it is needed, so one forward sweep solves it. Weights are linear in independent
normals ξ, w_i(t) = Σ_k W_ik(t) ξ_k: M for the teacher, K for the initial weights, K for each step's noise. The same
coefficients make the fields of the samples, u = Wξ, and no covariance is ever factored.

Bordelon & Pehlevan's dynamical mean-field theory, for this network in "Asymptotic Dynamics for Delayed Feature Learning
in a Toy Model" (Workshop on High-dimensional Learning Dynamics, 2024), with corrections (see the documentation).
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.families.two_layer.student_teacher import StudentTeacher
from learndyn.numerics.covariance import covariance_root, whitener
from learndyn.numerics.gram import gram
from learndyn.numerics.lower import compiled
from learndyn.numerics.normals import QuasiNormals
from learndyn.problem.activations.values import with_curvature

BLOCK = 8
"""Steps per block of the adjoint recursion: loops within a block, one matrix product between blocks."""
CHUNK = 256
"""Samples per chunk of the adjoint recursion, few enough for their arrays to stay in the cache."""


class ReusedSetting(NamedTuple):
    """A two-layer network on a reused dataset, as arrays.

    - `pair`: activations of student and teacher, T and v*.
    - `Q` (K×K), `R` (K×M), `v` (K): overlaps and readout at the start.
    - `ratio` (γ = P/D): examples per input dimension.
    - `tau` (τ_t): the T step sizes.
    - `decay` (κ): weight decay.
    - `noise` (ς): standard deviation of the label noise.
    """

    pair: StudentTeacher
    Q: np.ndarray
    R: np.ndarray
    v: np.ndarray
    ratio: float
    tau: np.ndarray
    decay: float
    noise: float

    @property
    def hidden(self) -> int:
        """K."""
        return self.R.shape[0]

    @property
    def teachers(self) -> int:
        """M."""
        return self.R.shape[1]

    @property
    def states(self) -> int:
        """T + 1."""
        return len(self.tau) + 1

    def memory(self, samples: int) -> float:
        """Bytes for one batch of samples."""
        K, M, n = self.hidden, self.teachers, self.states * self.hidden
        return 8.0 * (samples * (n * (3 + 2 * K + M) + K * K * CHUNK) + 6 * n * n)


class WeightProcess:
    """The weights' side: coefficients W (states, K, normals), responses R_w and the memory kernel τ_s R_w(t, s)/γ."""

    def __init__(self, setting: ReusedSetting):
        K, M, n = setting.hidden, setting.teachers, setting.states
        self.setting = setting
        self.root = covariance_root(np.asarray(setting.pair.T))
        """w* = root ξ."""
        along = setting.R @ whitener(self.root)
        self.W = np.zeros((n, K, M + K + (n - 1) * K))
        self.W[0, :, :M] = along
        self.W[0, :, M : M + K] = covariance_root(setting.Q - along @ along.T)
        self.R_w = np.zeros((n, K, n, K))
        self.kernel = np.zeros((n, K, n, K))

    def normals(self, t: int) -> int:
        """The number of normals on which the weights at state t depend."""
        return self.setting.teachers + self.setting.hidden * (t + 1)

    def advance(
        self,
        t: int,
        R_h: Float[np.ndarray, "K steps K"],
        R_star: Float[np.ndarray, "K M"],
        L: Float[np.ndarray, "K noises"],
    ) -> None:
        """State t + 1 from rows t of R_h (K, t+1, K), of R* (K, M) and of the factor L of C_g (K, (t+1)K)."""
        setting, K = self.setting, self.setting.hidden
        tau = setting.tau[t]
        keep = 1 - tau * setting.decay
        row, count = R_h.reshape(K, -1), self.normals(t)
        W = self.W[t + 1]
        past = self.W[: t + 1, :, :count].reshape((t + 1) * K, count)
        W[:, :count] = keep * self.W[t, :, :count] + tau * (row @ past)
        W[:, count:] = 0.0
        W[:, : setting.teachers] += tau * (R_star @ self.root)
        noise = slice(setting.teachers + K, setting.teachers + K + (t + 1) * K)
        W[:, noise] += tau / np.sqrt(setting.ratio) * L
        past = self.R_w[: t + 1, :, :t].reshape((t + 1) * K, t * K)
        response = keep * past[t * K :] + tau * (row @ past)
        self.R_w[t + 1, :, :t] = response.reshape(K, t, K)
        self.R_w[t + 1, :, t] = np.eye(K)
        weights = setting.tau[: t + 1, None] / setting.ratio
        self.kernel[t + 1, :, : t + 1] = self.R_w[t + 1, :, : t + 1] * weights

    def overlaps(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """C (states, K, states, K) and A (states, K, M) at the given states."""
        W = self.W[states]
        return gram(W), W[..., : self.setting.teachers] @ self.root.T


@eqx.filter_jit
def _labels(
    pair: StudentTeacher, rho: Float[Array, "M S"]
) -> tuple[Float[Array, " S"], Float[Array, "M S"]]:
    """Clean labels Σ_n v*_n σ(ρ_n) and their slopes v*_n σ'(ρ_n), for fields (M, S)."""
    return pair.v_star @ pair.teacher(rho), pair.v_star[:, None] * pair.teacher.derivative(rho)


class SampleProcess:
    """The samples' side: g (states, K, S), M (states, K, K, S) and G* (states, K, M, S) of S samples.

    Samples are the last axis. `loss` is ⟨Δ²⟩ and `sharpest` the largest τ-free curvature Σ_i v_i² φ'(h_i)²/γ of a
    sample, at each state; `share` is the largest share of one sample in Σ|G| or in Σ Δ².
    """

    def __init__(
        self,
        setting: ReusedSetting,
        samples: int,
        seed: np.random.SeedSequence,
        root: Float[np.ndarray, "M M"],
    ):
        K, M, n = setting.hidden, setting.teachers, setting.states
        self.setting, self.samples = setting, samples
        self._normals = QuasiNormals(samples, seed)
        self._xi = np.empty((M + K + (n - 1) * K, samples))
        first = self._normals.columns(0, M + K + 1).T
        # Label noise comes before the noise of the steps, so that a longer training has the same samples.
        self._xi[: M + K] = first[: M + K]
        self._drawn = M + K
        clean, slope = _labels(setting.pair, jnp.asarray(root @ first[:M]))
        self.y = np.asarray(clean) + setting.noise * first[M + K]
        self.teacher_slope = np.asarray(slope)
        self.g = np.zeros((n, K, samples))
        self.M = np.zeros((n, K, K, samples))
        self.G_star = np.zeros((n, K, M, samples))
        self.loss, self.sharpest, self.share = np.zeros(n), np.zeros(n), np.zeros(n)
        self._Y = np.empty((n, K, K, min(CHUNK, samples)))

    def _fields(self, W: Float[np.ndarray, "K normals"]) -> np.ndarray:
        """u = Wξ, for coefficients (K, normals)."""
        count = W.shape[1]
        if count > self._drawn:
            columns = self._normals.columns(self._drawn + 1, count + 1)
            self._xi[self._drawn : count] = columns.T
            self._drawn = count
        return W @ self._xi[:count]

    def advance(self, t: int, weights: WeightProcess) -> np.ndarray:
        """Compute state t; h (K, S)."""
        setting, K, S = self.setting, self.setting.hidden, self.samples
        kernel = weights.kernel[t, :, :t].reshape(K, t * K)
        h = self._fields(weights.W[t, :, : weights.normals(t)])
        h += kernel @ self.g[:t].reshape(t * K, S)
        phi, slope, curvature = map(np.asarray, with_curvature(setting.pair.student, h))
        v = setting.v[:, None]
        pull = v * slope
        error = self.y - setting.v @ phi
        self.g[t] = pull * error
        np.multiply(-pull[:, None], pull[None], out=self.M[t])
        self.M[t, np.arange(K), np.arange(K)] += v * curvature * error
        M = setting.teachers
        memory = (kernel @ self.G_star[:t].reshape(t * K, M * S)).reshape(K, M, S)
        np.multiply(pull[:, None], self.teacher_slope[None], out=self.G_star[t])
        self.G_star[t] += np.einsum("ijs,jns->ins", self.M[t], memory)
        square = error**2
        self.loss[t] = np.mean(square)
        self.sharpest[t] = np.max(np.sum(pull**2, axis=0)) / setting.ratio
        self.share[t] = np.max(square) / max(np.sum(square), 1e-300)
        return h

    def response(self, t: int, weights: WeightProcess) -> tuple[np.ndarray, np.ndarray]:
        """Rows t of R_h (K, t+1, K) and of R* (K, M).

        G of every sample by the adjoint recursion Y(t) = M(t), Y(r) = [Σ_{r<q≤t} Y(q) τ_r R_w(q, r)/γ] M(r); R_h(t, r)
        is the mean of Y(r).
        """
        K, S, n = self.setting.hidden, self.samples, self.setting.states
        kernel = weights.kernel.reshape(n * K, n * K)
        total = np.zeros((t + 1, K, K))
        largest = np.zeros(S)
        for first in range(0, S, CHUNK):
            chunk = slice(first, min(first + CHUNK, S))
            _adjoint(t, kernel, self.M[: t + 1, :, :, chunk], self._Y, total, largest[chunk])
        self.share[t] = max(self.share[t], np.max(largest) / max(np.sum(largest), 1e-300))
        return total.transpose(2, 0, 1) / S, np.mean(self.G_star[t], axis=-1)


def _adjoint(
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
