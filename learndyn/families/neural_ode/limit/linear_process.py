"""The linear Gaussian process that a flow in a random field becomes as d → ∞, one scalar after another.

After the average over the field, one component of a state or adjoint at one time is a scalar: a sum of earlier scalars
plus Gaussian noise. The sums and noises come from a list of *uses* of the fields. Use u has a field label, an amplitude
c_u (with the Euler step in it), up to two states s_u1, s_u2, a control θ_t(u), the scalar o_u that it helps to produce,
the adjoint π_u that multiplies it, the adjoints p̄_uk that receive c_u ∇_{s_k}⟨π_u, r⟩, the control t'(u) that it
updates and the rate η_u of that; a teacher's use has no adjoint part. With G = G(C(s_u1, s_w1), C_θ(t_u, t_w), C(s_u2,
s_w2)), ∂_k its derivative in the overlap of states k and ∂_m that in the control, and

    D_uw[F] = Σ_k R(s_uk; p̄_wk) ∂_kF − η_w R_θ(t_u; t'_w) ∂_mF,

the process is, with sums over all earlier uses w of the same field,

    o_u   ←  Σ c_u c_w D_uw[G] π_w + noise,                       ⟨noise noise⟩(o_u, o_w) = c_u c_w G,
    p̄_uk  ←  Σ c_u c_w {R(π_u; o_w) ∂_kG + C(π_u, π_w) D_uw[∂_kG]} s_wk + noise,   … = c_u c_w C(π_u, π_w) ∂_kG,
    θ_t'  ←  −(η_u/σ) Σ c_u c_w {R(π_u; o_w) ∂_mG + C(π_u, π_w) D_uw[∂_mG]} θ_t(w) + noise,
                                                                  … = (η_u η_w/σ) c_u c_w C(π_u, π_w) ∂_mG,

noises of different kinds or different k being independent. The amplitude of a use has the gradient

    ⟨π_u, r(s_u, θ_t(u))⟩/d = Σ c_w {R(π_u; o_w) G + C(π_u, π_w) D_uw[G]}.

For a scalar u = Σ A_uw w + noise, with noise covariance S, the order parameters grow by a row:

    R(u, ·) = Σ_w A_uw R(w, ·),  R(u, u) = 1,    C(u, ·) = Σ_w A_uw C(w, ·) + Σ_w S(u, w) R(·, w).

All is causal: each row needs earlier rows only. K scalars cost O(K³) operations and 16K² bytes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from learndyn.families.neural_ode.limit.derivatives import Derivatives

NONE = -1
"""The index of a scalar or control that a use does not have, or not yet."""

PairDerivatives = Callable[[int, int, int], np.ndarray]
"""G(i, k, j) = ∂_1^i ∂_2^k ∂_m^j G, for pairs of one use with several others."""


class Process:
    """Correlations C and responses R of a growing list of scalars."""

    def __init__(self, capacity: int):
        self.C = np.zeros((capacity, capacity))
        self.R = np.zeros((capacity, capacity))
        self.count = 0

    def append(self, A: Float[np.ndarray, " u"], S: Float[np.ndarray, " u+1"]) -> int:
        """Add the scalar u = Σ_w A_w w + noise, and return its number.

        A has an entry for each earlier scalar; S is the covariance with the noises of these, its own variance last.
        """
        u = self.count
        C, R = self.C[:u, :u], self.R[:u, :u]
        self.R[u, :u] = A @ R
        self.R[u, u] = 1.0
        row = A @ C + R @ S[:u]
        self.C[u, :u] = self.C[:u, u] = row
        self.C[u, u] = A @ row + self.R[u, : u + 1] @ S
        self.count = u + 1
        return u


class Use(NamedTuple):
    """One use of a field: its amplitude c, the numbers of its states and of its control, and the label of its field."""

    c: float
    states: tuple[int, ...]
    control: int
    field: int = 0


class Uses:
    """The list of uses, with one array for each of their properties; the symbols are those of the module docstring."""

    def __init__(self, capacity: int):
        self.field, self.t, self.o, self.pi, self.updates = np.full((5, capacity), NONE)
        self.s, self.p_bar = np.full((2, 2, capacity), NONE)
        self.c = np.zeros(capacity)
        self.eta = np.zeros(capacity)
        self.count = 0

    def append(self, use: Use, o: int) -> int:
        """Add a use that helps to produce the scalar o, and return its number."""
        u = self.count
        self.pi[u] = self.updates[u] = NONE
        self.s[:, u] = self.p_bar[:, u] = NONE
        self.s[: len(use.states), u] = use.states
        self.field[u], self.t[u], self.o[u] = use.field, use.control, o
        self.c[u], self.eta[u] = use.c, 0.0
        self.count = u + 1
        return u


class Engine:
    """The process: its scalars, its controls and its uses.

    - `derivatives`: the covariance G of the field of every label
    - `sigma`: σ = d_θ/d
    - `scalars`, `uses`, `controls`: the largest numbers of them
    """

    def __init__(
        self, derivatives: list[Derivatives], sigma: float, scalars: int, uses: int, controls: int
    ):
        self.G, self.sigma = derivatives, sigma
        self.scalars, self.controls = Process(scalars), Process(controls)
        self.uses = Uses(uses)

    def mark(self) -> tuple[int, int]:
        """The lengths of the lists; `rewind` returns to them."""
        return self.scalars.count, self.uses.count

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget the scalars and uses added since `mark`; nothing that stays may depend on them."""
        self.scalars.count, self.uses.count = mark

    def start(self, variance: float = 1.0) -> int:
        """Add a scalar that is independent of all others, such as the start of a trajectory."""
        return self.scalars.append(*self._rows({}, variance))

    def linear(self, weights: dict[int, float]) -> int:
        """Add a weighted sum of scalars."""
        return self.scalars.append(*self._rows(weights, 0.0))

    def control(self, norm: float, overlaps: dict[int, float]) -> int:
        """Add a control with a norm |θ|²/d_θ and its overlaps with earlier ones."""
        controls, u = self.controls, self.controls.count
        for other, overlap in overlaps.items():
            controls.C[u, other] = controls.C[other, u] = overlap
        controls.C[u, u], controls.R[u, u] = norm, 1.0
        controls.count = u + 1
        return u

    def forward(
        self, linear: dict[int, float], uses: list[Use], noise: float
    ) -> tuple[int, list[int]]:
        """Add a state o = Σ linear + Σ c r(s, θ_t) + noise; the numbers of the state and of its uses."""
        o = self.scalars.count
        numbers = [self.uses.append(use, o) for use in uses]
        A, S = self._rows(linear, noise)
        for u in numbers:
            w, G = self._pairs(u)
            scale = self.uses.c[u] * self.uses.c[w]
            np.add.at(S, self.uses.o[w], scale * G(0, 0, 0))
            response = scale * self._response(u, w, G, (0, 0, 0))
            trained = self.uses.pi[w] != NONE
            np.add.at(A, self.uses.pi[w[trained]], response[trained])
        return self.scalars.append(A, S), numbers

    def adjoint(
        self,
        linear: dict[int, float],
        slots: list[tuple[int, int]],
        noise: float,
        other_noise: dict[int, float] | None = None,
    ) -> int:
        """Add an adjoint p̄ = Σ linear + Σ c_u ∇_{s_k}⟨π_u, r⟩ + noise, for slots (u, k) of uses whose π is known.

        `noise` is the variance of a noise of its own, and `other_noise` its covariance with those of earlier scalars.
        """
        scalars, table = self.scalars, self.uses
        for u, k in slots:
            table.p_bar[k, u] = scalars.count
        A, S = self._rows(linear, noise)
        for other, covariance in (other_noise or {}).items():
            S[other] += covariance
        for u, k in slots:
            w, G = self._pairs(u)
            order = _raised((0, 0, 0), k)
            scale = table.c[u] * table.c[w]
            slope, correlation = G(*order), self._adjoint_correlation(u, w)
            weight = scalars.R[table.pi[u], table.o[w]] * slope
            weight = weight + correlation * self._response(u, w, G, order)
            np.add.at(A, table.s[k, w], scale * weight)
            present = table.p_bar[k, w] != NONE
            np.add.at(S, table.p_bar[k, w[present]], (scale * correlation * slope)[present])
        return scalars.append(A, S)

    def update(self, linear: dict[int, float], uses: dict[int, float]) -> int:
        """Add a control θ = Σ linear − Σ_u η_u c_u ∇_θ⟨π_u, r⟩, from uses and their rates η_u."""
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
            slope, correlation = G(0, 0, 1), self._adjoint_correlation(u, w)
            weight = scalars.R[table.pi[u], table.o[w]] * slope
            weight = weight + correlation * self._response(u, w, G, (0, 0, 1))
            np.add.at(A, table.t[w], -scale * weight)
            updating = table.updates[w] != NONE
            covariance = scale * table.eta[w] * correlation * slope
            np.add.at(S, table.updates[w[updating]], covariance[updating])
        return controls.append(A, S)

    def amplitude_gradient(self, u: int) -> float:
        """⟨π_u, r(s_u, θ_t(u))⟩/d of a use whose π is known."""
        w, G = self._pairs(u)
        weight = self.scalars.R[self.uses.pi[u], self.uses.o[w]] * G(0, 0, 0)
        weight += self._adjoint_correlation(u, w) * self._response(u, w, G, (0, 0, 0))
        return float(self.uses.c[w] @ weight)

    def _rows(
        self, linear: dict[int, float], noise: float
    ) -> tuple[Float[np.ndarray, " u"], Float[np.ndarray, " u+1"]]:
        """A and S of a new scalar with these weights and this variance of its noise, without uses."""
        count = self.scalars.count
        A, S = np.zeros(count), np.zeros(count + 1)
        for w, weight in linear.items():
            A[w] += weight
        S[count] = noise
        return A, S

    def _pairs(self, u: int) -> tuple[Int[np.ndarray, " w"], PairDerivatives]:
        """The uses w of the field of u so far, and the derivatives G(i, k, j) = ∂_1^i ∂_2^k ∂_m^j G of the pairs."""
        table = self.uses
        w = np.flatnonzero(table.field[: table.count] == table.field[u])
        q = self.scalars.C[table.s[0, u], table.s[0, w]]
        m = self.controls.C[table.t[u], table.t[w]]
        two = table.s[1, u] != NONE
        s = self.scalars.C[table.s[1, u], table.s[1, w]] if two else None
        return w, lambda i, k, j: self.G[table.field[u]](i, k, j, q, m, s)

    def _adjoint_correlation(self, u: int, w: Int[np.ndarray, " w"]) -> Float[np.ndarray, " w"]:
        """C(π_u, π_w), zero for uses without an adjoint."""
        pi = self.uses.pi
        return np.where(pi[w] == NONE, 0.0, self.scalars.C[pi[u], pi[w]])

    def _response(
        self,
        u: int,
        w: Int[np.ndarray, " w"],
        G: PairDerivatives,
        order: tuple[int, int, int],
    ) -> Float[np.ndarray, " w"]:
        """D_uw[∂_1^i ∂_2^k ∂_m^j G], (i, k, j) = `order`: the response of r(s_u, θ_t(u)) to earlier trained uses w."""
        table = self.uses
        total = np.zeros(len(w))
        for slot in range(2):
            p_bar, state = table.p_bar[slot, w], table.s[slot, u]
            of_state = np.where(p_bar == NONE, 0.0, self.scalars.R[state, p_bar])
            if np.any(of_state):
                total += of_state * G(*_raised(order, slot))
        updates = table.updates[w]
        of_control = np.where(
            updates == NONE, 0.0, table.eta[w] * self.controls.R[table.t[u], updates]
        )
        if np.any(of_control):
            total -= of_control * G(*_raised(order, 2))
        return total


def _raised(order: tuple[int, int, int], argument: int) -> tuple[int, int, int]:
    """The order (i, k, j) of a derivative, raised by one in an argument."""
    i, k, j = (n + (index == argument) for index, n in enumerate(order))
    return i, k, j
