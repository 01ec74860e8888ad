"""Small quick problems for tests, built by property: a test names what matters to it, and nothing else.

There is one builder for each network. All keywords are properties; what is not asked for has a small default. A part
may be given ready instead, as `network`, `data` or `training`; its properties are then refused, like unknown ones.

`supply` is "stream", "dataset" or "population", and the data's other properties are called like the fields of these
supplies; a linear map may have a `spectrum`, and the properties of a teacher flow begin with `teacher_`, but for
`observations` and `chained`. Training has a `rate`, `steps` or a `time`, `momentum`, `weight_decay`, a `readout_rate`,
a `loss`, a `criterion`, a `momentum_rule` and the `temperature` of Langevin noise; `noise` alone is that of the labels.
"""

import dataclasses

import numpy as np

import learndyn as ld

PAPER = [[0, 0], [0, 0.8], [0.4, 0]]
"""G = 0.8 q m + 0.4 q², the field of the paper on neural ODEs."""
ALL_TERMS = [[0.0, 0.2, 0.0], [0.0, 0.8, 0.3], [0.4, 0.5, 0.0]]
"""A field with a part without state, and q m, q m², q² and q² m."""
TWO_STATES = [[[0.0, 0.2], [0.0, 0.8], [0.4, 0.0]], [[0.0, 0.5], [0.6, 0.3], [0.0, 0.0]]]
"""m, q m, q²; and, with the second state, s m, s q and s q m."""
NO_FIELD = [[0, 0], [0, 1e-40]]
"""A field so weak that it changes nothing."""
MU = ld.Polynomial([0.3, 0.5, 0.2])
"""A confinement in which all terms count."""
PLANE = ld.Points(inputs=[[1.4, 0.3], [-0.4, 1.2]], targets=[1.0, -1.0])
"""Two points of two dimensions."""
QUADRATIC = ld.Polynomial([0, 0, 0.5])
"""An even activation, z²/2."""

SOURCES = {
    "stream": (
        ld.Stream,
        ("batch", "batch_ratio", "noise"),
    ),
    "dataset": (
        ld.Dataset,
        ("ratio", "examples", "batch", "batch_ratio", "noise"),
    ),
    "population": (ld.Population, ("noise",)),
}
AMOUNTS = {"batch", "batch_ratio", "ratio", "examples"}
RULE = {
    "steps": "steps",
    "time": "time",
    "momentum": "momentum",
    "weight_decay": "weight_decay",
    "temperature": "noise",
    "readout_rate": "readout_learning_rate",
    "loss": "loss",
    "criterion": "criterion",
    "momentum_rule": "momentum_rule",
}
RULE_OF_FLOWS = {
    "epochs": "steps",
    "weight_decay": "weight_decay",
    "amplitude_rate": "readout_learning_rate",
}
FLOW = (
    "confinement",
    "noise",
    "adjoint",
    "initial_overlap",
    "initial_norm",
    "adjoint_noise",
    "amplitudes",
    "own_fields",
    "train_amplitudes",
    "windows",
    "delay",
    "driven",
    "driver_loss",
)
TEACHER_FLOW = {
    "teacher_time": "time",
    "teacher_noise": "noise",
    "teacher_amplitudes": "amplitudes",
    "teacher_windows": "windows",
    "teacher_overlaps": "overlaps",
    "observations": "observations",
    "chained": "chained",
}


