"""Growing spaces: an initially Gaussian matrix, of which only the answers to past queries are known.

Applied to a vector orthogonal to all earlier ones, a Gaussian matrix of infinite size gives a direction never seen
before. An `Operator` holds what its queries have revealed: an array that gains a row or a column with each new
direction. Arrays keep spare room, in whole blocks of the four rows that the compiled products take at a time.

What is still random of a matrix is a Gaussian F with ⟨Fx·Fx'⟩ = x^⊤Kx'. At first K = 1. A query x reveals the row
k = Kx/√r, r = x^⊤Kx, and leaves K − kk^⊤: without anything else, K projects out what was asked. So spaces can also
shrink: with the orthonormal columns U of a `Reduction`, A → U^⊤AU and K → U^⊤KU, exactly if no later vector has a part
outside U.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from learndyn.numerics.delayed import LinearStep
from learndyn.numerics.lower import compiled, row_times, times_column

ROOM = 64
"""Number of directions by which a capacity grows."""
ROUNDING = float(np.finfo(float).eps)
"""Relative rounding of a number."""


@compiled
def _image(A: np.ndarray, rows: int, columns: int, x: np.ndarray, y: np.ndarray) -> None:
    """y ← A x."""
    times_column(A, x, rows, columns, y)


@compiled
def _adjoint_image(A: np.ndarray, rows: int, columns: int, y: np.ndarray, x: np.ndarray) -> None:
    """x ← A^⊤y."""
    row_times(y, A, rows, columns, x)


@compiled
def _project_out(Q: np.ndarray, count: int, lengths: np.ndarray, r: np.ndarray) -> None:
    """r ← r − Q^⊤Q r for `count` orthonormal rows; row i is zero from lengths[i] on."""
    for i in range(0, count, 4):
        q0, q1, q2, q3 = Q[i], Q[i + 1], Q[i + 2], Q[i + 3]
        length = lengths[min(i + 3, count - 1)]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(length):
            s0 += q0[j] * r[j]
            s1 += q1[j] * r[j]
            s2 += q2[j] * r[j]
            s3 += q3[j] * r[j]
        for j in range(length):
            r[j] -= s0 * q0[j] + s1 * q1[j] + s2 * q2[j] + s3 * q3[j]


@compiled
def _extend(
    Q: np.ndarray, count: int, lengths: np.ndarray, dimension: int, shortest: float, x: np.ndarray
) -> bool:
    """Make the part of x outside the span of Q, normalised, its next row; False if it is not longer than `shortest`."""
    r = x[:dimension].copy()
    _project_out(Q, count, lengths, r)
    if not np.dot(r, r) > shortest**2:
        return False
    for _ in range(2):
        r /= np.sqrt(np.dot(r, r))
        _project_out(Q, count, lengths, r)
    r /= np.sqrt(np.dot(r, r))
    Q[count, :dimension], lengths[count] = r, dimension
    return True


@compiled
def _reveal(
    Q: np.ndarray,
    E: np.ndarray,
    count: int,
    lengths: np.ndarray,
    dimension: int,
    shortest: float,
    x: np.ndarray,
    k: np.ndarray,
) -> int:
    """k ← Kx/√r and K ← K − kk^⊤ for K = 1 − Q^⊤Q + Q^⊤EE^⊤Q; how many rows Q has gained, or −1 if √r ≤ `shortest`.

    With p the part of x outside the span of Q, its next row along p, and u = (E^⊤Qx, |p|)/√r: k = Q^⊤Eu, E ← E − Euu^⊤.
    """
    columns = count + 1
    u = np.zeros(columns)
    for i in range(count):
        a = np.dot(Q[i, : lengths[i]], x[: lengths[i]])
        e = E[i]
        for j in range(columns):
            u[j] += a * e[j]
    left = np.dot(u, u)
    new = 0
    if _extend(Q, count, lengths, dimension, shortest, x):
        new = 1
        E[count, :columns] = 0.0
        E[:count, count] = 0.0
        E[count, count] = 1.0
        u[count] = np.dot(Q[count, :dimension], x[:dimension])
        left += u[count] ** 2
    elif not left > shortest**2:
        return -1
    u /= np.sqrt(left)
    k[:dimension] = 0.0
    for i in range(count + new):
        e, q = E[i], Q[i]
        c = 0.0
        for j in range(columns):
            c += e[j] * u[j]
        for j in range(columns):
            e[j] -= c * u[j]
        for j in range(lengths[i]):
            k[j] += c * q[j]
    return new


@compiled
def _add_four_rows(A: np.ndarray, i: int, columns: int, y: np.ndarray, x: np.ndarray) -> None:
    """x ← x + A^⊤y, of the rows i … i + 3."""
    a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
    y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
    for j in range(columns):
        x[j] += y0 * a0[j] + y1 * a1[j] + y2 * a2[j] + y3 * a3[j]


@compiled
def _step_adjoint(
    A: np.ndarray,
    rows: int,
    columns: int,
    keep: float,
    G: np.ndarray,
    H: np.ndarray,
    y: np.ndarray,
    x: np.ndarray,
) -> None:
    """A ← keep·A + Σ_c G_c H_c^⊤, and x ← x + A^⊤y while the rows are at hand."""
    for block in range(0, rows, 4):
        for i in range(block, block + 4):
            a, h, g = A[i], H[0], G[0, i]
            for j in range(columns):
                a[j] = keep * a[j] + g * h[j]
            for c in range(1, len(G)):
                h, g = H[c], G[c, i]
                for j in range(columns):
                    a[j] += g * h[j]
        _add_four_rows(A, block, columns, y, x)


@compiled
def _momentum_step_adjoint(
    A: np.ndarray,
    B: np.ndarray,
    rows: int,
    columns: int,
    keep: float,
    beta: float,
    decay: float,
    outer: float,
    G: np.ndarray,
    H: np.ndarray,
    y: np.ndarray,
    x: np.ndarray,
) -> None:
    """B ← βB − decay·A + Σ_c G_c H_c^⊤, A ← keep·A + outer·B, and x ← x + A^⊤y while the rows are at hand."""
    for block in range(0, rows, 4):
        for i in range(block, block + 4):
            a, b = A[i], B[i]
            for j in range(columns):
                b[j] = beta * b[j] - decay * a[j]
            for c in range(len(G)):
                h, g = H[c], G[c, i]
                for j in range(columns):
                    b[j] += g * h[j]
            for j in range(columns):
                a[j] = keep * a[j] + outer * b[j]
        _add_four_rows(A, block, columns, y, x)


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array with zeros after it up to `shape`; itself if it has that shape."""
    if array.shape == shape:
        return array
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(n) for n in array.shape)] = array
    return larger


