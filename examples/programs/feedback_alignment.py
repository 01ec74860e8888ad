"""Feedback alignment: the gradient goes back through B, which starts with overlap ρ to W and is not trained."""

import numpy as np

from learndyn.programs import SGD, Net, einsum, fixed, mean


def feedback_alignment(net: Net, steps: int = 20, overlap: float = 0.5, rate: float = 0.4) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 5)) / np.sqrt(5), np.array([1.0, -1.0, 1.0])
    N = net.dim("neurons")
    V, W, w = net.normal(N, 5), net.matrix(N, N), net.normal(N)
    start, other = W.frozen(), net.matrix(N, N, trained=False, name="feedback")
    train = SGD(net, rate)
    for _ in net.steps(steps):
        a = np.tanh(einsum("pd,d->p", X, V))
        change = a - fixed(a)  # zero, but not its gradient
        back = overlap * (start @ change) + np.sqrt(1 - overlap**2) * (other @ change)
        h = W @ fixed(a) + back
        loss = ((mean(w * np.tanh(h)) - y) ** 2).sum() / 6
        net.record(loss=loss, kernel=mean(np.tanh(h) ** 2))
        train.step(loss)
