"""Neural ODEs a step at a time: the map, the memory of correlated steps, and one finite system."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems
from tests.problems import ALL_TERMS

pytestmark = pytest.mark.compiles

ROUNDING = 1e-13
"""A few hundred operations on numbers of order one."""
D = 6
problem = partial(problems.neural_ode, steps=2, epochs=6)

UNITS = {"amplitudes": [1.0, -0.5], "train_amplitudes": True}
LIMITS = {
    "map": problem(batch=2),
    "map of two units": problem(**UNITS),
    "memory": problem(supply="dataset", examples=2, field=ALL_TERMS),
    "memory of two units": problem(chained=True, **UNITS),
}
NOISY = {"noise": 0.05, "teacher_noise": 0.03, "adjoint_noise": 0.02, "epochs": 10}
SYSTEMS = {
    "fresh": problem(batch=2, **NOISY),
    "masked": problem(observations=ld.Observations([0.5, 1.0], visible=0.5), **NOISY),
    "chained": problem(batch=2, chained=True, **NOISY),
    "in turn": problem(supply="dataset", examples=4, batch=2, **NOISY),
    "two units": problem(**UNITS, **NOISY),
}
SIMULATORS = {
    "plain": ld.AdjointDescent(),
    "along the flow": ld.AdjointDescent(inference_steps=[1, 4, 10], responses=True),
}


def close(found, expected):
    assert set(found.data) == set(expected.data)
    for name in expected.data:
        assert found[name].dims == expected[name].dims
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=ROUNDING)


def with_training(asked, **fields):
    return dataclasses.replace(asked, training=dataclasses.replace(asked.training, **fields))


@pytest.mark.parametrize(
    "name",
    # Units are in the memory of two units; the map is asked for without them.
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "map of two units"))
        for name in LIMITS
    ],
)
def test_a_limit_in_pieces_is_the_limit(name):
    run = ld.start(LIMITS[name])
    run.advance(2).step().advance(6)
    assert (run.now, run.axis, run.diverged) == (6, "step", False)
    expected = ld.solve(LIMITS[name], save_at=[0, 2, 3, 6])
    close(run.solution, expected)
    assert run.solution["step"].values.tolist() == [0, 2, 3, 6]
    for quantity, values in run.state.items():
        np.testing.assert_array_equal(values, run.solution[quantity][-1])


def test_the_room_for_records_grows():
    asked = problem(epochs=20)
    run = ld.start(asked)
    for _ in range(20):
        run.step()
    close(run.solution, ld.solve(asked, save_at=21))


@pytest.mark.bitwise
@pytest.mark.parametrize("method", SIMULATORS.values(), ids=SIMULATORS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_in_pieces_is_the_system(name, method):
    run = ld.start(SYSTEMS[name], D, seed=3, method=method)
    for step in range(1, 11):
        run.advance(step)
    whole = ld.simulate(SYSTEMS[name], D, first_seed=3, method=method)
    assert run.solution.data.identical(whole.data)


def test_what_is_to_be_measured_later_does_not_hurry_a_run():
    run = ld.start(SYSTEMS["fresh"], D, method=SIMULATORS["along the flow"])
    for step in (0, 2):
        Q = run.advance(step).weights["theta"] @ run.weights["theta"].T / run.weights["theta"].size
        np.testing.assert_allclose(run.solution["Q"].sel(step=step)[0], Q, rtol=ROUNDING)
    measured = run.solution["C_pp"][0]
    assert np.all(np.isfinite(measured.sel(inference_step=1)))
    assert np.all(np.isnan(measured.sel(inference_step=[4, 10])))


@pytest.mark.parametrize("name", ["map", "memory"])
def test_a_rate_that_is_changed_on_the_way_is_a_schedule(name):
    run = ld.start(LIMITS[name]).advance(3)
    run.problem = with_training(LIMITS[name], learning_rate=0.1)
    jumping = with_training(LIMITS[name], learning_rate=ld.Piecewise([3], [0.5, 0.1]))
    close(run.advance(6).solution, ld.solve(jumping, save_at=[0, 3, 6]))


@pytest.mark.bitwise
@pytest.mark.parametrize("name", ["chained", "two units"])
def test_a_rate_of_a_system_that_is_changed_on_the_way_is_a_schedule(name):
    run = ld.start(SYSTEMS[name], D).advance(3)
    run.problem = with_training(SYSTEMS[name], learning_rate=0.1)
    jumping = with_training(SYSTEMS[name], learning_rate=ld.Piecewise([3], [0.5, 0.1]))
    expected = ld.simulate(jumping, D, save_at=[0, 3, 10])
    assert run.advance(10).solution.data.identical(expected.data)


def test_a_decay_that_is_changed_on_the_way_acts_on_the_map_and_in_the_memory_alike():
    asked, ends = LIMITS["map"], []
    for method in (ld.OverlapMap(), ld.TrainingMemory()):
        run = ld.start(asked, method=method).advance(3)
        run.problem = with_training(asked, weight_decay=0.3)
        ends.append(run.advance(6).solution)
    close(*ends)
    plain = ld.solve(asked, save_at=[0, 3, 6])["Q"]
    np.testing.assert_allclose(ends[0]["Q"][:2], plain[:2], rtol=0, atol=ROUNDING)
    assert np.all(np.abs(ends[0]["Q"][2] - plain[2]) > 0.01)


@pytest.mark.parametrize("cls", [ld.OverlapMap, ld.TrainingMemory])
def test_a_limit_step_by_step_is_on_one_grid_and_looks_at_training_only(cls):
    for fields in ({"extrapolation": 1}, {"inference_steps": [2]}):
        with pytest.raises(
            ld.ProblemError, match=rf"{cls.__name__}\.{next(iter(fields))}.*use solve"
        ):
            ld.start(LIMITS["map"], method=cls(**fields))


def test_what_cannot_be_changed_on_the_way_is_refused():
    run = ld.start(LIMITS["map"])
    with pytest.raises(ld.ProblemError, match="must be TrainingMemory here"):
        run.problem = problem(batch=2, chained=True)
    memory, asked = ld.start(LIMITS["memory"]), LIMITS["memory"]
    with pytest.raises(ld.ProblemError, match=r"training.steps = 7: must be at most 6.*no memory"):
        memory.problem = with_training(asked, steps=7)
    for running in (memory, ld.start(SYSTEMS["in turn"], D)):
        other = dataclasses.replace(running.problem, data=ld.Dataset(ld.TeacherFlow(), examples=3))
        with pytest.raises(ld.ProblemError, match=r"must stay as it is(.|\n)*may change: training"):
            running.problem = other
    with pytest.raises(ld.ProblemError, match=r"network(.|\n)*must stay as it is"):
        memory.problem = problem(supply="dataset", examples=2, field=ALL_TERMS, noise=0.1)


@pytest.mark.parametrize("name", ["fresh", "two units"])
def test_overlaps_are_those_of_the_weights(name):
    run = ld.start(SYSTEMS[name], 8).advance(4)
    theta, star, a = (run.weights[key] for key in ("theta", "theta_star", "a"))
    state = run.state
    assert state["Q"].dims == ("unit", "unit2")
    np.testing.assert_allclose(state["Q"], theta @ theta.T / theta.shape[1], rtol=ROUNDING)
    np.testing.assert_allclose(state["m"], theta @ star.T / theta.shape[1], rtol=ROUNDING)
    np.testing.assert_array_equal(state["a"], a)
    assert int(state["test_loss"]["step"]) == 4


@pytest.mark.bitwise
@pytest.mark.parametrize("name", SYSTEMS)
def test_looking_at_a_system_changes_nothing(name):
    looked, left = ld.start(SYSTEMS[name], D), ld.start(SYSTEMS[name], D)
    for step in range(1, 6):
        looked.advance(step)
        left.advance(step)
        assert set(looked.state) <= set(looked.solution.data)
        seen = looked.sample(1)["x"]
        assert seen.shape == (3, 1, D)
        # What is shown are copies.
        for shown in (*looked.weights.values(), seen):
            shown[:] = 0.0
    assert looked.solution.data.identical(left.solution.data)


@pytest.mark.bitwise
@pytest.mark.parametrize("name", ["map", "memory"])
def test_looking_at_a_limit_changes_nothing(name):
    looked, left = ld.start(LIMITS[name]), ld.start(LIMITS[name])
    for step in range(1, 5):
        assert looked.advance(step).state
        left.advance(step)
    assert looked.solution.data.identical(left.solution.data)
    with pytest.raises(ld.LearndynError, match="the limit has no weights"):
        _ = looked.weights


@pytest.mark.parametrize("size", [None, D])
def test_nothing_comes_after_the_end(size):
    run = ld.start(LIMITS["map"], size)
    with pytest.raises(ld.ProblemError, match="until = 7: is after the end of training, 6"):
        run.advance(7)
    run.advance(6)
    with pytest.raises(ld.ProblemError, match="after the end of training"):
        run.step()
    with pytest.raises(ld.ProblemError, match="must not be before 6"):
        run.advance(2)
    run.problem = with_training(LIMITS["map"], steps=7)
    assert run.step().now == 7


@pytest.mark.parametrize(
    "supply", [{}, {"supply": "dataset", "examples": 1}], ids=["map", "memory"]
)
def test_a_limit_that_diverges_ends_there(supply):
    asked = problem(rate=60.0, epochs=20, **supply)
    expected = ld.solve(asked)
    run = ld.start(asked)
    while not run.diverged:
        run.step()
    last = run.now
    assert run.advance(20).now == last
    close(run.solution, expected)
    assert run.solution.diverged_at == expected.diverged_at == last + 1
    far = ld.start(asked).advance(20)
    assert far.diverged
    assert far.solution["step"].values.tolist() == [0]
    assert far.solution.diverged_at == 20


@pytest.mark.parametrize("size", [pytest.param(None, id="limit"), pytest.param(D, id="system")])
def test_a_flow_that_diverges_at_once_has_no_states(size):
    """The first of two Euler steps moves x and y apart by order one, the second makes that 5·10⁶ times as much."""
    run = ld.start(problem(field=[[0, 0], [0, 0.8]], confinement=-1e7), size)
    assert run.diverged
    found = run.solution
    assert found.diverged_at == 0
    assert found.data.sizes["step"] == 0
    assert {"Q", "m", "a", "C_theta", "test_loss"} == set(found.data)
