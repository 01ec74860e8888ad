"""A training loop of your own, and its limit of infinite size.

    learndyn run loop.py                    the limit, networks, the verdict and pictures
    learndyn run loop.py --set alpha=3      with another parameter

Here: logistic regression on P = αD examples, which are used again and again, trained with Adam. Large dimensions have
fixed ratios; a matrix of the net has independent entries N(0, 1/columns); `mean` is an average over a dimension. The
page "Write your own limit" says what a program may do.
"""

import numpy as np

from learndyn.programs import Adam, Net, mean, softplus


def loop(net: Net, alpha: float = 1.5, rate: float = 0.07, steps: int = 20) -> None:
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)  # the examples
    teacher, w = net.normal(D, trained=False), net.zeros(D)
    y = np.sign(X @ teacher)
    train = Adam(net, rate, betas=(0.9, 0.99), eps=1e-3)
    for _ in net.steps(steps):
        loss = mean(softplus(-y * (X @ w)))
        net.record(train_loss=loss, overlap=mean(w * teacher), norm=mean(w * w))
        train.step(loss)
