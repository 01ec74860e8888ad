"""Computing jobs: problems of one shape in one call give what each gives alone, and the ways to compute."""

import sys
import time
from functools import partial
from typing import Any

import distributed
import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.errors import LearndynError, NotConverged, UnknownObservable
from learndyn.families.two_layer.online.solve import OrderParameterODE
from learndyn.numerics.precision import float64
from learndyn.problem.paths import changed
from learndyn.sweeps import run
from learndyn.sweeps.plan import Job, Runs
from learndyn.sweeps.run import _ways, compute, compute_together, run_all, shape_of
from tests import problems
from tests.fakes import decay, number_of, told_apart

pytestmark = pytest.mark.compiles

METHOD = OrderParameterODE()
two_layer = partial(
    problems.two_layer, Q=[[0.5]], R=[[0.1]], teacher_activation="erf", noise=0.1, time=5.0
)
deep = partial(
    problems.deep_linear, depth=2, width=0.8, richness=0.7, ratio=1.2, noise=0.5, rate=0.02, steps=6
)


def task(problem, method=None, runs=None, save_at=None, observables=None):
    theory, record = theory_for(problem), Record.of(problem.training, save_at)
    return Job(problem, theory, method or theory.methods[0](), record, 0, runs, observables)


def tasks(problems, save_at=6):
    return [task(problem, METHOD, save_at=save_at) for problem in problems]


def same_as_alone(problems) -> list:
    """In one call and one by one, within the accuracies that both state, added up.

    Rounding decides more than the last digits. The first steps are so short that the integrator's estimate of their
    error is a rounding error, and the length of the next step is a power of it. Where XLA compiles both differently,
    the steps differ by 3 % (measured), and so do truncation errors: by a twentieth of the stated accuracy in long runs,
    by most of it in a run that diverges after two records.
    """
    some = tasks(problems)
    together, alone = compute_together(some), [compute(one) for one in some]
    for batched, single in zip(together, alone, strict=True):
        assert batched.info["diverged_at"] == single.info["diverged_at"]
        assert list(batched.arrays) == list(single.arrays)
        assert batched.labels["time"].identical(single.labels["time"])
        size = max(float(np.max(np.abs(array.values))) for array in single.arrays.values())
        # The specialisation follows from the others, and states no accuracy of its own.
        stated = single.info["evidence"]["accuracy"]
        for name, array in single.arrays.items():
            assert batched.arrays[name].dims == array.dims
            assert batched.arrays[name].attrs == array.attrs
            accuracy = 2 * stated.get(name, max(stated.values())) + 1e-13 * size
            np.testing.assert_allclose(
                batched.arrays[name].values, array.values, rtol=1e-12, atol=accuracy
            )
        evidence, expected = batched.info["evidence"], single.info["evidence"]
        steps = evidence["integration_steps"], expected["integration_steps"]
        assert max(steps) <= 1.03 * min(steps) + 1
        assert evidence["averages"] == "closed form"
        assert evidence["tolerances"] == expected["tolerances"]
        for name, accuracy in expected["accuracy"].items():
            # An accuracy is a difference of two solutions, each of which moves with the steps: its order is the same.
            pair = accuracy, evidence["accuracy"][name]
            assert max(pair) < 10 * min(pair) + 1e-12 * size
    return together


def test_problems_in_one_call_keep_their_own_steps_schedules_and_divergences():
    """A linear student's loss grows without bound above η = 2; the rate jumps at a time of its own for each."""
    made = two_layer(
        rate=ld.Piecewise([2.0], [0.5, 1.0]), activation="linear", teacher_activation="linear"
    )
    values = [
        ([2.0], [0.5, 1.0]),
        ([1.0], [0.5, 12.0]),
        ([3.5], [1.5, 0.1]),
        ([2.5], [0.1, 30.0]),
    ]
    paths = ("training.learning_rate.times", "training.learning_rate.values")
    problems = [changed(made, dict(zip(paths, some, strict=True))) for some in values]
    found = same_as_alone(problems)
    ends = [result.info["diverged_at"] for result in found]
    assert ends[0] is ends[2] is None
    assert None not in (ends[1], ends[3])
    assert ends[1] != ends[3]


def test_problems_in_one_call_may_differ_in_every_number():
    made = two_layer(rate=ld.ExponentialDecay(0.5, 0.1), train_readout=True)
    values = [
        {},
        {"training.learning_rate.initial": 1.5, "training.weight_decay": 0.1},
        {"network.Q": [[0.9]], "network.R": [[-0.3]], "network.readout": [0.5]},
        {"data.task.T": [[2.0]], "data.noise": 0.7, "data.task.readout": [2.0]},
    ]
    found = same_as_alone([changed(made, some) for some in values])
    ends = [result.arrays["test_loss"].values[-1] for result in found]
    assert len(set(ends)) == len(ends)


