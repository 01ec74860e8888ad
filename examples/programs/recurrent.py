"""A recurrent network, unrolled for a few times: h(s+1) = W φ(h(s)) + J x, the same W at every time."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, mean


def recurrent(net: Net, steps: int = 12, times: int = 4, rate: float = 0.25) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 4)) / 2, np.array([1.0, -1.0, 1.0])
    N = net.dim("neurons")
    W, J, w = net.matrix(N, N), net.normal(N, 4), net.normal(N)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        h = drive = einsum("pd,d->p", X, J)
        for _ in range(times):
            h = W @ np.tanh(h) + drive
        loss = ((mean(w * np.tanh(h)) - y) ** 2).sum() / 6
        net.record(loss=loss, size=mean(h**2))
        train.step(loss)
