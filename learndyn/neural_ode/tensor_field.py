"""A random field with polynomial covariance, drawn exactly at any size.

For G(q, m) = Σ_ij c_ij q^i m^j,

    r(x, θ) = Σ_ij √c_ij T_ij [ψ_i(x) ⊗ χ_j(θ)],

where the entries of T_ij (d × n_i × m_j) are independent N(0, 1), and ψ_i(x) and χ_j(θ) hold the distinct monomials of
order i in x and j in θ, weighted such that ψ_i(x)·ψ_i(x') = (x·x'/d)^i and χ_j(θ)·χ_j(θ') = (θ·θ'/d_θ)^j. With a second
state, G(q, m, s) = Σ_kij c_kij s^k q^i m^j has r(x, z, θ) = Σ_kij √c_kij T_kij [ψ_i(x) ⊗ ψ_k(z) ⊗ χ_j(θ)]. So a part of
a field has the orders (i,) or (i, k) in its states, and j in its control.

The control is the same for all states of a training step: A_i(θ) = Σ_j √c_ij T_ij χ_j(θ) (d × n_i) is made once, and
the field is then Σ_i A_i ψ_i(x). Its gradient in the control, summed over states x_s with adjoints p_s, needs them
only in S_i = Σ_s p_s ψ_i(x_s)ᵀ. States and adjoints are rows in the code.

A field costs Σ_ij d n_i m_j numbers of memory and as many operations per change of θ; a drift costs Σ_i d n_i of them.
With a second state, n_i becomes n_i n_k.
"""

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np

from learndyn.deep_linear.delayed import rows_times

CHUNK = 256
"""Monomials are made for this many states at a time."""


class Monomials:
    """ψ_k(x): x^α √(k!/α!)/n^{k/2} for every multi-index α of order k in n variables.

    With α = β + e_j, ψ_α(x) = ψ_β(x) x_j √(k/(α_j n)) and ∂ψ_α/∂x_j = ψ_β(x) √(kα_j/n), where ψ_β is of order k − 1.
    """

    def __init__(self, variables: int, order: int):
        n, k = variables, order
        self.order, self.size = k, math.comb(n + k - 1, k)
        if k < 2:
            self.scale = n ** (-k / 2)
            return
        self.lower = monomials(n, k - 1)
        letters = _letters(n, k)
        codes = _codes(letters, n)
        # The multi-index without its last letter, which is j; α_j letters are the same as that one.
        lower = _letters(n, k - 1)
        self.parent = np.searchsorted(_codes(lower, n), _codes(letters[:, :-1], n))
        self.last = letters[:, -1]
        self.ratio = np.sqrt(k / (n * np.sum(letters == self.last[:, None], axis=1)))
        added = np.arange(n)[:, None]
        raised = np.empty((n, len(lower), k), dtype=np.intp)
        raised[..., :-1], raised[..., -1] = lower, added
        self.raised = np.searchsorted(codes, _codes(np.sort(raised, axis=-1), n))
        self.slope = np.sqrt(k * np.sum(raised == added[..., None], axis=-1) / n)

    def __call__(self, x):
        """ψ_k for every row x."""
        if self.order == 0:
            return np.ones((len(x), 1))
        if self.order == 1:
            return x * self.scale
        return self.lower(x)[:, self.parent] * x[:, self.last] * self.ratio

    def pullback(self, x, c):
        """∇_x Σ_α c_α ψ_α(x) for every row x and its row c."""
        if self.order == 0:
            return np.zeros_like(x)
        if self.order == 1:
            return c * self.scale
        lower = self.lower(x)
        rows = zip(lower, c, strict=True)
        return np.stack([(one[self.raised] * self.slope) @ psi for psi, one in rows])


def _letters(n: int, k: int) -> np.ndarray:
    """The multi-indices of order k as their variables in increasing order, a row each, rows in increasing order."""
    flat = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(n), k))
    return np.fromiter(flat, dtype=np.intp).reshape(-1, k)


def _codes(letters, n: int):
    """A number for every multi-index, which increases with its row in `_letters`."""
    return letters @ (n ** np.arange(letters.shape[-1])[::-1])


@functools.lru_cache(maxsize=16)
def monomials(variables: int, order: int) -> Monomials:
    """The monomials of an order, kept because all seeds use the same."""
    return Monomials(variables, order)


class Features:
    """ψ_i(x), or ψ_i(x) ⊗ ψ_k(z) of two states, for the orders (i,) or (i, k)."""

    def __init__(self, d: int, orders: tuple[int, ...]):
        self.monomials = [monomials(d, order) for order in orders]
        self.constant = not any(orders)

    def __call__(self, *states):
        """The features of every row."""
        if len(states) == 1:
            return self.monomials[0](states[0])
        x, z = (psi(one) for psi, one in zip(self.monomials, states, strict=True))
        return (x[:, :, None] * z[:, None]).reshape(len(x), -1)

    def pullback(self, c, *states) -> list[np.ndarray]:
        """The gradient of Σ_α c_α feature_α in each of the states, for every row."""
        if len(states) == 1:
            return [self.monomials[0].pullback(states[0], c)]
        first, second = self.monomials
        x, z = states
        c = c.reshape(len(c), first.size, second.size)
        of_x, of_z = (c @ second(z)[:, :, None])[..., 0], (first(x)[:, None] @ c)[:, 0]
        return [first.pullback(x, of_x), second.pullback(z, of_z)]


