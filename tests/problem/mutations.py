"""Problem files that are wrong in random ways: the templates and some richer files, each with one to three changes.

`mutated(number)` is the parsed content of a file, the same on every machine for the same number. `mutated_text(number)`
is the text of a file whose characters were changed, so that it may not even be TOML.
"""

import copy
import datetime
import functools
import math
import random
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

from learndyn.core.theory import theories

STUDENT = {"kind": "two_layer", "activation": "erf", "Q": [[0.3, 0.1], [0.1, 0.4]]} | {
    "R": [[0.1, 0.0], [0.05, 0.2]],
    "readout": [1.0, -0.5],
    "train_readout": True,
}
DRAWN_STUDENT = {"kind": "two_layer.random", "hidden": 3, "scale": 0.5, "size": 50, "seed": 2}
TEACHERS: tuple[dict[str, Any], ...] = (
    {"kind": "teacher", "activation": "relu", "T": [[1.0, 0.1], [0.1, 0.9]], "readout": [1, 2]},
    {"kind": "teacher.orthonormal", "activation": {"kind": "tanh"}, "hidden": 2},
    {"kind": "teacher.random", "activation": "gelu", "hidden": 2, "size": 30, "seed": 4},
)
ACTIVATIONS: tuple[Any, ...] = (
    {"kind": "polynomial", "coefficients": [0.0, 1.0, 0.2]},
    {"kind": "formula", "formula": "tanh(z) + 0.1*z**2"},
    {"kind": "named", "name": "silu"},
    {"kind": "custom", "name": "mine"},
    {"kind": "erf"},
    "sin",
)
SPECTRA: tuple[dict[str, Any], ...] = (
    {"kind": "power_law", "capacity": 1.5, "source": 0.8, "modes": 20},
    {"kind": "spectrum", "eigenvalues": [1.0, 0.5, 0.25], "coefficients": [1.0, 2.0, 0.5]},
    {"kind": "spectrum", "eigenvalues": [1.0, 0.5], "coefficients": [[1.0, 2.0], [0.3, 0.1]]},
)
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"kind": "constant", "value": 0.2},
    {"kind": "exponential_decay", "initial": 0.2, "rate": 0.1},
    {"kind": "power_decay", "initial": 0.2, "exponent": 0.5, "timescale": 2.0},
    {"kind": "warm_up", "duration": 2.0, "then": {"kind": "constant", "value": 0.2}},
    {"kind": "warm_up", "duration": 2.0, "then": 0.2},
    {"kind": "piecewise", "times": [1.0, 2.0], "values": [0.3, 0.2, 0.1]},
    {"kind": "per_step", "values": [0.3, 0.2, 0.1]},
)
POINTS: tuple[dict[str, Any], ...] = (
    {"kind": "points", "inputs": [[0.1, 1.2], [-0.3, 0.4]], "targets": [1.0, -1.0]}
    | {"test_inputs": [[0.5, 0.5]], "test_targets": [1.0]},
    {"kind": "points", "gram": [[1.0, 0.2], [0.2, 1.0]], "targets": [[1.0, 0.0], [0.0, 1.0]]},
    {"kind": "points.random", "points": 3, "dimension": 4, "seed": 1, "outputs": 2}
    | {"test_points": 1},
)
FLOWS: tuple[dict[str, Any], ...] = (
    {"kind": "teacher_flow", "time": 0.5, "noise": 0.05, "chained": True}
    | {"observations": {"times": [0.25, 0.5], "visible": 0.5, "mask": "trajectory", "weight": 2.0}},
    {"kind": "teacher_flow", "amplitudes": [1.0, 0.5], "overlaps": [[1.0, 0.1], [0.1, 1.0]]}
    | {"observations": {"times": [[0.5], [0.25, 0.5]]}},
    {"kind": "teacher_flow", "windows": 2},
)
FIELDS: tuple[Any, ...] = (
    {"kind": "polynomial_field", "coefficients": [[0.0, 0.0], [0.0, 0.8], [0.4, 0.0]]},
    {"kind": "formula_field", "formula": "0.8*q*m + 0.4*q**2"},
    {"kind": "custom_field", "name": "mine"},
    [[0.0, 0.1], [0.0, 0.8]],
    "q*m + 0.1*m",
)
FLOW = {"kind": "neural_ode", "control_ratio": 1.5, "time": 0.5, "steps": 2}
TWO_STATES = [[[0.0, 0.0], [0.0, 0.8]], [[0.0, 0.0], [0.4, 0.0]]]
TIMED = {"kind": "gradient_descent", "learning_rate": 0.2, "time": 1.0}
STEPPED = {"kind": "gradient_descent", "learning_rate": 0.05, "steps": 3}


