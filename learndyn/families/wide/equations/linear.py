"""Deep linear networks of infinite width that learn features: the exact solution, in one sweep over the steps.

Finite network: see `Wide`, with φ(h) = h. Limit: width N → ∞ at fixed depth L, points, outputs C and steps. Exact for
these steps. Then g^ℓ_c does not depend on the point, and in every layer ℓ = 1 … L all fields are Gaussian:

    h = u + C g,  g = r + D h,    ⟨u u⟩ = H̄ = C_W (H^{ℓ−1} + bias),  ⟨r r⟩ = Ḡ = C_W G^{ℓ+1},
    C_{μ,c}(t, s) = C_W A^{ℓ−1}_{μ,c} + γ_0 k(t, s) Σ_α E_αc(s) (H^{ℓ−1}_{μα} + bias),
    D_{c,α}(t, s) = C_W B^ℓ_{c,α} + γ_0 k(t, s) Σ_c' E_αc'(s) G^{ℓ+1}_{cc'},          both for s < t only,

with H^0 = K^x, G^{L+1} = 1, A^0 = B^L = 0, the force E = −∂𝓛/∂f, the impulse response k of a weight and its undriven
correlation C_W. With M = (1 − D C)^{-1}, X = ⟨g u⟩ and Y = ⟨h g⟩, for each t a row of every layer, first forward,

    A^ℓ = C M,  Xᵀ = H̄ (B^{ℓ−1})ᵀ,  Y = Xᵀ + C G,  H^ℓ = ⟨h h⟩ = H̄ + C X + Y Cᵀ,

then backward, with the columns of Y and the rows of X that could not be known before,

    M = 1 + D A^ℓ,  B^{ℓ−1} = M D = D + (D C) B^{ℓ−1},  Y = A^ℓ Ḡ + H^ℓ Dᵀ,  X = B^{ℓ−1} H̄,  G^ℓ = ⟨g g⟩ = Ḡ Mᵀ + D Y,

and the outputs f(t) = Y^L(t, t)/γ_0. Everything on the right is known when it is needed. Points that are not trained
have no force and g does not depend on them: their columns of D and B vanish. About 2 L C p² T³ multiplications for p
points and T steps.

B. Bordelon and C. Pehlevan, "Self-Consistent Dynamical Field Theory of Kernel Evolution in Wide Neural Networks"
(NeurIPS 2022); A, B, C and D here are γ_0 times those of the paper.
"""

from typing import NamedTuple

import numpy as np
import threadpoolctl
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.families.wide.problem_arrays import WideSetting


class LinearSolution(NamedTuple):
    """The order parameters at the first `reached` states (n), all of them unless training diverged.

    Layers ℓ = 1 … L are numbered from 0. Without `memory` there are no two-time arrays.
    """

    reached: int
    f: np.ndarray
    """outputs (n, points, C)"""
    H_now: np.ndarray
    """H^ℓ(t, t) (L, n, points, points)"""
    G_now: np.ndarray
    """G^ℓ(t, t) (L, n, C, C)"""
    H: np.ndarray | None
    """feature kernels H^ℓ (L, n, points, n, points)"""
    G: np.ndarray | None
    """gradient kernels G^ℓ (L, n, C, n, C)"""
    A: np.ndarray | None
    """responses A^ℓ of h^ℓ to r^ℓ (L, n, points, n, C)"""
    B: np.ndarray | None
    """responses of g^ℓ to u^ℓ, the paper's B^{ℓ−1} (L, n, C, n, points)"""


def solve_linear(setting: WideSetting, report: Report, memory: bool = True) -> LinearSolution:
    """The exact solution; `report` takes the fraction done. Without `memory`, only kernels at equal times."""
    return sweep(setting, report, memory)


def linear_memory(setting: WideSetting, memory: bool = True) -> int:
    """Bytes that `solve_linear` needs at its peak."""
    n, p, P, C, L = _sizes(setting)
    q = p if memory else P
    two_times = q * q + P * q + C * (4 * q + P + 2 * C)
    equal_times = p * p + C * C
    row = 6 * n * p * (q + C)
    return 8 * (L * (n * n * two_times + n * equal_times) + row)


def kernel_now(
    setting: WideSetting, H_now: Float[np.ndarray, "L n p p"], G_now: Float[np.ndarray, "L n C C"]
) -> Float[np.ndarray, "n p C p C"]:
    """The neural tangent kernel Σ_ℓ G^{ℓ+1} H^ℓ at equal times, from the kernels of the layers."""
    n, C = G_now.shape[1:3]
    last = np.broadcast_to(np.eye(C), (1, n, C, C))
    first = np.broadcast_to(setting.K, (1, n, *setting.K.shape))
    Phi = np.concatenate([first, H_now])
    # The readout has no bias.
    biases = np.array([setting.bias] * setting.depth + [0.0])[:, None, None, None]
    return np.einsum("ltcd,ltij->ticjd", np.concatenate([G_now, last]), Phi + biases)


