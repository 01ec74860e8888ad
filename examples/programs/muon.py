"""Muon on the hidden matrix, gradient descent on the vectors.

Networks approach the limit slowly here: ⟨h²⟩ of the first point after 8 steps is off by −.0083(16), −.0042(6),
−.0011(4) at N = 400, 1600, 12800. Perhaps because Newton–Schulz iterations are a rugged function of singular values;
this was not tested.
"""

import numpy as np

from learndyn.programs import SGD, Muon, Net, einsum, mean


def muon(net: Net, steps: int = 10, rate: float = 0.1) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 5)) / np.sqrt(5), np.array([1.0, -1.0, 1.0])
    N, K = net.dim("first"), net.dim("second", 0.5)
    V, W, w = net.normal(N, 5), net.matrix(K, N), net.normal(K)
    matrices, vectors = Muon(net, rate, momentum=0.5), SGD(net, 0.3, parameters=[V, w])
    for _ in net.steps(steps):
        h = W @ np.tanh(einsum("pd,d->p", X, V))
        loss = ((mean(w * np.tanh(h)) - y) ** 2).sum() / 6
        net.record(loss=loss, size=mean(h**2))
        matrices.step(loss)
        vectors.step(loss)
