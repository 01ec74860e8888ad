"""A random field with polynomial covariance, drawn exactly at any size.

For G(q, m) = Σ_ij c_ij q^i m^j,

    r(x, θ) = Σ_ij √c_ij T_ij [ψ_i(x) ⊗ χ_j(θ)],

where the entries of T_ij (d × n_i × m_j) are independent N(0, 1), and ψ_i(x) and χ_j(θ) hold the distinct monomials of
order i in x and j in θ, weighted such that ψ_i(x)·ψ_i(x') = (x·x'/d)^i and χ_j(θ)·χ_j(θ') = (θ·θ'/d_θ)^j.

The control is the same for all states of a training step: A_i(θ) = Σ_j √c_ij T_ij χ_j(θ) (d × n_i) is made once, and
the field is then Σ_i A_i ψ_i(x). Its gradient in the control, summed over states x_s with adjoints p_s, needs them
only in S_i = Σ_s p_s ψ_i(x_s)ᵀ. States and adjoints are rows in the code.

A field costs Σ_ij d n_i m_j numbers of memory and as many operations per change of θ; a drift costs Σ_i d n_i of them.
"""

import functools
import itertools
import math

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


class FrozenField:
    """x ↦ r(x, θ) at one control: A_i (d × n_i) by order i."""

    def __init__(self, d: int, A: dict[int, np.ndarray]):
        self.A = {monomials(d, i): one for i, one in A.items()}

    def drift(self, x):
        """r(x, θ) for every row x."""
        total = np.zeros_like(x)
        for psi, A in self.A.items():
            total += rows_times(psi(x), A.T)
        return total

    def pullback(self, x, p):
        """∇_x⟨p, r(x, θ)⟩ for every row x and its row p."""
        total = np.zeros_like(x)
        for psi, A in self.A.items():
            if psi.order:
                total += psi.pullback(x, rows_times(p, A))
        return total


class TensorField:
    """A drawn field: √c_i0 T_i0 (d × n_i) in `fixed`, and √c_ij T_ij (d n_i × m_j), j > 0, in `tensors`."""

    def __init__(self, d: int, d_theta: int, fixed: dict, tensors: dict):
        self.d, self.d_theta, self.fixed, self.tensors = d, d_theta, fixed, tensors

    @classmethod
    def draw(cls, coefficients, d: int, d_theta: int, rng: np.random.Generator) -> "TensorField":
        """The field with covariance Σ_ij c_ij q^i m^j, row i and column j of `coefficients`."""
        fixed, tensors = {}, {}
        for (i, j), c in np.ndenumerate(coefficients):
            if c:
                states, controls = math.comb(d + i - 1, i), math.comb(d_theta + j - 1, j)
                T = rng.standard_normal((d * states, controls))
                T *= math.sqrt(c)
                if j:
                    tensors[i, j] = T
                else:
                    fixed[i] = T.reshape(d, states)
        return cls(d, d_theta, fixed, tensors)

    def at(self, theta) -> FrozenField:
        """The field at the control θ; parts that do not depend on it are shared, not copied."""
        A = dict(self.fixed)
        for (i, j), T in self.tensors.items():
            part = (T @ monomials(self.d_theta, j)(theta[None])[0]).reshape(self.d, -1)
            A[i] = A[i] + part if i in A else part
        return FrozenField(self.d, A)

    def moments(self, x, p) -> dict[int, np.ndarray]:
        """S_i = Σ_s p_s ψ_i(x_s)ᵀ over the rows x_s and p_s, for the orders i that come with a control."""
        found = {}
        for i in sorted({i for i, _ in self.tensors}):
            psi, S = monomials(self.d, i), 0.0
            for first in range(0, len(x), CHUNK):
                rows = slice(first, first + CHUNK)
                S = S + p[rows].T @ psi(x[rows])
            found[i] = S
        return found

    def control_gradient(self, theta, S: dict[int, np.ndarray]):
        """∇_θ Σ_s ⟨p_s, r(x_s, θ)⟩ from the moments S_i."""
        total = np.zeros(self.d_theta)
        for (i, j), T in self.tensors.items():
            c = S[i].reshape(-1) @ T
            total += monomials(self.d_theta, j).pullback(theta[None], c[None])[0]
        return total


def entries(coefficients, d: int, d_theta: int, rows: int, states: int) -> float:
    """How many numbers a field needs that is used at two controls: for drifts of `rows` and moments of `states`."""
    total = 0.0
    for (i, j), c in np.ndenumerate(coefficients):
        if not c:
            continue
        n_i, m_j = math.comb(d + i - 1, i), math.comb(d_theta + j - 1, j)
        # T_ij; three arrays of monomials at a time; A_i twice, S_i, and one of them while it is added up.
        total += d * n_i * m_j + 3 * n_i * max(rows, min(states, CHUNK) if j else 0)
        total += 4 * d * n_i + 4 * m_j if j else 0
        # While the tables are made: the k letters of k·n_k raised multi-indices, sorted too, and their numbers.
        total += sum((2 * k * k + 5 * k) * n for k, n in ((i, n_i), (j, m_j)) if k > 1)
    return total
