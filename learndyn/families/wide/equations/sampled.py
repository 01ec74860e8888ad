"""Wide nonlinear networks: the single-site processes of all layers, sampled, in one causal sweep.

In layer ℓ a neuron's preactivations h_μ(t) and its backward fields z_μc(t) on all points obey, with forces E_αc(s),
k = k(t, s) and C_W = C_W(t, s),

    h_μ(t) = u_μ(t) + Σ_{s<t} Σ_αc C_μ,αc(t, s) g_αc(s),     C = C_W A^{ℓ−1} + γ_0 k E_αc(s) Φ^{ℓ−1}_μα(t, s),
    z_μc(t) = r_μc(t) + Σ_{s≤t} Σ_α D_μc,α(t, s) φ(h_α(s)),  D = C_W B^{ℓ+1} + γ_0 k Σ_c' E_αc'(s) G^{ℓ+1}_μc,αc'(t, s),
    g_μc = φ'(h_μ) z_μc,    ⟨u u⟩ = C_W Φ^{ℓ−1},    ⟨r r⟩ = C_W G^{ℓ+1},

with Φ^ℓ = ⟨φφ⟩, G^ℓ = ⟨gg⟩, A^ℓ = ⟨∂φ(h(t))/∂r(s)⟩ (s < t) and B^ℓ = ⟨∂g(t)/∂u(s)⟩ (s ≤ t: it has a part at equal
times). Here B^ℓ belongs to the fields of layer ℓ; the paper calls it B^{ℓ−1}. Φ^0 is the kernel of the inputs,
G^{L+1} = δ_cc', A^0 = B^{L+1} = 0. Biases add 1 to Φ^{ℓ−1} in C and ⟨uu⟩. The outputs are f_μc = ⟨z^L_μc
φ(h^L_μ)⟩/γ_0.

Everything at t needs only what is known by then: forward through the layers for h, backward for z, then f and E.
Responses of every sample follow from an adjoint recursion, as if one trained through its history: a small change of
h or g at t is traced back to all earlier u and r. It is most of the cost and single precision is enough for it; kernels
need double precision, because their factors keep directions down to 1e-10. Which of the smallest directions are kept,
and so which normals they get, may depend on the rounding; that is another draw, not an error.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.block_factor import BlockFactor
from learndyn.numerics.matched_normals import MatchedNormals
from learndyn.problem.activations.values import with_curvature

COLUMNS = 2048
"""Columns per chunk of the adjoint recursion, samples times components that change at t; they fit a cache."""
ROWS = 32
"""Rows per matrix product of the adjoint recursion, times times components; smaller blocks are slower."""
PRECISIONS = {"single": np.float32, "double": np.float64}
"""Number types of the adjoint recursion."""


class Field:
    """A Gaussian field of one layer, sampled block by block from its covariance: x(t) = F(t, ·) ε."""

    def __init__(self, samples: int, seed: np.random.SeedSequence, signs: np.ndarray):
        self._factor, self._signs = BlockFactor(), signs
        self._normals = MatchedNormals(samples // len(signs), seed)
        self.F: list[np.ndarray] = []

    def overlap(self, values: np.ndarray, rank: int) -> np.ndarray:
        """⟨values εᵀ⟩ (components × rank) with the first normals."""
        count, samples = values.shape
        copies = values.reshape(count, len(self._signs), -1)
        folded = np.einsum("xks,k->xs", copies, self._signs)
        return folded @ self._normals.columns(rank).T / samples

    def next(self, covariance: list[np.ndarray]) -> np.ndarray:
        """x(t) (components × samples), from the covariances with all times up to t."""
        self.F.append(self._factor.append(covariance))
        x = self.F[-1] @ self._normals.columns(self._factor.rank)
        return (x[:, None] * self._signs[:, None]).reshape(len(x), -1)


class LayerKernels(Protocol):
    """Kernels Φ, G and responses A, B of one layer, from a `Layer` or from an iteration."""

    @property
    def Phi(self) -> np.ndarray: ...
    @property
    def G(self) -> np.ndarray: ...
    @property
    def A(self) -> np.ndarray: ...
    @property
    def B(self) -> np.ndarray: ...


class Layer:
    """The processes of one layer and their kernels; times are the first axes, samples the last.

    Arrays that only the adjoint recursion uses (`slopes`, `bends`, `C`, `D`) have its precision.
    """

    def __init__(
        self,
        n: int,
        p: int,
        C: int,
        samples: int,
        seed: np.random.SeedSequence,
        traced: str = "double",
    ):
        signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1]], dtype=float)
        seed_u, seed_r = seed.spawn(2)
        self.u = Field(samples, seed_u, signs[0])
        self.r = Field(samples, seed_r, signs[1])
        kind = PRECISIONS[traced]
        self.phi = np.zeros((n, p, samples))
        self.slope = np.zeros((p, samples))
        self.curvature = np.zeros((p, samples))
        self.slopes = np.zeros((n, p, samples), kind)
        self.bends = np.zeros((n, p, C, samples), kind)
        """φ''(h_μ) z_μc."""
        self.g = np.zeros((n, p, C, samples))
        self.z = np.zeros((p, C, samples))
        self.h: list[np.ndarray] = []
        self.Phi = np.zeros((n, p, n, p))
        self.G = np.zeros((n, p, C, n, p, C))
        self.A = np.zeros((n, p, n, p, C))
        self.B = np.zeros((n, p, C, n, p))
        self.C = np.zeros((n, p, n, p, C), kind)
        self.D = np.zeros((n, p, C, n, p), kind)


class SampledSweep(NamedTuple):
    """The result of a batch of samples: outputs f (states, points, C), the layers, and the number of states reached."""

    f: np.ndarray
    layers: list[Layer]
    reached: int


def sweep(
    setting: WideSetting,
    samples: int,
    seed: np.random.SeedSequence,
    report: Report,
    stein: bool = False,
    independent: bool = False,
    precision: str = "double",
) -> SampledSweep:
    """All states of one batch. Responses come from Gaussian integration by parts with `stein`, else from tracing.

    `precision` is that of the tracing, "single" or "double".

    With `independent`, the approximation of gradient independence: no responses, and outputs that follow the tangent
    kernel of the fields, f(t+1) = f(t) + k(t+1, t) K(t, t) E(t).
    """
    n, p, C, L = setting.states, setting.points, setting.outputs, setting.depth
    layers = [Layer(n, p, C, samples, child, precision) for child in seed.spawn(L)]
    E, f = np.zeros((n, p, C)), np.zeros((n, p, C))
    response = Stein() if stein else Adjoint(n, p, C, samples, precision)
    for t in range(n):
        for index, layer in enumerate(layers):
            below = None if index == 0 else layers[index - 1]
            forward(setting, layer, below, E, t)
            if not independent and index < L - 1 and t > 0:
                layer.A[t, :, :t] = response.of_features(layer, t)
        for index in reversed(range(L)):
            layer = layers[index]
            above = None if index == L - 1 else layers[index + 1]
            backward(setting, layer, above, E, t)
            if not independent and index > 0:
                layer.B[t, :, :, : t + 1] = response.of_gradients(layer, t)
        if not independent:
            last = layers[-1]
            f[t] = np.mean(last.z * last.phi[t][:, None], axis=-1) / setting.gamma
        if setting.diverged(f[t]):
            return SampledSweep(f, layers, t)
        E[t] = setting.loss.force(f[t])
        if independent and t + 1 < n:
            f[t + 1] = f[t] + setting.k[t + 1, t] * tangent_step(setting, layers, E[t], t)
        report(((t + 1) / n) ** 3)
    return SampledSweep(f, layers, n)


def tangent_step(
    setting: WideSetting, layers: Sequence[LayerKernels], E: Float[np.ndarray, "points C"], t: int
) -> np.ndarray:
    """K(t, t) E (points × C), with the tangent kernel K = Σ_ℓ G^{ℓ+1} Φ^ℓ of the layers' kernels at t."""
    below, moved = setting.K, np.zeros_like(E)
    for layer in layers:
        G = layer.G[t, :, :, t]
        moved += np.einsum("mcad,ma,ad->mc", G, below + setting.bias, E)
        below = layer.Phi[t, :, t]
    return moved + below @ E


