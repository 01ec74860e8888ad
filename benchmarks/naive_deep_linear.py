"""The equations of a deep linear network on a dataset, row by row as they read, in plain NumPy.

One output, isotropic inputs, no weight decay; every product is a row or a column times a matrix.
"""

import numpy as np


def test_losses(setting, kappa, steps: int) -> np.ndarray:
    """C_v(t, t) + σ² for t = 0 … steps."""
    s, T, L = setting, steps + 1, setting.depth
    C_h, C_g, H_u, H_r, G_u, G_r = (np.zeros((L + 2, T, T)) for _ in range(6))
    C_g[L + 1] = 1.0
    A, H, C_v, C_Delta, R_vu, R_Delta, C_h0 = (np.zeros((T, T)) for _ in range(7))
    width = s.rho[0] * s.inverse_width / s.gamma**2
    centred = 1.0 if s.centered else 0.0
    for t in range(T):
        n = slice(0, t + 1)
        for l in range(L, 0, -1):
            k = s.rho[l] * (G_u[l + 1, t, n] + s.gamma * kappa[t, n] * C_g[l + 1, t, n])
            G_u[l, t, n] = k @ H_u[l, n, n]
            G_r[l, t, n] = k @ H_r[l, n, n]
            G_r[l, t, t] += 1.0
            below = C_h[l - 1] if l > 1 else C_h0
            row = G_u[l, n, n] @ (below[n, n] @ G_u[l, t, n])
            row += s.rho[l] * G_r[l, n, n] @ (C_g[l + 1, n, n] @ G_r[l, t, n])
            C_g[l, t, n] = C_g[l, n, t] = row
        A[t, n] = s.rho[0] * (G_u[1, t, n] / s.gamma + kappa[t, n] * C_g[1, t, n])
        H[t, n] = -(A[t, n] @ R_Delta[n, n]) @ H[n, n]
        H[t, t] += 1.0
        R_vu[t, n] = -H[t, n] @ A[n, n]
        x = H[t, n]
        shifted = x.copy()
        shifted[0] -= centred * x.sum()
        noise = C_g[1, n, n] @ shifted
        source = x.sum() + width * (noise - centred * noise[0])
        source += A[n, n] @ (C_Delta[n, n] @ (x @ A[n, n])) * s.inverse_data
        C_v[t, n] = C_v[n, t] = H[n, n] @ source
        R_Delta[t, n] = s.inverse_data * R_vu[t, n] @ R_Delta[n, n]
        R_Delta[t, t] += 1.0
        errors = R_Delta[n, n] @ ((C_v[n, n] + s.noise**2) @ R_Delta[t, n])
        C_Delta[t, n] = C_Delta[n, t] = errors
        responded = R_Delta[t, n] @ H[n, n]
        cross = s.inverse_data * C_Delta[n, n] @ (responded @ A[n, n])
        other = R_Delta[n, n] @ (H[n, n] @ (A[n, n] @ (s.inverse_data * C_Delta[t, n])))
        row = s.inverse_data * C_Delta[t, n] - cross - other
        row += R_Delta[n, n] @ (C_v[n, n] @ R_Delta[t, n])
        C_h0[t, n] = C_h0[n, t] = row
        to_input = -responded
        to_input[0] += centred * responded.sum()
        for l in range(1, L + 1):
            below, C = (
                (to_input * s.inverse_width / s.gamma, C_h0)
                if l == 1
                else (H_r[l - 1, t, n], C_h[l - 1])
            )
            m = below + s.gamma * kappa[t, n] * C[t, n]
            H_u[l, t, n] = m @ G_u[l, n, n]
            H_u[l, t, t] += 1.0
            H_r[l, t, n] = m @ G_r[l, n, n]
            row = H_u[l, n, n] @ (C[n, n] @ H_u[l, t, n])
            row += s.rho[l] * H_r[l, n, n] @ (C_g[l + 1, n, n] @ H_r[l, t, n])
            C_h[l, t, n] = C_h[l, n, t] = row
    return np.diag(C_v) + s.noise**2