def _richer() -> Iterator[dict[str, Any]]:
    """Valid files with every kind of part that a file can name."""
    for supply in ({"kind": "stream", "batch": 2, "noise": 0.1}, {"kind": "population"}):
        for teacher in TEACHERS:
            data = supply | {"task": teacher}
            yield {"network": STUDENT, "data": data, "training": TIMED}
            yield {"network": DRAWN_STUDENT, "data": data, "training": TIMED}
    for activation in ACTIVATIONS:
        student = STUDENT | {"activation": activation}
        data = {"kind": "stream", "task": TEACHERS[0]}
        yield {"network": student, "data": data, "training": TIMED}
    for schedule in SCHEDULES:
        training = TIMED | {"learning_rate": schedule, "readout_learning_rate": schedule}
        data = {"kind": "stream", "task": TEACHERS[0]}
        yield {"network": STUDENT, "data": data, "training": training}
        linear = {"kind": "deep_linear", "depth": 2, "width": [0.8, 0.5], "richness": 0.7}
        data = {"kind": "dataset", "ratio": 1.2, "noise": 0.3, "task": {"kind": "linear_map"}}
        training = STEPPED | {"learning_rate": schedule, "momentum": 0.5, "weight_decay": 0.01}
        yield {"network": linear, "data": data, "training": training}
    data = {"kind": "dataset", "ratio": 2.0, "noise": 0.1, "task": TEACHERS[1]}
    fixed = {"kind": "two_layer", "activation": "erf", "Q": [[0.3]], "R": [[0.1, 0.0]]}
    for training in (TIMED, STEPPED):
        yield {"network": fixed, "data": data, "training": training | {"weight_decay": 0.1}}
    for spectrum in SPECTRA:
        outputs = 2 if isinstance(spectrum.get("coefficients", [0])[0], list) else 1
        for supply in ({"kind": "stream", "batch": 3}, {"kind": "dataset", "examples": 5}):
            data = supply | {"noise": 0.1, "task": {"kind": "linear_map", "spectrum": spectrum}}
            linear = {"kind": "deep_linear", "depth": 1, "width": 4, "outputs": outputs}
            yield {"network": linear, "data": data, "training": STEPPED}
    skips = (0.5, {"kind": "scaled_skip", "beta0": 1.0}, {"beta0": 0.5})
    for skip, depth in ((skips[0], 3), (skips[1], math.inf), (skips[2], 2)):
        linear = {"kind": "deep_linear", "depth": depth, "width": math.inf, "skip": skip}
        data = {"kind": "population", "task": {"kind": "linear_map"}}
        yield {"network": linear | {"centered": True}, "data": data, "training": STEPPED}
    for points in POINTS:
        for criterion in ("squared", "logistic", "cross_entropy"):
            wide = {"kind": "wide", "depth": 1, "activation": "tanh", "bias": True}
            training = STEPPED | {"criterion": criterion, "noise": 0.01, "loss": "sum"}
            yield {"network": wide, "data": points, "training": training}
    for field in FIELDS:
        for task in FLOWS:
            for supply in ({"kind": "stream", "batch": 2}, {"kind": "dataset", "examples": 2}):
                flow = FLOW | {"field": field, "initial_norm": 0.9, "initial_overlap": 0.1}
                flow |= {"windows": task.get("windows", 1)}
                yield {"network": flow, "data": supply | {"task": task}, "training": STEPPED}
    data = {"kind": "stream", "task": {"kind": "teacher_flow"}}
    delayed = FLOW | {"field": TWO_STATES, "delay": 0.25, "confinement": ACTIVATIONS[1]}
    yield {"network": delayed, "data": data, "training": STEPPED}
    driven = FLOW | {"field": FIELDS[0], "driven": TWO_STATES, "driver_loss": 0.5, "noise": 0.1}
    yield {"network": driven, "data": data, "training": STEPPED}
    units = FLOW | {"field": FIELDS[0], "amplitudes": [1.0, 0.5], "train_amplitudes": True}
    units |= {"own_fields": False, "confinement": 0.5, "adjoint": "truncated"}
    data = {"kind": "stream", "task": {"kind": "teacher_flow", "amplitudes": [1.0, 2.0]}}
    yield {"network": units, "data": data, "training": STEPPED | {"readout_learning_rate": 0.1}}


