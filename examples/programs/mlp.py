"""Two hidden layers on a few points: f = ⟨w φ(W φ(V x/√D))⟩/γ_0, rate η γ_0² for every parameter."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, mean


def mlp(net: Net, steps: int = 20, rate: float = 0.4, richness: float = 1.5) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 6)) / np.sqrt(6), np.array([1.0, -1.0, 1.0, -1.0])
    N = net.dim("neurons")
    V, W, w = net.normal(N, 6), net.matrix(N, N), net.normal(N)
    train = SGD(net, rate * richness**2, momentum=0.3, decay=0.01)
    for _ in net.steps(steps):
        h1 = einsum("pd,d->p", X, V)
        h2 = W @ np.tanh(h1)
        f = mean(w * np.tanh(h2)) / richness
        loss = ((f - y) ** 2).sum() / (2 * len(y))
        net.record(loss=loss, kernel=mean(np.tanh(h2) ** 2))
        train.step(loss)