@pytest.mark.slow
def test_what_needs_quadrature_or_jumps_of_another_number_is_not_solved_in_one_call():
    smooth = two_layer(activation=ld.Formula("tanh(z)"))
    jumps = [two_layer(rate=ld.Piecewise([time], [0.5, 1.0])) for time in (2.0, 9.0)]
    record = Record.of(smooth.training, 6)
    assert METHOD.pays_together([two_layer(), two_layer(rate=0.1)], record)
    assert not METHOD.pays_together([smooth, smooth], record)
    assert not METHOD.pays_together(jumps, record)
    with float64():
        together = METHOD.solve_many(jumps, record, 0)
        alone = [METHOD.solve(problem, record, 0, lambda done: None) for problem in jumps]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one["test_loss"], other["test_loss"])


DEEP = "deep_linear/dataset"


def refuses(problems):
    raise NotConverged("not together")


def fails(problems):
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize("together", [refuses, lambda problems: False])
def test_what_cannot_be_solved_in_one_call_is_solved_one_by_one(together, stand_in):
    problems = [deep(), deep(parameterization="ntk")]
    fake = stand_in(DEEP, formula=told_apart, together=together)
    found = compute_together([task(problem) for problem in problems])
    assert fake.groups == [problems]
    assert fake.computed == problems
    for result, problem in zip(found, problems, strict=True):
        expected = ld.solve(problem)
        assert result.info["evidence"]["accuracy"] == expected.evidence["accuracy"]
        assert set(result.arrays["test_loss"].values) == {number_of(problem)}
        for name in map(str, expected.data.data_vars):
            np.testing.assert_array_equal(result.arrays[name].values, expected[name])


def test_what_can_be_solved_in_one_call_is_not_solved_one_by_one(stand_in):
    problems = [deep(), deep(parameterization="ntk")]
    fake = stand_in(DEEP, formula=told_apart, together=lambda problems: True)
    found = compute_together([task(problem) for problem in problems])
    assert fake.groups == [problems]
    assert fake.computed == []
    for result, problem in zip(found, problems, strict=True):
        assert set(result.arrays["test_loss"].values) == {number_of(problem)}


def test_a_fault_of_a_theory_is_shown_though_its_problems_could_be_solved_alone(stand_in):
    stand_in(DEEP, together=fails)
    for result in compute_together([task(deep()) for _ in range(2)]):
        assert result.info["error"] == "ZeroDivisionError: by zero"
        assert not result.arrays


@pytest.mark.parametrize("way", ["threads", "alone", "processes"])
def test_what_cannot_be_solved_in_one_call_is_finished_point_by_point(stand_in, way):
    """A group that is refused does not wait for its last point, and is computed the way that suits each."""
    begun, order = [], []
    stand_in(
        DEEP,
        together=lambda problems: False,
        way=way,
        before=lambda problem: begun.append(len(order)),
    )
    method = ld.Rows()
    some = [task(deep(), method) for _ in range(4)]
    run_all(some, None, 1, lambda one, result: order.append(one))
    assert sorted(map(id, order)) == sorted(map(id, some))
    assert len(begun) == 4
    if way != "threads":
        assert begun == [0, 1, 2, 3]


def test_only_the_observables_that_are_kept_are_asked_for(stand_in):
    def formula(problem, times):
        return decay(problem, times) | {"train_loss": 1 / (1 + times), "test_drop": 2.0}

    fake = stand_in(DEEP, formula=formula, together=lambda problems: True)
    expected = ld.solve(deep())
    for wanted in (None, ("test_loss", "test_drop")):
        for result in compute_together([task(deep(), observables=wanted) for _ in range(2)]):
            assert list(result.arrays) == list(wanted or expected.data.data_vars)
            for name, array in result.arrays.items():
                np.testing.assert_array_equal(array.values, expected[name])
    assert fake.wanted == [None, ("test_loss", "test_drop")]


def test_an_observable_that_is_not_there_is_named_with_its_neighbours():
    """What one call gave holds little but what was asked for; the hint must know all names."""
    some = [task(deep(), observables=("test_loss", "C_hh")) for _ in range(2)]
    with pytest.raises(UnknownObservable, match=r"did you mean.*C_h"):
        compute_together(some)


