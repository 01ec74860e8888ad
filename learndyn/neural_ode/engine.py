"""The linear-Gaussian process that a flow in a random field becomes as d → ∞, one scalar after another.

Averaging over the field leaves, for one component, scalars that are sums of earlier ones plus Gaussian noise. What
makes them is a list of *uses* of the field. Use u has a field label, an amplitude c_u (with the Euler step in it), a
state s_u, a control θ_t(u), the scalar o_u that it helps to produce, the adjoint π_u that multiplies it, the adjoint
p̄_u that receives c_u ∇_s⟨π_u, r⟩, the control t'(u) that it updates and the rate η_u of that; a teacher's use has no
adjoint part. With G = G(C(s_u, s_w), C_θ(t_u, t_w)), ∂_1 and ∂_2 its derivatives, and

    D_uw[F] = R(s_u; p̄_w) ∂_1F − η_w R_θ(t_u; t'_w) ∂_2F,

the process is, with sums over all earlier uses w of the same field,

    o_u  ←  Σ c_u c_w D_uw[G] π_w + noise,                        ⟨noise noise⟩(o_u, o_w) = c_u c_w G,
    p̄_u  ←  Σ c_u c_w {R(π_u; o_w) ∂_1G + C(π_u, π_w) D_uw[∂_1G]} s_w + noise,   … = c_u c_w C(π_u, π_w) ∂_1G,
    θ_t' ←  −(η_u/σ) Σ c_u c_w {R(π_u; o_w) ∂_2G + C(π_u, π_w) D_uw[∂_2G]} θ_t(w) + noise,
                                                                  … = (η_u η_w/σ) c_u c_w C(π_u, π_w) ∂_2G.

For a scalar u = Σ A_uw w + noise, with noise covariance S, the order parameters grow by a row:

    R(u, ·) = Σ_w A_uw R(w, ·),  R(u, u) = 1,    C(u, ·) = Σ_w A_uw C(w, ·) + Σ_w S(u, w) R(·, w).

All is causal: each row needs earlier rows only. K scalars cost O(K³) operations and 16K² bytes.
"""

import numpy as np

from learndyn.neural_ode.derivatives import Derivatives

NONE = -1
"""The index of what a use does not have, or not yet."""


class Process:
    """Correlations C and responses R of a growing list of scalars."""

    def __init__(self, capacity: int):
        self.C = np.zeros((capacity, capacity))
        self.R = np.zeros((capacity, capacity))
        self.count = 0

    def append(self, A: np.ndarray, S: np.ndarray) -> int:
        """Add u = Σ A_w w + noise (A over the scalars there are); S is the covariance with all noises, its own last."""
        u = self.count
        C, R = self.C[:u, :u], self.R[:u, :u]
        self.R[u, :u] = A @ R
        self.R[u, u] = 1.0
        row = A @ C + R @ S[:u]
        self.C[u, :u] = self.C[:u, u] = row
        self.C[u, u] = A @ row + self.R[u, : u + 1] @ S
        self.count = u + 1
        return u


class Uses:
    """The list of uses, column by column; see the head of this file."""

    def __init__(self, capacity: int):
        self.field, self.s, self.t, self.o = np.full((4, capacity), NONE)
        self.pi, self.p_bar, self.updates = np.full((3, capacity), NONE)
        self.c = np.zeros(capacity)
        self.eta = np.zeros(capacity)
        self.count = 0

    def append(self, c: float, s: int, t: int, o: int, field: int = 0) -> int:
        u = self.count
        self.pi[u] = self.p_bar[u] = self.updates[u] = NONE
        self.field[u], self.s[u], self.t[u], self.o[u] = field, s, t, o
        self.c[u], self.eta[u] = c, 0.0
        self.count = u + 1
        return u