class Reduction(NamedTuple):
    """Orthonormal combinations of the directions of a space, for every mode of its own.

    - `columns`: U_k (modes × directions × fewer directions); a mode that needs fewer of them has columns of zeros
    - `origins`: where the new directions came from
    """

    columns: np.ndarray
    origins: list[int]

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """U^⊤x for every row x, which may end with zeros or without them."""
        count, (modes, old, new) = len(vectors), self.columns.shape
        old = min(old, vectors.shape[1] // modes)
        x = vectors[:, : old * modes].reshape(count, old, modes).transpose(2, 0, 1)
        return (x @ self.columns[:, :old]).transpose(1, 2, 0).reshape(count, new * modes)

    def undo(self, vectors: np.ndarray) -> np.ndarray:
        """Ux for every row x, the vector in the old directions."""
        return Reduction(self.columns.transpose(0, 2, 1), []).apply(vectors)


class Space:
    """A growing space: `dimension` coordinates in use out of `capacity`, `modes` of them for each direction.

    Vectors have the length `capacity`, zeros at the end, so that they outlive a new direction; `reserve` makes room for
    a whole step. `origins` tells where each direction came from.
    """

    def __init__(self, modes: int = 1):
        self.modes = modes
        self.capacity = 0
        self.origins: list[int] = []
        self.largest = self.reduced = 0

    @property
    def dimension(self) -> int:
        """The number of coordinates in use."""
        return len(self.origins) * self.modes

    def reserve(self, directions: int) -> None:
        """Make room for this many new directions."""
        while self.dimension + directions * self.modes > self.capacity:
            self.capacity += ROOM * self.modes

    def add(self, origin: int) -> slice:
        """Add a direction; returns the positions of its coordinates."""
        self.origins.append(origin)
        self.largest = max(self.largest, self.dimension)
        return slice(self.dimension - self.modes, self.dimension)

    @property
    def grown(self) -> bool:
        """Whether the space has more than twice as many directions as after its last reduction."""
        return len(self.origins) > 2 * (self.reduced + ROOM)

    def reduce(self, reduction: Reduction) -> None:
        """Keep the directions of the reduction only."""
        self.origins, self.capacity = list(reduction.origins), 0
        self.reduced = len(self.origins)
        self.reserve(0)


class Basis:
    """What is still random along the vectors of a space, K = 1 − Q^⊤Q + Q^⊤EE^⊤Q with orthonormal rows Q.

    Until the space is reduced, E = 0: nothing is left of what was asked.
    """

    def __init__(self, space: Space, tolerance: float):
        self.space, self.tolerance, self.count = space, tolerance, 0
        self.rows, self.lengths = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        self.left: np.ndarray | None = None
        self.longest = 0.0

    def reserve(self, vectors: int) -> None:
        """Make room for this many new vectors."""
        rows = max(len(self.rows), self.count + vectors)
        rows += -rows % ROOM
        self.rows = padded(self.rows, (rows, self.space.capacity))
        self.lengths = padded(self.lengths, (rows,))
        if self.left is not None:
            self.left = padded(self.left, (rows, rows))

    def reveal(self, x: np.ndarray) -> np.ndarray | None:
        """k = Kx/√(x^⊤Kx), after which K is K − kk^⊤; None if what is left of x is negligible.

        That is less than the tolerance of its length, or than the rounding of the longest vector before.
        """
        length = float(np.sqrt(x @ x))
        self.longest = max(self.longest, length)
        shortest = max(self.tolerance * length, ROUNDING * self.longest)
        Q, count, lengths, dimension = self.rows, self.count, self.lengths, self.space.dimension
        if self.left is None:
            # K is a projection, and k the new row.
            if not _extend(Q, count, lengths, dimension, shortest, x):
                return None
            self.count += 1
            return Q[count]
        k = np.zeros(self.space.capacity)
        new = _reveal(Q, self.left, count, lengths, dimension, shortest, x, k)
        self.count += max(new, 0)
        return k if new >= 0 else None

    def remaining(self, vectors: np.ndarray) -> np.ndarray:
        """Kx for every row x."""
        Q = self.rows[: self.count, : self.space.dimension]
        known = vectors @ Q.T
        return vectors - (known - self._rest(known)) @ Q

    def _rest(self, rows: np.ndarray) -> np.ndarray:
        """EE^⊤x for every row x."""
        if self.left is None:
            return np.zeros_like(rows)
        E = self.left[: self.count, : self.count]
        return rows @ E @ E.T

    def reduce(self, reduction: Reduction) -> None:
        """K → U^⊤KU; must be called before the space itself is reduced.

        The new Q spans the rows of QU. Its E is the triangular root of y^⊤Ky, for those rows y taken back by U.
        """
        if not self.count:
            self.rows, self.lengths = np.zeros((0, 0)), self.lengths[:0]
            return
        Q = self.rows[: self.count, : self.space.dimension]
        # The quicker driver, gesdd, has failed on finite matrices.
        factors: tuple = scipy.linalg.svd(
            reduction.apply(Q), full_matrices=False, lapack_driver="gesvd"
        )
        Y = factors[2][factors[1] > self.tolerance]
        y = reduction.undo(Y)
        known = y @ Q.T
        root = [y - known @ Q]
        if self.left is not None:
            root.append(known @ self.left[: self.count, : self.count])
        E = np.asarray(np.linalg.qr(np.hstack(root).T, mode="r")).T
        self.count = len(Y)
        self.rows, self.left = Y, E
        self.lengths = np.full(self.count, Y.shape[1])


class Operator:
    """An initially Gaussian matrix A from `source` to `target`, as far as queries have revealed it, and its training.

    - `source`, `target`: the spaces
    - `fresh`: the coordinates of A^⊤p in the new direction of `source`, for a new unit vector p; zero if `target` is
      infinitely larger than `source`
    - `origin`: the tag of the new directions of either space
    - `tolerance`: the relative length below which the new part of a vector is dropped
    """

    def __init__(
        self, source: Space, target: Space, fresh: np.ndarray, origin: int, tolerance: float
    ):
        self.source, self.target = source, target
        self.fresh, self.origin = fresh, origin
        self.A, self.B = np.zeros((0, 0)), None
        self.asked, self.answered = Basis(source, tolerance), Basis(target, tolerance)
        self.undriven, self.undriven_buffer = 1.0, 0.0
        self.force = self.last = None

    @property
    def known(self) -> np.ndarray:
        """A, without spare room."""
        return self.A[: self.target.dimension, : self.source.dimension]

    def reserve(self, queries: int) -> None:
        """Make room for this many queries in each direction."""
        shape = self.target.capacity, self.source.capacity
        self.A = padded(self.A, shape)
        self.B = None if self.B is None else padded(self.B, shape)
        self.asked.reserve(queries)
        self.answered.reserve(queries)
        if self.force is not None:
            step, G, H = self.force
            G, H = padded(G, (len(G), shape[0])), padded(H, (len(H), shape[1]))
            self.force = step, G, H

    def reduce(self, source: Reduction, target: Reduction) -> None:
        """A → U^⊤AU, with those of either space; must be called before the spaces themselves are reduced."""
        self.carry_out()
        rows, columns = self.known.shape

        def reduced(A: np.ndarray) -> np.ndarray:
            return target.apply(source.apply(A[:rows, :columns]).T).T

        self.A = reduced(self.A)
        self.B = None if self.B is None else reduced(self.B)
        if self.last is not None:
            self.last = target.apply(self.last[0]), source.apply(self.last[1])
        self.asked.reduce(source)
        self.answered.reduce(target)

    def step(self, step: LinearStep, G: np.ndarray, H: np.ndarray) -> None:
        """A step of A under the force Σ_c G_c H_c^⊤, already multiplied by its rate in the momentum buffer B.

        It is carried out at the next `adjoint`, which reads A anyway.
        """
        self.force = step, G, H
        self.undriven, self.undriven_buffer = step.moved(self.undriven, self.undriven_buffer, 0.0)
        if step.buffered and self.B is None:
            self.B = np.zeros_like(self.A)
            if self.last is not None:
                # Without momentum B is the force of the last step.
                G, H = self.last
                self.B[: G.shape[1], : H.shape[1]] = G.T @ H

    def forward(self, x: np.ndarray) -> np.ndarray:
        """A x; must not be called between `step` and `adjoint`."""
        y = np.zeros(self.target.capacity)
        _image(self.A, self.target.dimension, self.source.dimension, x, y)
        q = self.asked.reveal(x)
        if q is not None:
            new = self.target.add(self.origin)
            self.A[new] = self.undriven * q
            if self.undriven_buffer and self.B is not None:
                self.B[new] = self.undriven_buffer * q
            y[new] = self.undriven * (q @ x)
        return y

    def carry_out(self) -> None:
        """Make the step that is due."""
        if self.force is not None:
            self._carry_out(np.zeros(self.target.capacity))

    def _carry_out(self, y: np.ndarray) -> np.ndarray:
        """A^⊤y, after the step that is due."""
        x = np.zeros(self.source.capacity)
        rows, columns = self.target.dimension, self.source.dimension
        if self.force is None:
            _adjoint_image(self.A, rows, columns, y, x)
            return x
        step, G, H = self.force
        if self.B is None:
            _step_adjoint(self.A, rows, columns, step.keep, G, H, y, x)
        else:
            keep, beta, outer = (float(n) for n in (step.keep, step.momentum, step.outer))
            decay = float(step.inner * step.inner_decay)
            A, B = self.A, self.B
            _momentum_step_adjoint(A, B, rows, columns, keep, beta, decay, outer, G, H, y, x)
        self.force, self.last = None, (G, H)
        return x

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        """A^⊤y."""
        x = self._carry_out(y)
        p = self.answered.reveal(y) if self.fresh.any() else None
        if p is not None:
            new = self.source.add(self.origin)
            self.A[:, new] = self.undriven * np.outer(p, self.fresh)
            if self.undriven_buffer and self.B is not None:
                self.B[:, new] = self.undriven_buffer * np.outer(p, self.fresh)
            x[new] = self.undriven * (p @ y) * self.fresh
        return x
