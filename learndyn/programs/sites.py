"""Where the entries of a dimension's vectors come from, in each back end.

A site hands out normal vectors and the innovations of matrices, as rows of `length` entries; ⟨x, y⟩ = scale · Σ x y.

- `Entries`: n entries; an innovation is (1 − P_V) ε with ε ~ N(0, 1)^n.
- `Samples`: S samples. In the limit ε is independent of all that is known. An *even* innovation has this between
  samples: it is orthogonal to the constant, to earlier innovations and normal vectors, and to all directions that
  matrices were asked, and of length one. One orthonormal basis of all these is kept for a dimension, so that the
  projection is joint. `half` takes the first or second half of the same points. Mirrored normals start as x on the
  first half of the samples and −x on the second.
- `Axes`: in linear programs innovation number j is the j-th unit vector; number 0 is the constant.
"""

import math
from typing import Any

import numpy as np

from learndyn.errors import NotLinearProgram, TooFewSamples
from learndyn.numerics.normals import GROUP, QuasiNormals
from learndyn.numerics.products import combined, sums
from learndyn.programs import orthonormal
from learndyn.programs.affine import Affine

ROWS_PER_SAMPLE = 1.5
"""Samples needed for each direction of a dimension."""
WAITING = 32
"""Even normals that are prepared at a time."""
SPANNED = 1e-9
"""A direction of which less than this is new to its dimension is spanned already."""


