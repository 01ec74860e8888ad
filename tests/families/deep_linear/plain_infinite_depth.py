"""The layer-time equations of infinite depth in plain NumPy, for a single output and plain gradient descent.

Whole matrices over training time, fields themselves instead of increments, Chebyshev nodes in τ, and undamped Picard
iteration of everything at once until nothing changes: causality makes one more row right in each round. K and M have
each other's place here, compared with the library: h = K g + κ below τ and g = M h + ζ above it.
"""

import numpy as np
from numpy.polynomial import chebyshev


def chebyshev_nodes(count: int):
    """Nodes on [0, 1], the matrix of integrals from 0, and that of values at the nodes to coefficients."""
    x = -np.cos(np.pi * np.arange(count) / (count - 1))
    values = chebyshev.chebvander(x, count - 1)
    primitives = [chebyshev.chebval(x, chebyshev.chebint(e, lbnd=-1)) for e in np.eye(count)]
    return (x + 1) / 2, np.stack(primitives, axis=1) @ np.linalg.inv(values) / 2


def strictly_lower(X):
    return np.tril(X, -1)


def solve(
    *, beta0, nu, gamma, eta, steps, mode, alpha=1.0, sigma=0.0, centered=False, nodes=12
) -> dict:
    """Test loss, C_g and C_h at the nodes, and ⟨hg⟩ at equal times."""
    T, square = steps + 1, beta0**2
    tau, up = chebyshev_nodes(nodes)
    down = up[-1] - up
    one, ones = np.eye(T), np.ones((T, T))
    Theta, lazy = strictly_lower(ones), eta * gamma

    def transposed(X):
        return X.swapaxes(-1, -2)

    def integral(Q, f):
        return np.tensordot(Q, f, axes=1)

    K, M = np.zeros((2, nodes, T, T))
    Sigma, Gamma = np.zeros((nodes, T, T)), np.tile(ones, (nodes, 1, 1))
    C_v = ones.copy()
    for _ in range(400):
        S, S_tilde = np.linalg.inv(one - K @ M), np.linalg.inv(one - M @ K)
        U, V = S @ K, S_tilde @ M
        C_h = S @ Sigma @ transposed(S) + U @ Gamma @ transposed(U)
        C_g = V @ Sigma @ transposed(V) + S_tilde @ Gamma @ transposed(S_tilde)
        A, B = U + lazy * strictly_lower(C_h), strictly_lower(V) + lazy * strictly_lower(C_g)
        # The input side.
        B1 = V[0] / gamma + eta * strictly_lower(C_g[0])
        R_Delta = one.copy()
        if mode == "dataset":
            for _ in range(T):
                H = np.linalg.inv(one + B1 @ R_Delta)
                R_Delta = one + (-H @ B1) @ R_Delta / alpha
        H = np.linalg.inv(one + B1 @ R_Delta)
        R_vu = -H @ B1
        to_r = -H @ (one - np.outer(np.ones(T), one[0])) if centered else -H
        source = C_v + sigma**2 * ones
        noise = {
            "population": 0 * ones,
            "stream": np.diag(np.diag(source)) / alpha,
            "dataset": R_Delta @ source @ R_Delta.T / alpha,
        }[mode]
        a, width = H @ np.ones(T), 1 / (nu * gamma**2)
        C_v = np.outer(a, a) + width * to_r @ C_g[0] @ to_r.T + R_vu @ noise @ R_vu.T
        X, Y, along = R_Delta @ to_r, one + R_Delta @ R_vu, R_Delta @ a
        C_h0 = np.outer(along, along) + width * X @ C_g[0] @ X.T + Y @ noise @ Y.T
        # The equations along τ.
        start = X / (nu * gamma) + lazy * strictly_lower(C_h0)
        cross = K @ B @ Sigma
        other = M @ A @ Gamma
        new = (
            start + square * integral(up, A + K @ B @ K),
            lazy * Theta + square * integral(down, B + M @ A @ M),
            C_h0 + square * integral(up, C_h + K @ C_g @ transposed(K) + cross + transposed(cross)),
            ones
            + square * integral(down, C_g + M @ C_h @ transposed(M) + other + transposed(other)),
        )
        change = max(
            float(np.abs(x - y).max()) for x, y in zip(new, (K, M, Sigma, Gamma), strict=True)
        )
        K, M, Sigma, Gamma = new
        if change < 1e-13:
            break
    else:
        raise RuntimeError(f"the iteration still changes by {change:.2g}")
    F = S @ Sigma @ transposed(V) + U @ Gamma @ transposed(S_tilde)
    return {
        "tau": tau,
        "test_loss": np.diag(C_v) + sigma**2,
        "C_h": C_h,
        "C_g": C_g,
        "overlap": np.einsum("ntt->nt", F),
    }
