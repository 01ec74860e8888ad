"""The limit equations of a deep linear network, row by row as they read: slow, and the reference for the solvers.

An index is the pair (t, c) of step and output, flattened; "row t" is a block of rows, one for each output. Rows not yet
known are zero, and causality keeps them out of every product. `decayed(X)` is d(t) X(t, t') d(t'): what decay leaves of
the initial weights.
"""

import numpy as np

from learndyn.families.deep_linear.limit_numbers import DATASET, STREAM, LimitNumbers


def naive(numbers: LimitNumbers, kappa: np.ndarray, d: np.ndarray) -> dict[str, np.ndarray]:
    """All correlations and responses, and the losses, at the T = len(d) states of training.

    `kappa` (T×T) and `d` (T) are those of `impulse_response`. Functions of two times have the axes
    (t, c, t', c'), with ℓ = 1 … L in front where there is one for each layer.
    """
    s, T, L, outputs = numbers, len(d), numbers.depth, numbers.outputs
    n, modes = T * outputs, len(numbers.lam)
    eye = np.eye(n)
    ones = np.kron(np.ones((T, T)), np.eye(outputs))
    kappa = np.kron(kappa, np.ones((outputs, outputs)))
    d = np.repeat(d, outputs)
    initial = np.kron(np.eye(1, T), np.eye(outputs))
    S = eye - np.kron(np.ones((T, 1)), np.eye(outputs)) @ initial if s.centered else eye
    gram = np.array([np.kron(np.ones((T, T)), one_mode) for one_mode in s.gram])
    weight = s.omega * s.lam

    def layers(count):
        return np.zeros((count, n, n))

    # Index 0 of C_h and H_r is the input side (H_r[0] is R⁰_hr); index L + 1 of C_g and G_u is the readout.
    C_h, C_g, H_u, H_r, G_u, G_r, K, M = (layers(L + 2) for _ in range(8))
    C_g[L + 1] = ones
    A, C_v, C_u, C_Delta, R_vu, R_Delta = layers(6)
    H, Q = layers(modes), layers(modes)
    bias, width_variance, data_variance = layers(3)

    def decayed(X):
        return d[:, None] * X * d

    def set_symmetric(C, row, values):
        C[row], C[:, row] = values, values.T

    for t in range(T):
        row = slice(t * outputs, (t + 1) * outputs)

        for l in range(L, 0, -1):
            K[l][row] = s.rho[l] * (decayed(G_u[l + 1]) + s.gamma * kappa * C_g[l + 1])[row]
            G_u[l][row] = K[l][row] @ H_u[l]
            G_r[l][row] = eye[row] + K[l][row] @ H_r[l]
            from_u = G_u[l][row] @ decayed(C_h[l - 1]) @ G_u[l].T
            from_r = G_r[l][row] @ (s.rho[l] * decayed(C_g[l + 1])) @ G_r[l].T
            set_symmetric(C_g[l], row, from_u + from_r)

        A[row] = s.rho[0] * (decayed(G_u[1]) / s.gamma + kappa * C_g[1])[row]
        covariance_r0 = s.rho[0] * s.inverse_width / s.gamma**2 * S @ decayed(C_g[1]) @ S.T
        for k, lam in enumerate(s.lam):
            H[k][row] = eye[row] - lam * (A[row] @ R_Delta) @ H[k]
            parts = gram[k], covariance_r0, lam * A @ C_u @ A.T
            parts = [H[k][row] @ part @ H[k].T for part in parts]
            set_symmetric(Q[k], row, sum(parts))
            for total, part in zip((bias, width_variance, data_variance), parts, strict=True):
                total[row] += weight[k] * part
        H_1 = np.tensordot(weight, H, 1)
        H_2 = np.tensordot(weight * s.lam, H, 1)
        set_symmetric(C_v, row, np.tensordot(weight, Q, 1)[row])
        R_vu[row] = -H_1[row] @ A
        R_Delta[row] = eye[row]
        if s.data == DATASET:
            R_Delta[row] += s.inverse_data * R_vu[row] @ R_Delta
            errors = R_Delta[row] @ (C_v + s.noise**2 * ones) @ R_Delta.T
            set_symmetric(C_Delta, row, errors)
            set_symmetric(C_u, row, s.inverse_data * errors)
        elif s.data == STREAM:
            C_u[row, row] = s.inverse_data * (C_v + s.noise**2 * ones)[row, row]
        cross = R_Delta @ H_2 @ A
        gradient = weight.sum() * C_u - cross @ C_u - (cross @ C_u).T
        gradient += R_Delta @ np.tensordot(weight * s.lam, Q, 1) @ R_Delta.T
        set_symmetric(C_h[0], row, gradient[row])
        H_r[0][row] = -R_Delta[row] @ H_1 @ S

        for l in range(1, L + 1):
            response = s.inverse_width / s.gamma * H_r[0] if l == 1 else H_r[l - 1]
            M[l][row] = (decayed(response) + s.gamma * kappa * C_h[l - 1])[row]
            H_u[l][row] = eye[row] + M[l][row] @ G_u[l]
            H_r[l][row] = M[l][row] @ G_r[l]
            from_u = H_u[l][row] @ decayed(C_h[l - 1]) @ H_u[l].T
            from_r = H_r[l][row] @ (s.rho[l] * decayed(C_g[l + 1])) @ H_r[l].T
            set_symmetric(C_h[l], row, from_u + from_r)

    def unflattened(X):
        return X.reshape(*X.shape[:-2], T, outputs, T, outputs)

    def traced(X):
        return np.einsum("tctc->t", unflattened(X))

    found = {"C_v": C_v, "C_h0": C_h[0], "C_h": C_h[1 : L + 1], "C_g": C_g[1 : L + 1]}
    found |= {"R_vu": R_vu, "R_Delta": R_Delta, "R_hr0": H_r[0]}
    found |= {"R_hr": H_r[1 : L + 1], "R_gu": G_u[1 : L + 1]}
    found |= {"C_Delta": C_Delta} if s.data == DATASET else {}
    found = {name: unflattened(X) for name, X in found.items()}
    found |= {"bias": traced(bias), "width_variance": traced(width_variance)}
    found |= {"data_variance": traced(data_variance)}
    found["test_loss"] = traced(C_v) + outputs * s.noise**2
    found |= {"train_loss": traced(C_Delta)} if s.data == DATASET else {}
    found |= {"train_loss": found["test_loss"]} if s.data == STREAM else {}
    return found
