"""Two-layer networks on a reused dataset: the limit of many inputs and examples, as a Gaussian program.

Finite network: see `TwoLayer` (its part on a `Dataset`). Limit: D, P → ∞ at fixed ratio γ = P/D, with K hidden and M
teacher units and T steps τ_t fixed. Exact for these steps; gradient flow is the further limit of small ones.

The inputs are a Gaussian matrix X (P × D, entries N(0, 1/D)) that training asks for products only:

    ρ = X w*,   y = Σ_n v*_n σ(ρ_n) + ςz,
    h = X w,    Δ = y − Σ_k v_k φ(h_k),   g_i = m v_i φ'(h_i) Δ,
    B ← βB + τ_t (1/γ) X^⊤g,    w ← (1 − τ_tκ) w + B,
    b ← βb + τ_v,t ⟨m Δ φ(h)⟩,  v ← (1 − τ_v,tκ) v + b        (only with a trained readout).

m is 1 on the full batch. Of a batch with a fraction p of the examples, new at every step, it is 1/p for an example that
was drawn and 0 for the others.

In the limit an example and a weight are two coupled random processes (`learndyn.programs` reveals X as far as it is
asked for). With the response R_w of a weight to a force (R_w(s+1, s) = 1) and those of an example, R_h = ⟨∂g/∂u⟩ and
R* = ⟨∂g/∂ρ⟩ at fixed u,

    h(t) = u(t) + (1/γ) Σ_{s<t} τ_s R_w(t, s) g(s),           ⟨u_i(t)u_j(s)⟩ = C_ij(t, s),  ⟨u_iρ_n⟩ = R_in,
    (1/γ) X^⊤g(t) = η(t) + Σ_{s≤t} R_h(t, s) w(s) + R*(t) w*,    ⟨η_i(t)η_j(s)⟩ = ⟨g_i(t) g_j(s)⟩/γ .

Weights are Gaussian: w is kept as its coordinates in the independent normals of the start and of η, without sampling.
Examples are not Gaussian, and are sampled. The forced part of h is read off X: with orthonormal directions V_j of the
forces and the coordinates c_ij(t) of w_i(t) in the normals that were drawn with V_j, it is Σ_j V_j c_ij(t)/√γ.

Bordelon & Pehlevan's dynamical mean-field theory, for this network in "Asymptotic Dynamics for Delayed Feature Learning
in a Toy Model" (Workshop on High-dimensional Learning Dynamics, 2024), with corrections (see the documentation). Matrices
known through their products: Bolthausen 2014.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.divergence import diverged
from learndyn.families.two_layer.reused.time_grid import Grid
from learndyn.families.two_layer.student_teacher import OrderParameters, StudentTeacher
from learndyn.numerics.covariance import covariance_root, whitener
from learndyn.numerics.gram import gram, stacked
from learndyn.problem.activations.values import with_slope
from learndyn.programs import Net, einsum
from learndyn.programs.dims import Dim
from learndyn.programs.matrices import Matrix
from learndyn.programs.values import Value

INPUTS = "inputs"
"""The dimension of the weights. In the limit its vectors are linear in normal ones."""


class ReusedSetting(NamedTuple):
    """A two-layer network on a reused dataset, as arrays.

    - `pair`: activations of student and teacher, T and v*.
    - `start`: overlaps Q (K×K) and R (K×M), and the readout v (K), at the start.
    - `ratio` (γ = P/D): examples per input dimension.
    - `fraction` (p = B/P): the part of the examples that a step uses.
    - `grid`: the steps τ_t and τ_v,t.
    - `momentum` (β), `decay` (κ) and `noise` (ς, of the labels).
    - `train_readout`: whether v is trained.
    """

    pair: StudentTeacher
    start: OrderParameters
    ratio: float
    fraction: float
    grid: Grid
    momentum: float
    decay: float
    noise: float
    train_readout: bool

    @property
    def hidden(self) -> int:
        """K."""
        return self.start.R.shape[0]

    @property
    def teachers(self) -> int:
        """M."""
        return self.start.R.shape[1]


@eqx.filter_jit
def labels(
    pair: StudentTeacher, rho: Float[Array, "M S"]
) -> tuple[Float[Array, " S"], Float[Array, "M S"]]:
    """Clean labels Σ_n v*_n σ(ρ_n) and their slopes v*_n σ'(ρ_n)."""
    return pair.v_star @ pair.teacher(rho), pair.v_star[:, None] * pair.teacher.derivative(rho)


class State(NamedTuple):
    """The examples in one state of training: v (K), h (K, S), φ(h), v φ'(h) (`pull`), Δ (S) and m (S)."""

    v: np.ndarray
    h: np.ndarray
    phi: np.ndarray
    pull: np.ndarray
    Delta: np.ndarray
    m: np.ndarray

    @property
    def g(self) -> np.ndarray:
        """The forces (K, S)."""
        return self.m * self.pull * self.Delta


