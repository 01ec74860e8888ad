"""Attention with many heads: heads are the dimension, keys and queries a small axis, values go through a matrix."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, mean, softmax


def attention(net: Net, steps: int = 12, keys: int = 2, rate: float = 0.4) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 4, 5)) / np.sqrt(5), np.array([1.0, -1.0, 1.0])
    H, N = net.dim("heads"), net.dim("neurons", 2.0)
    Q, K, V = net.normal(H, 5, keys), net.normal(H, 5, keys), net.normal(H, 5)
    W, w = net.matrix(N, H), net.normal(N)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        q, k = einsum("psd,da->psa", X, Q), einsum("psd,da->psa", X, K)
        scores = softmax(einsum("psa,pta->pst", q, k) / np.sqrt(keys))
        heads = einsum("pst,pt->ps", scores, einsum("ptd,d->pt", X, V))
        f = mean(w * np.tanh(W @ heads)).sum(axis=1) / 4
        loss = ((f - y) ** 2).sum() / 6
        net.record(loss=loss, scores=mean(scores**2))
        train.step(loss)
