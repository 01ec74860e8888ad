"""Orthonormal directions that grow with what is asked.

⟨U_i, U_k⟩ = δ_ik, with ⟨x, y⟩ = scale · Σ x y. A block of vectors x is split into its part in the span and the rest
x − Σ_i ⟨U_i, x⟩ U_i; `orthonormal.py` makes new directions until all that is left is short. A rest is short if it is
below max(drop |x|, floor · longest vector asked so far).

The squared length of a rest is |x|² − Σ_i ⟨U_i, x⟩² up to rounding of |x|². Where `drop` is far above the root of that,
rests that are short for certain are not formed.
"""

import numpy as np

from learndyn.numerics.products import combined, squares, sums
from learndyn.programs import orthonormal
from learndyn.programs.affine import padded
from learndyn.programs.dims import NotFinite

SEEN = {np.float64: 1e-6, np.float32: 1e-3}
"""Lengths, as parts of a vector, that can be told from a difference of squares."""
ROOM = 16
"""Number of directions for which room is made at first."""


class Directions:
    """Orthonormal vectors as rows, `count` of them; of the first `imaged` the products with a matrix are known.

    What was new in such a product when it was asked is the direction's innovation.
    """

    def __init__(self, scale: float, drop: float, floor: float, dtype: type = np.float64):
        self.scale, self.drop, self.floor = scale, drop, floor
        self.count = self.imaged = 0
        self.longest = self.dropped = self.orthonormality = 0.0
        self._checked = 0
        self._rows, self._innovations = np.zeros((0, 0), dtype), np.zeros((0, 0), dtype)

    @property
    def rows(self) -> np.ndarray:
        """The directions."""
        return self._rows[: self.count]

    @property
    def innovations(self) -> np.ndarray:
        """The innovations of the first `imaged` of them."""
        return self._innovations[: self.imaged]

    @property
    def bytes(self) -> int:
        """The memory reserved."""
        return self._rows.nbytes + self._innovations.nbytes

    def widen(self, length: int, image_length: int) -> None:
        """Make room for more coordinates."""
        self._rows = padded(self._rows, max(length, self._rows.shape[1]))
        self._innovations = padded(self._innovations, max(image_length, self._innovations.shape[1]))

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """⟨U_i, x⟩ for each row x."""
        return self.scale * sums(x, self.rows)

    def new(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The coordinates of the rows x in the directions so far, and new directions for what is left of them."""
        coordinates = self.coordinates(x)
        lengths = self._lengths(x)
        if not np.all(np.isfinite(lengths)):
            raise NotFinite("a vector asked of a matrix is no longer finite")
        self.longest = max(self.longest, lengths.max(initial=0.0))
        short = np.maximum(self.drop * lengths, self.floor * self.longest)
        rough = np.sqrt(np.maximum(lengths**2 - np.sum(coordinates**2, axis=1), 0.0))
        # A quarter of the square leaves room for its rounding.
        certain = self.drop >= SEEN[self._rows.dtype.type]
        check = rough > short / 2 if certain else np.ones(len(x), bool)
        self.dropped = max(self.dropped, rough[~check].max(initial=0.0))
        rest = x[check] - combined(coordinates[check], self.rows)
        most = x.shape[1] - self.count
        fresh, dropped = orthonormal.new_directions(
            rest, short[check], self._project, self.scale, most
        )
        self.dropped = max(self.dropped, dropped)
        return coordinates, fresh.astype(self._rows.dtype, copy=False)

    def _project(self, q: np.ndarray) -> np.ndarray:
        """What is left of the rows q outside the directions."""
        return q - combined(self.coordinates(q.astype(self._rows.dtype, copy=False)), self.rows)

    def add(self, fresh: np.ndarray) -> None:
        """Take in new directions; their innovations come later."""
        need = self.count + len(fresh)
        if need > len(self._rows):
            room = max(need, 3 * len(self._rows) // 2, ROOM)
            self._rows = _taller(self._rows, room)
            self._innovations = _taller(self._innovations, room)
        self._rows[self.count : need] = fresh
        self.count = need

    def check(self, part: float = 0.0) -> None:
        """Measure the orthonormality of directions not yet checked, if they are more than this part of all."""
        first = self._checked
        if self.count - first <= part * self.count:
            return
        overlaps = self.coordinates(self.rows[first:])
        overlaps -= np.eye(self.count)[first:]
        self.orthonormality = max(self.orthonormality, float(np.abs(overlaps).max()))
        self._checked = self.count

    def reveal(self, innovations: np.ndarray) -> None:
        """Take in the innovations of the directions that have none."""
        self._innovations[self.imaged : self.count] = innovations
        self.imaged = self.count

    def _lengths(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(self.scale * squares(x))


def _taller(array: np.ndarray, rows: int) -> np.ndarray:
    larger = np.empty((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
