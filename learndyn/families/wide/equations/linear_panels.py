"""Wide linear networks on the nodes of panels: rows of all nodes of a panel at a time.

The equations are those of `linear`, with an impulse response κ that has entries within a panel, and C_W = d dᵀ:

    C = d A^{ℓ−1} d + γ_0 κ∘(E (H^{ℓ−1} + bias)),    D = d B^ℓ d + γ_0 κ∘(E G^{ℓ+1}),    M = (1 − D C)^{-1},
    A^ℓ = C M,  B^{ℓ−1} = M D,  X = B^{ℓ−1} H̄,  G^ℓ = M Ḡ Mᵀ + X (B^{ℓ−1})ᵀ,
    Y = Xᵀ + C G^ℓ,  H^ℓ = H̄ + C X + Y Cᵀ,    f(t) = Y^L(t, t)/γ_0,    E = −∂𝓛/∂f.

Only trained points are needed; all matrices are block lower triangular in time or symmetric. For the rows of a panel,
everything before it known, the rows of A^ℓ and H^ℓ that layers ℓ < L hand to the next, and E, are found by accelerated
iteration: a pass backward through the layers and one forward. The loop of a layer, M, is solved within the pass. The
loop E → f → E has the gain κ times the tangent kernel K = Σ_ℓ G^{ℓ+1}∘(H^ℓ + bias), which grows with the length of the
panel, so that E is moved by Newton's step with this kernel,

    δE = (1 − E'(f) κ∘K)^{-1} (E(f) − E).

A few passes are then enough for panels of any length. With a strictly lower κ they are the row recursion. Cost of a
pass: about 4 L C P² s n² multiplications for n nodes, s of them new, and P trained points.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.numerics.fixed_point import fixed_point

Rows = list[np.ndarray]
"""Rows of A¹, H¹, …, A^{L−1}, H^{L−1}, and E of the panel."""


class Nodes(NamedTuple):
    """The nodes of a panel, b … e − 1, and the places of their points or outputs in rows of all nodes."""

    b: int
    e: int

    def new(self, size: int) -> slice:
        """Those of the panel, for so many points or outputs at a node."""
        return slice(self.b * size, self.e * size)

    def old(self, size: int) -> slice:
        """Those before it."""
        return slice(0, self.b * size)

    def upto(self, size: int) -> slice:
        """All of them."""
        return slice(0, self.e * size)


class LinearLayer:
    """The matrices of a layer over nodes and trained points (P), or nodes and outputs (C)."""

    def __init__(self, P: int, C: int):
        self.P, self.C_size, self.room = P, C, 0
        self._shapes = {
            **{"C": (P, C), "A": (P, C), "M": (C, C), "B": (C, P), "X": (C, P)},
            **{"G": (C, C), "Gbar": (C, C), "Hbar": (P, P), "H": (P, P)},
        }
        self.reserve(16)

    C: np.ndarray
    A: np.ndarray
    M: np.ndarray
    B: np.ndarray
    X: np.ndarray
    G: np.ndarray
    Gbar: np.ndarray
    Hbar: np.ndarray
    H: np.ndarray

    def reserve(self, nodes: int) -> None:
        """Make room for so many nodes."""
        if nodes <= self.room:
            return
        room = max(nodes, self.room + self.room // 2)
        for name, (rows, columns) in self._shapes.items():
            larger = np.zeros((room * rows, room * columns))
            if self.room:
                larger[: self.room * rows, : self.room * columns] = getattr(self, name)
            setattr(self, name, larger)
        self.room = room

    def open(self, nodes: Nodes) -> None:
        """Make room for a panel and clear what rejected ones left in its columns of block triangular matrices."""
        self.reserve(nodes.e)
        P, C = self.P, self.C_size
        for matrix, rows, columns in (
            (self.C, P, C),
            (self.A, P, C),
            (self.M, C, C),
            (self.B, C, P),
        ):
            matrix[nodes.old(rows), nodes.new(columns)] = 0.0

    def respond(self, nodes: Nodes, D: Float[np.ndarray, "sC eP"]) -> None:
        """Rows of M, B, X and G, from those of C, D, H̄ and Ḡ."""
        P, C = self.P, self.C_size
        new, old, upto = nodes.new(C), nodes.old(C), nodes.upto(C)
        points, past, all_points = nodes.new(P), nodes.old(P), nodes.upto(P)
        DC = D @ self.C[all_points, upto]
        own = np.linalg.inv(np.eye(len(D)) - DC[:, new])
        self.M[new, old] = own @ (DC[:, old] @ self.M[old, old])
        self.M[new, new] = own
        B = D.copy()
        B[:, past] += DC[:, old] @ self.B[old, past]
        self.B[new, all_points] = own @ B
        self.X[old, points] = self.B[old, past] @ self.Hbar[past, points]
        self.X[new, all_points] = self.B[new, all_points] @ self.Hbar[all_points, all_points]
        by_r = (self.M[new, upto] @ self.Gbar[upto, upto]) @ self.M[upto, upto].T
        put_symmetric(self.G, nodes, C, by_r + self.X[new, all_points] @ self.B[upto, all_points].T)

    def products(self, nodes: Nodes) -> Float[np.ndarray, "sP eC"]:
        """Rows of Y."""
        rows, upto = nodes.new(self.P), nodes.upto(self.C_size)
        return self.X[upto, rows].T + self.C[rows, upto] @ self.G[upto, upto]

    def features(self, nodes: Nodes, Y: Float[np.ndarray, "sP eC"], own: bool) -> np.ndarray:
        """Rows of H, or, with `own`, their part within the panel."""
        rows, upto = nodes.new(self.P), nodes.upto(self.C_size)
        columns = rows if own else nodes.upto(self.P)
        H = self.Hbar[rows, columns] + self.C[rows, upto] @ self.X[upto, columns]
        return H + Y @ self.C[columns, upto].T


def put_symmetric(matrix: np.ndarray, nodes: Nodes, size: int, rows: np.ndarray) -> None:
    """Write rows of a symmetric matrix, and the columns that they are."""
    new, old = nodes.new(size), nodes.old(size)
    matrix[new, old], matrix[old, new] = rows[:, old], rows[:, old].T
    matrix[new, new] = (rows[:, new] + rows[:, new].T) / 2


class LinearPanelRows:
    """All matrices of a wide linear network up to the last panel; E (nodes × P × C) and f are those of the nodes."""

    def __init__(self, setting: WideSetting):
        self.setting, self.nodes = setting, 0
        P, C = setting.trained, setting.outputs
        self.layers = [LinearLayer(P, C) for _ in range(setting.depth)]
        self.E, self.f = np.zeros((2, 0, P, C))
        self.kappa, self.d = np.zeros((0, 0)), np.ones(0)

    def solve_panel(
        self, kappa: Float[np.ndarray, "s e"], d: Float[np.ndarray, " e"], guess: Rows
    ) -> int:
        """Fill the rows of a panel with rows of κ and the d of all nodes; the number of passes, or 0."""
        nodes = Nodes(self.nodes, self.nodes + len(kappa))
        self.kappa, self.d = kappa, d
        for layer in self.layers:
            layer.open(nodes)
        self.E, self.f = (
            np.concatenate([x[: nodes.b], np.zeros((len(kappa), *x.shape[1:]))])
            for x in (self.E, self.f)
        )
        P, C, sizes = self.setting.trained, self.setting.outputs, []
        for layer in self.layers[:-1]:
            past = nodes.old(P)
            sizes += [_largest(layer.A[past, nodes.old(C)]), _largest(layer.H[past, past])]
        sizes.append(_largest(self.E[: nodes.b]))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                passes = fixed_point(lambda x: self.run_pass(nodes, x), guess, sizes)
            except np.linalg.LinAlgError:
                # Entries that have overflowed.
                return 0
        if passes:
            self.nodes = nodes.e
        return passes

    def run_pass(self, nodes: Nodes, rows: Rows) -> Rows:
        """A pass backward and one forward; the new rows of what is carried, and E after Newton's step."""
        L = len(self.layers)
        self.E[nodes.b :] = rows[-1]
        forces: Rows = [np.zeros(0)] * L
        for ell in reversed(range(L)):
            self._from_below(ell, nodes, rows)
            forces[ell] = self._from_above(ell, nodes)
            self.layers[ell].respond(nodes, forces[ell])
        image: Rows = []
        P, C = self.setting.trained, self.setting.outputs
        for ell, layer in enumerate(self.layers):
            if ell:
                self._from_below(ell, nodes, image)
                layer.respond(nodes, forces[ell])
            last = ell == L - 1
            Y = layer.products(nodes)
            H = layer.features(nodes, Y, own=last)
            if last:
                layer.H[nodes.new(P), nodes.new(P)] = H
                self._read_out(nodes, Y)
                break
            A = layer.C[nodes.new(P), nodes.upto(C)] @ layer.M[nodes.upto(C), nodes.upto(C)]
            layer.A[nodes.new(P), nodes.upto(C)] = A
            put_symmetric(layer.H, nodes, P, H)
            image += [A, layer.H[nodes.new(P), nodes.upto(P)].copy()]
        return [*image, rows[-1] + self._newton(nodes, rows[-1])]

    def _from_below(self, ell: int, nodes: Nodes, rows: Rows) -> None:
        """Rows of C and H̄ of a layer, from those of A and H of the layer below."""
        setting, layer, n = self.setting, self.layers[ell], nodes.e
        P, C, s = setting.trained, setting.outputs, nodes.e - nodes.b
        if ell:
            A, H = rows[2 * ell - 2], rows[2 * ell - 1]
        else:
            A, H = np.zeros((s * P, n * C)), np.tile(setting.K[:P, :P], (s, n))
        drive = np.matmul(
            (H + setting.bias).reshape(s * P, n, P).transpose(1, 0, 2), self.E
        ).transpose(1, 0, 2)
        learnt = setting.gamma * self.kappa[:, None, :, None] * drive.reshape(s, P, n, C)
        decayed = self._decays(nodes, P, C) * A
        layer.C[nodes.new(P), nodes.upto(C)] = decayed + learnt.reshape(s * P, n * C)
        put_symmetric(layer.Hbar, nodes, P, self._decays(nodes, P, P) * (H + setting.bias))

    def _from_above(self, ell: int, nodes: Nodes) -> Float[np.ndarray, "sC eP"]:
        """Rows of D of a layer, and of its Ḡ, from those of B and G of the layer above."""
        setting, n, C, P = self.setting, nodes.e, self.setting.outputs, self.setting.trained
        s, rows = nodes.e - nodes.b, nodes.new(self.setting.outputs)
        if ell == len(self.layers) - 1:
            B, G = np.zeros((s * C, n * P)), np.tile(np.eye(C), (s, n))
        else:
            above = self.layers[ell + 1]
            B, G = above.B[rows, nodes.upto(P)], above.G[rows, nodes.upto(C)]
        drive = np.matmul(G.reshape(s * C, n, C).transpose(1, 0, 2), self.E.transpose(0, 2, 1))
        learnt = self.kappa[:, None, :, None] * drive.transpose(1, 0, 2).reshape(s, C, n, P)
        put_symmetric(self.layers[ell].Gbar, nodes, C, self._decays(nodes, C, C) * G)
        return self._decays(nodes, C, P) * B + setting.gamma * learnt.reshape(s * C, n * P)

    def _decays(self, nodes: Nodes, rows: int, columns: int) -> np.ndarray:
        """Rows of d dᵀ."""
        return np.outer(np.repeat(self.d[nodes.b :], rows), np.repeat(self.d, columns))

    def _read_out(self, nodes: Nodes, Y: Float[np.ndarray, "sP eC"]) -> None:
        s, P, C = nodes.e - nodes.b, self.setting.trained, self.setting.outputs
        own = Y[:, nodes.new(C)].reshape(s, P, s, C)
        self.f[nodes.b :] = own[np.arange(s), :, np.arange(s)] / self.setting.gamma

    def _newton(self, nodes: Nodes, E: Float[np.ndarray, "s P C"]) -> Float[np.ndarray, "s P C"]:
        """δE."""
        kappa = self.kappa[:, nodes.b :][:, None, None, :, None, None]
        gain = self._gain(nodes, kappa * self.tangent_kernel(nodes))
        miss = np.stack([self.setting.loss.force(now) for now in self.f[nodes.b :]]) - E
        return np.linalg.solve(np.eye(len(gain)) - gain, miss.ravel()).reshape(E.shape)

    def _gain(self, nodes: Nodes, moved: Float[np.ndarray, "s P C s P C"]) -> np.ndarray:
        """How E answers to E through outputs that it has `moved`, as a square matrix."""
        f, loss, C = self.f[nodes.b : nodes.e], self.setting.loss, self.setting.outputs
        slope = np.zeros((*f.shape, C))
        for c in range(C):
            change = np.zeros(f.shape[1:])
            change[:, c] = 1.0
            slope[..., c] = [loss.force_along(now, change) for now in f]
        return np.einsum("ipcd,ipdjqe->ipcjqe", slope, moved).reshape(f.size, f.size)

    def sharpness(self) -> float:
        """The largest eigenvalue of −E'(f) K at the last node: how fast the fastest mode is learnt at a rate of one."""
        last = Nodes(self.nodes - 1, self.nodes)
        return float(np.max(-np.linalg.eigvals(self._gain(last, self.tangent_kernel(last))).real))

    def tangent_kernel(self, nodes: Nodes) -> Float[np.ndarray, "s P C s P C"]:
        """K = Σ_ℓ G^{ℓ+1}∘(H^ℓ + bias) within the panel; the readout has no bias."""
        setting, s, P, C = (
            self.setting,
            nodes.e - nodes.b,
            self.setting.trained,
            self.setting.outputs,
        )

        def blocks(matrix: np.ndarray, size: int) -> np.ndarray:
            return matrix[nodes.new(size), nodes.new(size)].reshape(s, size, s, size)

        H = [np.broadcast_to(setting.K[None, :P, None, :P], (s, P, s, P))]
        H += [blocks(layer.H, P) for layer in self.layers]
        G = [blocks(layer.G, C) for layer in self.layers]
        G.append(np.broadcast_to(np.eye(C)[None, :, None], (s, C, s, C)))
        biases = [setting.bias] * len(self.layers) + [0.0]
        kernel = np.zeros((s, P, C, s, P, C))
        for g, h, bias in zip(G, H, biases, strict=True):
            kernel += np.einsum("icjd,ipjq->ipcjqd", g, h + bias)
        return kernel


def _largest(matrix: np.ndarray) -> float:
    return float(np.max(np.abs(matrix), initial=0.0))
