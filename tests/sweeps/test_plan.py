"""What a sweep computes: axes and their labels, problems, tasks, and the keys of results."""

import json
import os
import subprocess
import sys
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.errors import NoTheory, ProblemError
from learndyn.sweeps import plan
from learndyn.sweeps.plan import (
    Job,
    Runs,
    axes_of,
    can_be_stored,
    jobs_of,
    labels_of,
    problems_of,
    runs_of,
)
from tests import problems

linear = partial(
    problems.deep_linear,
    depth=2,
    width=0.8,
    richness=0.7,
    ratio=1.2,
    noise=0.5,
    rate=0.02,
    steps=10,
)


def task(problem=None, method=None, save_at=None, seed=0, runs=None, observables=None):
    problem = problem or linear()
    method = method or ld.Rows()
    record = Record.of(problem.training, save_at)
    return Job(problem, theory_for(problem), method, record, seed, runs, observables)


def axes(over, problem=None):
    return axes_of(problem or linear(), over)


def test_an_axis_has_the_last_word_of_the_path():
    over = {"training.learning_rate": [0.1, 0.2], "network.width": [1]}
    rate, width = axes(over)
    assert (rate.name, rate.path, rate.values) == (
        "learning_rate",
        "training.learning_rate",
        (0.1, 0.2),
    )
    assert (width.name, width.values) == ("width", (1,))
    np.testing.assert_array_equal(rate.labels, [0.1, 0.2])


def test_axes_with_the_same_last_word_have_the_whole_path():
    over = {"data.noise": [0.1], "training.noise": [0.0, 0.1], "network.width": [1]}
    assert [axis.name for axis in axes(over)] == ["data.noise", "training.noise", "width"]


def test_an_axis_is_not_called_as_that_of_every_curve():
    network = ld.NeuralODE([[0, 0], [0, 0.8]], 0.75, 1.0, 4)
    made = ld.Problem(network, ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.5, steps=3))
    assert axes({"network.time": [1.0, 2.0]}, made)[0].name == "network.time"


@pytest.mark.parametrize("over", [{}, None, 3, ["network.width"], "network.width"])
def test_a_sweep_over_nothing_is_refused(over):
    with pytest.raises(ProblemError, match="over"):
        axes(over)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "at least one value"),
        (np.array([]), "at least one value"),
        (0.1, "list of values"),
        ("mup", "list of values"),
        ({"a": 1}, "list of values"),
        ([0.1, 0.2, 0.1], "twice"),
        ([1, 1.0], "twice"),
        (["mup", "mup"], "twice"),
    ],
)
def test_values_that_make_no_axis_are_refused(values, words):
    with pytest.raises(ProblemError, match=words):
        axes({"network.width": values})


@pytest.mark.parametrize(
    ("values", "labels", "kind"),
    [
        ([1, 2], [1, 2], "i"),
        ([1, 2.5], [1.0, 2.5], "f"),
        (np.linspace(0, 1, 3), [0.0, 0.5, 1.0], "f"),
        ([1.0, float("inf")], [1.0, np.inf], "f"),
        (["mup", "ntk"], ["mup", "ntk"], "U"),
        ([None, 0.5], ["null", "0.5"], "U"),
        ([True, False], ["true", "false"], "U"),
        ([[0.5, 0.6], 0.8], ["[0.5, 0.6]", "0.8"], "U"),
        ([np.eye(2), np.ones((1, 1))], ["[[1.0, 0.0], [0.0, 1.0]]", "[[1.0]]"], "U"),
        ([jnp.tanh, "erf"], ["tanh", "erf"], "U"),
    ],
)
def test_labels_are_the_numbers_or_words_otherwise_texts(values, labels, kind):
    found = labels_of(tuple(values))
    assert found.tolist() == labels
    assert found.dtype.kind == kind


def test_labels_of_parts_tell_their_fields():
    schedules = (ld.ExponentialDecay(0.5, 0.1), ld.ExponentialDecay(0.5, 0.2))
    first, second = map(json.loads, labels_of(schedules))
    assert first == {"kind": "exponential_decay", "initial": 0.5, "rate": 0.1}
    assert second["rate"] == 0.2


def test_the_problem_at_an_index_has_the_values_at_that_index():
    over = {"training.learning_rate": [0.1, 0.2, 0.3], "network.richness": [1.0, 2.0]}
    found = problems_of(linear(), axes(over))
    assert found.shape == (3, 2)
    for (i, j), problem in np.ndenumerate(found):
        assert problem.training.learning_rate == over["training.learning_rate"][i]
        assert problem.network.richness == over["network.richness"][j]


def test_a_value_refused_at_one_point_is_refused_before_any_other_is_made():
    over = {"training.learning_rate": [0.1, -0.2]}
    with pytest.raises(ProblemError, match=r"learning_rate = -0\.2"):
        problems_of(linear(), axes(over))


def test_each_point_has_a_task_for_its_theory_and_one_for_its_runs():
    problems = problems_of(linear(), axes({"network.skip": [None, 1.0]}))
    runs = runs_of(20, linear())
    found = jobs_of(problems, None, None, 0, True, runs, ["test_loss"])
    assert [(index, t.runs is None) for index, t in found] == [
        ((0,), True),
        ((0,), False),
        ((1,), True),
        ((1,), False),
    ]
    names = [t.theory.name for _, t in found if t.runs is None and t.theory is not None]
    assert names == ["deep_linear/dataset", "residual/dataset"]
    assert {t.observables for _, t in found} == {("test_loss",)}
    assert isinstance(found[0][1].method, ld.Rows)


