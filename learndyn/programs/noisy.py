"""The limit of a Gaussian matrix that changes at random in time, as under Langevin noise.

W(t) = c(t) W + Σ_s κ_s(t) G_s with independent Gaussian matrices has the entries' correlation in time

    C(t, s) = c(t) c(s) + Σ_r κ_r(t) κ_r(s),

and no two of its states are asked the same: revealed matrix by matrix, directions would multiply. In the limit only C
matters. With u = W(t) x as a Gaussian process, ⟨u u'⟩ = C(t, t')⟨x x'⟩, likewise r = W(t)^⊤z with
⟨r r'⟩ = ρ C(t, t')⟨z z'⟩, and with the responses A = ⟨∂x/∂r⟩, B = ⟨∂z/∂u⟩,

    W(t) x = u + ρ^{−1/2} Σ_s C(t, s) A_s z_s ,     W(t)^⊤z = r + ρ Σ_s C(t, s) B_s x_s .

The vectors asked so far whose processes are not combinations of earlier ones are the skeleton. Its processes are L ε,
with a triangular L and innovations ε, and by Gaussian integration by parts A L = ⟨x δ⟩ and B L = ⟨z ε⟩ for the
innovations δ and ε of the other side. Cost: samples × (vectors asked)².
"""

import math

import numpy as np

from learndyn.numerics.products import combined, squares, sums
from learndyn.programs.orthonormal import chosen
from learndyn.programs.sites import Site


def solve_triangular(L: np.ndarray, values: np.ndarray, lower: bool = False) -> np.ndarray:
    """L^{−1} times the columns of `values`."""
    # Imported here, because it is slow and may not be needed.
    from scipy import linalg

    return linalg.solve_triangular(L, values, lower=lower)


class Skeleton:
    """Vectors that were asked, with the coefficients (c, κ_1, κ_2, …) of their times, innovations and the factor L."""

    def __init__(self, here: Site, there: Site):
        self.here, self.there, self.count = here, there, 0
        self._vectors = np.zeros((0, here.length), here.dtype)
        self._innovations = np.zeros((0, there.length), there.dtype)
        self.times, self.L = np.zeros((0, 0)), np.zeros((0, 0))

    @property
    def vectors(self) -> np.ndarray:
        return self._vectors[: self.count]

    @property
    def innovations(self) -> np.ndarray:
        return self._innovations[: self.count]

    @property
    def bytes(self) -> int:
        """Memory of the vectors and innovations."""
        return self._vectors.nbytes + self._innovations.nbytes

    def correlation(self, time: np.ndarray) -> np.ndarray:
        """C(t, s) for all vectors of the skeleton."""
        known = min(len(time), self.times.shape[1])
        return self.times[:, :known] @ time[:known]

    def add(self, x: np.ndarray, time: np.ndarray, innovations: np.ndarray, L: np.ndarray) -> None:
        """Take in vectors of one time, with their rows of L."""
        old, new = self.count, self.count + len(x)
        self._vectors = _with_rows(self._vectors, old, x)
        self._innovations = _with_rows(self._innovations, old, innovations)
        times, larger = np.zeros((new, max(len(time), self.times.shape[1]))), np.zeros((new, new))
        times[:old, : self.times.shape[1]], times[old:, : len(time)] = self.times, time
        larger[:old, :old], larger[old:] = self.L, L
        self.times, self.L, self.count = times, larger, new


def _with_rows(array: np.ndarray, count: int, rows: np.ndarray) -> np.ndarray:
    """The array with these rows after the first `count`, in more room if needed."""
    need = count + len(rows)
    if need > len(array):
        larger = np.empty((max(need, 3 * len(array) // 2), array.shape[1]), array.dtype)
        larger[:count] = array[:count]
        array = larger
    array[count:need] = rows
    return array


class NoisyRows:
    """What was asked of a matrix that changes at random."""

    def __init__(self, rows: Site, cols: Site, ratio: float, rng: np.random.Generator, drop: float):
        self.rho, self.rng, self.drop, self.noises = ratio, rng, drop, 0
        self.forward, self.backward = Skeleton(cols, rows), Skeleton(rows, cols)

    def new_noise(self) -> int:
        """The number of a new matrix G_s."""
        self.noises += 1
        return self.noises

    @property
    def bytes(self) -> int:
        """Memory of both skeletons."""
        return self.forward.bytes + self.backward.bytes

    def product(
        self, c: float, noise: dict[int, float], x: np.ndarray, transposed: bool
    ) -> np.ndarray:
        """W(t) x, or W(t)^⊤x if `transposed`, for each row x."""
        time = np.zeros(self.noises + 1)
        time[0] = c
        for number, size in noise.items():
            time[number] = size
        own, other = (self.backward, self.forward) if transposed else (self.forward, self.backward)
        size, factor = (
            (math.sqrt(self.rho), self.rho) if transposed else (1.0, 1 / math.sqrt(self.rho))
        )
        y = size * self._process(own, time, x)
        overlaps = own.here.scale * sums(x, other.innovations)
        responses = solve_triangular(other.L.T, overlaps.T).T
        return y + combined(factor * responses * other.correlation(time), other.vectors)

    def _process(self, own: Skeleton, time: np.ndarray, x: np.ndarray) -> np.ndarray:
        """u = L ε for the vectors x; those that are new join the skeleton."""
        variance = float(time @ time)
        overlaps = own.correlation(time)[:, None] * own.here.scale * sums(own.vectors, x)
        known = solve_triangular(own.L, overlaps, lower=True).T
        u = combined(known, own.innovations)
        rest = variance * own.here.scale * sums(x, x) - known @ known.T
        short = self.drop * np.sqrt(variance * own.here.scale * squares(x))
        pivots = chosen(rest, short, len(x))
        if not pivots:
            return u
        factor = np.linalg.cholesky(rest[np.ix_(pivots, pivots)])
        new = solve_triangular(factor, rest[pivots], lower=True).T
        innovations = own.there.innovations(len(pivots), own.innovations, self.rng)
        own.add(x[pivots], time, innovations, np.concatenate([known[pivots], factor], axis=1))
        return u + combined(new, innovations)