@functools.lru_cache(maxsize=16)
def features(d: int, orders: tuple[int, ...]) -> Features:
    """The features of some orders, kept because they are made in every step."""
    return Features(d, orders)


class FrozenField:
    """x ↦ r(x, θ), or x, z ↦ r(x, z, θ), at one control: A (d × features) by the orders in the states."""

    def __init__(self, d: int, A: dict[tuple[int, ...], np.ndarray]):
        self.d, self.A = d, A
        self.parts = [(features(d, orders), one) for orders, one in A.items()]

    def drift(self, *states):
        """r of every row."""
        total = np.zeros_like(states[0])
        for psi, A in self.parts:
            total += rows_times(psi(*states), A.T)
        return total

    def pullback(self, p, *states) -> list[np.ndarray]:
        """∇⟨p, r⟩ in each of the states, for every row."""
        totals = [np.zeros_like(x) for x in states]
        for psi, A in self.parts:
            if not psi.constant:
                for total, one in zip(totals, psi.pullback(rows_times(p, A), *states), strict=True):
                    total += one
        return totals


def weighted(weights, fields: list[FrozenField]) -> FrozenField:
    """Σ_i w_i r_i of fields with the same orders; one of weight 1 is shared, not copied."""
    if len(fields) == 1 and weights[0] == 1:
        return fields[0]
    total = {orders: weights[0] * A for orders, A in fields[0].A.items()}
    for w, one in zip(weights[1:], fields[1:], strict=True):
        for orders, A in one.A.items():
            total[orders] += w * A
    return FrozenField(fields[0].d, total)


class TensorField:
    """A drawn field: √c T without control (d × features) in `fixed`, by its orders in the states; else in `tensors`.

    The latter are √c T (d · features × m_j), by the orders in the states and j.
    """

    def __init__(self, d: int, d_theta: int, fixed: dict, tensors: dict):
        self.d, self.d_theta, self.fixed, self.tensors = d, d_theta, fixed, tensors

    @classmethod
    def draw(cls, coefficients, d: int, d_theta: int, rng: np.random.Generator) -> "TensorField":
        """The field with the coefficients of a `PolynomialField`."""
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

    def at(self, theta) -> FrozenField:
        """The field at the control θ; parts that do not depend on it are shared, not copied."""
        A = dict(self.fixed)
        for (orders, j), T in self.tensors.items():
            part = (T @ monomials(self.d_theta, j)(theta[None])[0]).reshape(self.d, -1)
            A[orders] = A[orders] + part if orders in A else part
        return FrozenField(self.d, A)

    def moments(self, p, *states, fixed: bool = False) -> dict[tuple[int, ...], np.ndarray]:
        """S = Σ_s p_s ψ(x_s)ᵀ over rows, for the orders that come with a control, and with `fixed` for all."""
        found = {}
        for orders in sorted(
            {orders for orders, _ in self.tensors} | set(self.fixed if fixed else ())
        ):
            psi, S = features(self.d, orders), 0.0
            for first in range(0, len(p), CHUNK):
                rows = slice(first, first + CHUNK)
                S = S + p[rows].T @ psi(*(x[rows] for x in states))
            found[orders] = S
        return found

    def value_and_gradient(self, theta, S: dict) -> tuple[float, np.ndarray]:
        """Σ_s ⟨p_s, r(x_s, θ)⟩ of the parts whose moments S are given, and its gradient in θ."""
        value, gradient = 0.0, np.zeros(self.d_theta)
        for orders, A in self.fixed.items():
            if orders in S:
                value += np.vdot(S[orders], A)
        for (orders, j), T in self.tensors.items():
            chi, c = monomials(self.d_theta, j), S[orders].reshape(-1) @ T
            value += np.vdot(c, chi(theta[None]))
            gradient += chi.pullback(theta[None], c[None])[0]
        return value, gradient


def terms(coefficients) -> Iterator[tuple[tuple[int, ...], int, float]]:
    """The orders in the states, the order in the control and the coefficient of every term."""
    for (*second, i, j), c in np.ndenumerate(coefficients):
        if c:
            yield (i, *second), j, c


def _count(variables: int, *orders: int) -> int:
    """The number of monomials of an order, or of products of them."""
    return math.prod(math.comb(variables + k - 1, k) for k in orders)


def entries(
    coefficients, d: int, d_theta: int, rows: int, states: int, drifts: int, copied: bool
) -> tuple[float, float]:
    """How many numbers one drawn field needs, and all fields of a system together.

    The latter are for drifts of `rows` and moments of `states`, with `drifts` arrays A at a time; parts without a
    control are among these if they are `copied`.
    """
    tensors = shared = 0.0
    for orders, j, _ in terms(coefficients):
        n, m = _count(d, *orders), _count(d_theta, j)
        tensors += d * n * m
        # Three arrays of monomials at a time; the arrays A, of which one is being added up.
        shared += 3 * n * max(rows, min(states, CHUNK) if j else 0)
        shared += (drifts * d * n if j or copied else 0) + (4 * m if j else 0)
        # While the tables are made: the k letters of k·n_k raised multi-indices, sorted too, and their numbers.
        tables = [(k, _count(d, k)) for k in orders] + [(j, m)]
        shared += sum((2 * k * k + 5 * k) * size for k, size in tables if k > 1)
    return tensors, shared
