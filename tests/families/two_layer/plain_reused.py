"""A plain transcription of the limit on a reused dataset, for comparison: every sum a loop, every response forward.

Unlike the library it keeps the responses G(t, s) of every sample, by the forward recursion, and factors the Gram matrix
of C_g.
"""

import jax
import numpy as np


def plain(setting, xi, z, root):
    """Everything from section 3 of the theory, for normals `xi` (S, M + K + T·K), label noise `z` (S)."""
    K, M, T = setting.hidden, setting.teachers, len(setting.tau)
    n, S = T + 1, len(z)
    made, v, gamma, tau = setting.pair, setting.v, setting.ratio, setting.tau
    second = jax.vmap(jax.vmap(jax.grad(lambda x: made.student.derivative(x))))
    rho = xi[:, :M] @ root.T
    clean = np.asarray(made.teacher(rho)) @ np.asarray(made.v_star)
    y = clean + setting.noise * z
    W = np.zeros((n, K, xi.shape[1]))
    along = setting.R @ np.linalg.inv(root).T
    values, vectors = np.linalg.eigh(setting.Q - along @ along.T)
    W[0, :, : M + K] = np.hstack([along, vectors * np.sqrt(np.maximum(values, 0))])
    R = np.zeros((n, n, K, K))
    H = np.zeros((n, n, K, K))
    R_star = np.zeros((n, K, M))
    g, h_all, loss = np.zeros((n, S, K)), np.zeros((n, S, K)), np.zeros(n)
    G = np.zeros((n, n, S, K, K))
    G_star = np.zeros((n, S, K, M))
    L = np.zeros((n * K, n * K))
    for t in range(n):
        h = xi @ W[t].T
        for s in range(t):
            h = h + tau[s] / gamma * g[s] @ R[t, s].T
        phi, slope, curve = (
            np.asarray(made.student(h)),
            np.asarray(made.student.derivative(h)),
            np.asarray(second(h)),
        )
        error = y - phi @ v
        g[t], h_all[t], loss[t] = v * slope * error[:, None], h, np.mean(error**2)
        tangent = -np.einsum("si,sj->sij", v * slope, v * slope)
        for i in range(K):
            tangent[:, i, i] += v[i] * curve[:, i] * error
        for s in range(t + 1):
            inner = np.zeros((S, K, K))
            if s == t:
                inner += np.eye(K)
            for r in range(s, t):
                inner += tau[r] / gamma * R[t, r] @ G[r, s]
            G[t, s] = tangent @ inner
            H[t, s] = G[t, s].mean(0)
        memory = np.zeros((S, K, M))
        for r in range(t):
            memory += tau[r] / gamma * R[t, r] @ G_star[r]
        label_slope = np.asarray(made.teacher.derivative(rho)) * np.asarray(made.v_star)
        G_star[t] = np.einsum("si,sn->sin", v * slope, label_slope) + tangent @ memory
        R_star[t] = G_star[t].mean(0)
        # The rows of a Cholesky factor do not depend on later rows.
        flat = g[: t + 1].transpose(0, 2, 1).reshape((t + 1) * K, S)
        L[: (t + 1) * K, : (t + 1) * K] = np.linalg.cholesky(flat @ flat.T / S)
        if t == T:
            break
        keep = 1 - tau[t] * setting.decay
        W[t + 1] = keep * W[t]
        for s in range(t + 1):
            W[t + 1] += tau[t] * H[t, s] @ W[s]
        W[t + 1, :, :M] += tau[t] * R_star[t] @ root
        W[t + 1, :, M + K :] += tau[t] / np.sqrt(gamma) * L[t * K : (t + 1) * K, : T * K]
        R[t + 1, t] = np.eye(K)
        for s in range(t):
            R[t + 1, s] = keep * R[t, s]
            for r in range(s + 1, t + 1):
                R[t + 1, s] += tau[t] * H[t, r] @ R[r, s]
    return {"W": W, "R_w": R, "R_h": H, "R_star": R_star, "g": g, "h": h_all, "loss": loss}
