"""Small programs that tests run in several back ends."""

import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np

from learndyn.programs import SGD, Adam, Net, Sign, einsum, gelu, inner, mean, relu, sigmoid

FOLDER = Path(__file__).parents[2] / "examples" / "programs"
EXAMPLES: dict[str, Callable] = {
    path.stem: runpy.run_path(str(path))[path.stem] for path in sorted(FOLDER.glob("*.py"))
}

X = np.array([[1.0, 0.3], [-0.4, 1.2], [0.8, -0.9]])
y = np.array([1.0, -1.0, 0.5])


def tied(net: Net, rule: str = "sgd", steps: int = 6, ratio: float = 0.6) -> None:
    """A rectangular autoencoder with tied weights, W^⊤ used forward."""
    D, K = net.dim("visible"), net.dim("hidden", ratio)
    W, data, bias = net.matrix(K, D), net.normal(D, 3, trained=False), net.zeros(K)
    train = {
        "sgd": lambda: SGD(net, 0.3, momentum=0.5, decay=0.05),
        "schedule": lambda: SGD(net, lambda t: 0.4 / (1 + t), momentum=0.5, decay=0.1),
        "adam": lambda: Adam(net, 0.1, betas=(0.8, 0.9), eps=0.05, decay=0.1),
        "sign": lambda: Sign(net, 0.05),
        "langevin": lambda: SGD(net, 0.2, momentum=0.2, decay=0.1, temperature=0.05),
    }[rule]()
    for _ in net.steps(steps):
        h = np.tanh(W @ data + bias)
        rest = W.T @ h - data
        loss = mean(rest**2).sum() / 6
        net.record(loss=loss, size=mean(h**2), bias=mean(bias), mixed=inner(rest, data))
        train.step(loss)


def layered(net: Net, steps: int = 5) -> None:
    """Three rectangular layers, layer norm, relu and gelu, a trained scalar, a mini-batch of entries."""
    N, K, M = net.dim("first"), net.dim("second", 1.7), net.dim("third", 0.5)
    V, A, B, w = net.normal(N, 2), net.matrix(K, N), net.matrix(M, K), net.normal(M)
    gain, keep = net.parameter(1.3), net.mask(K, 0.7)
    train = SGD(net, 0.2, momentum=0.4)
    for _ in net.steps(steps):
        h = A @ gelu(einsum("pd,d->p", X, V))
        centred = h - mean(h)
        a = keep * relu(centred / np.sqrt(mean(centred**2) + 0.1))
        f = gain * mean(w * sigmoid(B @ a))
        loss = ((f - y) ** 2).sum() / 2
        net.record(loss=loss, gain=gain, f=f)
        train.step(loss)


def late(net: Net, steps: int = 5) -> None:
    """A matrix that is trained on constant inputs, and whose transposed is used later only."""
    D, K = net.dim("inputs"), net.dim("hidden", 1.4)
    W, data, target = (
        net.matrix(K, D),
        net.normal(D, 2, trained=False),
        net.normal(K, 2, trained=False),
    )
    train = SGD(net, 0.4)
    for state in net.steps(steps):
        loss = mean((np.tanh(W @ data) - target) ** 2).sum() / 4
        net.record(loss=loss)
        if state > 2:
            back = W.T @ target
            loss = loss + mean((back - data) ** 2).sum() / 8
            net.record(back=mean(back * data), size=mean(back**2))
        train.step(loss)


def reused(net: Net, steps: int = 6, fraction: float = 0.4) -> None:
    """Two tanh neurons learn one from P = 2D examples, a random part of them at each step."""
    D, P = net.dim("inputs"), net.dim("examples", 2.0)
    data, target, w = (
        net.matrix(P, D, trained=False),
        net.normal(D, trained=False),
        net.normal(D, 2),
    )
    labels, v = np.tanh(data @ target), net.parameter([1.0, 0.5])
    train = SGD(net, 0.5)
    for _ in net.steps(steps):
        error = einsum("k,k->", v, np.tanh(data @ w)) - labels
        net.record(loss=mean(error**2), overlap=mean(w * target), v=v)
        train.step(mean(net.mask(P, fraction) * error**2) / 2)


def mixture(net: Net, steps: int = 5) -> None:
    """Two clusters with variances that differ from input to input, a fresh batch at every step."""
    D = net.dim("inputs")
    center, spread = net.normal(D, trained=False), 0.5 + net.uniform(D)
    w = net.zeros(D)
    train = SGD(net, 0.4)
    for _ in net.steps(steps):
        P = net.dim("batch", 1.5)
        label = np.sign(net.normal(P, trained=False))
        field = label * mean(center * w) + net.matrix(P, D, trained=False) @ (np.sqrt(spread) * w)
        loss = mean(np.log(1 + np.exp(-label * field)))
        net.record(loss=loss, overlap=mean(w * center), norm=mean(w * w))
        train.step(loss)


CASES: dict[str, tuple[Callable, dict]] = {
    **{name: (program, {"steps": 5}) for name, program in EXAMPLES.items()},
    **{
        f"tied-{rule}": (tied, {"rule": rule})
        for rule in ("sgd", "schedule", "adam", "sign", "langevin")
    },
    "tied-wide": (tied, {"ratio": 1.8}),
    "layered": (layered, {}),
    "late": (late, {}),
    "reused": (reused, {}),
    "mixture": (mixture, {}),
}
