"""A Gaussian matrix that is known through its products only.

W (n × m, entries N(0, 1/m), ρ = n/m) was asked for its products with orthonormal U_i, and W^⊤ for those with
orthonormal V_j. For a new direction q, orthogonal to U, or p, orthogonal to V, exactly at every n and m,

    W q   = ρ^{−1/2} Σ_j V_j ⟨δ_j, q⟩ + (1 − P_V) ε,      ε ~ N(0, 1)^n
    W^⊤p  = ρ Σ_i U_i ⟨ε_i, p⟩ + √ρ (1 − P_U) δ,          δ ~ N(0, 1)^m ,

with the innovations ε_i and δ_j of earlier products, projected as here. The sums are what the matrix is forced to
answer by what it said before. ε_i is orthogonal to the V_j from before it and δ_j to the U_i from before, so that all
that is known of the matrix is

    W   = Σ_i ε_i⟨U_i, ·⟩ + ρ^{−1/2} Σ_j V_j⟨δ_j, ·⟩ ,    W^⊤ = √ρ Σ_j δ_j⟨V_j, ·⟩ + ρ Σ_i U_i⟨ε_i, ·⟩ .

Of a part of a vector that is too short for a direction of its own, only the innovation is left out.

A trained matrix is the operator c W + Σ_ij M_ij V_i⟨U_j, ·⟩ + ⟨Q_i·, ·⟩ + Σ_s κ_s G_s: a multiple of the first one, an
array in the same directions, an array Q of entries (only where a rule acts on entries), and further Gaussian matrices
(only where noise was added). With the coordinates b of x in U, and a of z in V, the trained part is V(M b), its
transposed ρ U(M^⊤a), and z⟨x, ·⟩ has the array a b^⊤.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from learndyn.numerics.products import combined, sums
from learndyn.programs.affine import aligned, padded
from learndyn.programs.directions import Directions
from learndyn.programs.noisy import NoisyRows
from learndyn.programs.sites import Site


def sized(M: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array with zeros behind and below, up to `shape`."""
    if M.shape == shape:
        return M
    larger = np.zeros(shape)
    larger[tuple(slice(n) for n in M.shape)] = M
    return larger


class Combination:
    """c W(0) + V M U + Q + Σ_s κ_s G_s, or a gradient or momentum of that form."""

    def __init__(
        self,
        c: float,
        M: np.ndarray,
        Q: np.ndarray | None = None,
        noise: "dict[Any, float] | None" = None,
    ):
        self.c, self.M, self.Q, self.noise = c, M, Q, noise or {}

    def __add__(self, other: "Combination") -> "Combination":
        shape = tuple(np.maximum(self.M.shape, other.M.shape))
        Q = other.Q if self.Q is None else self.Q if other.Q is None else self.Q + other.Q
        noise = dict(self.noise)
        for matrix, size in other.noise.items():
            noise[matrix] = noise.get(matrix, 0.0) + size
        return Combination(self.c + other.c, sized(self.M, shape) + sized(other.M, shape), Q, noise)

    def __mul__(self, s: float) -> "Combination":
        noise = {matrix: s * size for matrix, size in self.noise.items()}
        return Combination(s * self.c, s * self.M, None if self.Q is None else s * self.Q, noise)

    __rmul__ = __mul__

    def __sub__(self, other: "Combination") -> "Combination":
        return self + (-1.0) * other