def forward(
    setting: WideSetting,
    layer: Layer,
    below: LayerKernels | None,
    E: Float[np.ndarray, "states points C"],
    t: int,
) -> None:
    """h, φ and Φ of a layer at t, from the kernels Φ and A of the layer below, or the inputs (None)."""
    p, C, S = setting.points, setting.outputs, layer.phi.shape[-1]
    if below is None:
        kernel = np.broadcast_to(setting.K[:, None], (p, t + 1, p)) + setting.bias
    else:
        kernel = below.Phi[t, :, : t + 1] + setting.bias
    C_W = setting.C_W[t]
    h = layer.u.next([C_W[s] * kernel[:, s] for s in range(t + 1)])
    if t:
        memory = setting.gamma * setting.k[t, :t, None, None] * E[:t] * kernel[:, :t, :, None]
        if below is not None:
            memory = memory + C_W[:t, None, None] * below.A[t, :, :t]
        layer.C[t, :, :t] = memory
        h = h + memory.reshape(p, -1) @ layer.g[:t].reshape(t * p * C, S)
    layer.h.append(h)
    phi, slope, curvature = map(np.asarray, with_curvature(setting.activation, h))
    layer.phi[t], layer.slopes[t], layer.slope, layer.curvature = phi, slope, slope, curvature
    row = phi @ layer.phi[: t + 1].reshape((t + 1) * p, S).T / S
    layer.Phi[t, :, : t + 1] = row.reshape(p, t + 1, p)
    layer.Phi[: t + 1, :, t] = row.reshape(p, t + 1, p).transpose(1, 2, 0)


