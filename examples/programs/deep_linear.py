"""A deep linear network of L hidden layers on P = αD examples: `ld.DeepLinear` on a `ld.Dataset`, as a program."""

from learndyn.programs import SGD, Net, mean


def deep_linear(
    net: Net,
    depth: int = 2,
    width: float = 0.8,
    alpha: float = 1.5,
    richness: float = 0.7,
    noise: float = 0.5,
    rate: float = 0.05,
    steps: int = 30,
    momentum: float = 0.0,
    decay: float = 0.0,
) -> None:
    D, N, P = net.dim("inputs"), net.dim("hidden", width), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)
    target, epsilon = net.normal(D, trained=False), net.normal(P, trained=False)
    first, w = net.matrix(N, D), net.normal(N)
    layers = [net.matrix(N, N) for _ in range(depth - 1)]
    train = SGD(net, rate * richness**2, momentum, decay / richness**2)
    for _ in net.steps(steps):
        g = w
        for W in reversed(layers):
            g = W.T @ g
        v = target - (first.T @ g) / (width * richness)
        train_loss = mean((X @ v + noise * epsilon) ** 2)
        net.record(train_loss=train_loss, test_loss=mean(v * v) + noise**2)
        train.step(train_loss / 2)
