"""Muon on the hidden matrix, gradient descent on the vectors.

Networks approach the limit slowly here: ⟨h²⟩ of the first point after 8 steps, .2118(1), is off by −.0126(22),
−.0101(17), −.0021(10), .0000(6), .0000(4) at N = 100, 400, 3200, 12800, 51200. That is how finite networks are, not an
error of the limit, which changes by 2e-5 between drop = 1e-3 and 1e-7. Five Newton–Schulz iterations are a rugged
function of singular values, which rises 480 times as fast as they do below 1/480 of their norm; gradients have singular
values there, and in a network these scatter by 10 % at N = 400. The deviation is of order 1/N only once they scatter
less than the function's wiggles. With one iteration it is −.0082(25) at N = 100, and −.0009(19) at 400. There are no
directions of noise: the gradient of a network has as many singular values as that of the limit.
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
