"""Wide networks without the library: iterations of eq. (11) of the paper, and networks as arrays."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.problem.problem import Problem


def outputs(setting: WideSetting, damping: float) -> Iterator[np.ndarray]:
    """f (states × points) of one iteration after the other, for plain gradient descent and one output.

    With C_μ(t, s) = A^{ℓ−1}_μ + ηγ_0 Σ_α E_α(s) H^{ℓ−1}_μα(t, s) and D_α(t, s) = B^ℓ_α + ηγ_0 E_α(s) G^{ℓ+1}(t, s),
    every layer goes the part `damping` of the way to

        H^ℓ = (1 − C D)^{-1} [H^{ℓ−1} + C G^{ℓ+1} Cᵀ] (1 − C D)^{-⊤},    A^ℓ = (1 − C D)^{-1} C,
        G^ℓ = (1 − D C)^{-1} [G^{ℓ+1} + D H^{ℓ−1} Dᵀ] (1 − D C)^{-⊤},    B^{ℓ−1} = (1 − D C)^{-1} D.

    Outputs follow the tangent kernel, f(t+1) = f(t) + η Σ_ℓ G^{ℓ+1}(t, t) H^ℓ(t, t) E(t).
    """
    n, p, L = setting.states, setting.points, setting.depth
    rates = setting.gamma * setting.k
    H = [np.kron(np.ones((n, n)), setting.K) for _ in range(L + 1)]
    G = [np.ones((n, n)) for _ in range(L + 2)]
    A = [np.zeros((n * p, n)) for _ in range(L + 1)]
    B = [np.zeros((n, n * p)) for _ in range(L + 1)]
    while True:
        f, E = _follow_the_kernel(setting, H, G)
        yield f
        new = []
        for ell in range(1, L + 1):
            drive = np.einsum("tmsa,sa->tms", H[ell - 1].reshape(n, p, n, p), E)
            C = A[ell - 1] + (rates[:, None] * drive).reshape(n * p, n)
            D = B[ell] + ((rates * G[ell + 1])[:, :, None] * E).reshape(n, n * p)
            to_h = np.linalg.inv(np.eye(n * p) - C @ D)
            to_g = np.linalg.inv(np.eye(n) - D @ C)
            new.append(
                (
                    to_h @ (H[ell - 1] + C @ G[ell + 1] @ C.T) @ to_h.T,
                    to_g @ (G[ell + 1] + D @ H[ell - 1] @ D.T) @ to_g.T,
                    to_h @ C,
                    to_g @ D,
                )
            )
        for ell, (features, gradients, a, b) in enumerate(new, start=1):
            H[ell] = H[ell] + damping * (features - H[ell])
            G[ell] = G[ell] + damping * (gradients - G[ell])
            A[ell] = A[ell] + damping * (a - A[ell])
            B[ell - 1] = B[ell - 1] + damping * (b - B[ell - 1])


def _follow_the_kernel(setting: WideSetting, H, G):
    """f and E (states × points)."""
    n, p = setting.states, setting.points
    f, E = np.zeros((n, p)), np.zeros((n, p))
    for t in range(n):
        E[t] = setting.loss.force(f[t][:, None])[:, 0]
        if t + 1 < n:
            now = slice(t * p, (t + 1) * p)
            kernel = sum(g[t, t] * h[now, now] for g, h in zip(G[1:], H, strict=True))
            f[t + 1] = f[t] + setting.k[t + 1, t] * kernel @ E[t]
    return f, E


SLOPES = {"tanh": lambda a: 1 - a * a, "relu": lambda a: a > 0}
"""φ' from φ."""
FUNCTIONS = {"tanh": np.tanh, "relu": lambda h: np.maximum(h, 0)}


def trained_outputs(problem: Problem, width: int, seed: int) -> Iterator[np.ndarray]:
    """f of one network in single precision, plain descent on the mean loss of one output, state by state."""
    rng, network = np.random.default_rng(seed), problem.network
    name = network.activation.to_dict()
    phi, slope, depth = FUNCTIONS[name], SLOPES[name], network.depth
    gamma, rate = float(network.richness), float(problem.training.learning_rate)
    x = problem.data.inputs.astype(np.float32)
    y = problem.data.targets.astype(np.float32)
    sizes = [x.shape[1], *[width] * depth]
    W = [
        rng.standard_normal((n, m), np.float32) / np.float32(np.sqrt(m)) for m, n in pairwise(sizes)
    ]
    w = rng.standard_normal(width, np.float32)
    while True:
        a = [x]
        for matrix in W:
            a.append(phi(a[-1] @ matrix.T))
        f = a[-1] @ w / np.float32(gamma * width)
        yield f
        E = np.float32(rate * gamma / len(y)) * (y - f)
        g = E[:, None] * w * slope(a[-1])
        w = w + E @ a[-1]
        for ell in reversed(range(depth)):
            below = g @ W[ell]
            W[ell] += g.T @ (a[ell] / np.float32(sizes[ell]))
            if ell:
                g = below * slope(a[ell])