def test_a_single_problem_is_not_batched(stand_in):
    fake = stand_in(DEEP, together=fails)
    (found,) = compute_together([task(deep())])
    assert "error" not in found.info
    assert fake.groups == []


ALIKE = [
    {"training.learning_rate": 0.1},
    {"network.Q": [[0.7]]},
    {"data.noise": 0.0},
    {"training.weight_decay": 0.3},
]
UNLIKE = [
    {"network.activation": "relu"},
    {"network.train_readout": True},
    {"training.time": 6.0},
    {"data.batch": 2},
    {"training.learning_rate": ld.ExponentialDecay(0.5, 0.1)},
    {"network.Q": np.eye(2), "network.R": [[0.1], [0.1]], "network.readout": [1.0, 1.0]},
    {"data.task.activation": "linear"},
]


def test_only_problems_that_differ_in_numbers_alone_are_put_together():
    shape = shape_of(task(two_layer(), METHOD))
    for values in ALIKE:
        assert shape_of(task(changed(two_layer(), values), METHOD)) == shape
    for values in UNLIKE:
        assert shape_of(task(changed(two_layer(), values), METHOD)) != shape
    assert shape_of(task(two_layer(), OrderParameterODE(rtol=1e-6))) != shape


@pytest.mark.parametrize(("cores", "sizes"), [(1, [64, 36]), (2, [50, 50]), (3, [34, 34, 32])])
def test_groups_are_as_large_as_they_may_be_but_keep_every_core_busy(cores, sizes):
    rates = np.linspace(0.1, 1, 100)
    some = tasks([two_layer(rate=rate) for rate in rates])
    other = tasks([two_layer(rate=0.1, activation="relu")])
    found = list(_ways([*some[:50], *other, *some[50:]], cores))
    assert {way for way, _ in found} == {"threads"}
    assert [len(group) for _, group in found] == [*sizes, 1]
    grouped = [one for _, group in found for one in group]
    assert sorted(map(id, grouped)) == sorted(map(id, [*some, *other]))


def test_runs_with_a_seed_for_every_core_come_one_at_a_time():
    few, many = (task(deep(), runs=Runs(20, seeds, 0, ld.Descent())) for seeds in (1, 2))
    assert [way for way, _ in _ways([few, many], 2)] == ["threads", "alone"]


@pytest.mark.parametrize(("seconds", "cores", "sent"), [(0.0, 2, 0), (0.2, 1, 0), (0.2, 2, 3)])
def test_processes_are_started_where_the_first_point_shows_that_it_pays(
    monkeypatch, stand_in, seconds, cores, sent
):
    """Four points: three more of 0.2 s each on two cores save 0.3 s, more than starting is said to take here."""
    clusters, done = [], []
    local = distributed.LocalCluster
    no_dashboard: Any = None

    def in_this_process(**options):
        clusters.append((options["n_workers"], len(done)))
        return local(n_workers=1, processes=False, dashboard_address=no_dashboard)

    # A cluster without processes: they would take seconds to start, and would not know the fake theory.
    monkeypatch.setattr(distributed, "LocalCluster", in_this_process)
    monkeypatch.setattr(run, "STARTING", 0.15)
    fake = stand_in(DEEP, way="processes", before=lambda problem: time.sleep(seconds))
    some = [task(deep()) for _ in range(4)]
    run_all(some, None, cores, lambda one, result: done.append(one))
    assert clusters == ([(cores, 4 - sent)] if sent else [])
    assert sorted(map(id, done)) == sorted(map(id, some))
    assert [id(one) for one in done[: 4 - sent]] == [id(one) for one in some[: 4 - sent]]
    assert len(fake.computed) == 4


def test_a_scheduler_without_dask_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ld.ProblemError, match=r"scheduler = 'local': .*learndyn\[cluster\]"):
        run_all([task(deep())], "local", 1, lambda one, result: None)


def test_a_scheduler_that_is_none_is_named():
    with pytest.raises(LearndynError, match="cannot reach the scheduler nowhere"):
        run_all([task(deep())], "nowhere", 1, lambda one, result: None)


@pytest.mark.slow
def test_a_problem_that_uses_up_its_steps_fails_alone():
    """Slow and fast rates on one time scale: only the fast one needs more than 40 steps."""
    method = OrderParameterODE(max_steps=40)
    some = [task(two_layer(rate=rate), method, save_at=6) for rate in (1e-3, 2e-3, 300.0)]
    slow, other, fast = compute_together(some)
    assert "error" not in slow.info
    assert "error" not in other.info
    assert "max_steps" in fast.info["error"]
