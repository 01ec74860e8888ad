"""Two-layer networks on a reused dataset in implicit steps, which may grow with time without bound.

The equations are those of `equations` and `traced`, in time τ = ∫η dt, with weights κ of an implicit multistep rule:

    w = d w(0) + κ F,  F = R_h w + R* w* + η,      R = (1 − κ R_h)^{-1} κ   (the response of w to a force, times dτ),
    h = u + (1/γ) R g,    G = M [1 + (1/γ) R G],   R_h = ⟨G⟩,

all of which now have parts at equal times. At a node t the unknowns are the row R_h(t, ·), R*(t), the causal factor
L(t, ·) of ⟨g g⟩, and v(t). From these follow w(t) and R(t, ·), with k = κ_tt,

    w(t) = (1 − k R_h(t, t))^{-1} [d w(0) + Σ_{q<t} κ_tq F(q) + k (Σ_{s<t} R_h(t, s) w(s) + R*(t) w* + L/√γ)],

and for every sample h = u + past + (1/γ) R(t, t) g(h), which is solved by Newton's method. R(t, t) stays bounded for
long steps, so that a sample makes a bounded step however long that of time is, and none explodes. The responses of a
sample are those of `traced` with M̃ = (1 − M R(t, t)/γ)^{-1} M for M. The unknowns are then new averages; their
iteration is accelerated, and takes three to eleven passes. The readout is moved by a Newton step of its own.

The passes leave an error that hardly matters for averages, but a batch is sensitive to it: what is new in g at a node
is small, and the passes decide in part along which sample vector it lies, hence which normals it meets. So the late
losses of a batch change within their errors of sampling if `settled` does.

Cost: S n³K³/6 operations for n nodes, times the passes.
"""

import numpy as np
from jaxtyping import Float

from learndyn.families.two_layer.reused.equations import ReusedSetting, labels
from learndyn.families.two_layer.reused.traced import CHUNK, adjoint
from learndyn.numerics.causal_factor import CausalFactor
from learndyn.numerics.fixed_point import fixed_point
from learndyn.numerics.multistep import ORDER, Multistep
from learndyn.numerics.normals import QuasiNormals
from learndyn.numerics.sample_matrices import inverses, products
from learndyn.problem.activations.values import curvature_function

SETTLED, STALLED = 1e-6, 1e-4
"""Passes end when nothing changes by more than this part of its largest value; `STALLED` if changes no longer fall."""
NEWTON, NEWTON_STEPS = 1e-3, 60
"""Samples are solved to this part of `SETTLED`, relative to 1 + |h|, in at most so many steps."""