def two_layer(*, network=None, teacher=None, data=None, training=None, **properties):
    """A student of a few `units` that learns a teacher of as many (or of `teacher_units`): two of erf, on a stream.

    The student starts from the overlaps `Q` and `R`, or from weights of deviation `scale` drawn with a `seed`. The
    teacher has the student's activation unless there is a `teacher_activation`; its weights are orthonormal, or have
    the overlaps `T`, or are drawn with a `teacher_seed`. Weights are drawn in `size` dimensions.
    """
    drawn = {"seed", "teacher_seed"} & properties.keys()
    size = properties.pop("size", 200) if drawn else None
    if network is None:
        activation, R = properties.pop("activation", "erf"), properties.get("R")
    else:
        activation, R = network.activation, network.R
    if teacher is not None and data is not None:
        raise TypeError("ready data have a teacher of their own")
    if teacher is None and data is not None:
        teacher = data.task
    elif teacher is None:
        units = properties.get("units", 2) if R is None else np.shape(R)[1]
        teacher = _teacher(properties, activation, units, size)
    if network is None:
        network = _student(properties, activation, teacher, size)
    if data is None:
        data = _data(properties, "stream", teacher, {"dataset": {"ratio": 2.0}})
    if training is None:
        length = {"steps": 5} if isinstance(data, ld.Dataset) else {"time": 10.0}
        training = _training(properties, RULE, 0.5, length)
    return _problem(network, data, training, properties)


def late_learning(*, alpha=0.5, eps=0.3, overlap=0.3, **properties):
    """Two units φ(z) = z + ε/2 z², read out with α/2, that learn a quadratic unit late (grokking), from a dataset.

    They start with an opposite `overlap`. The rate is 2/α by default, for which time is that of the paper.
    """
    opposite = {"Q": np.eye(2), "R": [[overlap], [-overlap]], "readout": [alpha / 2] * 2}
    student, rate = ld.Polynomial([0, 1, eps / 2]), properties.pop("rate", 2 / alpha)
    return two_layer(
        activation=student,
        teacher_activation=QUADRATIC,
        supply="dataset",
        rate=rate,
        **opposite,
        **properties,
    )


def uneven(**properties):
    """Two units that learn two correlated ones from a dataset with noise, by decaying weights: no two numbers alike."""
    usual = {
        "Q": [[1.0, 0.2], [0.2, 0.8]],
        "R": [[0.3, 0.1], [-0.2, 0.4]],
        "readout": [0.9, -0.6],
        "teacher_activation": "erf",
        "T": [[1.0, 0.3], [0.3, 0.7]],
        "teacher_readout": [1.0, 0.5],
        "supply": "dataset",
        "ratio": 1.3,
        "noise": 0.3,
        "weight_decay": 0.2,
    }
    return two_layer(**usual | properties)


def deep_linear(*, network=None, data=None, training=None, **properties):
    """A linear network of two layers, by default on a dataset with 1.5 examples per dimension.

    `width_ratio` stands for the width per dimension of the inputs, also where they have a spectrum.
    """
    if data is None:
        amounts = {"dataset": {"ratio": 1.5}, "stream": {"batch_ratio": 1.0}}
        task = ld.LinearMap(properties.pop("spectrum", None))
        data = _data(properties, "dataset", task, amounts)
    if network is None:
        if "width_ratio" in properties and "width" not in properties:
            modes = data.task.spectrum.arrays()[0].size if data.task.spectrum else 1
            properties["width"] = np.asarray(properties.pop("width_ratio")) * modes
        layers = _taken(properties, depth=2, width=0.8, richness=0.7, outputs=1, centered=False)
        network = ld.DeepLinear(**layers, **_given(properties, ("parameterization", "skip")))
    if training is None:
        training = _training(properties, RULE, 0.05, {"steps": 6})
    return _problem(network, data, training, properties)


def wide(*, network=None, data=None, training=None, **properties):
    """A wide tanh network of two layers on a few random points (see `points`)."""
    if network is None:
        layers = _taken(
            properties, depth=2, activation="tanh", richness=1.0, bias=False, centered=False
        )
        network = ld.Wide(**layers)
    if data is None:
        classes = properties.get("criterion") == "cross_entropy"
        names = ("count", "dimension", "seed", "outputs", "test_points")
        data = points(classes=classes, **_given(properties, names))
    if training is None:
        training = _training(properties, RULE, 0.3, {"steps": 6})
    return _problem(network, data, training, properties)