def backward(
    setting: WideSetting,
    layer: Layer,
    above: LayerKernels | None,
    E: Float[np.ndarray, "states points C"],
    t: int,
) -> None:
    """z, g and G of a layer at t, from the kernels G and B of the layer above, or the readout (None)."""
    p, C, S = setting.points, setting.outputs, layer.phi.shape[-1]
    if above is None:
        same = np.broadcast_to(np.eye(C)[None, :, None, None], (p, C, t + 1, p, C))
    else:
        same = above.G[t, :, :, : t + 1]
    C_W = setting.C_W[t]
    covariance = [C_W[s] * same[:, :, s].reshape(p * C, p * C) for s in range(t + 1)]
    z = layer.r.next(covariance)
    D = np.zeros((p, C, t + 1, p))
    if t:
        forces = setting.gamma * setting.k[t, :t, None, None] * E[:t]
        D[:, :, :t] = np.einsum("mcsad,sad->mcsa", same[:, :, :t], forces)
    if above is not None:
        D += C_W[: t + 1, None] * above.B[t, :, :, : t + 1]
    layer.D[t, :, :, : t + 1] = D
    z = z + D.reshape(p * C, -1) @ layer.phi[: t + 1].reshape((t + 1) * p, S)
    layer.z = z.reshape(p, C, S)
    layer.g[t] = layer.slope[:, None] * layer.z
    layer.bends[t] = layer.curvature[:, None] * layer.z
    flat = layer.g[t].reshape(p * C, S)
    row = (flat @ layer.g[: t + 1].reshape((t + 1) * p * C, S).T / S).reshape(p, C, t + 1, p, C)
    layer.G[t, :, :, : t + 1] = row
    layer.G[: t + 1, :, :, t] = row.transpose(2, 3, 4, 0, 1)


