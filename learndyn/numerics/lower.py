"""Products with growing lower-triangular and symmetric matrices, compiled.

Row-by-row recursions spend their time here, bound by memory: each product reads its matrix once, four rows at a time,
and where one matrix meets a row from the left and a column from the right, one pass serves both. A symmetric matrix is
stored as its lower triangle; entries above the diagonal are never read. `n` is the size of the leading block in use.
"""

from typing import Any

import numba
import numpy as np

_options: dict[str, Any] = {
    "nogil": True,
    "fastmath": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_without_entrance: dict[str, Any] = _options | {"no_cpython_wrapper": True}
compiled = numba.njit(cache=True, **_options)
"""Compiles a function, and stores it on disk."""
inner = numba.njit(cache=True, **_without_entrance)
"""Compiles a function that only compiled functions call. What would unpack Python's arguments, often the larger part of
the code, is left out: a call from Python would crash."""
unpacked = numba.njit(cache=True, forceinline=True, **_without_entrance)
"""The same for a function that takes so many arrays that passing them would take a tenth of a run of 25 steps."""
inlined = numba.njit(inline="always", **_options)
"""Puts a function into its caller before anything is compiled. For the steps of a recursion, which are called at one
place: numba optimises a function again within each of its callers, so every level of calls costs all levels below."""


@compiled
def row_times_lower(x: np.ndarray, A: np.ndarray, n: int, out: np.ndarray) -> None:
    """out = x A, for A lower triangular."""
    for j in range(n):
        out[j] = 0.0
    i = 0
    while i + 4 <= n:
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(i + 1):
            out[j] += x0 * A[i, j] + x1 * A[i + 1, j] + x2 * A[i + 2, j] + x3 * A[i + 3, j]
        out[i + 1] += x1 * A[i + 1, i + 1] + x2 * A[i + 2, i + 1] + x3 * A[i + 3, i + 1]
        out[i + 2] += x2 * A[i + 2, i + 2] + x3 * A[i + 3, i + 2]
        out[i + 3] += x3 * A[i + 3, i + 3]
        i += 4
    while i < n:
        xi = x[i]
        for j in range(i + 1):
            out[j] += xi * A[i, j]
        i += 1


@compiled
def lower_times_column(A: np.ndarray, y: np.ndarray, n: int, out: np.ndarray) -> None:
    """out = A y, for A lower triangular."""
    i = 0
    while i + 4 <= n:
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 1):
            s0 += A[i, j] * y[j]
            s1 += A[i + 1, j] * y[j]
            s2 += A[i + 2, j] * y[j]
            s3 += A[i + 3, j] * y[j]
        s1 += A[i + 1, i + 1] * y[i + 1]
        s2 += A[i + 2, i + 1] * y[i + 1] + A[i + 2, i + 2] * y[i + 2]
        s3 += A[i + 3, i + 1] * y[i + 1] + A[i + 3, i + 2] * y[i + 2] + A[i + 3, i + 3] * y[i + 3]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        i += 4
    while i < n:
        s = 0.0
        for j in range(i + 1):
            s += A[i, j] * y[j]
        out[i] = s
        i += 1


@compiled
def both_sides_of_lower(
    x: np.ndarray, A: np.ndarray, y: np.ndarray, n: int, xA: np.ndarray, Ay: np.ndarray
) -> None:
    """xA = x A and Ay = A y in one pass, for A lower triangular."""
    for j in range(n):
        xA[j] = 0.0
    i = 0
    while i + 4 <= n:
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 1):
            a0, a1, a2, a3 = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
            xA[j] += x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3
            s0 += a0 * y[j]
            s1 += a1 * y[j]
            s2 += a2 * y[j]
            s3 += a3 * y[j]
        b11, b21, b31 = A[i + 1, i + 1], A[i + 2, i + 1], A[i + 3, i + 1]
        b22, b32, b33 = A[i + 2, i + 2], A[i + 3, i + 2], A[i + 3, i + 3]
        xA[i + 1] += x1 * b11 + x2 * b21 + x3 * b31
        xA[i + 2] += x2 * b22 + x3 * b32
        xA[i + 3] += x3 * b33
        Ay[i] = s0
        Ay[i + 1] = s1 + b11 * y[i + 1]
        Ay[i + 2] = s2 + b21 * y[i + 1] + b22 * y[i + 2]
        Ay[i + 3] = s3 + b31 * y[i + 1] + b32 * y[i + 2] + b33 * y[i + 3]
        i += 4
    while i < n:
        xi, s = x[i], 0.0
        for j in range(i + 1):
            xA[j] += xi * A[i, j]
            s += A[i, j] * y[j]
        Ay[i] = s
        i += 1


@compiled
def symmetric_times_column(
    C: np.ndarray, x: np.ndarray, n: int, out: np.ndarray, scratch: np.ndarray
) -> None:
    """out = C x, for C symmetric and stored as its lower triangle."""
    both_sides_of_lower(x, C, x, n, out, scratch)
    for i in range(n):
        out[i] += scratch[i] - C[i, i] * x[i]


@compiled
def row_times_full(x: np.ndarray, A: np.ndarray, rows: int, columns: int, out: np.ndarray) -> None:
    """out = x A, for the leading rows × columns block of A."""
    for j in range(columns):
        out[j] = 0.0
    i = 0
    while i + 4 <= rows:
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(columns):
            out[j] += x0 * A[i, j] + x1 * A[i + 1, j] + x2 * A[i + 2, j] + x3 * A[i + 3, j]
        i += 4
    while i < rows:
        xi = x[i]
        for j in range(columns):
            out[j] += xi * A[i, j]
        i += 1


@compiled
def full_times_column(
    A: np.ndarray, y: np.ndarray, rows: int, columns: int, out: np.ndarray
) -> None:
    """out = A y, for the leading rows × columns block of A."""
    i = 0
    while i + 4 <= rows:
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(columns):
            s0 += A[i, j] * y[j]
            s1 += A[i + 1, j] * y[j]
            s2 += A[i + 2, j] * y[j]
            s3 += A[i + 3, j] * y[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        i += 4
    while i < rows:
        s = 0.0
        for j in range(columns):
            s += A[i, j] * y[j]
        out[i] = s
        i += 1


@compiled
def add_outers_to_lower(
    A: np.ndarray, x: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray, n: int
) -> None:
    """A += x ⊗ y + u ⊗ v on and below the diagonal."""
    for i in range(n):
        xi, ui = x[i], u[i]
        for j in range(i + 1):
            A[i, j] += xi * y[j] + ui * v[j]


@compiled
def add_outer_to_lower(A: np.ndarray, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """A += x ⊗ y on and below the diagonal."""
    for i in range(n):
        xi = x[i]
        for j in range(i + 1):
            A[i, j] += xi * y[j]


@compiled
def add_outer_to_symmetric(C: np.ndarray, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """The derivative of x C y with respect to the lower triangle that stores a symmetric C, added to C."""
    for i in range(n):
        xi, yi = x[i], y[i]
        for j in range(i):
            C[i, j] += xi * y[j] + yi * x[j]
        C[i, i] += xi * yi


@compiled
def add_outer(A: np.ndarray, x: np.ndarray, y: np.ndarray, rows: int, columns: int) -> None:
    """A += x ⊗ y in the leading rows × columns block."""
    for i in range(rows):
        xi = x[i]
        for j in range(columns):
            A[i, j] += xi * y[j]
