"""Programs for tests: loops and forward passes that run in a moment."""

import numpy as np

from learndyn.programs import SGD, einsum, mean


def regression(net, alpha=2.0, rate=0.3, steps=4):
    """Linear regression on P = αD examples: exact without samples."""
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)
    teacher, w = net.normal(D, trained=False), net.zeros(D)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        v = w - teacher
        loss = mean((X @ v) ** 2)
        net.record(train_loss=loss, test_loss=mean(v**2))
        train.step(loss / 2)


def perceptron(net, alpha=2.0, rate=0.5, steps=4):
    """A tanh neuron learns another one from P = αD examples."""
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)
    teacher, w = net.normal(D, trained=False), net.normal(D)
    y = np.tanh(X @ teacher)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        loss = mean((np.tanh(X @ w) - y) ** 2)
        net.record(train_loss=loss, overlaps=mean(np.array([1.0, 2.0]) * w * teacher))
        train.step(loss / 2)


def mlp(net, inputs, outputs=1, depth=2, activation="linear"):
    """A multilayer network in the scaling of `ld.Wide`."""
    phi = {"linear": lambda h: h, "tanh": np.tanh}[activation]
    N = net.dim("neurons")
    first, w = net.normal(N, inputs), net.normal(N, outputs)
    layers = [net.matrix(N, N) for _ in range(depth - 1)]

    def forward(x):
        h = einsum("pd,d->p", x / np.sqrt(inputs), first)
        for W in layers:
            h = W @ phi(h)
        return mean(phi(h)[:, None] * w)

    return forward
