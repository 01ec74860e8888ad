"""The network of the benchmark of programs, trained as arrays in single precision."""

from collections.abc import Iterator

import numpy as np

ROWS = 2048
"""Rows of a matrix that are changed at a time, so that no second array of its size is made."""


def normals(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Standard normals in single precision."""
    return rng.standard_normal(shape, np.float32)


def outputs(
    X: np.ndarray, y: np.ndarray, width: int, rate: float, seed: int
) -> Iterator[np.ndarray]:
    """f of one network with three hidden layers of tanh units, γ_0 = 1, on the mean loss, state by state."""
    rng = np.random.default_rng(seed)
    X = X.astype(np.float32)
    V, w = normals(rng, X.shape[1], width), normals(rng, width)
    W1, W2 = normals(rng, width, width), normals(rng, width, width)
    for W in (W1, W2):
        W /= np.float32(np.sqrt(width))
    while True:
        a1 = np.tanh(X @ V)
        a2 = np.tanh(a1 @ W1.T)
        a3 = np.tanh(a2 @ W2.T)
        f = a3 @ w / np.float32(width)
        yield f
        E = ((y - f) / len(y)).astype(np.float32)
        g3 = E[:, None] * w * (1 - a3**2)
        g2 = (g3 @ W2) * (1 - a2**2)
        g1 = (g2 @ W1) * (1 - a1**2)
        w += np.float32(rate) * (E @ a3)
        for W, g, a in ((W2, g3, a2), (W1, g2, a1)):
            change = np.float32(rate / width) * g.T
            for rows in range(0, width, ROWS):
                W[rows : rows + ROWS] += change[rows : rows + ROWS] @ a
        V += np.float32(rate) * (X.T @ g1)
