"""A Gaussian matrix that is known through its products only.

W (n × m, entries N(0, 1/m), ρ = n/m) was asked for W U_i = Y_i and W^⊤V_j = X_j with orthonormal U and V. For a new
direction q, orthogonal to U, or p, orthogonal to V, exactly at every n and m,

    W q   = Σ_j V_j b_j + (1 − P_V) ε,      b_j = ⟨X_j, q⟩/ρ,     ε ~ N(0, 1)^n
    W^⊤p  = Σ_i U_i b_i + √ρ (1 − P_U) ε,   b_i = ρ ⟨Y_i, p⟩,     ε ~ N(0, 1)^m .

A trained matrix is the operator c W + Σ_ij M_ij V_i⟨U_j, ·⟩ + ⟨Q_i·, ·⟩ + Σ_s κ_s G_s: a multiple of the first one, an
array in the same directions, an array Q of entries (only where a rule acts on entries), and further Gaussian matrices
(only where noise was added). With the coordinates b of x in U, and a of z in V,

    W(t) x = c Y b + V(M b),      W(t)^⊤z = c X a + ρ U(M^⊤a),      z⟨x, ·⟩ has the array a b^⊤ .
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from learndyn.numerics.products import combined, sums
from learndyn.programs.affine import aligned, padded
from learndyn.programs.directions import Directions
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
        noise: "dict[Gaussian, float] | None" = None,
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

    @property
    def bytes(self) -> int:
        """Memory of the directions and their images."""
        return self.U.bytes + self.V.bytes

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

    def coordinates(
        self, x: np.ndarray, transposed: bool = False, images: bool = True
    ) -> np.ndarray:
        """Those of the rows x in U, or of the rows z in V if `transposed`; directions are added as needed.

        A direction whose image nobody has asked for has none.
        """
        own, here = (self.V, self.rows) if transposed else (self.U, self.cols)
        self._widen()
        b, fresh = own.new(x)
        if len(fresh):
            here.note(fresh)
            own.add(fresh)
            b = np.concatenate([b, here.scale * sums(x, fresh)], axis=1)
        if images and own.imaged < own.count:
            own.reveal(self._images(transposed))
        return b

    def _images(self, transposed: bool) -> np.ndarray:
        """W q, or W^⊤p if `transposed`, for the directions that have no image yet."""
        own, other, here, there = self.U, self.V, self.cols, self.rows
        factor, size = 1 / self.rho, 1.0
        if transposed:
            own, other, here, there = other, own, there, here
            factor, size = self.rho, math.sqrt(self.rho)
        fresh, known = own.rows[own.imaged :], other.imaged
        if self.array is not None:
            return fresh @ (self.array if transposed else self.array.T)
        b = factor * here.scale * sums(fresh, other.images)
        epsilon = there.innovations(len(fresh), other.rows[:known], self.rng)
        self._widen()
        return combined(b, other.rows[:known]) + size * epsilon

    def apply(self, state: Combination, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t) x for each row x, and the coordinates b."""
        b = self.coordinates(x)
        self._widen()
        y = combined(state.c * b, self.U.images)
        if state.M.size:
            M = sized(state.M, (state.M.shape[0], b.shape[1]))
            y += combined(b @ M.T, self.V.rows[: len(M)])
        if state.Q is not None:
            y += self.cols.scale * (x @ state.Q.T).astype(y.dtype, copy=False)
        for matrix, size in state.noise.items():
            # The product before may have made the dimension longer.
            x = padded(x, self.cols.length)
            y = np.add(*aligned(y, size * matrix.apply(matrix.initial(), x)[0]))
        return y, b

    def apply_transposed(self, state: Combination, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W(t)^⊤z for each row z, and the coordinates a."""
        a = self.coordinates(z, transposed=True)
        self._widen()
        x = combined(state.c * a, self.V.images)
        if state.M.size:
            M = sized(state.M, (a.shape[1], state.M.shape[1]))
            x += self.rho * combined(a @ M, self.U.rows[: M.shape[1]])
        if state.Q is not None:
            x += self.rho * self.rows.scale * (z @ state.Q).astype(x.dtype, copy=False)
        for matrix, size in state.noise.items():
            z = padded(z, self.rows.length)
            x = np.add(*aligned(x, size * matrix.apply_transposed(matrix.initial(), z)[0]))
        return x, a

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
        """The largest |ρ⟨V_j, Y_i⟩ − ⟨X_j, U_i⟩|, which is rounding."""
        self._widen()
        U, V = self.U.rows[: self.U.imaged], self.V.rows[: self.V.imaged]
        left = self.rho * self.rows.scale * (V @ self.U.images.T)
        right = self.cols.scale * (self.V.images @ U.T)
        return float(np.abs(left - right).max(initial=0.0))

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