class ReusedTraining:
    """The training loop, to be called with a net; afterwards it holds what it passed through.

    At every state: `loss` ⟨Δ²⟩, `Q`, `R`, `v`, the largest curvature of a sample Σ_i v_i² φ'(h_i)²/γ (`sharpest`) and
    the largest share of a sample in the loss (`share`). At the states in `saved` also the coordinates of the weights
    `w`, the forces `g`, and in the limit `leading_gap` = ⟨Σ_i g_i (h_i − u_i)⟩. `watch` is called with each state.
    """

    def __init__(
        self,
        setting: ReusedSetting,
        saved: np.ndarray,
        watch: Callable[[State], None] | None = None,
    ):
        self.setting, self.saved, self.watch = setting, frozenset(saved.tolist()), watch
        self.loss, self.Q, self.R, self.v = [], [], [], []
        self.sharpest, self.share = [], []
        self.w, self.g, self.leading_gap = [], [], []

    @property
    def reached(self) -> int:
        """The number of states before training diverged."""
        return len(self.loss)

    def __call__(self, net: Net) -> None:
        setting, grid = self.setting, self.setting.grid
        D, P = net.dim(INPUTS), net.dim("examples", setting.ratio)
        X = net.matrix(P, D, trained=False)
        w_star, w = self._weights(net, D)
        y = self._labels(net, X, w_star)
        v, B, b = np.asarray(setting.start.v), None, 0.0
        for t in net.steps(len(grid.tau)):
            state = self._state(net, X, w, v, y)
            loss = np.mean(state.Delta**2)
            net.record(train_loss=loss / 2)
            if diverged(loss, max(self.loss[0] if self.loss else loss, 1e-300)):
                return
            self._note(t, X, w_star, w, state)
            if net.last:
                return
            tau, tau_v = grid.tau[t], grid.tau_v[t]
            force = (tau / setting.ratio) * (X.T @ Value(net, state.g, P))
            B = force if B is None else setting.momentum * B + force
            w = (1 - tau * setting.decay) * w + B
            if setting.train_readout:
                b = setting.momentum * b + tau_v * np.mean(state.m * state.Delta * state.phi, 1)
                v = (1 - tau_v * setting.decay) * v + b

    def _weights(self, net: Net, D: Dim) -> tuple[Value, Value]:
        """w* (M) and w (K) with the overlaps of the start."""
        start, M = self.setting.start, self.setting.teachers
        root = covariance_root(np.asarray(self.setting.pair.T))
        along = np.asarray(start.R) @ whitener(root)
        rest = covariance_root(np.asarray(start.Q) - along @ along.T)
        xi = net.normal(D, M + self.setting.hidden, trained=False)
        w = einsum("km,m->k", np.concatenate([along, rest], axis=1), xi)
        return einsum("nm,m->n", root, xi[:M]), w

    def _labels(self, net: Net, X: Matrix, w_star: Value) -> np.ndarray:
        """y (S); `label_slope` (M, S) holds its slopes in ρ."""
        clean, slope = labels(self.setting.pair, (X @ w_star).data)
        self.label_slope = np.asarray(slope)
        # Drawn without noise too, so that the samples are the same.
        return np.asarray(clean) + self.setting.noise * net.normal(X.rows, trained=False).data

    def _state(self, net: Net, X: Matrix, w: Value, v: np.ndarray, y: np.ndarray) -> State:
        h = (X @ w).data
        phi, slope = map(np.asarray, with_slope(self.setting.pair.student, h))
        p = self.setting.fraction
        m = net.mask(X.rows, p).data if p < 1 else np.ones(1)
        return State(v, h, phi, v[:, None] * slope, y - v @ phi, m)

    def _note(self, t: int, X: Matrix, w_star: Value, w: Value, state: State) -> None:
        D = X.cols.site
        rows, teacher = D.unwrapped(w.data), D.unwrapped(w_star.data)
        square = state.Delta**2
        self.loss.append(np.mean(square))
        self.Q.append(D.scale * (rows @ rows.T))
        self.R.append(D.scale * (rows @ teacher.T))
        self.v.append(state.v)
        self.sharpest.append(np.max(np.sum(state.pull**2, axis=0)) / self.setting.ratio)
        self.share.append(np.max(square) / max(np.sum(square), 1e-300))
        if t in self.saved:
            self.w.append(rows)
            self.g.append(state.g)
            if D.grows:
                forced = self.forced(X, rows)
                self.leading_gap.append(np.mean(np.sum(state.pull * state.Delta * forced, axis=0)))
        if self.watch is not None:
            self.watch(state)

    def forced(self, X: Matrix, rows: Float[np.ndarray, "K coordinates"]) -> np.ndarray:
        """h − u = Σ_j V_j c_ij/√γ (K, S), from the coordinates of the weights in the limit."""
        V, setting = X.gaussian.V, self.setting
        # Behind the constant and the normals of the start, every direction V_j has brought one normal.
        c = rows[:, 1 + setting.teachers + setting.hidden :]
        return c @ V.rows[: V.imaged] / np.sqrt(setting.ratio)

    def two_time(self, scale: float) -> dict[str, np.ndarray]:
        """C and C_g at the saved states."""
        K = self.setting.hidden
        return {"C": scale * gram(stacked(self.w, K)), "C_g": gram(np.stack(self.g), mean=True)}
