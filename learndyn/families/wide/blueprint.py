"""The finite wide network layer by layer; its update rules are in `Wide`'s docstring.

    h^1 = W^0 x/√D + b^0,  h^{ℓ+1} = W^ℓ φ(h^ℓ)/√N_ℓ + b^ℓ,  f = w φ(h^L)/(γ_0 √(N N_L)),  raw rate γ_0² N η,

with β before the weights and biases of a residual branch.
"""

import math
from typing import Any

import numpy as np

from learndyn.core.blueprint import Blueprint, DataCode, Layer, constants_of, steps_of
from learndyn.errors import ProblemError
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem


def blueprint(problem: Problem, size: int) -> Blueprint:
    """The network of width `size`."""
    network, data, training = problem.network, problem.data, problem.training
    if math.isinf(network.depth):
        allowed = "only finite networks can be trained; take a large depth instead of inf"
        raise ProblemError("network.depth", network.depth, allowed)
    if network.convolution is not None:
        allowed = "recipes are written for fully connected layers; leave the convolution out"
        raise ProblemError("network.convolution", network.convolution, allowed)
    if network.learning_rule != "backprop":
        allowed = "recipes are written for 'backprop', because frameworks differentiate by it"
        raise ProblemError("network.learning_rule", network.learning_rule, allowed)
    steps = steps_of(training)
    widths = [round(nu * size) for nu in network.relative_widths]
    if min(widths) < 1:
        raise ProblemError("size", size, "is too small: a layer would be empty after rounding")
    gamma, sigma = float(network.richness), network.initial_scales
    rule: dict[str, Any] = {
        "rate": gamma**2 * size,
        "decay": float(training.weight_decay),
        "temperature": float(training.noise),
    }
    below = (data.all_inputs().shape[1], *widths[:-1])
    hidden = []
    for ell, (inputs, units) in enumerate(zip(below, widths, strict=True)):
        branch = 1.0 if network.branch is None or ell == 0 else float(network.branch)
        bias = Layer(f"b{ell}", (units,), 1.0, branch, **rule) if network.bias else None
        shape, a = (units, inputs), branch / math.sqrt(inputs)
        hidden.append((Layer(f"W{ell}", shape, float(sigma[ell]), a, **rule), bias))
    a = 1 / (gamma * math.sqrt(size * widths[-1]))
    readout = Layer("w", (data.outputs, widths[-1]), float(sigma[-1]), a, **rule)
    return Blueprint(
        words="A wide network",
        hidden=tuple(hidden),
        readout=readout,
        activation=network.activation,
        steps=steps,
        data=_data(data),
        residual=network.branch is not None,
        normalised=network.normalization == "layer",
        centered=network.centered,
        criterion=training.criterion,
        mean=training.loss == "mean",
    )


def _data(points: Points) -> DataCode:
    """The points themselves."""
    x, P = np.asarray(points.all_inputs(), dtype=float), points.trained
    arrays = {"X": x[:P], "Y": points.targets.reshape(P, -1)}
    tested = points.test_targets is not None
    if tested:
        arrays |= {"X_TEST": x[P:], "Y_TEST": np.reshape(points.test_targets, (len(x) - P, -1))}
    constants, large = constants_of(arrays)
    test = '''

def test_examples(rng, target):
    """The test points."""
    return X_TEST, Y_TEST
'''
    functions = f'''
def draw(rng):
    """Initial weights; there is no target beside the labels of the points."""
    weights = {{name: layer["std"] * rng.standard_normal(layer["shape"]) for name, layer in LAYERS.items()}}
    return weights, None


def batches(rng, target):
    """All points at every step."""
    while True:
        yield X, Y
{test if tested else ""}'''
    return DataCode("on given points", constants, functions, tested=tested, arrays=large)