class ImplicitExamples:
    """Weights, samples and responses at the nodes so far: of w (nodes, K, coordinates), g (nodes, K, S) and so on.

    - `room`: the largest number of nodes.
    - `speed`: the rate of the readout over that of the weights.
    - `order`: that of the multistep rule.
    - `settled`: passes end when nothing changes by more than this part of its largest value.
    """

    def __init__(
        self,
        setting: ReusedSetting,
        samples: int,
        seed: np.random.SeedSequence,
        room: int,
        speed: float,
        order: int = ORDER,
        settled: float = SETTLED,
    ):
        K, M = setting.hidden, setting.teachers
        self.setting, self.samples, self.room = setting, samples, room
        self.speed, self.settled, self.count = speed, settled, 0
        self.rule = Multistep(room, setting.decay, order)
        self.readout_rule = Multistep(room, speed * setting.decay, order)
        normals = QuasiNormals(samples, seed)
        self.w_star, w = setting.coordinates()
        first = normals.columns(0, M + K + 1).T
        self._normals, self._xi = normals, np.empty((M + K + room * K, samples))
        self._xi[: M + K], self._drawn = first[:-1], M + K
        clean, slope = labels(setting.pair, self.w_star @ first[:-1])
        self.y = np.asarray(clean) + setting.noise * first[-1]
        self.label_slope = np.asarray(slope)
        self.W, self.F = np.zeros((2, room, K, M + K + room * K))
        self.W[0, :, : M + K] = w
        self.R, self.driven, self.R_h, self.kernel = np.zeros((4, room, K, room, K))
        self.R_star = np.zeros((room, K, M))
        self.L = np.zeros((room, K, room * K))
        self.g = np.zeros((room, K, samples))
        self.M = np.zeros((room, K, K, samples))
        self.G_star = np.zeros((room, K, M, samples))
        self.v, self.push = np.zeros((2, room, K))
        self.v[0] = setting.start.v
        self._values = curvature_function(setting.pair.student)
        # h of the last pass, with φ, φ' and φ'' there
        self._fields = [np.zeros((K, samples)) for _ in range(4)]
        self.loss, self.share, self.leading_gap = np.zeros((3, room))
        self._factor = CausalFactor(room * K, samples)
        self._Y = np.empty((room, K, K, min(CHUNK, samples)))

    @staticmethod
    def memory(setting: ReusedSetting, samples: int, nodes: int) -> float:
        """Bytes for one batch of samples."""
        K, M = setting.hidden, setting.teachers
        n = nodes * K
        return 8.0 * (samples * (n * (3 + K + M) + K * K * CHUNK) + 8 * n * n)

    def add(self, time: float) -> int:
        """Solve one more node, at this τ; the number of passes, or 0 if they do not converge."""
        t = self.count
        if t:
            self.rule.add(time)
            self.readout_rule.add(time)
        sizes = [_largest(x[:t]) for x in (self.R_h, self.R_star, self.L, self.v)]
        self._prepare(t)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            passes = fixed_point(
                lambda x: self._pass(t, *x),
                self._guess(t),
                sizes,
                self.settled,
                STALLED,
                most=40,
                patience=3,
            )
        self.count += 1
        if passes:
            self._close(t)
        else:
            self.withdraw()
        return passes

    def withdraw(self) -> None:
        """Take the last node away."""
        self.count -= 1
        if self.count:
            self.rule.withdraw()
            self.readout_rule.withdraw()
        self._factor.keep(self.count * self.setting.hidden)
        self._fields = self._last_fields
        for x in (self.W, self.F, self.R, self.driven, self.R_h, self.kernel):
            x[self.count] = 0.0

    def _guess(self, t: int) -> list[np.ndarray]:
        """The responses of the last node, moved along the diagonal; the rest as it was there."""
        K, M = self.setting.hidden, self.setting.teachers
        if t == 0:
            return [np.zeros((K, 1, K)), np.zeros((K, M)), np.zeros((K, K)), self.v[0]]
        row = self.R_h[t - 1, :, :t]
        shifted = np.concatenate([row[:, :1], row], axis=1)
        L = np.concatenate([self.L[t - 1, :, : t * K], np.zeros((K, K))], axis=1)
        return [shifted, self.R_star[t - 1], L, self.v[t - 1]]

    def _prepare(self, t: int) -> None:
        """What a pass needs of the nodes before: d w(0) + Σ κF, Σ κ R_h R, and the readout likewise."""
        K, M = self.setting.hidden, self.setting.teachers
        kappa, d = self.rule.kappa[t, :t], self.rule.d[t]
        self._last_fields = self._fields
        if t == 0:
            self.kappa_own, self.base, self.past = 0.0, self.W[0].copy(), np.zeros((K, 0, K))
            self.readout = self.v[0].copy()
        else:
            self.kappa_own = float(self.rule.kappa[t, t])
            self.base = d * self.W[0] + np.tensordot(kappa, self.F[:t], 1)
            self.past = np.tensordot(kappa, self.driven[:t, :, :t], 1)
            self.past += kappa[None, :, None] * np.eye(K)[:, None]
            rule = self.readout_rule
            self.readout = rule.d[t] * self.v[0] + rule.kappa[t, :t] @ self.push[:t]
        need = M + K + (t + 1) * K
        if need > self._drawn:
            self._xi[self._drawn : need] = self._normals.columns(self._drawn + 1, need + 1).T
            self._drawn = need

    def _pass(
        self,
        t: int,
        R_h: Float[np.ndarray, "K n K"],
        R_star: Float[np.ndarray, "K M"],
        L: Float[np.ndarray, "K nK"],
        v: Float[np.ndarray, " K"],
    ) -> list[np.ndarray]:
        """New averages from those of the last pass."""
        setting, k = self.setting, self.kappa_own
        K, M, S = setting.hidden, setting.teachers, self.samples
        size = M + K + (t + 1) * K
        own = np.linalg.inv(np.eye(K) - k * R_h[:, t])
        before = R_h[:, :t].reshape(K, t * K)
        force = before @ self.W[:t, :, :size].reshape(t * K, size)
        force[:, : M + K] += R_star @ self.w_star
        force[:, M + K :] += L / np.sqrt(setting.ratio)
        self.W[t, :, :size] = own @ (self.base[:, :size] + k * force)
        driven = before @ self.R[:t, :, :t].reshape(t * K, t * K)
        self.R[t, :, :t] = np.tensordot(own, self.past + k * driven.reshape(K, t, K), 1)
        self.R[t, :, t] = k * own
        self.kernel[t] = self.R[t] / setting.ratio
        kernel = self.kernel[t, :, :t].reshape(K, t * K)
        u = self.W[t, :, :size] @ self._xi[:size]
        forced = kernel @ self.g[:t].reshape(t * K, S)
        kernel_own = self.kernel[t, :, t]
        h, phi, slope, curvature = self._solved(u + forced, kernel_own, v)
        pull, Delta = v[:, None] * slope, self.y - v @ phi
        self._fields = [h, phi, slope, curvature]
        self.g[t], self.v[t] = pull * Delta, v
        self.loss[t] = np.mean(Delta**2)
        self.leading_gap[t] = np.mean(np.sum(pull * Delta * (h - u), axis=0))
        tangent = _tangent(v, pull, curvature, Delta)
        memory = (kernel @ self.G_star[:t].reshape(t * K, M * S)).reshape(K, M, S)
        direct = pull[:, None] * self.label_slope + products(tangent, memory)
        # (1 − M R_tt/γ)^{-1} of every sample
        inverse = inverses(np.eye(K)[..., None] - kernel_own.T @ tangent)
        self.M[t] = products(inverse, tangent)
        self.G_star[t] = products(inverse, direct)
        self._factor.keep(t * K)
        L = np.stack([self._factor.append(g).copy() for g in self.g[t]])[:, : (t + 1) * K]
        self.push[t] = self.speed * np.mean(Delta * phi, axis=1)
        new_v = v + self._readout_step(v, phi, slope, Delta, inverse, kernel_own)
        self.R_star[t] = np.mean(self.G_star[t], axis=-1)
        self.R_h[t, :, : t + 1] = self._row(t)
        return [self.R_h[t, :, : t + 1].copy(), self.R_star[t].copy(), L, new_v]

    def _solved(
        self,
        c: Float[np.ndarray, "K S"],
        kernel: Float[np.ndarray, "K K"],
        v: Float[np.ndarray, " K"],
    ) -> list[np.ndarray]:
        """h = c + kernel g(h) of every sample, with φ, φ' and φ'' there."""
        h, phi, slope, curvature = self._fields if self.count else [c, *self._values(c)]
        step, left = np.zeros_like(c), np.full(c.shape[1], np.inf)
        for _ in range(NEWTON_STEPS):
            pull, Delta = v[:, None] * slope, self.y - v @ phi
            miss = c + kernel @ (pull * Delta) - h
            size = np.max(np.abs(miss), axis=0)
            enough = NEWTON * self.settled * (1 + np.max(np.abs(h), axis=0))
            if np.all(size < enough):
                break
            # Where the last step made it worse, half of it is taken back.
            worse = ~(size <= np.maximum(left, enough))
            if np.any(worse):
                step = np.where(worse, step / 2, 0.0)
                h = h - step
            else:
                left = size
                tangent = _tangent(v, pull, curvature, Delta)
                along = (kernel @ tangent.reshape(len(c), -1)).reshape(tangent.shape)
                jacobian = np.eye(len(c))[..., None] - along
                step = products(inverses(jacobian), miss[:, None])[:, 0]
                h = h + step
            phi, slope, curvature = self._values(h)
        return [h, phi, slope, curvature]

    def _readout_step(
        self,
        v: np.ndarray,
        phi: np.ndarray,
        slope: np.ndarray,
        Delta: np.ndarray,
        inverse: np.ndarray,
        kernel: np.ndarray,
    ) -> np.ndarray:
        """Newton's step of v = readout + k⟨Δφ⟩, with samples that answer at fixed u; zero for a fixed readout."""
        if not self.setting.train_readout or not self.count:
            return np.zeros_like(v)
        own = self.speed * self.readout_rule.kappa[self.count, self.count]
        miss = self.readout + own * np.mean(Delta * phi, axis=1) - v
        pull = v[:, None] * slope
        to_v = -pull[:, None] * phi[None]
        to_v[np.arange(len(v)), np.arange(len(v))] += slope * Delta
        moved = (kernel @ products(inverse, to_v).reshape(len(v), -1)).reshape(to_v.shape)
        change = -phi - np.einsum("is,ils->ls", pull, moved)
        gain = np.einsum("ls,is->il", change, phi) / self.samples
        gain += np.einsum("is,ils->il", Delta * slope, moved) / self.samples
        return np.linalg.solve(np.eye(len(v)) - own * gain, miss)

    def _row(self, t: int) -> Float[np.ndarray, "K n K"]:
        """R_h(t, ·), the mean of the responses of all samples."""
        K, S = self.setting.hidden, self.samples
        kernel = self.kernel.reshape(self.room * K, -1)
        total, largest = np.zeros((t + 1, K, K)), np.zeros(S)
        for first in range(0, S, CHUNK):
            chunk = slice(first, min(first + CHUNK, S))
            adjoint(t, kernel, self.M[: t + 1, :, :, chunk], self._Y, total, largest[chunk])
        self.share[t] = np.max(largest) / max(np.sum(largest), 1e-300)
        return total.transpose(2, 0, 1) / S

    def _close(self, t: int) -> None:
        """The node is solved: the force on weights there."""
        K, M = self.setting.hidden, self.setting.teachers
        size = M + K + (t + 1) * K
        self.L[t] = self._factor.L[t * K : (t + 1) * K]
        row = self.R_h[t, :, : t + 1].reshape(K, -1)
        self.F[t, :, :size] = row @ self.W[: t + 1, :, :size].reshape((t + 1) * K, size)
        self.F[t, :, : M + K] += self.R_star[t] @ self.w_star
        self.F[t, :, M + K : size] += self.L[t, :, : (t + 1) * K] / np.sqrt(self.setting.ratio)
        through = row @ self.R[: t + 1, :, : t + 1].reshape((t + 1) * K, (t + 1) * K)
        self.driven[t, :, : t + 1] = through.reshape(K, t + 1, K)


def _tangent(
    v: np.ndarray, pull: np.ndarray, curvature: np.ndarray, Delta: np.ndarray
) -> np.ndarray:
    """M = ∂g/∂h (K, K, S)."""
    M = -pull[:, None] * pull[None]
    M[np.arange(len(v)), np.arange(len(v))] += v[:, None] * curvature * Delta
    return M


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))
