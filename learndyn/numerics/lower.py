"""Products with growing lower-triangular and symmetric matrices, compiled.

Row-by-row recursions spend their time here, bound by memory: each product reads its matrix once, four rows at a time,
and where one matrix meets a row from the left and a column from the right, one pass serves both. A symmetric matrix is
stored as its lower triangle. What is above the diagonal of a lower triangle must be zero, since the products read a
little of it. `n` is the size of the leading block in use.
"""

from typing import Any, cast

import numba
import numpy as np

_options: dict[str, Any] = {
    "nogil": True,
    "fastmath": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_uncounted: dict[str, Any] = _options | {"_nrt": False}
_without_entrance: dict[str, Any] = _uncounted | {"no_cpython_wrapper": True}
compiled = numba.njit(cache=True, **_options)
"""Compiles a function, and stores it on disk."""
in_place = numba.njit(cache=True, **_uncounted)
"""The same for a function that makes no arrays, only views. They need no reference counts, which would be most of the
code that numba hands to LLVM: every view, and every tuple of arrays, is counted wherever it is named."""
inner = numba.njit(cache=True, **_without_entrance)
"""Compiles a function that makes no arrays and that only compiled functions call. What would unpack Python's arguments,
often the larger part of the code, is left out: a call from Python would crash."""
unpacked = numba.njit(cache=True, forceinline=True, **_without_entrance)
"""The same for a function that takes so many arrays that passing them would take a tenth of a run of 25 steps."""
inlined = numba.njit(inline="always", **_options)
"""Puts a function into its caller before anything is compiled. For the steps of a recursion, which are called at one
place: numba optimises a function again within each of its callers, so every level of calls costs all levels below."""


def nonliteral(value: int) -> int:
    """The integer as one of NumPy's. numba would compile a function anew for every Python integer it is called with."""
    return cast("int", np.int64(value))


LOWER = nonliteral(-1)
"""Stands for the number of columns of a lower triangular matrix."""


@inner
def row_times(x: np.ndarray, A: np.ndarray, rows: int, columns: int, out: np.ndarray) -> None:
    """out = x A, for the leading rows × columns block of A; `columns` may be `LOWER`."""
    lower, i = columns < 0, 0
    for j in range(rows if lower else columns):
        out[j] = 0.0
    while i + 4 <= rows:
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(i + 4 if lower else columns):
            out[j] += x0 * A[i, j] + x1 * A[i + 1, j] + x2 * A[i + 2, j] + x3 * A[i + 3, j]
        i += 4
    while i < rows:
        xi = x[i]
        for j in range(i + 1 if lower else columns):
            out[j] += xi * A[i, j]
        i += 1


@inner
def times_column(A: np.ndarray, y: np.ndarray, rows: int, columns: int, out: np.ndarray) -> None:
    """out = A y, for the leading rows × columns block of A; `columns` may be `LOWER`."""
    lower, i = columns < 0, 0
    while i + 4 <= rows:
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 4 if lower else columns):
            s0 += A[i, j] * y[j]
            s1 += A[i + 1, j] * y[j]
            s2 += A[i + 2, j] * y[j]
            s3 += A[i + 3, j] * y[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        i += 4
    while i < rows:
        s = 0.0
        for j in range(i + 1 if lower else columns):
            s += A[i, j] * y[j]
        out[i] = s
        i += 1


@inner
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
        for j in range(i + 4):
            a0, a1, a2, a3 = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
            xA[j] += x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3
            s0 += a0 * y[j]
            s1 += a1 * y[j]
            s2 += a2 * y[j]
            s3 += a3 * y[j]
        Ay[i], Ay[i + 1], Ay[i + 2], Ay[i + 3] = s0, s1, s2, s3
        i += 4
    while i < n:
        xi, s = x[i], 0.0
        for j in range(i + 1):
            xA[j] += xi * A[i, j]
            s += A[i, j] * y[j]
        Ay[i] = s
        i += 1


@inlined
def symmetric_times_column(
    C: np.ndarray, x: np.ndarray, n: int, out: np.ndarray, scratch: np.ndarray
) -> None:
    """out = C x, for C symmetric and stored as its lower triangle."""
    both_sides_of_lower(x, C, x, n, out, scratch)
    for i in range(n):
        out[i] += scratch[i] - C[i, i] * x[i]


@inner
def add_outers_to_lower(
    A: np.ndarray, x: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray, n: int
) -> None:
    """A += x ⊗ y + u ⊗ v on and below the diagonal."""
    for i in range(n):
        xi, ui = x[i], u[i]
        for j in range(i + 1):
            A[i, j] += xi * y[j] + ui * v[j]


@inner
def add_outer_to_lower(A: np.ndarray, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """A += x ⊗ y on and below the diagonal."""
    for i in range(n):
        xi = x[i]
        for j in range(i + 1):
            A[i, j] += xi * y[j]


@inner
def add_outer_to_symmetric(C: np.ndarray, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """The derivative of x C y with respect to the lower triangle that stores a symmetric C, added to C."""
    for i in range(n):
        xi, yi = x[i], y[i]
        for j in range(i):
            C[i, j] += xi * y[j] + yi * x[j]
        C[i, i] += xi * yi


@inner
def add_outer(A: np.ndarray, x: np.ndarray, y: np.ndarray, rows: int, columns: int) -> None:
    """A += x ⊗ y in the leading rows × columns block."""
    for i in range(rows):
        xi = x[i]
        for j in range(columns):
            A[i, j] += xi * y[j]
