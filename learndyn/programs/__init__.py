"""Gaussian programs: a training loop with large Gaussian matrices, run as a network and in its limit.

def perceptron(net, alpha=1.5, rate=0.07, steps=30):
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X = net.matrix(P, D, trained=False)
    teacher, w = net.normal(D, trained=False), net.zeros(D)
    y = np.sign(X @ teacher)
    train = Adam(net, rate, betas=(0.9, 0.99), eps=1e-3)
    for _ in net.steps(steps):
        loss = mean(softplus(-y * (X @ w)))
        net.record(train_loss=loss, overlap=mean(w * teacher))
        train.step(loss)

run(perceptron, {"alpha": 2.0}, Limit(samples=4096)).records["overlap"]
"""

from learndyn.errors import ProgramError
from learndyn.programs.backends import Coordinates, Dense, Lazy, Limit
from learndyn.programs.extrapolation import Extrapolated, extrapolated
from learndyn.programs.functions import (
    concatenate,
    einsum,
    erf,
    fixed,
    gelu,
    inner,
    mean,
    relu,
    sigmoid,
    softmax,
    softplus,
    stack,
    where,
)
from learndyn.programs.net import Net
from learndyn.programs.optimisers import SGD, Adam, Muon, Sign
from learndyn.programs.run import ProgramRun, Replicates, SteppedProgram, replicates, run

__all__ = [
    "SGD",
    "Adam",
    "Coordinates",
    "Dense",
    "Extrapolated",
    "Lazy",
    "Limit",
    "Muon",
    "Net",
    "ProgramError",
    "ProgramRun",
    "Replicates",
    "Sign",
    "SteppedProgram",
    "concatenate",
    "einsum",
    "erf",
    "extrapolated",
    "fixed",
    "gelu",
    "inner",
    "mean",
    "relu",
    "replicates",
    "run",
    "sigmoid",
    "softmax",
    "softplus",
    "stack",
    "where",
]