class Adjoint:
    """Responses by tracing a change at t back through the history of every sample.

    With h̄(s), z̄(s) the derivatives of the changed variable at t with respect to u(s) and r(s),

        ḡ(s) = Σ_{t'>s} C(t', s)ᵀ h̄(t'),  z̄(s) = φ' ḡ(s),  h̄(s) = φ' Σ_{t'≥s} D(t', s)ᵀ z̄(t') + Σ_c φ'' z_c ḡ_c(s).
    """

    def __init__(self, n: int, p: int, C: int, samples: int, precision: str = "double"):
        width = 1
        while 2 * width * p * C <= COLUMNS and 2 * width <= samples:
            width *= 2
        self._width, self._block = width, max(ROWS // (p * C), 1)
        self._h = np.zeros((n * p, p * C * width), PRECISIONS[precision])
        self._z = np.zeros((n * p * C, p * C * width), PRECISIONS[precision])

    def of_features(self, layer: Layer, t: int) -> np.ndarray:
        """Row t of A: ⟨∂φ(h_μ(t))/∂r_αc(s)⟩, (p, t, p, C)."""
        p, C, samples = layer.z.shape
        total = np.zeros((t * p * C, p))
        own = np.arange(p)
        for first in range(0, samples, self._width):
            chunk = slice(first, first + self._width)
            h = self._h[:, : p * self._width].reshape(-1, p, self._width)
            z = self._z[:, : p * self._width].reshape(-1, p, self._width)
            h[t * p : (t + 1) * p] = 0.0
            h[t * p + own, own] = layer.slopes[t, :, chunk]
            z[t * p * C : (t + 1) * p * C] = 0.0
            self._back(layer, t, chunk, h, z)
            total += z[: t * p * C].sum(axis=-1, dtype=float)
        return total.reshape(t, p, C, p).transpose(3, 0, 1, 2) / samples

    def of_gradients(self, layer: Layer, t: int) -> np.ndarray:
        """Row t of B: ⟨∂g_μc(t)/∂u_α(s)⟩, (p, C, t + 1, p)."""
        p, C, samples = layer.z.shape
        total = np.zeros(((t + 1) * p, p * C))
        own = np.arange(p * C)
        now = layer.D[t, :, :, t].reshape(p * C, p)
        for first in range(0, samples, self._width):
            chunk = slice(first, first + self._width)
            h = self._h.reshape(-1, p * C, self._width)
            z = self._z.reshape(-1, p * C, self._width)
            slope = layer.slopes[t, :, chunk]
            start = z[t * p * C : (t + 1) * p * C]
            start[:] = 0.0
            start[own, own] = np.repeat(slope, C, axis=0)
            here = np.tensordot(now.T, start, axes=1) * slope[:, None]
            bend = layer.bends[t, :, :, chunk].reshape(p * C, -1)
            here[np.repeat(np.arange(p), C), own] += bend
            h[t * p : (t + 1) * p] = here
            self._back(layer, t, chunk, h, z)
            total += h[: (t + 1) * p].sum(axis=-1, dtype=float)
        return total.reshape(t + 1, p, p, C).transpose(2, 3, 0, 1) / samples

    def _back(self, layer: Layer, t: int, chunk: slice, h: np.ndarray, z: np.ndarray) -> None:
        """h̄(s) and z̄(s) for s = t − 1 … 0, from those at t.

        The times s of a block share one product with all times after the block; then come the terms within it.
        """
        p, C, _ = layer.z.shape
        outputs, width = h.shape[1:]
        flat_h, flat_z = h.reshape(len(h), -1), z.reshape(len(z), -1)
        forward = layer.C.reshape(len(layer.C) * p, -1)
        backward = layer.D.reshape(len(layer.D) * p * C, -1)
        pC = p * C
        for end in range(t, 0, -self._block):
            first = max(end - self._block, 0)
            later_h, later_z = slice(end * p, (t + 1) * p), slice(end * pC, (t + 1) * pC)
            from_h = forward[later_h, first * pC : end * pC].T @ flat_h[later_h]
            from_z = backward[later_z, first * p : end * p].T @ flat_z[later_z]
            for s in range(end - 1, first - 1, -1):
                mine, here = slice(s * pC, (s + 1) * pC), slice(s * p, (s + 1) * p)
                slope = layer.slopes[s, :, None, chunk]
                g = from_h[(s - first) * pC : (s - first + 1) * pC]
                if s < end - 1:
                    within = slice((s + 1) * p, end * p)
                    g += forward[within, mine].T @ flat_h[within]
                g = g.reshape(p, C, outputs, width)
                np.multiply(slope[:, None], g, out=z[mine].reshape(g.shape))
                since = slice(s * pC, end * pC)
                features = from_z[(s - first) * p : (s - first + 1) * p]
                features += backward[since, here].T @ flat_z[since]
                features = features.reshape(p, outputs, width)
                features *= slope
                for c in range(C):
                    features += layer.bends[s, :, c, None, chunk] * g[:, c]
                h[here] = features


class Stein:
    """Responses by Gaussian integration by parts: A F_r = ⟨φ ε_rᵀ⟩, B F_u = ⟨g ε_uᵀ⟩, solved by least squares.

    It needs no derivative of the activation's slope, so that it is correct for a relu, and no history of single
    samples. Along directions in which the fields hardly move, entries of A and B are noise; only their sums with g and
    φ are meaningful.
    """

    TRUNCATED = 1e-6

    def of_features(self, layer: Layer, t: int) -> np.ndarray:
        """Row t of A, (p, t, p, C)."""
        p, C, _ = layer.z.shape
        solved = self._solve(layer.phi[t], layer.r, t * p * C)
        return solved.reshape(p, t, p, C)

    def of_gradients(self, layer: Layer, t: int) -> np.ndarray:
        """Row t of B, (p, C, t + 1, p)."""
        p, C, samples = layer.z.shape
        solved = self._solve(layer.g[t].reshape(p * C, samples), layer.u, (t + 1) * p)
        return solved.reshape(p, C, t + 1, p)

    def _solve(
        self, values: Float[np.ndarray, "components samples"], field: Field, count: int
    ) -> np.ndarray:
        """X with X F = ⟨values εᵀ⟩, for the first `count` components of the field."""
        rows = field.F[: -(-count // len(field.F[0]))]
        rank = rows[-1].shape[1]
        F = np.zeros((count, rank))
        for s, row in enumerate(rows):
            F[s * len(row) : (s + 1) * len(row), : row.shape[1]] = row
        Y = field.overlap(values, rank)
        return np.linalg.lstsq(F.T, Y.T, rcond=self.TRUNCATED)[0].T
