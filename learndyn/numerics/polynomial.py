"""Gaussian integrals of polynomial activations, exactly, by Wick's theorem.

For polynomials f_i of Gaussian fields (expanding the density in the off-diagonal covariances)

    ⟨Π_i f_i(u_i)⟩ = Σ_k Π_{i<j} C_ij^{k_ij}/k_ij! Π_i ⟨f_i^{(k_i)}(u_i)⟩,    k_i = Σ_j k_ij.

All that is needed of one field are H_a[m] = ⟨f_a^{(m)}(u_a)⟩. A pair of fields then gives

    ⟨f_a f_b⟩ = Σ_m C_ab^m/m! H_a[m] H_b[m],

and likewise for derivatives, whose H is shifted. In the fourth-order sum over c and d, with α lines from a and β from b
to c (α', β' to d) and j lines between c and d,

    V_j[c; αβ] = C_ac^α/α! C_bc^β/β! H_c[α+β+j],
    A[x, y]    = Σ_l C_ab^l/l! H_a[1+l+x] H_b[1+l+y],
    Σ_cd s_c s_d ⟨f'_a f'_b f_c f_d⟩ = Σ_j Σ_{αβα'β'} A[α+α', β+β'] Σ_cd V_j[c; αβ] (s_c s_d C_cd^j/j!) V_j[d; α'β'],

so that the sums over fields are matrix products.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.numerics.pairs import chunked, pairs, symmetric

MAX_DEGREE = 8
"""Beyond it the expansion has too many terms to be of use."""

CHUNK = 200_000
"""Numbers per temporary in one pass of the loop over pairs."""


class PolynomialIntegrals(eqx.Module):
    """The averages of polynomials, one per field: row a of `coefficients` holds c_0, c_1, … of f_a."""

    coefficients: Float[Array, "n terms"]

    def products(self, C: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """⟨g_a g_b⟩."""
        return self._average(C, C.shape[0], 0, 0)

    def slopes(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g'_a g'_b⟩ for the first `rows` fields a."""
        return self._average(C, rows, 1, 1)

    def curvatures(self, C: Float[Array, "n n"], rows: int) -> Float[Array, "k n"]:
        """⟨g''_a g_c⟩ for the first `rows` fields a."""
        return self._average(C, rows, 2, 0)

    def fourth(self, C: Float[Array, "n n"], a: int, b: int, c: int, d: int) -> Float[Array, ""]:
        """⟨g'_a g'_b g_c g_d⟩."""
        e_c, e_d = np.zeros((2, C.shape[0]))
        e_c[c], e_d[d] = 1.0, 1.0
        return self._contraction(C, e_c, e_d, np.array([a]), np.array([b]))[0]

    def square(self, C: Float[Array, "n n"], s: Float[Array, " n"], K: int) -> Float[Array, "K K"]:
        """Σ_cd s_c s_d ⟨g'_i g'_k g_c g_d⟩ for the first K fields i, k."""
        widest = max(C.shape[0], len(self._lines(0))) * len(self._lines(0))
        total = chunked(
            lambda i, k: self._contraction(C, s, s, i, k), pairs(K), max(1, CHUNK // widest)
        )
        return symmetric(total, K)

    @property
    def degree(self) -> int:
        """The largest degree among the fields."""
        return self.coefficients.shape[1] - 1

    def _moments(self, C: Float[Array, "n n"]) -> Float[Array, "n many"]:
        """H_a[m] = Σ_l c_l l!/(l−m)! ⟨u_a^{l−m}⟩, with ⟨u^{2k}⟩ = (2k−1)!! C_aa^k; zero beyond the degree."""
        variance = jnp.diagonal(C)
        columns = []
        for m in range(2 * self.degree + 2):
            terms = [
                self.coefficients[:, l]
                * (math.perm(l, m) * _double_factorial(l - m))
                * variance ** ((l - m) // 2)
                for l in range(m, self.degree + 1, 2)
            ]
            columns.append(sum(terms, start=jnp.zeros_like(variance)))
        return jnp.stack(columns, axis=1)

    def _average(self, C: Float[Array, "n n"], rows: int, x: int, y: int) -> Float[Array, "k n"]:
        """⟨f_a^{(x)} f_b^{(y)}⟩."""
        H = self._moments(C)
        total, power = jnp.zeros_like(C[:rows]), jnp.ones_like(C[:rows])
        for m in range(self.degree + 1):
            total = total + power / math.factorial(m) * H[:rows, None, m + x] * H[:, m + y]
            power = power * C[:rows]
        return total

    def _lines(self, j: int) -> list[tuple[int, int]]:
        """The (α, β) that j lines between c and d leave possible."""
        p = self.degree
        return [(x, y) for x in range(p) for y in range(p) if x + y + j <= p]

    def _contraction(
        self,
        C: Float[Array, "n n"],
        left: Float[Array, " n"] | Float[np.ndarray, " n"],
        right: Float[Array, " n"] | Float[np.ndarray, " n"],
        a: Int[Array, " p"] | Int[np.ndarray, " p"],
        b: Int[Array, " p"] | Int[np.ndarray, " p"],
    ) -> Float[Array, " p"]:
        """Σ_cd left_c right_d ⟨f'_a f'_b f_c f_d⟩ for each of the pairs (a, b)."""
        p = self.degree
        if p == 0:
            return jnp.zeros(len(a), C.dtype)
        H = self._moments(C)
        to_a, to_b = _scaled_powers(C[a], p), _scaled_powers(C[b], p)
        between = _scaled_powers(C[a, b], p)
        # A[x, y], with H zero beyond the degree.
        A = jnp.zeros((len(a), p, p), C.dtype)
        for l in range(p):
            H_a, H_b = H[a, 1 + l : p + 1 + l], H[b, 1 + l : p + 1 + l]
            A = A + between[l][:, None, None] * H_a[:, :, None] * H_b[:, None, :]
        total = jnp.zeros(len(a), C.dtype)
        link = jnp.ones_like(C)
        for j in range(p + 1):
            lines = self._lines(j)
            V = jnp.stack([to_a[x] * to_b[y] * H[:, x + y + j] for x, y in lines], axis=-1)
            X = jnp.einsum("cd,pdm->pcm", left[:, None] * link * right, V)
            G = jnp.einsum("pcm,pcn->pmn", V, X)
            x, y = np.array(lines).T
            x, y = x[:, None] + x, y[:, None] + y
            allowed = (x < p) & (y < p)
            weight = jnp.where(allowed, A[:, np.minimum(x, p - 1), np.minimum(y, p - 1)], 0.0)
            total = total + jnp.sum(G * weight, axis=(1, 2))
            link = link * C / (j + 1)
        return total


def _double_factorial(k: int) -> int:
    """(k−1)!! for even k: the k-th moment of a standard normal."""
    return math.prod(range(1, k, 2))


def _scaled_powers(x: Float[Array, "..."], degree: int) -> list:
    """x^m/m! for m = 0, …, degree."""
    powers = [jnp.ones_like(x)]
    for m in range(1, degree + 1):
        powers.append(powers[-1] * x / m)
    return powers