def test_a_method_of_another_theory_and_a_problem_without_one_are_refused():
    problems = problems_of(linear(), axes({"network.richness": [1.0]}))
    with pytest.raises(ProblemError, match="method"):
        jobs_of(problems, ld.OrderParameterODE(), None, 0, True, None, None)
    without = ld.Problem(
        ld.Wide(1, "tanh"), ld.Stream(ld.LinearMap()), ld.GradientDescent(0.1, steps=3)
    )
    with pytest.raises(NoTheory):
        jobs_of(np.array([without], dtype=object), None, None, 0, True, None, None)


def test_simulations_are_a_size_or_a_table():
    assert runs_of(None, linear()) is None
    assert runs_of(50, linear()) == Runs(50, 1, 0, ld.Descent())
    table = {"size": 50, "seeds": 3, "first_seed": 7}
    assert runs_of(table, linear()) == Runs(50, 3, 7, ld.Descent())


@pytest.mark.parametrize(
    ("simulate", "words"),
    [
        ({"seeds": 3}, "size"),
        ({"size": 5, "seed": 3}, "did you mean 'seeds'"),
        ({"size": 0}, "size"),
        ({"size": 5, "seeds": 0}, "seeds"),
        ({"size": 5, "method": ld.SGD()}, "method"),
        (2.5, "size"),
    ],
)
def test_simulations_that_make_no_sense_are_refused(simulate, words):
    with pytest.raises(ProblemError, match=words):
        runs_of(simulate, linear())


VARIANTS = {
    "problem": task(linear(rate=0.03)),
    "other part": task(linear(parameterization="ntk")),
    "method": task(method=ld.Rows(bins=32)),
    "number of steps saved": task(save_at=5),
    "steps saved": task(save_at=[0, 5]),
    "other steps saved": task(save_at=[0, 6]),
    "seed": task(seed=1),
    "observables": task(observables=("test_loss",)),
    "other observables": task(observables=("test_loss", "train_loss")),
    "runs": task(runs=Runs(20, 2, 0, ld.Descent())),
    "size": task(runs=Runs(30, 2, 0, ld.Descent())),
    "seeds": task(runs=Runs(20, 3, 0, ld.Descent())),
    "first seed": task(runs=Runs(20, 2, 1, ld.Descent())),
    "schedule": task(linear(rate=ld.ExponentialDecay(0.02, 0.0))),
}


def test_whatever_changes_the_result_changes_the_key(monkeypatch):
    keys = {name: variant.key for name, variant in VARIANTS.items()} | {"": task().key}
    assert len(set(keys.values())) == len(keys)
    for name in ("learndyn", "jax"):
        other = plan.versions() | {name: "0.0.0"}
        with monkeypatch.context() as patch:
            patch.setattr(plan, "versions", lambda other=other: other)
            assert task().key not in keys.values()
    assert task().key == keys[""]


def test_the_method_of_runs_is_part_of_their_key():
    stream = ld.Stream(ld.Teacher("erf", [[1.0]]))
    training = ld.GradientDescent(0.5, time=5.0)
    made = ld.Problem(ld.TwoLayer("erf", [[0.5]], [[0.1]]), stream, training)
    keys = {task(made, runs=Runs(20, 1, 0, how)).key for how in (ld.SGD(), ld.OverlapChain())}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("some", "others"),
    [
        ([0, 5], (0, 5)),
        ([0, 5], np.array([0, 5])),
        ([0, 5], [np.int64(0), np.int64(5)]),
        ([0, 1, 2], range(3)),
        (5, np.int64(5)),
        ([0.0, 5.0], np.array([0.0, 5.0])),
    ],
)
def test_the_same_steps_have_the_same_key_however_they_are_written(some, others):
    assert task(save_at=some).key == task(save_at=others).key


def test_the_same_problem_has_the_same_key_in_another_process():
    text = linear(rate=ld.Piecewise([3.0], [0.1, 0.2])).to_text()
    code = """if True:
        import sys
        import learndyn as ld
        from learndyn.core.record import Record
        from learndyn.sweeps.plan import Runs, Job
        problem = ld.Problem.from_text(sys.stdin.read())
        for runs in (None, Runs(20, 2, 0, ld.Descent())):
            record = Record.of(problem.training, [0, 5])
            print(Job(problem, None, ld.Rows(), record, 3, runs, ("test_loss",)).key)
    """
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    given = (ld.Problem.from_text(text), ld.Rows(), [0, 5], 3)
    for key, runs in zip(found, (None, Runs(20, 2, 0, ld.Descent())), strict=True):
        assert key == task(*given, runs, ("test_loss",)).key


def test_the_key_does_not_depend_on_what_travels_along():
    assert task()._replace(theory=None).key == task().key


two_layer = partial(problems.two_layer, Q=[[0.5]], R=[[0.1]], teacher_activation="erf", time=5.0)


@pytest.mark.parametrize(
    ("made", "over"),
    [
        (two_layer(activation=lambda z: z**3), {"training.learning_rate": [0.1, 0.2]}),
        (two_layer(activation="erf"), {"network.activation": ["erf", jnp.tanh]}),
        (
            two_layer(activation="erf"),
            {"data.task.activation": [ld.Formula("z**3"), lambda z: z]},
        ),
    ],
)
def test_python_functions_are_refused_with_a_store(made, over):
    some = axes(over, made)
    with pytest.raises(ProblemError, match="Formula"):
        can_be_stored(problems_of(made, some), some)


def test_formulas_names_and_numbers_can_be_stored():
    over = {"network.activation": ["erf", ld.Formula("z**3"), "relu"], "data.noise": [0.0, 0.1]}
    some = axes(over, two_layer(activation="erf"))
    can_be_stored(problems_of(two_layer(activation="erf"), some), some)
