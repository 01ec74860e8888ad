"""Two-layer networks on a reused dataset: the limit of many inputs and examples.

Finite network: see `TwoLayer` (its part on a `Dataset`). Limit: D, P → ∞ at fixed ratio γ = P/D, with K hidden and M
teacher units and T steps τ_t fixed. Exact for these steps; gradient flow is the further limit of small ones.

The inputs are a Gaussian matrix X (P × D, entries N(0, 1/D)) that training asks for products only:

    ρ = X w*,   y = Σ_n v*_n σ(ρ_n) + ςz,
    h = X w,    Δ = y − Σ_k v_k φ(h_k),   g_i = m v_i φ'(h_i) Δ,
    B ← βB + τ_t (1/γ) X^⊤g,    w ← (1 − τ_tκ) w + B,
    b ← βb + τ_v,t ⟨m Δ φ(h)⟩,  v ← (1 − τ_v,tκ) v + b        (only with a trained readout).

m is 1 on the full batch. Of a batch with a fraction p of the examples, new at every step, it is 1/p for an example that
was drawn and 0 for the others.

In the limit an example and a weight are two coupled random processes. With the response R_w of a weight to a force
(R_w(s+1, s) = 1) and those of an example, R_h = ⟨∂g/∂u⟩ and R* = ⟨∂g/∂ρ⟩ at fixed u,

    h(t) = u(t) + (1/γ) Σ_{s<t} τ_s R_w(t, s) g(s),             ⟨u_i(t)u_j(s)⟩ = C_ij(t, s),  ⟨u_iρ_n⟩ = R_in,
    (1/γ) X^⊤g(t) = η(t) + Σ_{s≤t} R_h(t, s) w(s) + R*(t) w*,    ⟨η_i(t)η_j(s)⟩ = ⟨g_i(t) g_j(s)⟩/γ .

Weights are Gaussian, and are kept as their coordinates in the independent normals of the start and of η. Examples are
not, and are sampled; the same coordinates make their fields u of normals of their own. This module has the loop, for
any inputs that give both products: `traced.py` takes them from the equations above, `revealed.py` from a Gaussian
program, which also runs as a network.

Bordelon & Pehlevan's dynamical mean-field theory, for this network in "Asymptotic Dynamics for Delayed Feature Learning
in a Toy Model" (Workshop on High-dimensional Learning Dynamics, 2024), with the corrections
listed in `docs/corrections.md`.
"""

import abc
from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.divergence import diverged
from learndyn.errors import NotConverged
from learndyn.families.two_layer.reused.time_grid import Grid
from learndyn.families.two_layer.student_teacher import OrderParameters, StudentTeacher
from learndyn.numerics.covariance import covariance_root, whitener
from learndyn.numerics.gram import gram, stacked
from learndyn.problem.activations.values import with_slope
from learndyn.programs.affine import aligned


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

    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """w* (M, M + K) and w (K, M + K) at the start, in M + K normals."""
        T, start = np.asarray(self.pair.T), self.start
        root = covariance_root(T)
        along = np.asarray(start.R) @ whitener(root)
        rest = covariance_root(np.asarray(start.Q) - along @ along.T)
        w_star = np.concatenate([root, np.zeros((self.teachers, self.hidden))], axis=1)
        return w_star, np.concatenate([along, rest], axis=1)


@eqx.filter_jit
def labels(
    pair: StudentTeacher, rho: Float[Array | np.ndarray, "M S"]
) -> tuple[Float[Array, " S"], Float[Array, "M S"]]:
    """Clean labels Σ_n v*_n σ(ρ_n) and their slopes v*_n σ'(ρ_n)."""
    rho = jnp.asarray(rho)
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


class Inputs(abc.ABC):
    """X as far as training asks for it; weights are rows of coordinates, with ⟨w w⟩ = `scale` · Σ w w."""

    scale: float = 1.0

    @abc.abstractmethod
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """w*, w, X w* and the normals z of the label noise."""

    @abc.abstractmethod
    def fields(self, w: np.ndarray) -> np.ndarray:
        """X w (K, S) for the weights of the next state."""

    @abc.abstractmethod
    def force(self, w: np.ndarray, state: State) -> np.ndarray:
        """(1/γ) X^⊤g in the present state."""

    @abc.abstractmethod
    def chosen(self, fraction: float) -> np.ndarray:
        """m (S) of a batch."""

    def forced(self, w: np.ndarray) -> np.ndarray | None:
        """h − u (K, S) in the present state; None in a network."""
        return None


