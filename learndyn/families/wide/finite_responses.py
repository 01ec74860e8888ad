"""Responses of finite wide networks in training: tangents of the run, in random directions of ±1.

A source joins one field at one step s, and training goes on; it is put on all neurons at once, with random signs v,

    z^ℓ_αc(s) → z^ℓ_αc(s) + εv    or    h^ℓ_α(s) → h^ℓ_α(s) + εv,

so that the mean response of a neuron to a source of its own is, up to O(1/√N) of noise,

    A^ℓ_μ,αc(t, s) = v·δφ(h^ℓ_μ(t))/N    or    B^ℓ_μc,α(t, s) = v·δg^ℓ_μc(t)/N,        δ = ∂/∂ε.

A source on z^ℓ joins g^ℓ, with it the update of W^{ℓ−1} and all z below; a source on h^ℓ joins φ and φ' there, the
fields above and everything that comes back. With the impulse response κ of a weight and a dot for sums over neurons,
the weights of a tangent are sums over the past, and one step is, first forward and then backward,

    δh^{ℓ+1}_μ = W^ℓδφ^ℓ_μ/r_ℓ + (γ_0/r_ℓ²) Σ_{s<t} κ(t, s) Σ_α δ[δ^{ℓ+1}_α(s) (φ^ℓ_α(s)·a)],    a = φ^ℓ_μ(t),
    δw_c = γ_0 Σ_{s<t} κ(t, s) Σ_α δ[φ^L_α(s) E_αc(s)],    δf_c = (δw_c·φ^L + w_c·δφ^L)/(γ_0 N),
    δz^ℓ_μc = W^{ℓ⊤}δg^{ℓ+1}_μc/r_ℓ + (γ_0/r_ℓ²) Σ_{s<t} κ(t, s) Σ_α δ[φ^ℓ_α(s) (δ^{ℓ+1}_α(s)·a)],  a = g^{ℓ+1}_μc(t),
    δφ = φ'δh,    δg_c = φ''z_c δh + φ'δz_c,    δδ = Σ_c (δE_c g_c + E_c δg_c),

where δ^ℓ_α = Σ_c E_αc g^ℓ_αc is that of `finite.py`, and a is not varied; biases add γ_0 Σ κ δδ^{ℓ+1} to δh^{ℓ+1}. A
step of one tangent costs as much as that of a network, and products with all steps before. Directions of different
states have random generators of their own.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import expit, softmax

from learndyn.errors import ProblemError
from learndyn.families.wide.kernel_observables import is_linear
from learndyn.families.wide.loss import Loss
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.problem.activations import Relu
from learndyn.problem.activations.values import with_curvature
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import impulse_response

if TYPE_CHECKING:
    from learndyn.families.wide.finite import FiniteWide, LayerFields, WideWeights


def force_change(
    loss: Loss, f: Float[np.ndarray, "points C"], df: Float[np.ndarray, "... points C"]
) -> Float[np.ndarray, "... points C"]:
    """The change of the forces E with the change df of the outputs f; it is zero for points that are not trained."""
    P, changed = len(loss.targets), np.zeros_like(df)
    f, df = f[:P], df[..., :P, :]
    if loss.criterion == "squared":
        moved = -df
    elif loss.criterion == "logistic":
        moved = -expit(f) * expit(-f) * df
    else:
        share = softmax(f, axis=1)
        moved = -share * (df - np.sum(share * df, axis=-1, keepdims=True))
    changed[..., :P, :] = loss.scale * moved
    return changed


def check(problem: Problem) -> None:
    """Refuse responses that are meaningless or that no theory predicts."""
    network, allowed = problem.network, None
    linear = is_linear(network.activation)
    if problem.training.time is not None:
        allowed = "must be False in gradient flow; give training steps instead of a time"
    elif network.depth == 1 and not linear:
        allowed = (
            "must be False with one hidden layer of nonlinear units, whose theory has no responses"
        )
    elif isinstance(network.activation, Relu):
        allowed = "must be False for a relu: a network's derivatives miss the jumps of its slope"
    if allowed:
        raise ProblemError("WideDescent.responses", True, allowed)


def sources(setting: WideSetting, states: int, probes: int) -> tuple[int, ...]:
    """Numbers of sources: by state, probe, layer, point, and kind (1 on h, C on z).

    The sampled theory needs no responses to h in the first layer nor to z in the last, and leaves them zero.
    """
    layers = setting.depth if is_linear(setting.activation) else setting.depth - 1
    return states, probes, layers, setting.points, 1 + setting.outputs


def memory(setting: WideSetting, width: int, states: int, steps: int, probes: int) -> float:
    """Bytes that the tangents of one network need: their past, one step, and their directions."""
    past = 2 * setting.depth * steps * setting.trained
    now = setting.points * (5 + setting.depth + 3 * setting.outputs)
    return math.prod(sources(setting, states, probes)) * width * (8.0 * (past + now) + 1)


class Past:
    """Fields of the trained points at all steps so far, and their changes in every tangent."""

    def __init__(self, tangents: int, steps: int, points: int, width: int):
        self.points = points
        self.values = np.zeros((steps * points, width))
        self.changes = np.zeros((tangents, steps * points, width))

    def put(
        self,
        t: int,
        values: Float[np.ndarray, "points N"],
        changes: Float[np.ndarray, "tangents points N"],
    ) -> None:
        """Store the fields of step t, and their changes in the first tangents."""
        P = self.points
        rows = slice(t * P, (t + 1) * P)
        self.values[rows], self.changes[: len(changes), rows] = values[:P], changes[:, :P]


def change_of_sum(
    kappa: Float[np.ndarray, " past"],
    summed: Past,
    dotted: Past,
    rows: Float[np.ndarray, "rows N"],
    active: int,
) -> Float[np.ndarray, "tangents rows N"]:
    """δ Σ_{s,α} κ(s) summed_α(s) (dotted_α(s)·row) for each of the `rows`, which are not varied."""
    n = len(kappa)
    weights = kappa * (rows @ dotted.values[:n].T)
    total = weights @ summed.changes[:active, :n]
    if len(dotted.changes):
        changed = kappa[:, None] * (dotted.changes[:active, :n] @ rows.T)
        total += changed.transpose(0, 2, 1) @ summed.values[:n]
    return total


class WideTangents:
    """The tangents of a run recorded at the steps `recorded`, and the responses A and B measured so far.

    Layers are numbered from 0, and `output` is −1 for a source on h.
    """

    def __init__(
        self,
        setting: WideSetting,
        training: GradientDescent,
        trainee: "FiniteWide",
        recorded: np.ndarray,
        probes: int,
        seed: int,
    ):
        self.setting, self.x, self.origin, self.probes = setting, trainee.x, trainee.origin, probes
        width = trainee.theta.w.shape[1]
        P, p, C, L, n = (
            setting.trained,
            setting.points,
            setting.outputs,
            setting.depth,
            len(recorded),
        )
        self.last = int(recorded[-1])
        self.kappa = np.asarray(impulse_response(training, self.last)[0])
        shape = sources(setting, n, probes)
        self.state, _, layer, self.point, output = (index.ravel() for index in np.indices(shape))
        self.output = output - 1
        # Sources on z begin at the first layer, those on h end at the last one.
        self.layer = np.where(self.output < 0, layer + L - shape[2], layer)
        self.v = np.concatenate([_signs(seed, int(t), (len(layer) // n, width)) for t in recorded])
        count = len(self.v)
        self.inputs = Past(0, self.last, P, self.x.shape[1])
        self.phi = [Past(count, self.last, P, width) for _ in range(L)]
        self.delta = [Past(count, self.last, P, width) for _ in range(L)]
        self.E = Past(count, self.last, P, C)
        self.A = np.zeros((L, n, p, n, p, C))
        self.B = np.zeros((L, n, p, C, n, p))

    def step(self, t: int, weights: "WideWeights", record: int | None, reached: int) -> None:
        """Take step t at `weights`. `reached` recorded states have begun; `record` is the number of the present one."""
        setting, active = self.setting, int(np.sum(self.state < reached))
        if not active:
            return
        fields = weights.forward(self.x)
        f = fields.f - self.origin
        E = setting.loss.force(f)
        kappa = setting.gamma * np.repeat(self.kappa[t, :t], setting.trained)
        bends, dh, dphi = self._forward(kappa, weights, fields, record, active)
        dw = change_of_sum(kappa, self.phi[-1], self.E, np.eye(setting.outputs), active)
        df = (dw @ fields.phi[-1].T).transpose(0, 2, 1) + dphi[-1] @ weights.w.T
        dE = force_change(setting.loss, f, df / (setting.gamma * len(weights.w.T)))
        z = np.broadcast_to(weights.w, (len(f), *weights.w.shape))
        dz = np.repeat(dw[:, None], len(f), axis=1)
        for ell in reversed(range(setting.depth)):
            at = self._start(ell, record, on_z=True)
            dz[at, self.point[at], self.output[at]] += self.v[at]
            slope = fields.slope[ell][:, None]
            g = slope * z
            dg = slope * dz + dh[ell][:, :, None] * (bends[ell][:, None] * z)
            if record is not None:
                self._measure(ell, record, active, dphi[ell], dg)
            if t < self.last:
                delta, ddelta = np.einsum("mc,mcn->mn", E, g), np.einsum("mc,jmcn->jmn", E, dg)
                ddelta += np.einsum("jmc,mcn->jmn", dE, g)
                self.delta[ell].put(t, delta, ddelta)
                self.phi[ell].put(t, fields.phi[ell + 1], dphi[ell])
            if ell:
                W, rows = weights.W[ell], g.reshape(-1, g.shape[-1])
                past = change_of_sum(
                    kappa / W.shape[1], self.phi[ell - 1], self.delta[ell], rows, active
                )
                z, dz = _through(g, W), _through(dg, W) + past.reshape(dg.shape)
        if t < self.last:
            self.inputs.put(t, self.x, self.inputs.changes)
            self.E.put(t, E, dE)

    def _forward(
        self,
        kappa: Float[np.ndarray, " past"],
        weights: "WideWeights",
        fields: "LayerFields",
        record: int | None,
        active: int,
    ) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """φ'' of all layers, and δh and δφ (tangents × points × N)."""
        bends, dh, dphi = [], [], []
        for ell, W in enumerate(weights.W):
            below = self.phi[ell - 1] if ell else self.inputs
            moved = change_of_sum(
                kappa / W.shape[1], self.delta[ell], below, fields.phi[ell], active
            )
            if ell:
                moved += _through(dphi[-1], W.T)
            if weights.b:
                moved += (kappa @ self.delta[ell].changes[:active, : len(kappa)])[:, None]
            at = self._start(ell, record, on_z=False)
            moved[at, self.point[at]] += self.v[at]
            bends.append(np.asarray(with_curvature(self.setting.activation, fields.h[ell])[2]))
            dh.append(moved)
            dphi.append(fields.slope[ell] * moved)
        return bends, dh, dphi

    def _start(self, ell: int, record: int | None, on_z: bool) -> np.ndarray:
        """The tangents whose source joins z (with `on_z`) or h of a layer at the present state."""
        if record is None:
            return np.arange(0)
        mine = (self.layer == ell) & ((self.output >= 0) == on_z)
        return np.flatnonzero(mine & (self.state == record))

    def _measure(
        self,
        ell: int,
        record: int,
        active: int,
        dphi: Float[np.ndarray, "tangents points N"],
        dg: Float[np.ndarray, "tangents points C N"],
    ) -> None:
        """A and B of a layer at a recorded state: v·δφ/N and v·δg/N, their means over probes."""
        mine, output = (self.layer == ell)[:active], self.output[:active]
        (p, C), states, N = self.B.shape[2:4], record + 1, dphi.shape[-1]
        if np.any(on_z := mine & (output >= 0)):
            A = np.einsum("jmn,jn->mj", dphi[on_z], self.v[:active][on_z]) / N
            A = A.reshape(p, states, self.probes, p, C)
            self.A[ell, record, :, :states] = A.mean(axis=2)
        if np.any(on_h := mine & (output < 0)):
            B = np.einsum("jmcn,jn->mcj", dg[on_h], self.v[:active][on_h]) / N
            B = B.reshape(p, C, states, self.probes, p)
            self.B[ell, record, :, :, :states] = B.mean(axis=3)

    def arrays(self, places: np.ndarray) -> dict:
        """A and B at the recorded states with the numbers `places`."""
        A, B = self.A[:, places][:, :, :, places], self.B[:, places][:, :, :, :, places]
        if is_linear(self.setting.activation):
            # Linear units have the same gradient on every point, and the theory has the sum of the responses to all.
            A = np.repeat(A.mean(axis=4, keepdims=True), A.shape[4], axis=4)
        return {"A": A, "B": B}


def _through(
    vectors: Float[np.ndarray, "... N"], W: Float[np.ndarray, "N N"]
) -> Float[np.ndarray, "... N"]:
    """The last axis of `vectors` times W/√N, in one product."""
    rows = vectors.reshape(-1, vectors.shape[-1])
    return (rows @ W).reshape(vectors.shape) / math.sqrt(len(W))


def _signs(seed: int, step: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs ±1 for the sources of a step."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(3, step))))
    return 2 * rng.integers(0, 2, shape, dtype=np.int8) - 1