class LinearSweep:
    """The rows of all states so far. Without `memory`, two-time arrays hold trained points only.

    Without `responses`, C and D lack A^{ℓ−1} and B^ℓ, and f(t+1) = f(t) + k(t+1, t) K(t, t) E(t).
    """

    def __init__(self, setting: WideSetting, memory: bool = True, responses: bool = True):
        self.setting, self.memory, self.responses = setting, memory, responses
        n, p, P, C, L = _sizes(setting)
        q = p if memory else P
        self.H, self.G = np.zeros((L, n, q, n, q)), np.zeros((L, n, C, n, C))
        self.A, self.B = np.zeros((L, n, q, n, C)), np.zeros((L, n, C, n, q))
        arrays = zip(self.H, self.G, self.A, self.B, strict=True)
        self.layers = [_Layer(setting, H, G, A, B) for H, G, A, B in arrays]
        self.f, self.E = np.zeros((n, p, C)), np.zeros((n, P, C))
        self.H_now, self.G_now = np.zeros((L, n, p, p)), np.zeros((L, n, C, C))
        self.reached = 0

    def advance(self, count: int, report: Report) -> None:
        """Compute the first `count` states, or those before training diverges; `report` takes every state."""
        # Products of a few rows are slower on several threads.
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            while self.reached < count and self._next():
                report(self.reached - 1)

    def _next(self) -> bool:
        """Compute one more state; False if training has diverged there."""
        setting, t, P = self.setting, self.reached, self.setting.trained
        # If training diverges, numbers overflow before the outputs are checked.
        with np.errstate(over="ignore", invalid="ignore"):
            readout = _next_state(
                setting,
                self.layers,
                t,
                self.E[:t],
                self.H_now[:, t],
                self.G_now[:, t],
                self.responses,
            )
        if self.responses:
            self.f[t] = readout
        if setting.diverged(self.f[t]):
            return False
        self.E[t] = setting.loss.force(self.f[t])[:P]
        if not self.responses and t + 1 < setting.states:
            K = kernel_now(setting, self.H_now[:, t : t + 1], self.G_now[:, t : t + 1])[0]
            self.f[t + 1] = self.f[t] + setting.k[t + 1, t] * np.tensordot(K[:, :, :P], self.E[t])
        self.reached = t + 1
        return True

    def solution(self) -> LinearSolution:
        """The order parameters at the states so far."""
        n = self.reached
        arrays = (self.H, self.G, self.A, self.B)
        two_times = [x[:, :n, :, :n] if self.memory else None for x in arrays]
        return LinearSolution(n, self.f[:n], self.H_now[:, :n], self.G_now[:, :n], *two_times)


def sweep(
    setting: WideSetting, report: Report, memory: bool = True, responses: bool = True
) -> LinearSolution:
    """All states before training diverges; `report` takes the fraction done."""
    rows = LinearSweep(setting, memory, responses)
    rows.advance(setting.states, lambda state: report(((state + 1) / setting.states) ** 3))
    return rows.solution()


def _next_state(
    setting: WideSetting,
    layers: list["_Layer"],
    t: int,
    E: Float[np.ndarray, "t P C"],
    H_now: Float[np.ndarray, "L p p"],
    G_now: Float[np.ndarray, "L C C"],
    responses: bool,
) -> Float[np.ndarray, "p C"]:
    """Fill row t of all layers, and H(t, t) and G(t, t); return the outputs ⟨h^L g^L⟩/γ_0."""
    p, P, C = setting.points, setting.trained, setting.outputs
    q = layers[0].carried
    H, now = np.broadcast_to(setting.K[:, None, :q], (p, t + 1, q)), setting.K
    A, B = np.zeros((p, t, C)), np.zeros((C, t, P))
    for ell, layer in enumerate(layers):
        H, now, A = layer.forward(t, H, now, A if responses else 0 * A, E)
        H_now[ell] = now
    G = np.broadcast_to(np.eye(C)[:, None], (C, t + 1, C))
    for ell in reversed(range(len(layers))):
        G, B = layers[ell].backward(t, G, B if responses else 0 * B, E)
        G_now[ell] = G[:, t]
    return layers[-1].Y_now / setting.gamma


def _sizes(setting: WideSetting) -> tuple[int, int, int, int, int]:
    """States n, points p, trained points P, outputs C and layers L."""
    return setting.states, setting.points, setting.trained, setting.outputs, setting.depth


def _flat(block: Float[np.ndarray, "a b c d"]) -> Float[np.ndarray, "ab cd"]:
    """A block (times, entries, times, entries) as a matrix."""
    a, b, c, d = block.shape
    return block.reshape(a * b, c * d)


