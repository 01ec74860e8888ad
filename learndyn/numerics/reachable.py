"""The directions that the vectors of a linear system can still reach.

A system of spaces i with linear maps M between them has some vectors now, the seeds x. What it ever computes from them
lies in the span of x, M x, M M' x, …, and every map that is applied makes a vector more like those that are in the span
already. So the span is built round by round, with vectors that keep their lengths:

    what is new in a round = the part of the last round's vectors outside the span found so far,
    next round             = all maps applied to it.

Parts shorter than the tolerance are dropped. With maps of norm one or less, it ends when nothing longer is new.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

Map = tuple[int, int, Callable[[np.ndarray], np.ndarray]]
"""The numbers of the source and the target space, and a linear function of rows."""


class ReachableSpace:
    """A space whose coordinates are in `parts`; what is kept of a vector are its components in every part.

    - `vectors`: orthonormal rows that span the vectors found so far
    - `directions`: for each part, orthonormal rows that span their components
    """

    def __init__(self, parts: Sequence[Int[np.ndarray, " n"]]):
        self.parts = parts
        self.vectors = np.zeros((0, sum(len(part) for part in parts)))
        self.directions = [np.zeros((0, len(part))) for part in parts]

    def add(
        self, vectors: Float[np.ndarray, "b dim"], tolerance: float
    ) -> Float[np.ndarray, "k dim"]:
        """Add what the vectors have outside the span, if it is longer than the tolerance, and return it."""
        new, lengths = _new_directions(self.vectors, vectors, tolerance)
        self.vectors = np.vstack([self.vectors, new])
        long = lengths[:, None] * new
        for number, part in enumerate(self.parts):
            known = self.directions[number]
            more = (
                _new_directions(known, long[:, part], tolerance)[0] if len(self.parts) > 1 else new
            )
            self.directions[number] = np.vstack([known, more])
        return long


def _new_directions(
    known: Float[np.ndarray, "k n"], vectors: Float[np.ndarray, "b n"], tolerance: float
) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, " m"]]:
    """Orthonormal rows for what the vectors have outside known rows, and how long it is in their directions."""
    rest = _outside(known, vectors)
    rest = rest[np.einsum("bn,bn->b", rest, rest) > tolerance**2]
    if not rest.size:
        return known[:0], np.zeros(0)
    factors: Any = scipy.linalg.qr(rest.T, mode="economic", pivoting=True, check_finite=False)
    q, r, _ = factors
    lengths = np.linalg.norm(r, axis=1)
    long = lengths > tolerance
    # The shortest ones have lost digits to the known rows.
    return np.linalg.qr(_outside(known, q.T[long]).T)[0].T, lengths[long]


def _outside(
    known: Float[np.ndarray, "k n"], vectors: Float[np.ndarray, "b n"]
) -> Float[np.ndarray, "b n"]:
    """The parts of the vectors outside the span of orthonormal rows; twice, because of rounding."""
    for _ in range(2):
        vectors = vectors - (vectors @ known.T) @ known
    return vectors


def reach(
    spaces: Sequence[ReachableSpace],
    seeds: Sequence[np.ndarray],
    maps: Sequence[Map],
    tolerance: float,
) -> None:
    """Add to the spaces all directions that the maps reach from the seeds, one array of rows for each space."""
    vectors = list(seeds)
    while any(len(x) for x in vectors):
        new = [space.add(x, tolerance) for space, x in zip(spaces, vectors, strict=True)]
        vectors = [x[:0] for x in seeds]
        for source, target, function in maps:
            if len(new[source]):
                vectors[target] = np.vstack([vectors[target], function(new[source])])
