"""A large trained matrix whose low-rank updates are collected and added every few steps."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs

(_gemm,) = get_blas_funcs(("gemm",), dtype=np.float64)
DELAY = 16
"""Number of steps after which the collected forces are added to the matrix."""


def rows_times(
    rows: Float[np.ndarray, "c n"], matrix: Float[np.ndarray, "n m"]
) -> Float[np.ndarray, "c m"]:
    """`rows` @ `matrix`; up to four rows are multiplied one by one, because BLAS is slow at thin products."""
    if 1 < len(rows) <= 4:
        return np.stack([row @ matrix for row in rows])
    return rows @ matrix


class LinearStep(Protocol):
    """One step of a linear training rule; its words are those of `learndyn.problem.weight_response.Step`."""

    @property
    def inner(self) -> Any: ...
    @property
    def outer(self) -> Any: ...
    @property
    def momentum(self) -> Any: ...
    @property
    def inner_decay(self) -> Any: ...
    @property
    def keep(self) -> Any: ...
    @property
    def buffered(self) -> bool: ...

    def moved(self, W: Any, B: Any, force: Any) -> tuple[Any, Any]:
        """The weight and its buffer after a step; `force` is already multiplied by `inner`."""
        ...


class DelayedMatrix:
    """A weight matrix W = a_0 W̄ + a_1 B̄ + Σ_s a_s g_s^⊤ h_s and its momentum B, the same with coefficients b.

    The sums are over the forces g_s^⊤ h_s of the last steps. They are added to W̄ and B̄ only every `DELAY` steps,
    because most of the time of a step goes into reading and writing the large matrix.

    - `initial`: W at the start
    - `buffered`: whether there is a momentum buffer
    - `outputs`: the number of forces per step
    """

    def __init__(self, initial: Float[np.ndarray, "m n"], buffered: bool, outputs: int):
        self.W = initial.copy()
        self.B = np.zeros_like(initial) if buffered else None
        pending = DELAY * outputs
        self.g, self.h = (np.empty((pending, n)) for n in initial.shape)
        self.last = slice(0), 0.0
        self._restart()

    def _restart(self) -> None:
        self.pending = 0
        self.a, self.b = np.zeros((2, 2 + len(self.g)))
        self.a[0] = self.b[1] = 1.0

    def times(self, rows: Float[np.ndarray, "c n"]) -> Float[np.ndarray, "c m"]:
        """W x for every row x."""
        B = None if self.B is None else self.B.T
        return self._applied(rows, self.W.T, B, self.h, self.g)

    def transpose_times(self, rows: Float[np.ndarray, "c m"]) -> Float[np.ndarray, "c n"]:
        """W^⊤ x for every row x."""
        return self._applied(rows, self.W, self.B, self.g, self.h)

    def _applied(
        self,
        rows: Float[np.ndarray, "c n"],
        W: np.ndarray,
        B: np.ndarray | None,
        inner: np.ndarray,
        outer: np.ndarray,
    ) -> np.ndarray:
        n, a = self.pending, self.a
        result = a[0] * rows_times(rows, W)
        if B is not None:
            result += a[1] * rows_times(rows, B)
        if n:
            result += (rows @ inner[:n].T * a[2 : n + 2]) @ outer[:n]
        return result

    def move(
        self, g: Float[np.ndarray, "c m"], h: Float[np.ndarray, "c n"], step: "LinearStep"
    ) -> None:
        """One step of training under the force g^⊤ h."""
        n, end = self.pending, self.pending + len(g)
        self.g[n:end], self.h[n:end] = g, h
        force = np.zeros_like(self.b)
        force[n + 2 : end + 2] = step.inner
        self.a, self.b = step.moved(self.a, self.b, force)
        self.pending, self.last = end, (slice(n, end), step.inner)
        if end == len(self.g):
            self.settle()

    def value(self) -> np.ndarray:
        """The present W; the pending forces stay pending, so that reading W does not change later digits."""
        n, a = self.pending, self.a
        W = a[0] * self.W + (a[2 : n + 2, None] * self.g[:n]).T @ self.h[:n]
        return W if self.B is None else W + a[1] * self.B

    def remember(self) -> None:
        """Have a momentum buffer from now on."""
        self.settle()
        if self.B is None:
            # Without momentum B is the force of the last step.
            rows, eta = self.last
            self.B = eta * self.g[rows].T @ self.h[rows]

    def settle(self) -> Float[np.ndarray, "m n"]:
        """Add the pending forces to W̄ and B̄; returns W."""
        n, B, W = self.pending, self.B, self.W
        g, h, a, b = self.g[:n], self.h[:n], self.a, self.b
        if n:
            before = b[0] * W if B is not None and b[0] else None
            self.W = _updated(W, a[0], a[2 : n + 2, None] * g, h)
            if B is not None:
                self.W += a[1] * B
                self.B = _updated(B, b[1], b[2 : n + 2, None] * g, h)
                if before is not None:
                    self.B += before
        self._restart()
        return self.W


def _updated(
    M: Float[np.ndarray, "m n"],
    factor: float,
    g: Float[np.ndarray, "c m"],
    h: Float[np.ndarray, "c n"],
) -> Float[np.ndarray, "m n"]:
    """factor·M + g^⊤h, in the memory of M."""
    return _gemm(1.0, h.T, g.T, beta=factor, c=M.T, trans_b=True, overwrite_c=True).T
