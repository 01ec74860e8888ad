"""A random field with polynomial covariance, drawn exactly at any size.

For G(q, m) = Σ_ij c_ij q^i m^j,

    r(x, θ) = Σ_ij √c_ij T_ij [ψ_i(x) ⊗ χ_j(θ)],

where the entries of T_ij (d × n_i × m_j) are independent N(0, 1), and ψ_i(x) and χ_j(θ) hold the distinct monomials of
order i in x and j in θ, weighted so that ψ_i(x)·ψ_i(x') = (x·x'/d)^i and χ_j(θ)·χ_j(θ') = (θ·θ'/d_θ)^j. With a second
state, G(q, m, s) = Σ_kij c_kij s^k q^i m^j has r(x, z, θ) = Σ_kij √c_kij T_kij [ψ_i(x) ⊗ ψ_k(z) ⊗ χ_j(θ)]. So a part of
a field has the orders (i,) or (i, k) in its states, and j in its control.

All states of a training step have the same control: A_i(θ) = Σ_j √c_ij T_ij χ_j(θ) (d × n_i) is computed once, and
the field is then Σ_i A_i ψ_i(x). Its gradient in the control, summed over states x_s with adjoints p_s, needs them
only in S_i = Σ_s p_s ψ_i(x_s)ᵀ. States and adjoints are rows in the code.

A field costs Σ_ij d n_i m_j numbers of memory and as many operations per change of θ; a drift costs Σ_i d n_i of them.
With a second state, n_i becomes n_i n_k.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from learndyn.families.neural_ode.finite.monomials import features, monomials
from learndyn.numerics.delayed import rows_times

Orders = tuple[int, ...]
"""The orders (i,) or (i, k) in the states."""
CHUNK = 256
"""Monomials are computed for this many states at a time."""


class FrozenField:
    """The field at one control, x ↦ r(x, θ) or x, z ↦ r(x, z, θ): matrices A, by the orders in the states."""

    def __init__(self, d: int, A: dict[Orders, Float[np.ndarray, "d features"]]):
        self.d, self.A = d, A
        self.parts = [(features(d, orders), matrix) for orders, matrix in A.items()]

    def drift(self, *states: Float[np.ndarray, "rows d"]) -> Float[np.ndarray, "rows d"]:
        """r of every row."""
        total = np.zeros_like(states[0])
        for psi, A in self.parts:
            total += rows_times(psi(*states), A.T)
        return total

    def pullback(
        self, p: Float[np.ndarray, "rows d"], *states: Float[np.ndarray, "rows d"]
    ) -> list[Float[np.ndarray, "rows d"]]:
        """∇⟨p, r⟩ in each of the states, for every row."""
        totals = [np.zeros_like(x) for x in states]
        for psi, A in self.parts:
            if not psi.constant:
                gradients = psi.pullback(rows_times(p, A), *states)
                for total, gradient in zip(totals, gradients, strict=True):
                    total += gradient
        return totals


def weighted(
    weights: Sequence[float] | Float[np.ndarray, " fields"], fields: list[FrozenField]
) -> FrozenField:
    """Σ_i w_i r_i of fields with the same orders; a single field of weight 1 is shared, not copied."""
    if len(fields) == 1 and weights[0] == 1:
        return fields[0]
    total = {orders: weights[0] * A for orders, A in fields[0].A.items()}
    for w, field in zip(weights[1:], fields[1:], strict=True):
        for orders, A in field.A.items():
            total[orders] += w * A
    return FrozenField(fields[0].d, total)


class TensorField:
    """A drawn field.

    - `fixed`: the parts without control, √c T (d × features), by their orders in the states
    - `tensors`: the parts with control, √c T (d · features × m_j), by their orders in the states and j
    """

    def __init__(
        self,
        d: int,
        d_theta: int,
        fixed: dict[Orders, np.ndarray],
        tensors: dict[tuple[Orders, int], np.ndarray],
    ):
        self.d, self.d_theta, self.fixed, self.tensors = d, d_theta, fixed, tensors

    @classmethod
    def draw(
        cls, coefficients: np.ndarray, d: int, d_theta: int, rng: np.random.Generator
    ) -> "TensorField":
        """Draw a field with the coefficients of a `PolynomialField`."""
        fixed, tensors = {}, {}
        for orders, j, c in terms(coefficients):
            states, controls = _count(d, *orders), _count(d_theta, j)
            T = rng.standard_normal((d * states, controls))
            T *= math.sqrt(c)
            if j:
                tensors[orders, j] = T
            else:
                fixed[orders] = T.reshape(d, states)
        return cls(d, d_theta, fixed, tensors)

    def at(self, theta: Float[np.ndarray, " d_theta"]) -> FrozenField:
        """The field at the control θ; parts that do not depend on it are shared, not copied."""
        A = dict(self.fixed)
        for (orders, j), T in self.tensors.items():
            part = (T @ monomials(self.d_theta, j)(theta[None])[0]).reshape(self.d, -1)
            A[orders] = A[orders] + part if orders in A else part
        return FrozenField(self.d, A)

    def moments(
        self,
        p: Float[np.ndarray, "rows d"],
        *states: Float[np.ndarray, "rows d"],
        fixed: bool = False,
    ) -> dict[Orders, Float[np.ndarray, "d features"]]:
        """S = Σ_s p_s ψ(x_s)ᵀ over rows, for the parts with a control; with `fixed` for all parts."""
        moments = {}
        for orders in sorted(
            {orders for orders, _ in self.tensors} | set(self.fixed if fixed else ())
        ):
            psi, S = features(self.d, orders), 0.0
            for first in range(0, len(p), CHUNK):
                rows = slice(first, first + CHUNK)
                S = S + p[rows].T @ psi(*(x[rows] for x in states))
            moments[orders] = S
        return moments

    def value_and_gradient(
        self,
        theta: Float[np.ndarray, " d_theta"],
        S: dict[Orders, Float[np.ndarray, "d features"]],
    ) -> tuple[float, Float[np.ndarray, " d_theta"]]:
        """Σ_s ⟨p_s, r(x_s, θ)⟩ of the parts with moments in S, and its gradient in θ."""
        value, gradient = 0.0, np.zeros(self.d_theta)
        for orders, A in self.fixed.items():
            if orders in S:
                value += np.vdot(S[orders], A)
        for (orders, j), T in self.tensors.items():
            chi, c = monomials(self.d_theta, j), S[orders].reshape(-1) @ T
            value += np.vdot(c, chi(theta[None]))
            gradient += chi.pullback(theta[None], c[None])[0]
        return value, gradient


def terms(coefficients: np.ndarray) -> Iterator[tuple[Orders, int, float]]:
    """The orders in the states, the order in the control and the coefficient of every term."""
    for (*second, i, j), c in np.ndenumerate(coefficients):
        if c:
            yield (i, *second), j, c


def _count(variables: int, *orders: int) -> int:
    """The number of monomials of an order, or of products of monomials of several orders."""
    return math.prod(math.comb(variables + k - 1, k) for k in orders)


def entries(
    coefficients: np.ndarray,
    d: int,
    d_theta: int,
    rows: int,
    states: int,
    drifts: int,
    copied: bool,
) -> tuple[float, float]:
    """The numbers that one drawn field needs, and those that all fields of a system share.

    - `rows`: rows of a drift
    - `states`: rows of a moment
    - `drifts`: arrays A that exist at a time
    - `copied`: whether these include the parts without a control
    """
    tensors = shared = 0.0
    for orders, j, _ in terms(coefficients):
        n, m = _count(d, *orders), _count(d_theta, j)
        tensors += d * n * m
        # Three arrays of monomials at a time; the arrays A, one of which is being summed.
        shared += 3 * n * max(rows, min(states, CHUNK) if j else 0)
        shared += (drifts * d * n if j or copied else 0) + (4 * m if j else 0)
        # While the tables are built: the k letters of k·n_k raised multi-indices, sorted too, and their numbers.
        tables = [(k, _count(d, k)) for k in orders] + [(j, m)]
        shared += sum((2 * k * k + 5 * k) * size for k, size in tables if k > 1)
    return tensors, shared