def templates() -> list[str]:
    """The problem files among the templates; those of programs are Python."""
    files = [theory.template for theory in theories() if theory.template.suffix == ".toml"]
    return [file.read_text(encoding="utf-8") for file in files]


@functools.cache
def originals() -> tuple[dict[str, Any], ...]:
    """The files before they are changed: the templates of all theories, and richer ones."""
    return (*map(tomllib.loads, templates()), *_richer())


def _nested(depth: int, leaf: Any = 1.0) -> list:
    """A list in a list in a list …"""
    value = [leaf]
    for _ in range(depth - 1):
        value = [value]
    return value


ODD_TEXTS = (
    *("", " ", "\0", "é\u202e\ud83d\ude00", "a" * 10_000, "%s{}\\n", "../../etc/passwd", "nan"),
    *("1e12", "__class__", "random", "points.", ".random", "two_layer.from_weights", "z", "q*m"),
    *("z**-1", "9**9**9", "(" * 300, "exp(exp(z))", "1/(q*m)", "z.__class__", "log(z)", "z*1e308"),
)
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 100, 10**4, 10**6, 10**9, 10**12, 10**15, 2**31, 2**53 + 1, 2**63 - 1),
    *(2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400), 1 << 20_000),
    *(0.0, -0.0, 0.1, 0.5, 1.0, 1.5, -0.5, 10.0, 100.0, 1e6, 1e12, 1e18, 1e100, 1e300, 1.7e308),
    *(-1e300, 1e-12, 1e-100, 1e-300, 5e-324, math.inf, -math.inf, math.nan),
)
DATES = (
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    datetime.date(2026, 1, 1),
    datetime.time(12, 0),
)
LISTS: tuple[Any, ...] = (
    *(
        [],
        [[]],
        [[], []],
        [1.0],
        [1, 2, 3],
        [[1.0]],
        [[1.0, 2.0], [3.0]],
        [[1.0], 2.0],
        [1.0, [2.0]],
    ),
    *(
        [[[1.0]]],
        [[[1.0], [2.0]], [[3.0]]],
        [[1.0, 0.0], [0.0, 1.0]],
        ["a"],
        ["1.0", "2.0"],
        [True],
    ),
    *(
        [math.nan],
        [math.inf, 1.0],
        [-1.0, 0.0],
        [10**400],
        [10**30, 1],
        [1e308, 1e308],
        [{}],
        [[{}]],
    ),
    *([DATES[1]], [1.0, "a"], [0.0], [[0.0]], [1e-320], [[1e300]], [0.5] * 300, [[0.1] * 40] * 40),
    *(_nested(5), _nested(40), _nested(300), [[], [1.0]], [1.0, True], [[1.0, "a"]], [None]),
)
TABLES: tuple[Any, ...] = (
    *(
        {},
        {"kind": "x"},
        {"kind": 3},
        {"kind": []},
        {"kind": "erf"},
        {"kind": ""},
        {"": {}},
        {"kind": {}},
    ),
)
WORDS = (
    "kind",
    "Kind",
    "seed",
    "random",
    "teacher",
    "self",
    "cls",
    "__init__",
    "",
    "é\u202e",
    "a.b",
)