class ReusedTraining:
    """The training loop; afterwards it holds what it passed through.

    At every state: `loss` ⟨Δ²⟩, `Q`, `R`, `v`, the largest curvature of a sample Σ_i v_i² φ'(h_i)²/γ (`sharpest`) and
    the largest share of a sample in the loss (`share`). At the states in `saved` also the weights `w`, the forces `g`,
    and in the limit `leading_gap` = ⟨Σ_i v_i φ'(h_i) Δ (h_i − u_i)⟩.
    """

    def __init__(self, setting: ReusedSetting, saved: np.ndarray):
        self.setting, self.saved = setting, frozenset(saved.tolist())
        self.loss: list[float] = []
        self.Q, self.R, self.v, self.sharpest, self.share = [], [], [], [], []
        self.w, self.g, self.leading_gap = [], [], []

    @property
    def reached(self) -> int:
        """The number of states before training diverged."""
        return len(self.loss)

    def follow(self, inputs: Inputs, states: Iterable[int]) -> None:
        """Train through the states, up to the last one or until training diverges."""
        setting, grid = self.setting, self.setting.grid
        w_star, w, rho, z = inputs.start()
        clean, slope = labels(setting.pair, rho)
        y, self.label_slope = np.asarray(clean) + setting.noise * z, np.asarray(slope)
        v, B, b = np.asarray(setting.start.v), np.zeros_like(w), 0.0
        for t in states:
            state = self._state(inputs, w, v, y)
            loss = float(np.mean(state.Delta**2))
            if not self.loss and not np.isfinite(loss):
                raise NotConverged(
                    "the train loss overflows before training starts; use smaller overlaps or readouts"
                )
            if diverged(loss, max(self.loss[0] if self.loss else loss, 1e-300)):
                return
            self._note(t, inputs, w_star, w, state)
            force = inputs.force(w, state)
            if t == len(grid.tau):
                return
            tau, tau_v = grid.tau[t], grid.tau_v[t]
            B, force = aligned(B, force)
            B = setting.momentum * B + tau * force
            w = (1 - tau * setting.decay) * aligned(w, B)[0] + B
            if setting.train_readout:
                b = setting.momentum * b + tau_v * np.mean(state.m * state.Delta * state.phi, 1)
                v = (1 - tau_v * setting.decay) * v + b

    def _state(self, inputs: Inputs, w: np.ndarray, v: np.ndarray, y: np.ndarray) -> State:
        h, p = inputs.fields(w), self.setting.fraction
        phi, slope = map(np.asarray, with_slope(self.setting.pair.student, h))
        m = inputs.chosen(p) if p < 1 else np.ones(len(y))
        return State(v, h, phi, v[:, None] * slope, y - v @ phi, m)

    def _note(
        self, t: int, inputs: Inputs, w_star: np.ndarray, w: np.ndarray, state: State
    ) -> None:
        square = state.Delta**2
        self.loss.append(float(np.mean(square)))
        self.Q.append(inputs.scale * (w @ w.T))
        self.R.append(inputs.scale * (w[:, : w_star.shape[1]] @ w_star.T))
        self.v.append(state.v)
        self.sharpest.append(np.max(np.sum(state.pull**2, axis=0)) / self.setting.ratio)
        self.share.append(np.max(square) / max(np.sum(square), 1e-300))
        if t not in self.saved:
            return
        self.w.append(w)
        self.g.append(state.g)
        forced = inputs.forced(w)
        if forced is not None:
            self.leading_gap.append(np.mean(np.sum(state.pull * state.Delta * forced, axis=0)))

    def two_time(self, scale: float = 1.0) -> dict[str, np.ndarray]:
        """C and C_g at the saved states."""
        K = self.setting.hidden
        return {"C": scale * gram(stacked(self.w, K)), "C_g": gram(np.stack(self.g), mean=True)}
