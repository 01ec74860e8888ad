"""Monomials of a state or control, weighted so that ψ_k(x)·ψ_k(x') = (x·x'/n)^k; vectors are rows."""

import functools
import itertools
import math

import numpy as np
from jaxtyping import Float, Int


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

    def __call__(self, x: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, "rows monomials"]:
        """ψ_k for every row x."""
        if self.order == 0:
            return np.ones((len(x), 1))
        if self.order == 1:
            return x * self.scale
        return self.lower(x)[:, self.parent] * x[:, self.last] * self.ratio

    def pullback(
        self, x: Float[np.ndarray, "rows n"], c: Float[np.ndarray, "rows monomials"]
    ) -> Float[np.ndarray, "rows n"]:
        """∇_x Σ_α c_α ψ_α(x) for every row x and its row c."""
        if self.order == 0:
            return np.zeros_like(x)
        if self.order == 1:
            return c * self.scale
        lower = self.lower(x)
        rows = zip(lower, c, strict=True)
        return np.stack([(c_row[self.raised] * self.slope) @ psi for psi, c_row in rows])


def _letters(n: int, k: int) -> Int[np.ndarray, "monomials k"]:
    """The multi-indices of order k: a row holds its variables in increasing order, and rows increase, too."""
    flat = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(n), k))
    return np.fromiter(flat, dtype=np.intp).reshape(-1, k)


def _codes(letters: Int[np.ndarray, "... k"], n: int) -> Int[np.ndarray, "..."]:
    """A number for every multi-index; it increases with the row in `_letters`."""
    return letters @ (n ** np.arange(letters.shape[-1])[::-1])


@functools.lru_cache(maxsize=16)
def monomials(variables: int, order: int) -> Monomials:
    """The monomials of an order, cached because all seeds use the same."""
    return Monomials(variables, order)


class Features:
    """ψ_i(x), or ψ_i(x) ⊗ ψ_k(z) of two states, for the orders (i,) or (i, k)."""

    def __init__(self, d: int, orders: tuple[int, ...]):
        self.monomials = [monomials(d, order) for order in orders]
        self.constant = not any(orders)

    def __call__(self, *states: Float[np.ndarray, "rows d"]) -> Float[np.ndarray, "rows features"]:
        """The features of every row."""
        if len(states) == 1:
            return self.monomials[0](states[0])
        x, z = (psi(state) for psi, state in zip(self.monomials, states, strict=True))
        return (x[:, :, None] * z[:, None]).reshape(len(x), -1)

    def pullback(
        self, c: Float[np.ndarray, "rows features"], *states: Float[np.ndarray, "rows d"]
    ) -> list[Float[np.ndarray, "rows d"]]:
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
    """The features of these orders, cached because every step uses them."""
    return Features(d, orders)
