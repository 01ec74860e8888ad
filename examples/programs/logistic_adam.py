"""Logistic regression on P = αD examples that are used again and again, trained with Adam."""

import numpy as np

from learndyn.programs import Adam, Net, mean, softplus


def logistic_adam(net: Net, alpha: float = 1.5, rate: float = 0.07, steps: int = 20) -> None:
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)
    teacher, w = net.normal(D, trained=False), net.zeros(D)
    y = np.sign(X @ teacher)
    train = Adam(net, rate, betas=(0.9, 0.99), eps=1e-3)
    for _ in net.steps(steps):
        loss = mean(softplus(-y * (X @ w)))
        net.record(train_loss=loss, overlap=mean(w * teacher), norm=mean(w * w))
        train.step(loss)