class Engine:
    """Scalars, controls and uses together. `derivatives` holds one covariance G for every field label."""

    def __init__(
        self, derivatives: list[Derivatives], sigma: float, scalars: int, uses: int, controls: int
    ):
        self.G, self.sigma = derivatives, sigma
        self.scalars, self.controls = Process(scalars), Process(controls)
        self.uses = Uses(uses)

    def mark(self) -> tuple[int, int]:
        """Where the lists end; `rewind` goes back there, and forgets passive scalars and uses added since."""
        return self.scalars.count, self.uses.count

    def rewind(self, mark: tuple[int, int]) -> None:
        self.scalars.count, self.uses.count = mark

    def start(self, variance: float = 1.0) -> int:
        """A scalar of its own, such as the start of a trajectory."""
        return self.scalars.append(*self._rows({}, variance))

    def linear(self, weights: dict[int, float]) -> int:
        """A sum of scalars."""
        return self.scalars.append(*self._rows(weights, 0.0))

    def control(self, norm: float, overlaps: dict[int, float]) -> int:
        """A control of given norm and overlaps with earlier ones."""
        controls, u = self.controls, self.controls.count
        for other, overlap in overlaps.items():
            controls.C[u, other] = controls.C[other, u] = overlap
        controls.C[u, u], controls.R[u, u] = norm, 1.0
        controls.count = u + 1
        return u

    def forward(
        self, linear: dict[int, float], uses: list[tuple[float, int, int, int]], noise: float
    ) -> tuple[int, list[int]]:
        """A state o = Σ linear + Σ c r(s, θ_t) + noise, from uses (c, s, t, field); the state and its uses."""
        o = self.scalars.count
        made = [self.uses.append(c, s, t, o, field) for c, s, t, field in uses]
        A, S = self._rows(linear, noise)
        for u in made:
            w, G = self._pairs(u)
            scale = self.uses.c[u] * self.uses.c[w]
            np.add.at(S, self.uses.o[w], scale * G(0, 0))
            response = scale * self._response(u, w, G, 0, 0)
            known = self.uses.pi[w] != NONE
            np.add.at(A, self.uses.pi[w[known]], response[known])
        return self.scalars.append(A, S), made

    def adjoint(self, linear: dict[int, float], uses: list[int], noise: float) -> int:
        """An adjoint p̄ = Σ linear + Σ_u c_u ∇_s⟨π_u, r⟩ + noise, for uses whose π is known."""
        scalars, table = self.scalars, self.uses
        table.p_bar[uses] = scalars.count
        A, S = self._rows(linear, noise)
        for u in uses:
            w, G = self._pairs(u)
            scale = table.c[u] * table.c[w]
            slope, correlation = G(1, 0), self._adjoint_correlation(u, w)
            weight = scalars.R[table.pi[u], table.o[w]] * slope
            weight = weight + correlation * self._response(u, w, G, 1, 0)
            np.add.at(A, table.s[w], scale * weight)
            known = table.p_bar[w] != NONE
            np.add.at(S, table.p_bar[w[known]], (scale * correlation * slope)[known])
        return scalars.append(A, S)

    def update(self, linear: dict[int, float], uses: dict[int, float]) -> int:
        """A control θ = Σ linear − Σ_u η_u c_u ∇_θ⟨π_u, r⟩, from uses and their rates η_u."""
        scalars, controls, table = self.scalars, self.controls, self.uses
        new = controls.count
        A, S = np.zeros(new), np.zeros(new + 1)
        for t, weight in linear.items():
            A[t] += weight
        for u, eta in uses.items():
            table.updates[u], table.eta[u] = new, eta
        for u in uses:
            w, G = self._pairs(u)
            scale = table.eta[u] * table.c[u] * table.c[w] / self.sigma
            slope, correlation = G(0, 1), self._adjoint_correlation(u, w)
            weight = scalars.R[table.pi[u], table.o[w]] * slope
            weight = weight + correlation * self._response(u, w, G, 0, 1)
            np.add.at(A, table.t[w], -scale * weight)
            known = table.updates[w] != NONE
            np.add.at(
                S, table.updates[w[known]], (scale * table.eta[w] * correlation * slope)[known]
            )
        return controls.append(A, S)

    def _rows(self, linear: dict[int, float], noise: float):
        """A over the scalars there are, and S with the next one's own variance last."""
        count = self.scalars.count
        A, S = np.zeros(count), np.zeros(count + 1)
        for w, weight in linear.items():
            A[w] += weight
        S[count] = noise
        return A, S

    def _pairs(self, u: int):
        """The uses w of the field of u so far, and the derivatives G(i, j) = ∂_1^i ∂_2^j G of the pairs."""
        table = self.uses
        w = np.flatnonzero(table.field[: table.count] == table.field[u])
        q = self.scalars.C[table.s[u], table.s[w]]
        m = self.controls.C[table.t[u], table.t[w]]
        return w, lambda i, j: self.G[table.field[u]](i, j, q, m)

    def _adjoint_correlation(self, u: int, w: np.ndarray) -> np.ndarray:
        """C(π_u, π_w), zero for uses without an adjoint."""
        pi = self.uses.pi
        return np.where(pi[w] == NONE, 0.0, self.scalars.C[pi[u], pi[w]])

    def _response(self, u: int, w: np.ndarray, G, i: int, j: int) -> np.ndarray:
        """D_uw[∂_1^i ∂_2^j G]: what r(s_u, θ_t(u)) owes to the trained uses w before it."""
        table = self.uses
        total = np.zeros(len(w))
        p_bar, updates = table.p_bar[w], table.updates[w]
        of_state = np.where(p_bar == NONE, 0.0, self.scalars.R[table.s[u], p_bar])
        if np.any(of_state):
            total += of_state * G(i + 1, j)
        of_control = np.where(
            updates == NONE, 0.0, table.eta[w] * self.controls.R[table.t[u], updates]
        )
        if np.any(of_control):
            total -= of_control * G(i, j + 1)
        return total
