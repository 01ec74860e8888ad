"""Wide networks with every option, and a finite network that starts from the weights of a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.families.wide.finite import WideDescent
from learndyn.families.wide.finite_architectures import DescendingArchitecture
from learndyn.families.wide.problem_arrays import wide_setting
from tests import problems

CASES = {
    "plain": {},
    "biases": {"bias": True},
    "gap": {"convolution": ld.Convolution(3, 2)},
    "flat, biases": {"convolution": ld.Convolution(3, 2, "flat"), "bias": True},
    "feedback": {"learning_rule": "feedback_alignment", "feedback_overlap": 0.6},
    "direct feedback": {"learning_rule": "direct_feedback_alignment", "feedback_overlap": 0.6},
    "gates": {"learning_rule": "gated_linear", "activation": "linear"},
    "skips, biases": {"skip": ld.ScaledSkip(1.5), "bias": True},
    "norm": {"normalization": "layer"},
    "widths, scales": {"widths": [0.5, 1.5, 1.0], "scales": [1.5, 0.8, 1.2, 0.7]},
    "widths, flat": {"widths": [1.5, 0.5, 0.25], "convolution": ld.Convolution(3, 2, "flat")},
    "all": {
        "convolution": ld.Convolution(3, 2, "flat"),
        "skip": 0.7,
        "normalization": "layer",
        "learning_rule": "feedback_alignment",
        "feedback_overlap": 0.3,
    },
}
QUICK = ("flat, biases", "feedback", "gates", "widths, scales", "all")
"""Cases that all options are in; compiling each takes a second, and the others are slow tests."""


def marked(quick=QUICK, cases=CASES):
    """The names of cases, those that are not `quick` with the mark of slow tests."""
    return [x if x in quick else pytest.param(x, marks=pytest.mark.slow) for x in cases]


POINTS = ld.Points.random(3, 6, seed=1, outputs=2, test_points=1)


def problem(case, depth=3, richness=1.5, data=POINTS, **properties):
    """A tanh network with an option, two outputs and a test point."""
    options = {"activation": "tanh"} | CASES[case]
    network = ld.Wide(depth, richness=richness, **options)
    return problems.wide(network=network, data=data, **properties)


def trainee(asked, size, seed=0):
    """A network with options, before its training."""
    setting = wide_setting(asked, 1, ld.GradientDescent(1.0, steps=1))
    x = np.ascontiguousarray(asked.data.all_inputs())
    count = len(Record.of(asked.training, None))
    return DescendingArchitecture(asked, setting, x, size, count, seed)


def plain_trainee(asked, size, seed=0):
    """The network of `wide/finite.py`."""
    return WideDescent().ensemble(asked, size, Record.of(asked.training, None)).draw(seed)


def trained(network, asked):
    """The observables of a network at all steps, with the outputs f of all points."""
    network.advance(np.arange(asked.training.steps + 1), lambda state: None)
    arrays = network.arrays()
    parts = [arrays[name] for name in ("prediction", "test_prediction") if name in arrays]
    return arrays | {"f": np.concatenate(parts, axis=1)}


def with_weights_of(network, forward):
    """Let a network start from the weights of a forward pass in a dense program."""
    wide, x = forward.network, network.x
    k = network.net.kernel
    patches = np.concatenate([np.roll(x, -q, axis=1) for q in range(k)], axis=-1)
    rows = patches.reshape(-1, patches.shape[-1]) / np.sqrt(patches.shape[-1])
    h = forward.inputs.reshape(len(rows), -1) @ forward.V.data
    ones = np.ones((len(rows), 1))
    first = np.linalg.lstsq(np.hstack([rows, ones]) if wide.bias else rows, h, rcond=None)[0]
    b = [first[-1], *(link.bias.data for link in forward.links)] if wide.bias else []
    W = [first[: rows.shape[1]].T]
    W += [_side_by_side([m.state for m in link.matrices]) for link in forward.links]
    theta, fixed = {"W": W, "b": b, "w": forward.w.data}, {}
    if wide.learning_rule == "feedback_alignment":
        rho = wide.feedback_overlap
        others = [[B.state for _, B in link.fixed] for link in forward.links]
        pairs = zip(W[1:], (_side_by_side(B) for B in others), strict=True)
        fixed["W"] = [W[0], *(rho * start + np.sqrt(1 - rho**2) * B for start, B in pairs)]
    if wide.learning_rule == "direct_feedback_alignment":
        fixed["W"], fixed["direct"] = W, [w.data for w in forward.direct]
    if fixed:
        fixed["w"] = forward.fixed_w.data
    if wide.learning_rule == "gated_linear":
        signs = [2 * np.asarray(gate.data) - 1 for gate in forward.gates]
        inputs = np.asarray(x).reshape(len(x), -1)
        fixed["gates"] = [np.linalg.lstsq(inputs, sign, rcond=None)[0].T for sign in signs]
    network.theta, network.fixed = jax.tree.map(jnp.array, (theta, fixed))
    return network


def _side_by_side(matrices):
    return np.concatenate([np.sqrt(m.shape[1]) * m for m in matrices], axis=1)
