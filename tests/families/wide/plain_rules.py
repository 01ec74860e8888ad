"""A plain transcription of the limit of linear units with gates or other learning rules, for comparison; one output.

Given the pattern m of its gates, which is all ones without them, a neuron is Gaussian:

    h = u + 𝖢 m z,   z = r + 𝖣 m h,   φ = m h,   g = m z,

with 𝖢 = a A + γ_0 k E Φ of the layer below and 𝖣 = a B + γ_0 k E G of the layer above. Backprop has a = 1; feedback
alignment has a = ρ and no memory in 𝖣, direct feedback a = 0. Whole trajectories are iterated, with forces switched on
step by step.
"""

import numpy as np


def with_rule(setting, rule, rho=0.0, patterns=None):
    """f (n, p), and by layer Φ and G (n, p, n, p); `patterns` are pairs of probability and gates (p)."""
    n, p, L = setting.states, setting.points, setting.depth
    patterns = patterns or [(1.0, np.ones(p))]
    f, ones = np.zeros((n, p)), np.ones((n * p, n * p))
    Phi = [np.kron(np.ones((n, n)), setting.K) for _ in range(L + 1)]
    G, A, B = ([x.copy() for _ in range(L + 2)] for x in (ones, 0 * ones, 0 * ones))
    for forced in range(n):
        for _ in range(40 * L):
            before = [f.copy(), *Phi, *G, *A, *B]
            E = np.array([setting.loss.force(f[t][:, None])[:, 0] * (t < forced) for t in range(n)])
            for ell in range(1, L + 1):
                f = _layer(setting, rule, rho, patterns, ell, E, Phi, G, A, B)
            changes = zip([f, *Phi, *G, *A, *B], before, strict=True)
            change = max(np.abs(new - old).max() for new, old in changes)
            if change < 1e-14:
                break
        assert change < 1e-12, f"not settled with forces on {forced} steps: {change:.1e}"
    return f, *(np.array(x[1 : L + 1]).reshape(L, n, p, n, p) for x in (Phi, G))


def _layer(setting, rule, rho, patterns, ell, E, Phi, G, A, B):
    """Replaces the order parameters of layer ℓ by what its neighbours make of them; returns f if it is the last."""
    n, p, L, gamma = setting.states, setting.points, setting.depth, setting.gamma
    responding = {"feedback_alignment": rho, "direct_feedback_alignment": 0.0}.get(rule, 1.0)
    fed_back = rule in ("feedback_alignment", "direct_feedback_alignment")
    memory = np.kron(setting.k, np.ones((p, p))) * E.ravel()  # k(t, s) E_α(s), zero from s = t on
    C = responding * A[ell - 1] + gamma * memory * Phi[ell - 1]
    above = np.ones_like(G[0]) if ell == L or rule == "direct_feedback_alignment" else G[ell + 1]
    D = responding * B[ell] * (ell < L) + (0 if fed_back else gamma * memory * above)
    totals = [np.zeros_like(A[0]) for _ in range(6)]
    for weight, gates in patterns:
        m = np.diag(np.tile(gates, n))
        to_h = np.linalg.inv(np.eye(n * p) - C @ m @ D @ m)
        to_z = np.linalg.inv(np.eye(n * p) - D @ m @ C @ m)
        h_u, h_r, z_u, z_r = to_h, to_h @ C @ m, to_z @ D @ m, to_z
        u, r = Phi[ell - 1], above
        parts = (
            m @ (h_u @ u @ h_u.T + h_r @ r @ h_r.T) @ m,
            m @ (z_u @ u @ z_u.T + z_r @ r @ z_r.T) @ m,
            m @ h_r,
            m @ z_u,
            m @ (h_u @ u @ z_u.T + h_r @ r @ z_r.T),
            m @ h_r @ r,
        )
        totals = [total + weight * part for total, part in zip(totals, parts, strict=True)]
    Phi[ell], G[ell], A[ell], B[ell - 1], product, with_r = totals
    if not fed_back:
        return np.diag(product).reshape(n, p) / gamma
    return (rho / gamma * np.diag(with_r) + np.sum(memory * Phi[ell], axis=1)).reshape(n, p)


def two_gates(K):
    """The patterns of two gates, whose arguments have the covariance K, and their probabilities."""
    both = 0.25 + np.arcsin(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1])) / (2 * np.pi)
    gates = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    weights = [both, both, 0.5 - both, 0.5 - both]
    return [(weight, np.array(gate)) for weight, gate in zip(weights, gates, strict=True)]
