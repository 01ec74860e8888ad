"""A convolution along a short sequence: one matrix for each offset, channels are the large dimension."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, mean, stack


def convolution(net: Net, steps: int = 12, rate: float = 0.4) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 4, 2)), np.array([1.0, -1.0, 1.0])  # points × places × channels
    C = net.dim("channels")
    V, w, kernels = net.normal(C, 2), net.normal(C), [net.matrix(C, C) for _ in range(2)]
    train = SGD(net, rate)
    for _ in net.steps(steps):
        a = np.tanh(einsum("pxd,d->px", X / np.sqrt(2), V))
        shifted = [a, stack([a[:, (place + 1) % 4] for place in range(4)], axis=1)]
        h = sum(W @ part for W, part in zip(kernels, shifted, strict=True)) / np.sqrt(2)
        f = mean(w * np.tanh(h)).sum(axis=1) / 4
        loss = ((f - y) ** 2).sum() / 6
        net.record(loss=loss, size=mean(h**2))
        train.step(loss)
