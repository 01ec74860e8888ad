"""Problems of every family with a recipe, and the data with which their programs are called."""

from typing import Any, NamedTuple

import numpy as np

import learndyn as ld
from tests.frameworks.programs import OwnTraining, loaded

MAP, SIZE, STEPS = ld.LinearMap(), 20, 9
POINTS = ld.Points.random(5, 4, test_points=2, outputs=2)
CLASSES = ld.Points(POINTS.inputs, np.eye(2)[[0, 1, 1, 0, 1]], POINTS.test_inputs, np.eye(2))
SIGNS = ld.Points(POINTS.inputs, POINTS.targets[:, 0])
TEACHER = ld.Teacher.random("erf", 2, 40, readout=[1.0, 0.7])
DECAYED = {"momentum": 0.8, "weight_decay": 0.3}
COUPLED = DECAYED | {"momentum_rule": "coupled"}


def _student(**options: Any) -> ld.TwoLayer:
    return ld.TwoLayer.random(3, TEACHER, 0.7, 40, readout_scale=0.8, **options)


def _rule(rate: Any = 0.05, **options: Any) -> ld.GradientDescent:
    return ld.GradientDescent(rate, steps=STEPS, **options)


def _deep(network: dict[str, Any], data: Any, rule: ld.GradientDescent) -> ld.Problem:
    return ld.Problem(ld.DeepLinear(**network), data, rule)


def _wide(network: dict[str, Any], rule: ld.GradientDescent, data: Any = POINTS) -> ld.Problem:
    return ld.Problem(ld.Wide(**network), data, rule)


UNEQUAL = {"depth": 3, "width": [2.0, 1.0, 1.5], "richness": 1.3, "outputs": 2}
DATASET = ld.Dataset(MAP, ratio=1.5, noise=0.3)
STREAM = ld.Stream(MAP, batch_ratio=1.5, noise=0.3)
POWER = ld.LinearMap(ld.PowerLaw(1.5, 0.7, SIZE))
RANDOM = np.random.default_rng(0).uniform(0.2, 1.0, (2, SIZE))
SPECTRUM = ld.LinearMap(ld.Spectrum(RANDOM[0], RANDOM[1]))
TANH = {"depth": 2, "activation": "tanh", "richness": 0.7}

CASES: dict[str, ld.Problem] = {
    "deep linear, dataset": _deep(
        UNEQUAL, DATASET, _rule(ld.PowerDecay(0.05, 0.5, 3.0), **DECAYED)
    ),
    "deep linear, coupled": _deep(UNEQUAL, DATASET, _rule(ld.WarmUp(4, 0.05), **COUPLED)),
    "deep linear, stream": _deep(
        {"depth": 1, "width": 1.5, "centered": True, "parameterization": "ntk"}, STREAM, _rule()
    ),
    "deep linear, power law": _deep(
        {"depth": 2, "width": 30}, ld.Dataset(POWER, examples=30), _rule(weight_decay=0.3)
    ),
    "residual, population": _deep(
        {"depth": 3, "width": 30, "skip": 0.7}, ld.Population(SPECTRUM, noise=0.3), _rule(**DECAYED)
    ),
    "residual, scaled skip": _deep(
        {"depth": 3, "width": 1.0, "skip": ld.ScaledSkip(0.8)}, STREAM, _rule(**COUPLED)
    ),
    "two-layer, online": ld.Problem(
        _student(train_readout=True),
        ld.Stream(TEACHER, noise=0.2, batch=4),
        ld.GradientDescent(
            ld.ExponentialDecay(0.8, 0.2), time=0.5, weight_decay=0.3, readout_learning_rate=0.4
        ),
    ),
    "two-layer, fixed readout": ld.Problem(
        _student(activation="relu"), ld.Stream(TEACHER), ld.GradientDescent(0.5, time=0.5)
    ),
    "two-layer, reused": ld.Problem(
        _student(activation="tanh", train_readout=True),
        ld.Dataset(TEACHER, noise=0.2, ratio=2.0),
        _rule(ld.WarmUp(5, 0.1), **DECAYED, readout_learning_rate=0.05),
    ),
    "two-layer, batches": ld.Problem(
        _student(), ld.Dataset(TEACHER, ratio=2.0, batch_ratio=0.5), _rule(0.05)
    ),
    "wide": _wide(TANH | {"bias": True, "centered": True}, _rule(0.1, **DECAYED)),
    "wide, coupled": _wide(TANH, _rule(ld.Piecewise([4.0], [0.1, 0.05]), **COUPLED)),
    "wide, one layer": _wide({"depth": 1, "activation": "erf"}, _rule(ld.PerStep([0.1, 0.3]))),
    "wide, residual, norm": _wide(
        TANH | {"depth": 3, "skip": 0.6, "normalization": "layer", "bias": True}, _rule(0.1)
    ),
    "wide, widths and scales": _wide(
        TANH | {"widths": [1.0, 0.5], "scales": [1.0, 0.5, 2.0]}, _rule(0.1, loss="sum")
    ),
    "wide, classes": _wide(TANH, _rule(0.3, criterion="cross_entropy"), CLASSES),
    "wide, signs": _wide(TANH, _rule(0.3, criterion="logistic"), SIGNS),
}

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "sigmoid": "sigmoid",
    "softplus": "softplus",
    "silu": "silu",
    "mish": "mish",
    "arctan": "arctan",
    "polynomial": ld.Polynomial([0.1, 1.0, 0.2]),
    "formula": ld.Formula("tanh(z)*exp(-1) + softplus(2*z)/pi - 0.1*z**2"),
}


class Given(NamedTuple):
    """What the program of a case is trained on: the library's own batches, test examples and dataset."""

    own: OwnTraining
    options: dict[str, Any]


def given(problem: ld.Problem) -> Given:
    """The library's network of a problem, and the arguments of `OwnTraining.trained` for its programs."""
    data, network = problem.data, problem.network
    if isinstance(network, ld.Wide):
        own = OwnTraining(problem, 16)
        x, y = np.array(data.inputs), data.targets.reshape(data.trained, -1).copy()
        options: dict[str, Any] = {"batches": [(x, y)] * (STEPS + 1)}
        if data.test_targets is not None:
            options["test"] = (np.array(data.test_inputs), np.array(data.test_targets))
        return Given(own, options)
    if isinstance(network, ld.TwoLayer):
        return _of_teacher(problem)
    examples = None if isinstance(data, ld.Population) else 30
    own = OwnTraining(problem, SIZE, examples)
    with loaded(own.recipe, "optax", "standard") as names:
        test = names["test_examples"](None, own.network.target)
    batches = own.batches or [test] * (STEPS + 1)
    return Given(own, {"test": test, "batches": batches})


def _of_teacher(problem: ld.Problem) -> Given:
    from learndyn.families.two_layer.reused.finite import chosen

    data = problem.data
    test = np.ones((1, SIZE)), np.ones((1, 1))
    if isinstance(data, ld.Stream):
        own = OwnTraining(problem, SIZE, data.batch)
        return Given(own, {"test": test})
    own = OwnTraining(problem, SIZE, 40)
    options: dict[str, Any] = {"test": test, "data": own.batches[0]}
    if data.batch_ratio is not None:
        x, y = own.batches[0]
        picks = [np.flatnonzero(chosen(40, 10, own.seed, t)) for t in range(STEPS + 1)]
        options["batches"] = [(x[pick], y[pick]) for pick in picks]
    return Given(own, options)