def points(count=4, dimension=6, seed=1, outputs=1, test_points=0, classes=False):
    """Random points with targets ±1; with `classes`, targets that are probabilities of the outputs."""
    made = ld.Points.random(count, dimension, seed, outputs, test_points)
    if not classes:
        return made
    y = np.random.default_rng(4).dirichlet(np.ones(outputs), count)
    return ld.Points(made.inputs, y, made.test_inputs)


def neural_ode(*, network=None, data=None, training=None, **properties):
    """A neural ODE in the field of the paper, by default with one fresh trajectory at every step.

    `time` and `steps` are those of the flow, `epochs` the steps of training. `noise` is that of the student's flow. The
    properties of the teacher's flow also change ready data.
    """
    if network is None:
        flow = _taken(properties, field=PAPER, control_ratio=0.75, time=1.0, steps=6)
        network = ld.NeuralODE(**flow, **_given(properties, FLOW))
    flow = {TEACHER_FLOW[name]: x for name, x in _given(properties, TEACHER_FLOW).items()}
    if data is None:
        data = _data(properties, "stream", ld.TeacherFlow(**flow), {"dataset": {"examples": 2}})
    elif flow:
        data = dataclasses.replace(data, task=dataclasses.replace(data.task, **flow))
    if training is None:
        training = _training(properties, RULE_OF_FLOWS, 0.5, {"epochs": 4})
    return _problem(network, data, training, properties)


def _problem(network, data, training, left) -> ld.Problem:
    if left:
        raise TypeError(f"no such properties, or their part is given ready: {', '.join(left)}")
    return ld.Problem(network, data, training)


def _taken(properties: dict, **defaults) -> dict:
    """These properties, or their defaults; they are removed from `properties`."""
    return {name: properties.pop(name, default) for name, default in defaults.items()}


def _given(properties: dict, names) -> dict:
    """Those of these properties that are asked for; they are removed from `properties`."""
    return {name: properties.pop(name) for name in names if name in properties}


def _data(properties: dict, supply: str, task, amounts: dict):
    """The supply of a task that is asked for, of `amounts` if nothing is said of how many."""
    supply = properties.pop("supply", supply)
    source, names = SOURCES[supply]
    given = _given(properties, names)
    usual = {} if AMOUNTS & given.keys() else amounts.get(supply, {})
    return source(task, **usual, **given)


def _training(properties: dict, rule: dict, rate, length: dict):
    """Gradient descent; `length` counts only if no other is asked for."""
    if not {"steps", "time", "epochs"} & properties.keys() & rule.keys():
        properties |= length
    given = {rule[name]: value for name, value in _given(properties, rule).items()}
    return ld.GradientDescent(properties.pop("rate", rate), **given)


def _teacher(properties: dict, activation, units: int, size) -> ld.Teacher:
    activation = properties.pop("teacher_activation", activation)
    units = properties.pop("teacher_units", units)
    readout = properties.pop("teacher_readout", None)
    if "T" in properties:
        return ld.Teacher(activation, properties.pop("T"), readout)
    if "teacher_seed" in properties:
        seed = properties.pop("teacher_seed")
        return ld.Teacher.random(activation, units, size, seed, readout)
    return ld.Teacher.orthonormal(activation, units, readout)


def _student(properties: dict, activation, teacher: ld.Teacher, size) -> ld.TwoLayer:
    options = _given(properties, ("readout", "train_readout"))
    if "seed" in properties:
        options |= _given(properties, ("seed", "readout_scale"))
        drawn = _taken(properties, units=2, scale=0.5)
        return ld.TwoLayer.random(
            drawn["units"], teacher, drawn["scale"], size, activation=activation, **options
        )
    Q, R = properties.pop("Q", None), properties.pop("R", None)
    if R is None:
        R = np.full((properties.pop("units", 2), teacher.hidden), 0.01)
    if Q is None:
        Q = 0.5 * np.eye(len(R))
    return ld.TwoLayer(activation, Q, R, **options)
