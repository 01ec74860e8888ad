"""Orthonormal directions that grow with what is asked.

⟨U_i, U_k⟩ = δ_ik, with ⟨x, y⟩ = scale · Σ x y. A block of vectors x is split into its part in the span and the rest;
the longest rest is made a new direction until all that is left is short:

    R = x − Σ_i ⟨U_i, x⟩ U_i
    q = R_k/|R_k| of the longest;  q ← q − Σ_i ⟨U_i, q⟩ U_i over all directions, old and new;  q ← q/|q|
    R ← R − ⟨q, R⟩ q .

If less than 0.7 of q is left by the second projection, R_k was rounding along known directions, and is left out. A rest
is short if it is below max(drop |x|, floor · longest vector asked so far).
"""

import numpy as np

from learndyn.programs.affine import padded
from learndyn.programs.dims import NotFinite
from learndyn.programs.products import combined, squares, sums

LEFT = 0.7
"""The length that a true direction keeps, at least, when it is projected again."""
ROOM = 16
"""Number of directions for which room is made at first."""


class Directions:
    """Orthonormal vectors as rows, `count` of them; the first `imaged` have images under a matrix."""

    def __init__(self, scale: float, drop: float, floor: float, dtype: type = np.float64):
        self.scale, self.drop, self.floor = scale, drop, floor
        self.count = self.imaged = 0
        self.longest = self.dropped = self.orthonormality = 0.0
        self._rows, self._images = np.zeros((0, 0), dtype), np.zeros((0, 0), dtype)

    @property
    def rows(self) -> np.ndarray:
        """The directions."""
        return self._rows[: self.count]

    @property
    def images(self) -> np.ndarray:
        """The images of the first `imaged` of them."""
        return self._images[: self.imaged]

    @property
    def bytes(self) -> int:
        """The memory reserved."""
        return self._rows.nbytes + self._images.nbytes

    def widen(self, length: int, image_length: int) -> None:
        """Make room for more coordinates."""
        self._rows = padded(self._rows, max(length, self._rows.shape[1]))
        self._images = padded(self._images, max(image_length, self._images.shape[1]))

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
        rest = x - combined(coordinates, self.rows)
        left = self._lengths(rest)
        fresh, rows = np.zeros((0, x.shape[1])), self.rows
        if np.any(left > short):
            rest, rows = rest.astype(np.float64, copy=False), rows.astype(np.float64, copy=False)
        while self.count + len(fresh) < x.shape[1]:
            excess = np.where(left > short, left, 0.0)
            k = int(excess.argmax()) if len(excess) else 0
            if not len(excess) or not excess[k]:
                break
            q = rest[k] / left[k]
            q = q - (self.scale * (rows @ q)) @ rows
            q = q - (self.scale * (fresh @ q)) @ fresh
            remains = float(self._lengths(q[None])[0])
            if remains < LEFT:
                self.dropped = max(self.dropped, float(left[k]))
                rest[k] = left[k] = 0
                continue
            q = q / remains
            fresh = np.concatenate([fresh, q[None]])
            rest -= np.outer(self.scale * (rest @ q), q)
            rest[k] = 0
            left = self._lengths(rest)
        self.dropped = max(self.dropped, left.max(initial=0.0))
        return coordinates, fresh.astype(self._rows.dtype, copy=False)

    def add(self, fresh: np.ndarray) -> None:
        """Take in new directions; their images come later."""
        need = self.count + len(fresh)
        if need > len(self._rows):
            room = max(need, 2 * len(self._rows), ROOM)
            self._rows = _taller(self._rows, room)
            self._images = _taller(self._images, room)
        self._rows[self.count : need] = fresh
        first, self.count = self.count, need
        overlaps = self.coordinates(fresh)
        overlaps[:, first:] -= np.eye(len(fresh))
        self.orthonormality = max(self.orthonormality, float(np.abs(overlaps).max(initial=0.0)))

    def reveal(self, images: np.ndarray) -> None:
        """Take in the images of the directions that have none."""
        self._images[self.imaged : self.count] = images
        self.imaged = self.count

    def _lengths(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(self.scale * squares(x))


def _taller(array: np.ndarray, rows: int) -> np.ndarray:
    larger = np.zeros((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