def _places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all values within tables and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _places(item, (*path, key))


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def _tables(value: Any) -> list[tuple]:
    """The paths of all tables, that of the whole file included."""
    paths = (path for path in _places(value) if isinstance(_at(value, path), dict))
    return [(), *paths]


def _other_value(chance: random.Random, before: Any) -> Any:
    """A value to put in the place of another: mostly a number in the place of a number."""
    if isinstance(before, int | float) and not isinstance(before, bool) and chance.random() < 0.7:
        return chance.choice(NUMBERS)
    if isinstance(before, list) and chance.random() < 0.6:
        return copy.deepcopy(chance.choice(LISTS))
    several: tuple[tuple, ...] = (NUMBERS, ODD_TEXTS, LISTS, TABLES, DATES, (True, False))
    return copy.deepcopy(chance.choice(chance.choice(several)))


def _replace(chance: random.Random, values: dict[str, Any]) -> None:
    """Another value for a key, or for an entry of a list."""
    places = list(_places(values))
    if places:
        path = chance.choice(places)
        _at(values, path[:-1])[path[-1]] = _other_value(chance, _at(values, path))


def _remove(chance: random.Random, values: dict[str, Any]) -> None:
    """A missing key, or a missing entry of a list."""
    places = list(_places(values))
    if places:
        path = chance.choice(places)
        del _at(values, path[:-1])[path[-1]]


def _add(chance: random.Random, values: dict[str, Any]) -> None:
    """A key that the table did not have: a strange word, or a key of some other table."""
    table = _at(values, chance.choice(_tables(values)))
    other = chance.choice(originals())
    keys = [path[-1] for path in _places(other) if isinstance(path[-1], str)]
    key = chance.choice(WORDS) if chance.random() < 0.3 else chance.choice(keys)
    table[key] = _other_value(chance, 1.0 if chance.random() < 0.5 else "")


def _swap(chance: random.Random, values: dict[str, Any]) -> None:
    """A part, or another value, of another file: at the same key, or anywhere."""
    other = chance.choice(originals())
    source = chance.choice(list(_places(other)))
    places = [path for path in _places(values) if path[-1] == source[-1]]
    if not places or chance.random() < 0.2:
        places = list(_places(values))
    if places:
        path = chance.choice(places)
        _at(values, path[:-1])[path[-1]] = copy.deepcopy(_at(other, source))


def _graft(chance: random.Random, values: dict[str, Any]) -> None:
    """All keys of a table of another file, besides its own."""
    other = chance.choice(originals())
    table = _at(values, chance.choice(_tables(values)))
    table |= copy.deepcopy(_at(other, chance.choice(_tables(other))))


CHANGES: tuple[Callable[[random.Random, dict[str, Any]], None], ...] = (
    *(_replace, _replace, _replace, _replace, _remove, _add, _add, _swap, _swap, _graft),
)


def mutated(number: int) -> dict[str, Any]:
    """The content of a file with one to three random changes; the same for the same number."""
    chance = random.Random(number)
    values = copy.deepcopy(chance.choice(originals()))
    for _ in range(chance.randint(1, 3)):
        chance.choice(CHANGES)(chance, values)
    return values