class Gaussian:
    """A lazily revealed matrix from the site `cols` to the site `rows`."""

    def __init__(
        self,
        rows: Site,
        cols: Site,
        ratio: float,
        rng: np.random.Generator,
        drop: float,
        floor: float,
        array: np.ndarray | None = None,
    ):
        self.rows, self.cols, self.rho, self.rng = rows, cols, ratio, rng
        self.U, self.V = (Directions(site.scale, drop, floor, site.dtype) for site in (cols, rows))
        # Tests reveal a stored matrix instead of drawing.
        self.array = array
        # Untied, W and W^⊤ do not know of each other: no answer is forced.
        self.tied = True
        self.noisy: NoisyRows | None = None

    @property
    def bytes(self) -> int:
        """Memory of the directions and their innovations."""
        return self.U.bytes + self.V.bytes + (self.noisy.bytes if self.noisy else 0)

    @property
    def ranks(self) -> tuple[int, int]:
        """How many directions were asked of W and of W^⊤."""
        return self.U.count, self.V.count

    def initial(self) -> Combination:
        """W(0)."""
        return Combination(1.0, np.zeros((0, 0)))

    def noise(self, size: float) -> Combination:
        """`size` times this matrix, as a term of another one."""
        return Combination(0.0, np.zeros((0, 0)), None, {self: size})

    def expect_noise(self) -> None:
        """The matrix will change at random: vectors are remembered with their times, if none has been asked yet."""
        if not self.U.count and not self.V.count:
            self.noisy = NoisyRows(self.rows, self.cols, self.rho, self.rng, self.U.drop)

    def new_noise(self, size: float) -> Combination:
        """`size` times a new matrix of which nothing is known, of a matrix that expects noise."""
        assert self.noisy is not None
        return Combination(0.0, np.zeros((0, 0)), None, {self.noisy.new_noise(): size})

    def coordinates(
        self, x: np.ndarray, transposed: bool = False, images: bool = True
    ) -> np.ndarray:
        """Those of the rows x in U, or of the rows z in V if `transposed`; directions are added as needed.

        A direction whose product with the matrix nobody has asked for has no innovation.
        """
        own, here = (self.V, self.rows) if transposed else (self.U, self.cols)
        self._widen()
        b, fresh = own.new(x)
        if len(fresh):
            here.note(fresh)
            own.add(fresh)
            b = np.concatenate([b, here.scale * sums(x, fresh)], axis=1)
        if images and own.imaged < own.count:
            innovations = self._innovations(transposed)
            self._widen()
            own.reveal(innovations)
        return b

    def _innovations(self, transposed: bool) -> np.ndarray:
        """ε of W q, or δ of W^⊤p if `transposed`, for the directions that have none yet."""
        own, other, there = (
            (self.V, self.U, self.cols) if transposed else (self.U, self.V, self.rows)
        )
        fresh, known = own.rows[own.imaged :], other.imaged
        if self.array is None:
            return there.innovations(len(fresh), other.rows[:known], self.rng)
        product = fresh @ (self.array if transposed else self.array.T)
        size = math.sqrt(self.rho) if transposed else 1.0
        return (product - combined(self._forced(fresh, transposed), other.rows[:known])) / size

    def _forced(self, x: np.ndarray, transposed: bool) -> np.ndarray:
        """ρ^{−1/2}⟨δ_j, x⟩, or ρ⟨ε_i, x⟩ if `transposed`."""
        other, here = (self.U, self.rows) if transposed else (self.V, self.cols)
        if not self.tied:
            return np.zeros((len(x), 0))
        factor = self.rho if transposed else 1 / math.sqrt(self.rho)
        return factor * here.scale * sums(x, other.innovations)

    def apply(self, state: Combination, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t) x for each row x, and the coordinates b."""
        if self.noisy is not None:
            return self._apply_noisy(self.noisy, state, x, False)
        b = self.coordinates(x)
        x = self._widened(x, self.cols)
        y = combined(state.c * b, self.U.innovations)
        trained = b @ sized(state.M, (state.M.shape[0], b.shape[1])).T
        y += self._within(self.V, state.c * self._forced(x, False), trained)
        if state.Q is not None:
            y += self.cols.scale * (x @ state.Q.T).astype(y.dtype, copy=False)
        for matrix, size in state.noise.items():
            # The product before may have made the dimension longer.
            x = padded(x, self.cols.length)
            y = np.add(*aligned(y, size * matrix.apply(matrix.initial(), x)[0]))
        return y, b

    def apply_transposed(self, state: Combination, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t)^⊤z for each row z, and the coordinates a."""
        if self.noisy is not None:
            return self._apply_noisy(self.noisy, state, z, True)
        a = self.coordinates(z, transposed=True)
        z = self._widened(z, self.rows)
        x = combined(math.sqrt(self.rho) * state.c * a, self.V.innovations)
        trained = self.rho * (a @ sized(state.M, (a.shape[1], state.M.shape[1])))
        x += self._within(self.U, state.c * self._forced(z, True), trained)
        if state.Q is not None:
            x += self.rho * self.rows.scale * (z @ state.Q).astype(x.dtype, copy=False)
        for matrix, size in state.noise.items():
            z = padded(z, self.rows.length)
            x = np.add(*aligned(x, size * matrix.apply_transposed(matrix.initial(), z)[0]))
        return x, a

    def _apply_noisy(
        self, noisy: NoisyRows, state: Combination, x: np.ndarray, transposed: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same of a matrix that changes at random: training adds to it in the directions U and V, as to others."""
        b = self.coordinates(x, transposed, images=False)
        y = noisy.product(state.c, state.noise, x, transposed)
        if transposed:
            trained = self.rho * (b @ sized(state.M, (b.shape[1], state.M.shape[1])))
            return y + combined(trained, self.U.rows[: trained.shape[1]]), b
        trained = b @ sized(state.M, (state.M.shape[0], b.shape[1])).T
        return y + combined(trained, self.V.rows[: trained.shape[1]]), b

    @staticmethod
    def _within(other: Directions, forced: np.ndarray, trained: np.ndarray) -> np.ndarray:
        """Two sets of coordinates in the directions of the other side, added up."""
        columns = max(forced.shape[1], trained.shape[1])
        both = sized(forced, (len(forced), columns)) + sized(trained, (len(forced), columns))
        return combined(both, other.rows[:columns])

    def images(self, transposed: bool = False) -> np.ndarray:
        """W(0) U_i, or W(0)^⊤V_j if `transposed`."""
        own, other = (self.V, self.U) if transposed else (self.U, self.V)
        self._widen()
        forced = self._forced(own.rows[: own.imaged], transposed)
        size = math.sqrt(self.rho) if transposed else 1.0
        return size * own.innovations + combined(forced, other.rows[: other.imaged])

    def outer(self, a: np.ndarray, b: np.ndarray) -> Combination:
        """Σ_k z_k⟨x_k, ·⟩ from the coordinates of z and x."""
        return Combination(0.0, a.T @ b)

    def kernel(self, gradient: Combination) -> np.ndarray:
        """The entries of m times the gradient's array, (V^⊤M U)_ij."""
        M = sized(gradient.M, (self.V.count, self.U.count))
        return self.V.rows.T @ M @ self.U.rows

    def from_kernel(self, Q: np.ndarray) -> Combination:
        """The operator with entries Q_ij/m."""
        return Combination(0.0, np.zeros((0, 0)), Q)

    def spectral(
        self, change: Callable[[np.ndarray], np.ndarray], gradient: Combination
    ) -> Combination:
        """A function of singular values; between orthonormal bases the gradient's array is √ρ M."""
        root = np.sqrt(self.rho)
        return Combination(0.0, change(root * gradient.M) / root)

    def identity(self) -> float:
        """The largest |ρ⟨V_j, W U_i⟩ − ⟨W^⊤V_j, U_i⟩|, which is rounding."""
        U, V = self.U.rows[: self.U.imaged], self.V.rows[: self.V.imaged]
        left = self.rho * self.rows.scale * (V @ self.images().T)
        right = self.cols.scale * (self.images(transposed=True) @ U.T)
        return float(np.abs(left - right).max(initial=0.0))

    def _widened(self, x: np.ndarray, site: Site) -> np.ndarray:
        """The rows x with as many coordinates as their dimension has by now."""
        self._widen()
        return padded(x, site.length)

    def _widen(self) -> None:
        """In coordinates, vectors grow with the directions of their dimension."""
        self.U.widen(self.cols.length, self.rows.length)
        self.V.widen(self.rows.length, self.cols.length)


class DenseGaussian:
    """The same as an array: a state is W itself, and what a product hands back for gradients are the vectors."""

    ranks = (0, 0)

    def __init__(self, rows: Site, cols: Site, ratio: float, array: np.ndarray):
        self.rows, self.cols, self.rho, self.array = rows, cols, ratio, array

    @property
    def bytes(self) -> int:
        """Memory of the array."""
        return self.array.nbytes

    def initial(self) -> np.ndarray:
        """W(0)."""
        return self.array

    def noise(self, size: float) -> np.ndarray:
        """`size` times this matrix."""
        return size * self.array

    def coordinates(
        self, x: np.ndarray, transposed: bool = False, images: bool = True
    ) -> np.ndarray:
        """The rows themselves."""
        return x

    def apply(self, state: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t) x for each row x."""
        return x @ state.T, x

    def apply_transposed(self, state: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t)^⊤z for each row z."""
        return z @ state, z

    def outer(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Σ_k z_k⟨x_k, ·⟩."""
        return self.cols.scale * (z.T @ x)

    def kernel(self, gradient: np.ndarray) -> np.ndarray:
        """m times the array."""
        return gradient / self.cols.scale

    def from_kernel(self, Q: np.ndarray) -> np.ndarray:
        """The operator with entries Q_ij/m."""
        return Q * self.cols.scale

    def spectral(self, change: Callable[[np.ndarray], np.ndarray], gradient: np.ndarray) -> Any:
        """A function of singular values."""
        return change(gradient)