class Entries:
    """n entries of a network."""

    grows = False

    def __init__(self, name: str, n: int, dtype: type = np.float64):
        self.name, self.length, self.scale = name, n, 1 / n
        self.bytes, self.fullness, self.dtype = 0, 0.0, dtype

    def constant(self, scalar: np.ndarray) -> Any:
        """The vector whose entries are all this scalar."""
        return np.asarray(scalar, self.dtype)[..., None]

    def normals(self, count: int, rng: np.random.Generator) -> Any:
        """Normal vectors."""
        return rng.standard_normal((count, self.length)).astype(self.dtype, copy=False)

    def uniforms(self, count: int, rng: np.random.Generator) -> Any:
        """Uniform vectors on (0, 1)."""
        return rng.random((count, self.length)).astype(self.dtype, copy=False)

    def innovations(self, count: int, V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(1 − P_V) ε."""
        epsilon = rng.standard_normal((count, self.length)).astype(self.dtype, copy=False)
        return epsilon - combined(self.scale * sums(epsilon, V), V)

    def note(self, rows: np.ndarray) -> None:
        """Directions asked of a matrix: nothing to do."""

    def wrapped(self, rows: np.ndarray, shape: tuple[int, ...]) -> Any:
        """Rows as a vector with these small axes."""
        return rows.reshape((*shape, rows.shape[-1]))

    def unwrapped(self, data: Any) -> np.ndarray:
        """A vector as rows."""
        data = np.broadcast_to(data.astype(self.dtype, copy=False), (*data.shape[:-1], self.length))
        return data.reshape((-1, self.length))


class Samples(Entries):
    """S samples of the site, in the limit."""

    def __init__(
        self,
        name: str,
        samples: int,
        seed: np.random.SeedSequence,
        dtype: type = np.float64,
        half: int | None = None,
        mirrored: bool = False,
    ):
        super().__init__(name, samples if half is None else samples // 2, dtype)
        self._points, self._mirrored = samples // 2 if mirrored else samples, mirrored
        middle = self._points // 2
        self._part = {None: slice(None), 0: slice(middle), 1: slice(middle, None)}[half]
        # A vector has entries of one dimension only, so that the points need no permutation.
        self._normals: QuasiNormals | None = QuasiNormals(self._points, seed, permuted=False)
        samples = self.length
        self._used, self.count = 0, 1
        self._basis = np.ones((16, samples), dtype)
        self._waiting = np.zeros((0, samples), dtype)
        # Below this, single precision sees rounding.
        self._spanned = SPANNED if dtype is np.float64 else 1e-5

    @property
    def basis(self) -> np.ndarray:
        """Orthonormal rows: the constant, innovations, normal vectors and what is new in directions asked."""
        return self._basis[: self.count]

    def _drawn(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Sobol' points for the first columns of a dimension, random ones later; the chosen half of them."""
        even = min(count, GROUP - self._used) if self._normals is not None else 0
        rows = rng.standard_normal((count - even, self._points))
        if self._normals is not None:
            first = self._normals.columns(self._used, self._used + even).T
            rows = np.concatenate([first, rows])
            self._used += even
            if self._used == GROUP:
                self._normals = None
        rows = rows[:, self._part].astype(self.dtype, copy=False)
        return np.concatenate([rows, -rows], axis=1) if self._mirrored else rows

    def normals(self, count: int, rng: np.random.Generator) -> Any:
        """Normal vectors, even."""
        return self.innovations(count, self.basis, rng)

    def uniforms(self, count: int, rng: np.random.Generator) -> Any:
        """Uniform vectors on (0, 1)."""
        from scipy.special import ndtr

        return ndtr(self._drawn(count, rng))

    def innovations(self, count: int, V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Even innovations. V is among the directions noted."""
        self._check_room(count)
        if count > len(self._waiting):
            block = min(WAITING, self.count, self.length // 8)
            self._prepare(max(count - len(self._waiting), block), rng)
        epsilon, self._waiting = self._waiting[:count], self._waiting[count:]
        self._store(epsilon)
        return epsilon

    def _prepare(self, count: int, rng: np.random.Generator) -> None:
        """Add even normals to those that wait: one pass over the basis serves many innovations."""
        fresh, waiting = self._drawn(count, rng), self._waiting
        # Twice, because the first time leaves rounding where little of a row was new.
        for _ in range(2):
            fresh = self._rest(fresh)
            fresh = self._evened(fresh - combined(self.scale * sums(fresh, waiting), waiting))
        self._waiting = np.concatenate([waiting, fresh])

    def _evened(self, rows: np.ndarray) -> np.ndarray:
        """The rows made orthonormal, each from itself and those before."""
        factor = np.linalg.cholesky(self.scale * sums(rows, rows))
        return combined(np.linalg.inv(factor), rows)

    def note(self, rows: np.ndarray) -> None:
        """Directions asked of a matrix: later innovations are orthogonal to them."""
        short, most = np.full(len(rows), self._spanned), self.length - self.count
        fresh, _ = orthonormal.new_directions(self._rest(rows), short, self._rest, self.scale, most)
        if not len(fresh):
            return
        fresh = fresh.astype(self.dtype, copy=False)
        self._check_room(len(fresh))
        self._store(fresh)
        if len(self._waiting):
            waiting = self._waiting
            parallel = combined(self.scale * sums(waiting, fresh), fresh)
            self._waiting = self._evened(waiting - parallel)

    def _rest(self, x: np.ndarray) -> np.ndarray:
        """What is left of the rows x outside the basis."""
        overlaps = self.scale * sums(x.astype(self.dtype, copy=False), self.basis)
        return x - combined(overlaps, self.basis)

    def _check_room(self, count: int) -> None:
        """Refuse more directions than the samples can tell apart."""
        need = self.count + count
        if self.length < ROWS_PER_SAMPLE * need:
            wanted = 2 ** math.ceil(math.log2(2 * ROWS_PER_SAMPLE * need))
            raise TooFewSamples(
                f"{self.length} samples are too few: the dimension {self.name!r} has {need} directions by now, "
                f"and needs {ROWS_PER_SAMPLE} samples for each. Try samples={wanted}, or a larger drop",
                wanted,
            )

    def _store(self, fresh: np.ndarray) -> None:
        need = self.count + len(fresh)
        if need > len(self._basis):
            room = max(need, 3 * len(self._basis) // 2)
            larger = np.empty((room, self.length), self.dtype)
            larger[: self.count] = self.basis
            self._basis = larger
        self._basis[self.count : need], self.count = fresh, need
        self.fullness = self.count / self.length
        points = 0 if self._normals is None else 8 * GROUP * self._points
        self.bytes = self._basis.nbytes + self._waiting.nbytes + points


class Axes(Entries):
    """Coordinates of linear programs: their number grows with the innovations."""

    grows = True

    def __init__(self, name: str):
        super().__init__(name, 1)

    def constant(self, scalar: np.ndarray) -> Any:
        """The scalar times the constant vector."""
        return Affine(np.asarray(scalar)[..., None])

    def normals(self, count: int, rng: np.random.Generator) -> Any:
        """The next unit vectors."""
        first, self.length = self.length, self.length + count
        return np.eye(self.length)[first:]

    def uniforms(self, count: int, rng: np.random.Generator) -> Any:
        """Refused."""
        raise NotLinearProgram(
            "uniform vectors are not linear in normal ones, and Coordinates follows linear programs only: "
            "use Limit(samples)"
        )

    def innovations(self, count: int, V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next unit vectors."""
        return self.normals(count, rng)

    def wrapped(self, rows: np.ndarray, shape: tuple[int, ...]) -> Any:
        """Rows as a vector with these small axes."""
        return Affine(rows.reshape((*shape, rows.shape[-1])))

    def unwrapped(self, data: Any) -> np.ndarray:
        """A vector as rows; products are refused before."""
        array = data.array
        larger = np.zeros((*array.shape[:-1], self.length))
        larger[..., : array.shape[-1]] = array
        return larger.reshape((-1, self.length))


Site = Entries
