"""Problems: validation, equality, content hash and problem files."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import learndyn as ld
from learndyn.problem.part import content_hash
from tests import problems

problem = partial(
    problems.two_layer,
    Q=[[0.2, 0.1], [0.1, 0.3]],
    R=[[0.1, 0.0], [0.0, 1 / 3]],
    noise=0.1,
    rate=0.1,
)

RATES = [
    0.1,
    ld.ExponentialDecay(0.3, 0.01),
    ld.PowerDecay(0.3, 0.5, 7.0),
    ld.WarmUp(3.0, ld.Piecewise([1.0, 2.0], [0.1, 0.2, 0.3])),
]


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: getattr(rate, "kind", "number"))
@pytest.mark.parametrize(
    "activation",
    ["erf", "relu", "linear", "tanh", ld.Polynomial([0, 1, 0.25]), ld.Formula("sin(z) + z")],
    ids=str,
)
def test_file_gives_back_an_equal_problem(tmp_path, rate, activation):
    teacher = ld.Teacher(activation, [[1.0, 0.1], [0.1, 0.9]], [1.0, -0.5])
    network = ld.TwoLayer.random(3, teacher, 0.7, 50, seed=4, train_readout=True)
    training = ld.GradientDescent(rate, time=3.0, weight_decay=1e-3, readout_learning_rate=0.2)
    made = ld.Problem(network, ld.Stream(teacher, batch=4), training)
    made.to_toml(tmp_path / "problem.toml")
    read = ld.Problem.from_toml(tmp_path / "problem.toml")
    assert read == made
    assert read.hash == made.hash
    assert hash(read) == hash(made)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False), st.floats(-0.4, 0.4))
def test_every_float_survives_the_file(rate, overlap):
    teacher = ld.Teacher.orthonormal("erf", 1)
    network = ld.TwoLayer("erf", [[0.5]], [[overlap]])
    made = ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(rate, time=1.0))
    assert ld.Problem.from_text(made.to_text()) == made


def test_equal_if_and_only_if_the_same():
    assert problem() == problem()
    assert problem(rate=ld.Constant(0.1)) == problem(rate=0.1)
    assert problem(rate=np.float64(0.1)) == problem(rate=0.1)
    variants = [
        problem(rate=0.2),
        problem(time=11.0),
        problem(weight_decay=0.1),
        problem(rate=ld.ExponentialDecay(0.1, 0.0)),
    ]
    hashes = {p.hash for p in [problem(), *variants]}
    assert len(hashes) == 1 + len(variants)
    assert all(p != problem() for p in variants)


@pytest.mark.slow  # quick: the hash of the plain data below, and keys of jobs in another process
def test_hash_is_the_same_in_another_process():
    text = problem().to_text()
    code = "import sys, learndyn as ld; print(ld.Problem.from_text(sys.stdin.read()).hash)"
    other = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == problem().hash


def test_hash_is_sha256_of_the_plain_data():
    text = json.dumps(problem().to_dict(), sort_keys=True)
    import hashlib

    assert content_hash(problem()) == hashlib.sha256(text.encode()).hexdigest()


def test_parts_cannot_be_changed():
    made = problem()
    with pytest.raises(AttributeError):
        made.data = None
    with pytest.raises(ValueError, match="read-only"):
        made.network.Q[0, 0] = 3.0


GOOD = problem().to_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"network": {"kind": "two_layr"}},
            ["network.kind", "'two_layr'", "did you mean 'two_layer'"],
        ),
        ({"data": {"batsh": 3}}, ["data.batsh", "did you mean 'batch'"]),
        ({"data": {"batch": 0}}, ["Stream.batch = 0", "at least 1"]),
        ({"data": {"batch": 1.5}}, ["Stream.batch = 1.5", "whole number"]),
        ({"data": {"noise": -1.0}}, ["Stream.noise = -1.0", "at least 0"]),
        ({"data": {"noise": float("nan")}}, ["Stream.noise = nan", "not NaN"]),
        ({"data": {"task": {"kind": "techer"}}}, ["task.kind", "did you mean 'teacher'"]),
        ({"data": {"task": 3}}, ["Stream.task = 3"]),
        ({"training": {"learning_rate": -0.1}}, ["learning_rate = -0.1", "at least 0"]),
        ({"training": {"learning_rate": "fast"}}, ["learning_rate = 'fast'", "a number"]),
        (
            {"training": {"learning_rate": {"kind": "expo"}}},
            ["learning_rate.kind", "exponential_decay"],
        ),
        ({"training": {"learning_rate": float("inf")}}, ["learning_rate = inf", "finite"]),
        ({"training": {"steps": 3}}, ["steps", "exactly one"]),
        ({"training": {"momentum": 0.9}}, ["training.momentum = 0.9", "leave it at 0.0"]),
        ({"training": {"momentum": 1.0}}, ["momentum = 1.0", "less than 1"]),
        ({"training": {"loss": "max"}}, ["loss = 'max'", "'mean', 'sum'"]),
        ({"training": {"readout_learning_rate": 0.1}}, ["readout_learning_rate", "train_readout"]),
        ({"network": {"Q": [[1.0, 2.0], [0.0, 1.0]]}}, ["TwoLayer.Q", "symmetric"]),
        ({"network": {"Q": [[1.0, 2.0], [2.0, 1.0]]}}, ["TwoLayer.Q", "semidefinite", "-1"]),
        ({"network": {"Q": [[1.0, 2.0], [2.0]]}}, ["TwoLayer.Q", "equally long rows"]),
        ({"network": {"Q": [[1.0, 0.0]]}}, ["TwoLayer.Q", "square", "(1, 2)"]),
        ({"network": {"Q": [[float("nan"), 0.0], [0.0, 1.0]]}}, ["TwoLayer.Q", "finite"]),
        ({"network": {"R": [[0.1, 0.0, 0.0], [0.0, 0.1, 0.0]]}}, ["network.R", "column", "(2, 3)"]),
        ({"network": {"R": [[0.1, 0.0]]}}, ["TwoLayer.R", "row", "(1, 2)"]),
        (
            {"network": {"R": [[2.0, 0.0], [0.0, 0.1]]}},
            ["network.R", "no weights have these overlaps"],
        ),
        ({"network": {"readout": [1.0]}}, ["TwoLayer.readout", "per hidden unit (2)"]),
        ({"network": {"train_readout": "yes"}}, ["train_readout = 'yes'", "true or false"]),
        ({"network": {"activation": "erff"}}, ["activation", "erff", "erf"]),
        ({"optimiser": {"kind": "adam"}}, ["optimiser", "unknown table"]),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_bad_values_are_refused_by_name(change, words):
    values = json.loads(json.dumps(GOOD))
    for section, fields in change.items():
        values[section] = values.get(section, {}) | fields
    with pytest.raises(ld.ProblemError) as caught:
        ld.Problem.from_dict(values)
    for word in words:
        assert word in str(caught.value)


def test_missing_pieces_are_named():
    with pytest.raises(ld.ProblemError, match=r"training.*missing"):
        ld.Problem.from_dict({k: v for k, v in GOOD.items() if k != "training"})
    values = GOOD | {"training": {"kind": "gradient_descent", "time": 1.0}}
    with pytest.raises(ld.ProblemError, match=r"training\.learning_rate.*missing"):
        ld.Problem.from_dict(values)


def test_file_errors_name_the_file(tmp_path):
    with pytest.raises(ld.FileError, match=r"nowhere\.toml"):
        ld.Problem.from_toml(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("[network\nkind = 3")
    with pytest.raises(ld.ProblemError, match=r"broken\.toml.*line 1"):
        ld.Problem.from_toml(tmp_path / "broken.toml")


def test_reading_a_file_runs_nothing(tmp_path):
    marker = tmp_path / "ran"
    text = (
        problem()
        .to_text()
        .replace(
            'activation = "erf"',
            f"activation = {{ kind = 'formula', formula = '''open('{marker}', 'w')''' }}",
        )
    )
    with pytest.raises(ld.ProblemError):
        ld.Problem.from_text(text)
    assert not marker.exists()


def test_python_function_is_not_written_to_a_problem_file(tmp_path):
    import jax.numpy as jnp

    teacher = ld.Teacher.orthonormal(jnp.tanh, 1)
    network = ld.TwoLayer(jnp.tanh, [[0.5]], [[0.1]])
    made = ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(0.1, time=1.0))
    with pytest.raises(ld.ProblemError, match="Formula"):
        made.to_toml(tmp_path / "problem.toml")
    assert not (tmp_path / "problem.toml").exists()


def test_random_draw_is_the_same_from_file_and_from_python():
    text = """
    [network]
    kind = "two_layer.random"
    hidden = 3
    scale = 0.5
    size = 100
    seed = 7
    [data]
    kind = "stream"
    task = { kind = "teacher.orthonormal", activation = "erf", hidden = 2 }
    [training]
    kind = "gradient_descent"
    learning_rate = 0.1
    time = 1.0
    """
    teacher = ld.Teacher.orthonormal("erf", 2)
    expected = ld.TwoLayer.random(3, teacher, 0.5, 100, seed=7)
    assert ld.Problem.from_text(text).network == expected
    with pytest.raises(ld.ProblemError, match=r"network\.teacher.*unknown key"):
        ld.Problem.from_text(text.replace("seed = 7", "seed = 7\nteacher = 3"))


def test_no_theory_lists_the_combinations_there_are():
    made = problem()
    object.__setattr__(made, "network", made.data)
    with pytest.raises(ld.NoTheory, match="TwoLayer on Stream"):
        ld.solve(made)


def test_base_classes_are_not_kinds():
    for section, kind in (("training", "training"), ("data", "data"), ("network", "network")):
        with pytest.raises(ld.ProblemError, match="unknown kind"):
            ld.Problem.from_dict(GOOD | {section: {"kind": kind}})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ld.GradientDescent(0.1, stepz=5), r"GradientDescent\.stepz = 5: unknown; .*steps"),
        (lambda: ld.Stream(None, bach=3), r"Stream\.bach = 3: unknown; .*batch"),
        (lambda: ld.GradientDescent(steps=5), r"GradientDescent\.learning_rate = None: missing"),
        (lambda: ld.ScaledSkip(1.0, 2.0), r"ScaledSkip = .*: too many values: .* beta0"),
        (lambda: ld.ScaledSkip(1.0, beta0=2.0), r"ScaledSkip\.beta0 = 2\.0: was given twice"),
    ],
)
def test_fields_that_a_part_has_not_got_are_refused_by_name(make, words):
    with pytest.raises(ld.ProblemError, match=words):
        make()
