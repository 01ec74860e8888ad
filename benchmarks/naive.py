"""The right-hand side for erf units, written straight from the printed integrals with NumPy broadcasting.

No symmetry is used and every index combination is evaluated; the Λ form of I4 (Saad & Solla 1995) is a derivation of
its own, so agreement with the library is also a check.
"""

import numpy as np


def velocity(Q, R, T, v, v_star, eta, noise, batch):
    """(dQ/dt, dR/dt)."""
    K = len(v)
    C = np.block([[Q, R], [R.T, T]])
    n = len(C)
    s = np.concatenate([v, -v_star])
    D = 1 + np.diag(C)
    a, b, c = np.ix_(range(K), range(n), range(n))
    third = 2 / np.pi * (C[b, c] * D[a] - C[a, b] * C[a, c])
    third /= D[a] * np.sqrt(D[a] * D[c] - C[a, c] ** 2)
    force = v[:, None] * (third @ s)
    slope = 2 / np.pi / np.sqrt(D[:K, None] * D[:K] - Q**2)
    square = np.array([[s @ _fourth(C, D, i, k) @ s for k in range(K)] for i in range(K)])
    dQ = -eta * (force[:, :K] + force[:, :K].T)
    dQ += eta**2 / batch * np.outer(v, v) * (square + noise**2 * slope)
    return dQ, -eta * force[:, K:]


def _fourth(C, D, a, b):
    """I4(a, b, c, d) for all c and d."""
    c, d = np.ix_(range(len(C)), range(len(C)))
    L4 = D[a] * D[b] - C[a, b] ** 2
    L0 = (
        L4 * C[c, d]
        - C[b, c] * C[b, d] * D[a]
        - C[a, c] * C[a, d] * D[b]
        + C[a, b] * C[a, c] * C[b, d]
        + C[a, b] * C[a, d] * C[b, c]
    )
    L1 = L4 * D[c] - C[b, c] ** 2 * D[a] - C[a, c] ** 2 * D[b] + 2 * C[a, b] * C[a, c] * C[b, c]
    L2 = L4 * D[d] - C[b, d] ** 2 * D[a] - C[a, d] ** 2 * D[b] + 2 * C[a, b] * C[a, d] * C[b, d]
    return 4 / np.pi**2 / np.sqrt(L4) * np.arcsin(L0 / np.sqrt(L1 * L2))
