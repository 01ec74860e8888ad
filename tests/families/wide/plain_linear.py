"""A plain transcription of the deep linear limit, for comparison: whole trajectories, iterated until nothing changes.

Unlike the library it inverts both 1 − C D and 1 − D C as dense matrices over all times, and builds C and D entry by
entry. Forces are switched on one step after the other, because the iteration overflows if all are wrong at first.
"""

import numpy as np


def plain(setting):
    """f (n, p, C) and, for each layer, H, G, A, B as matrices over (time, point) and (time, output)."""
    n, p, C, L = setting.states, setting.points, setting.outputs, setting.depth
    everywhere = np.ones((n, n))
    f = np.zeros((n, p, C))
    H = [np.kron(everywhere, setting.K) for _ in range(L + 1)]
    G = [np.kron(everywhere, np.eye(C)) for _ in range(L + 2)]
    A = [np.zeros((n * p, n * C)) for _ in range(L + 1)]
    B = [np.zeros((n * C, n * p)) for _ in range(L + 1)]
    for forced in range(n):
        for _ in range(20 * L):
            before = [f.copy(), *H, *G, *A, *B]
            E = np.array([setting.loss.force(f[t]) if t < forced else 0 * f[t] for t in range(n)])
            for ell in range(1, L + 1):
                f = _layer(setting, ell, E, H, G, A, B)
            changes = zip([f, *H, *G, *A, *B], before, strict=True)
            change = max(np.abs(new - old).max() for new, old in changes)
            if change < 1e-14:
                break
        assert change < 1e-12, f"not settled with forces on {forced} steps: {change:.1e}"
    return f, H[1:], G[1 : L + 1], A[1:], B[:L]


def _layer(setting, ell, E, H, G, A, B):
    """Replaces the order parameters of layer ℓ by what eq. (11) makes of its neighbours; returns ⟨h g⟩(t, t)/γ_0."""
    n, p, C = setting.states, setting.points, setting.outputs
    C_W = setting.C_W
    c = np.kron(C_W, np.ones((p, C))) * A[ell - 1]
    d = np.kron(C_W, np.ones((C, p))) * B[ell]
    for t, s in np.argwhere(np.tri(n, k=-1)):
        strength = setting.gamma * setting.k[t, s]
        for mu, out, a in np.ndindex(p, C, p):
            kernel = H[ell - 1][t * p + mu, s * p + a] + setting.bias
            c[t * p + mu, s * C + out] += strength * E[s, a, out] * kernel
        for out, mu, other in np.ndindex(C, p, C):
            kernel = G[ell + 1][t * C + out, s * C + other]
            d[t * C + out, s * p + mu] += strength * E[s, mu, other] * kernel
    u = np.kron(C_W, np.ones((p, p))) * (H[ell - 1] + setting.bias)
    r = np.kron(C_W, np.ones((C, C))) * G[ell + 1]
    to_h = np.linalg.inv(np.eye(n * p) - c @ d)
    to_g = np.linalg.inv(np.eye(n * C) - d @ c)
    H[ell] = to_h @ (u + c @ r @ c.T) @ to_h.T
    G[ell] = to_g @ (r + d @ u @ d.T) @ to_g.T
    A[ell] = to_h @ c
    B[ell - 1] = to_g @ d
    both = to_h @ (u @ d.T + c @ r) @ to_g.T
    blocks = both.reshape(n, p, n, C)
    return np.array([blocks[t, :, t] for t in range(n)]) / setting.gamma