class _Layer:
    """Two-time arrays of one layer, filled row by row, for the first q ≥ P points (`carried`)."""

    def __init__(
        self,
        setting: WideSetting,
        H: Float[np.ndarray, "n q n q"],
        G: Float[np.ndarray, "n C n C"],
        A: Float[np.ndarray, "n q n C"],
        B: Float[np.ndarray, "n C n q"],
    ):
        n, q, P, C = setting.states, len(H[0]), setting.trained, setting.outputs
        self.setting, self.carried, self.trained, self.outputs = setting, q, P, C
        self.H, self.G, self.A, self.B = H, G, A, B[..., :P]
        self.Hbar, self.M = np.zeros((n, q, n, P)), np.zeros((n, C, n, C))
        self.C, self.X, self.Y = np.zeros_like(A), np.zeros_like(B), np.zeros((n, P, n, C))

    def forward(
        self,
        t: int,
        H_below: Float[np.ndarray, "p t+1 q"],
        now_below: Float[np.ndarray, "p p"],
        A_below: Float[np.ndarray, "p t C"],
        E: Float[np.ndarray, "t P C"],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows t of C, A, Xᵀ, Y and H for all points, from those of H^{ℓ−1} (p, t+1, q), its (t, t) and A^{ℓ−1}."""
        q, P, C, p = self.carried, self.trained, self.outputs, len(H_below)
        k, C_W = self.setting.k[t, :t, None], self.setting.C_W[t, : t + 1, None]
        biased = H_below + self.setting.bias
        Hbar = C_W * biased
        drive = np.einsum("msa,sac->msc", biased[:, :t, :P], E)
        C_row = (C_W[:t] * A_below + self.setting.gamma * k * drive).reshape(p, t * C)
        A_row = C_row @ _flat(self.M[:t, :, :t])
        V_row = Hbar[:, :t, :P].reshape(p, t * P) @ _flat(self.B[:t, :, :t]).T
        Y_row = V_row + C_row @ _flat(self.G[:t, :, :t])

        def by_time(row: np.ndarray, points: int) -> np.ndarray:
            return row[:points].reshape(points, t, C)

        self.C[t, :, :t], self.A[t, :, :t] = by_time(C_row, q), by_time(A_row, q)
        self.Y[t, :, :t] = by_time(Y_row, P)
        self.X[:t, :, t] = by_time(V_row, q).transpose(1, 2, 0)
        self.Hbar[t, :, : t + 1] = Hbar[:q, :, :P]
        self.Hbar[:t, :, t] = Hbar[:P, :t].transpose(1, 2, 0)

        H_row = C_row @ _flat(self.X[:t, :, : t + 1])
        H_row += Y_row @ _flat(self.C[: t + 1, :, :t]).T
        H_row = H_row.reshape(p, t + 1, q) + Hbar
        now = C_W[t] * (now_below + self.setting.bias) + C_row @ V_row.T + Y_row @ C_row.T
        self.H[t, :, : t + 1] = H_row[:q]
        self.H[:t, :, t] = H_row[:q, :t].transpose(1, 2, 0)
        self.rows = A_row, H_row
        return H_row, now, A_row.reshape(p, t, C)

    def backward(
        self,
        t: int,
        G_above: Float[np.ndarray, "C t+1 C"],
        B_above: Float[np.ndarray, "C t P"],
        E: Float[np.ndarray, "t P C"],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows t of D, M, B, X and G, the column t of Y, and Y(t, t) of all points, from rows of G^{ℓ+1} and B^ℓ."""
        q, P, C = self.carried, self.trained, self.outputs
        k, C_W = self.setting.k[t, :t, None], self.setting.C_W[t, : t + 1, None]
        Gbar = C_W * G_above
        drive = np.einsum("csd,sad->csa", G_above[:, :t], E)
        D_row = (C_W[:t] * B_above + self.setting.gamma * k * drive).reshape(C, t * P)
        self.M[t, :, :t] = (D_row @ _flat(self.A[:t, :P, :t])).reshape(C, t, C)
        self.M[t, :, t] = np.eye(C)
        B_row = D_row + (D_row @ _flat(self.C[:t, :P, :t])) @ _flat(self.B[:t, :, :t])
        self.B[t, :, :t] = B_row.reshape(C, t, P)

        past = Gbar[:, :t].reshape(C, t * C)
        Y_past = _flat(self.A[:t, :P, :t]) @ past.T + _flat(self.H[:t, :P, :t, :P]) @ D_row.T
        A_row, H_row = self.rows
        self.Y_now = A_row @ past.T + H_row[:, :t, :P].reshape(len(H_row), t * P) @ D_row.T
        self.Y[:t, :, t] = Y_past.reshape(t, P, C)
        self.Y[t, :, t] = self.Y_now[:P]
        # H̄ stands on the left because with few outputs BLAS is much slower the other way round.
        X_row = _flat(self.Hbar[: t + 1, :, :t]) @ B_row.T
        self.X[t, :, : t + 1] = X_row.T.reshape(C, t + 1, q)

        G_row = Gbar.reshape(C, (t + 1) * C) @ _flat(self.M[: t + 1, :, : t + 1]).T
        G_row = (G_row + D_row @ _flat(self.Y[:t, :, : t + 1])).reshape(C, t + 1, C)
        self.G[t, :, : t + 1] = G_row
        self.G[:t, :, t] = G_row[:, :t].transpose(1, 2, 0)
        return G_row, B_row.reshape(C, t, P)
