"""A plain transcription of the limit on a reused dataset, for comparison: every sum a loop, every response forward.

Unlike the library it keeps the responses G(t, s) of every sample, by the forward recursion, and factors the Gram matrix
of C_g.
"""

import jax
import numpy as np


def plain(setting, xi, z, chosen):
    """The equations of `equations.py` and `traced.py`, for normals `xi` (S, M + K + T·K), label noise `z` (S) and
    batches `chosen` (m, T + 1 × S).
    """
    K, M, grid = setting.hidden, setting.teachers, setting.grid
    tau, beta, gamma = grid.tau, setting.momentum, setting.ratio
    T, S = len(tau), len(z)
    n = T + 1
    made, v = setting.pair, np.asarray(setting.start.v)
    second = jax.vmap(jax.vmap(jax.grad(lambda x: made.student.derivative(x))))
    values, vectors = np.linalg.eigh(np.asarray(made.T))
    root = vectors * np.sqrt(values)
    rho = xi[:, :M] @ root.T
    clean = np.asarray(made.teacher(rho)) @ np.asarray(made.v_star)
    y = clean + setting.noise * z
    W, B = np.zeros((n, K, xi.shape[1])), np.zeros((K, xi.shape[1]))
    along = np.asarray(setting.start.R) @ np.linalg.inv(root).T
    values, vectors = np.linalg.eigh(np.asarray(setting.start.Q) - along @ along.T)
    W[0, :, : M + K] = np.hstack([along, vectors * np.sqrt(np.maximum(values, 0))])
    R, b = np.zeros((n, n, K, K)), np.zeros((n, K, K))
    H = np.zeros((n, n, K, K))
    R_star = np.zeros((n, K, M))
    g, loss = np.zeros((n, S, K)), np.zeros(n)
    readout, readout_buffer = np.zeros((n, K)), 0.0
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
        error, m = y - phi @ v, chosen[t][:, None]
        g[t], loss[t], readout[t] = m * v * slope * error[:, None], np.mean(error**2), v
        tangent = -np.einsum("si,sj->sij", v * slope, v * slope)
        for i in range(K):
            tangent[:, i, i] += v[i] * curve[:, i] * error
        tangent *= m[..., None]
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
        direct = np.einsum("si,sn->sin", m * v * slope, label_slope)
        G_star[t] = direct + tangent @ memory
        R_star[t] = G_star[t].mean(0)
        # The rows of a Cholesky factor do not depend on later rows.
        flat = g[: t + 1].transpose(0, 2, 1).reshape((t + 1) * K, S)
        L[: (t + 1) * K, : (t + 1) * K] = np.linalg.cholesky(flat @ flat.T / S)
        if t == T:
            break
        keep = 1 - tau[t] * setting.decay
        B = beta * B
        for s in range(t + 1):
            B += tau[t] * H[t, s] @ W[s]
        B[:, :M] += tau[t] * R_star[t] @ root
        B[:, M + K :] += tau[t] / np.sqrt(gamma) * L[t * K : (t + 1) * K, : T * K]
        W[t + 1] = keep * W[t] + B
        for s in range(t):
            b[s] = beta * b[s]
            for r in range(s + 1, t + 1):
                b[s] += tau[t] * H[t, r] @ R[r, s]
            R[t + 1, s] = keep * R[t, s] + b[s]
        b[t] = R[t + 1, t] = np.eye(K)
        if setting.train_readout:
            readout_buffer = beta * readout_buffer
            readout_buffer = readout_buffer + grid.tau_v[t] * np.mean(m * error[:, None] * phi, 0)
            v = (1 - grid.tau_v[t] * setting.decay) * v + readout_buffer
    return {
        "W": W,
        "R_w": R.transpose(0, 2, 1, 3),
        "R_h": H.transpose(0, 2, 1, 3),
        "R_star": R_star,
        "train_loss": loss / 2,
        "Q": np.einsum("tik,tjk->tij", W, W),
        "R": W[:, :, :M] @ root.T,
        "C": np.einsum("tik,sjk->tisj", W, W),
        "C_g": np.einsum("tsi,rsj->tirj", g, g) / S,
        "v": readout,
    }