def _quick() -> Iterator[dict[str, Any]]:
    """Valid files that are solved and simulated in a moment, at least one for each theory."""
    one = {"kind": "two_layer", "activation": "erf", "Q": [[0.3]], "R": [[0.1]], "readout": [1.0]}
    master = {"kind": "teacher", "activation": "erf", "T": [[1.0]], "readout": [0.5]}
    slow_down = {"kind": "piecewise", "times": [0.5], "values": [0.5, 0.1]}
    for supply in ({"kind": "stream", "batch": 2, "noise": 0.1}, {"kind": "population"}):
        data = supply | {"task": master}
        trained = one | {"train_readout": True}
        rates = {"learning_rate": slow_down, "readout_learning_rate": 0.1, "weight_decay": 0.01}
        yield {"network": trained, "data": data, "training": TIMED | rates}
        yield {"network": one | {"activation": "tanh"}, "data": data, "training": TIMED}
    data = {"kind": "dataset", "ratio": 2.0, "noise": 0.1, "task": master}
    yield {"network": one, "data": data, "training": STEPPED | {"weight_decay": 0.1}}
    yield {"network": one, "data": data, "training": TIMED}
    linear = {"kind": "deep_linear", "depth": 2, "width": [0.8, 0.5], "richness": 0.7}
    residual = {"kind": "deep_linear", "depth": 3, "width": 0.8, "richness": 0.7, "skip": 0.5}
    spectral = {"kind": "deep_linear", "depth": 1, "width": 4, "richness": 1.0}
    rule = STEPPED | {"momentum": 0.5, "weight_decay": 0.01}
    for supply, amount in (("dataset", "ratio"), ("stream", "batch_ratio"), ("population", "")):
        data = {"kind": supply, "noise": 0.1, "task": {"kind": "linear_map"}}
        data |= {amount: 1.2} if amount else {}
        yield {"network": linear, "data": data, "training": rule}
        yield {"network": residual, "data": data, "training": rule}
    endless = residual | {"depth": math.inf, "skip": {"kind": "scaled_skip", "beta0": 1.0}}
    yield {"network": endless, "data": data, "training": STEPPED}
    for spectrum in SPECTRA[:2]:
        data = {"kind": "dataset", "examples": 5, "noise": 0.1}
        data |= {"task": {"kind": "linear_map", "spectrum": spectrum}}
        yield {"network": spectral, "data": data, "training": rule}
    wide = {"kind": "wide", "depth": 1, "activation": "tanh", "richness": 1.0}
    points = {"kind": "points", "inputs": [[0.1, 1.2], [-0.3, 0.4]], "targets": [1.0, -1.0]}
    yield {"network": wide, "data": points, "training": STEPPED | {"noise": 0.01}}
    yield {"network": wide, "data": points, "training": TIMED}
    yield {"network": wide | {"activation": "linear"}, "data": points, "training": rule}
    gram = {"kind": "points", "gram": [[1.0, 0.2], [0.2, 1.0]], "targets": [1.0]}
    logistic = STEPPED | {"criterion": "logistic", "momentum": 0.1}
    yield {"network": wide | {"bias": True}, "data": gram, "training": logistic}
    flow = FLOW | {"field": FIELDS[0], "initial_norm": 0.9, "initial_overlap": 0.1, "noise": 0.0}
    flow |= {"confinement": 0.5}
    task = {"kind": "teacher_flow", "time": 0.5, "noise": 0.05}
    for supply in ({"kind": "stream", "batch": 2}, {"kind": "dataset", "examples": 2}):
        training = STEPPED | {"weight_decay": 0.01}
        yield {"network": flow, "data": supply | {"task": task}, "training": training}


@functools.cache
def quick() -> tuple[dict[str, Any], ...]:
    """Files that are solved and simulated in a moment."""
    return tuple(_quick())


def with_other_numbers(number: int) -> dict[str, Any]:
    """The content of a quick file in which one or two numbers are replaced, mostly by huge, tiny or odd ones.

    Its structure stays the same, so that little has to be compiled again.
    """
    chance = random.Random(number)
    values = copy.deepcopy(chance.choice(quick()))
    for _ in range(chance.randint(1, 2)):
        numbers = [
            path
            for path in _places(values)
            if isinstance(_at(values, path), int | float) and type(_at(values, path)) is not bool
        ]
        path = chance.choice(numbers)
        _at(values, path[:-1])[path[-1]] = chance.choice(NUMBERS)
    return values


def mutated_text(number: int) -> str:
    """The text of a template with one to three lines removed, doubled, cut, or with odd characters in them."""
    chance = random.Random(number)
    lines = chance.choice(templates()).splitlines()
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(lines))
        line = lines[place]
        cut = chance.randrange(len(line) + 1)
        insert = chance.choice(
            ('"', "[", "]", "=", "\0", "é", "#", "1e999", "[" * 5000, "9" * 5000, "0x" + "f" * 9000)
        )
        lines[place] = chance.choice(
            ("", f"{line}\n{line}", line[:cut], line[:cut] + insert + line[cut:], f"x = {insert}")
        )
    return "\n".join(lines)
