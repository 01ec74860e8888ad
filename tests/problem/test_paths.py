"""Fields by their dotted paths: what there is, what is refused, and changes made at once."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.errors import ProblemError
from learndyn.problem.paths import changed, check_paths, field_paths
from tests import problems

CUBE = ld.Formula("z**3")
two_layer = partial(problems.two_layer, Q=[[0.5]], R=[[0.1]], time=5.0)
neural_ode = partial(problems.neural_ode, steps=4, epochs=3)


def test_paths_name_all_fields_and_those_of_parts_within_parts():
    paths = field_paths(two_layer(rate=ld.WarmUp(1.0, ld.ExponentialDecay(0.5, 0.1))))
    assert len(set(paths)) == len(paths)
    assert {
        "network.Q",
        "network.activation",
        "data.task",
        "data.task.T",
        "training.time",
        "training.learning_rate",
        "training.learning_rate.duration",
        "training.learning_rate.then.initial",
    } <= set(paths)
    assert not {"network", "training", "training.learning_rate.initial"} & set(paths)
    assert "training.learning_rate.initial" not in field_paths(two_layer(rate=0.5))


@pytest.mark.parametrize("path", ["training.learning_rte", "learning_rate", "training", ""])
def test_an_unknown_path_is_refused_with_the_paths_there_are(path):
    with pytest.raises(ProblemError, match=r"is not a field .*training\.learning_rate"):
        check_paths(two_layer(), [path])


def test_an_unknown_path_is_refused_with_the_nearest_one():
    with pytest.raises(ProblemError, match=r"did you mean 'training\.learning_rate'"):
        check_paths(two_layer(), ["network.Q", "training.learning_rte"], "over")


@pytest.mark.parametrize("turn", [1, -1])
def test_a_path_within_another_is_refused_in_either_order(turn):
    made = two_layer(rate=ld.ExponentialDecay(0.5, 0.1))
    paths = ["training.learning_rate", "training.learning_rate.rate"][::turn]
    with pytest.raises(ProblemError, match=r"\.rate'.*lies within training\.learning_rate"):
        check_paths(made, paths)


def test_a_path_that_only_begins_like_another_is_allowed():
    check_paths(two_layer(), ["data.batch", "data.batch_ratio"])


def test_only_the_named_fields_change_and_the_problem_itself_does_not():
    made = two_layer(rate=ld.ExponentialDecay(0.5, 0.1))
    before = made.to_text()
    found = changed(made, {"training.learning_rate.rate": 0.3, "data.task.readout": [2.0]})
    teacher = ld.Teacher("erf", [[1.0]], [2.0])
    training = ld.GradientDescent(ld.ExponentialDecay(0.5, 0.3), time=5.0)
    assert found == ld.Problem(made.network, ld.Stream(teacher), training)
    assert made.to_text() == before


def test_two_fields_of_one_part_change_together():
    made = two_layer(rate=ld.ExponentialDecay(0.5, 0.1))
    values = {"training.learning_rate.rate": 0.3, "training.learning_rate.initial": 0.7}
    assert changed(made, values).training.learning_rate == ld.ExponentialDecay(0.7, 0.3)


def test_fields_that_fit_only_together_are_changed_at_once():
    values = {"network.Q": 0.5 * np.eye(2), "network.R": [[0.1], [0.2]], "network.readout": [1, 2]}
    for path, value in values.items():
        with pytest.raises(ProblemError):
            changed(two_layer(), {path: value})
    found = changed(two_layer(), values)
    assert found.network == ld.TwoLayer("erf", 0.5 * np.eye(2), [[0.1], [0.2]], [1.0, 2.0])


def test_none_stands_for_a_field_left_out():
    made = ld.Problem(ld.Wide(1, "tanh"), ld.Points.random(3, 4), ld.GradientDescent(0.1, steps=4))
    found = changed(made, {"training.steps": None, "training.time": 2.0}).training
    assert (found.steps, found.time) == (None, 2.0)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("network.activation", "relu", ld.TwoLayer("relu", [[0.5]], [[0.1]])),
        ("network.activation", CUBE, ld.TwoLayer(CUBE, [[0.5]], [[0.1]])),
        ("network.train_readout", True, ld.TwoLayer("erf", [[0.5]], [[0.1]], train_readout=True)),
        ("network.Q", np.array([[0.6]]), ld.TwoLayer("erf", [[0.6]], [[0.1]])),
    ],
)
def test_a_value_means_what_it_means_to_the_part(path, value, expected):
    assert changed(two_layer(), {path: value}).network == expected


def test_a_table_is_a_value_and_not_a_branch_of_paths():
    table = {"kind": "exponential_decay", "initial": 0.5, "rate": 0.1}
    found = changed(two_layer(), {"training.learning_rate": table})
    assert found == two_layer(rate=ld.ExponentialDecay(0.5, 0.1))


def test_deep_and_shallow_fields_change_in_one_call():
    values = {"network.field.coefficients": [[0, 0], [0, 0.5]], "network.adjoint": "truncated"}
    found = changed(neural_ode(), values).network
    np.testing.assert_array_equal(found.field.coefficients, [[0, 0], [0, 0.5]])
    assert found.adjoint == "truncated"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("training.learning_rate", -1.0, "GradientDescent.learning_rate"),
        ("network.train_readout", 1, "TwoLayer.train_readout"),
        ("network.activation", "rlu", "activation"),
        ("network.R", [[9.0]], "network.R"),
    ],
)
def test_a_value_that_the_field_or_the_problem_refuses_is_refused(path, value, field):
    with pytest.raises(ProblemError, match=field):
        changed(two_layer(), {path: value})
