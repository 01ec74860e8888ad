"""A residual network with layer norm: h ← h + β/√L · W φ((h − ⟨h⟩)/√⟨(h − ⟨h⟩)²⟩) in each of L blocks."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, mean


def normalised(h):
    centred = h - mean(h)
    return centred / np.sqrt(mean(centred**2) + 1e-5)


def residual(net: Net, steps: int = 12, depth: int = 4, beta: float = 1.0) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 5)) / np.sqrt(5), np.array([1.0, -1.0, 1.0])
    N = net.dim("neurons")
    V, w = net.normal(N, 5), net.normal(N)
    blocks = [net.matrix(N, N) for _ in range(depth)]
    train = SGD(net, 0.3)
    for _ in net.steps(steps):
        h = einsum("pd,d->p", X, V)
        for W in blocks:
            h = h + beta / np.sqrt(depth) * (W @ np.tanh(normalised(h)))
        loss = ((mean(w * np.tanh(h)) - y) ** 2).sum() / 6
        net.record(loss=loss, size=mean(h**2))
        train.step(loss)
