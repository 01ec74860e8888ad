"""Wide networks a step at a time: the same numbers as all at once, and nothing changes by looking."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems

N = 9
problem = partial(problems.wide, dimension=5, seed=3, test_points=2, steps=20, richness=0.7)
linear = partial(problem, activation="linear", rate=0.1)
TENTHS = range(2, 21, 2)

RULES = {
    "descent": {},
    "momentum": {"momentum": 0.6},
    "decay": {"weight_decay": 0.3, "bias": True},
    "Langevin noise": {"temperature": 0.1, "momentum": 0.3},
    "centred, two outputs": {"centered": True, "outputs": 2},
}


def assert_equal(found: ld.Solution, expected: ld.Solution, atol=0.0):
    """All observables and labels; bit for bit without `atol`."""
    assert set(found.observables) == set(expected.observables)
    for name in expected.observables:
        mine, theirs = found[name], expected[name]
        assert mine.dims == theirs.dims
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol, err_msg=name)
        for axis in theirs.coords:
            assert np.array_equal(mine[axis], theirs[axis]), (name, axis)


def advanced(run: ld.Run, states) -> ld.Run:
    for state in states:
        run.advance(state)
    return run


def with_training(asked, **fields):
    training = dataclasses.replace(asked.training, **fields)
    return dataclasses.replace(asked, training=training)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_linear_limit_in_pieces_is_the_whole(depth, rule):
    """To the rounding of a few thousand sums of numbers below 10: equal bit for bit on the machine at hand."""
    asked = linear(depth=depth, **RULES[rule])
    found = advanced(ld.start(asked), TENTHS).solution
    whole = ld.solve(asked, ld.LinearRows(), save_at=[0, *TENTHS])
    assert_equal(found, whole, atol=1e-13)
    assert found["layer"].values.tolist() == list(range(1, depth + 1))


def test_the_state_of_a_limit_is_the_end_of_its_curve():
    asked = linear(outputs=2)
    run, whole = ld.start(asked), ld.solve(asked, ld.LinearRows())
    for _ in range(3):
        run.step()
    assert run.now == 3
    assert {"prediction", "test_loss", "kernel", "alignment", "movement"} <= run.state.keys()
    assert not {"Phi", "G", "A", "B"} & run.state.keys()
    for name, value in run.state.items():
        expected = whole[name].sel(step=3)
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-13, err_msg=name)
        assert value.dims == expected.dims
    assert run.state["movement"].sel(layer=2) > 0.01


def test_a_limit_that_diverges_ends_and_stays_where_it_is():
    asked = linear(depth=3, rate=30.0)
    run = advanced(ld.start(asked), range(1, 21))
    assert run.diverged
    found, whole = run.solution, ld.solve(asked, ld.LinearRows())
    assert found.diverged_at == whole.diverged_at
    assert run.now == whole["step"][-1]
    assert np.all(np.isfinite(found["prediction"]))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (problem(depth=1), "SampledLayers"),
        (problem(depth=2), "SampledLayers"),
        (linear(steps=None, time=2.0), "LinearPanels"),
        (linear(steps=3000), "LinearInnovation"),
    ],
)
def test_other_limits_are_solved_as_a_whole(asked, name):
    with pytest.raises(ld.NoTheory, match=rf"{name} solves the whole of training at once.* solve"):
        ld.start(asked)


def test_long_linear_limits_say_what_can_be_advanced():
    with pytest.raises(ld.NoTheory, match="or LinearRows to advance step by step"):
        ld.start(linear(steps=3000))
    assert ld.start(linear(steps=600), method=ld.LinearRows()).advance(5).now == 5


def test_a_limit_has_no_weights_and_keeps_its_problem():
    asked = linear()
    run = ld.start(asked)
    with pytest.raises(ld.LearndynError, match="the limit has no weights"):
        _ = run.weights
    with pytest.raises(ld.LearndynError, match=r"training(.|\n)*what may change: none"):
        run.problem = with_training(asked, learning_rate=0.2)
    assert run.problem is asked


@pytest.mark.bitwise
@pytest.mark.parametrize("rule", RULES)
def test_descent_in_pieces_is_the_whole(rule):
    asked = problem(**RULES[rule])
    found = advanced(ld.start(asked, N, seed=4), TENTHS).solution
    assert_equal(found, ld.simulate(asked, N, first_seed=4, save_at=[0, *TENTHS]))


@pytest.mark.bitwise
@pytest.mark.parametrize("schedule", [0.5, ld.Piecewise([0.7], [0.3, 0.8])])
def test_flow_in_pieces_is_the_whole(schedule):
    """With the same recorded times, where steps end."""
    asked = problem(steps=None, time=2.0, rate=schedule, weight_decay=0.1, bias=True)
    times = np.linspace(0.0, 2.0, 11)
    found = advanced(ld.start(asked, N, seed=4), times[1:].tolist()).solution
    assert_equal(found, ld.simulate(asked, N, first_seed=4, save_at=times))


@pytest.mark.bitwise
def test_responses_in_pieces_are_those_of_the_recorded_steps():
    asked = problem(steps=6, count=2, test_points=0)
    method = ld.WideDescent(responses=True)
    found = advanced(ld.start(asked, N, method=method), [2, 3, 6]).solution
    whole = ld.simulate(asked, N, method=method, save_at=[0, 2, 3, 6])
    # Fewer tangents may be summed in another order.
    assert_equal(found, whole, atol=1e-13)
    assert np.any(found["A"] != 0)


def test_responses_away_from_recorded_steps_are_refused():
    asked = problem(steps=401, count=1, test_points=0)
    run = ld.start(asked, 2, method=ld.WideDescent(responses=True))
    with pytest.raises(
        ld.LearndynError, match="step 1 is not one of them; use simulate with save_at"
    ):
        run.step()


@pytest.mark.bitwise
@pytest.mark.parametrize("rule", ["descent", "Langevin noise"])
def test_another_rate_in_the_middle_is_a_jump_of_the_schedule(rule):
    asked = problem(rate=0.3, **RULES[rule])
    run = ld.start(asked, N).advance(8)
    run.problem = with_training(asked, learning_rate=0.1)
    found = run.advance(20).solution
    jump = with_training(asked, learning_rate=ld.Piecewise([8], [0.3, 0.1]))
    assert_equal(found, ld.simulate(jump, N, save_at=[0, 8, 20]))
    assert found.problem == run.problem


def test_another_rate_in_the_middle_of_flow_is_a_jump_of_the_schedule():
    """Steps of gradient flow are others then: each has an error of 1e-5 of the outputs, and there are a dozen."""
    asked = problem(steps=None, time=2.0, rate=0.5, weight_decay=0.1)
    run = ld.start(asked, N).advance(0.8)
    run.problem = with_training(asked, learning_rate=1.5, weight_decay=0.1)
    found = run.advance(2.0).solution["prediction"]
    jump = with_training(asked, learning_rate=ld.Piecewise([0.8], [0.5, 1.5]))
    expected, plain = (
        ld.simulate(one, N, save_at=[0, 0.8, 2.0])["prediction"] for one in (jump, asked)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert np.max(np.abs(expected - plain)) > 1e-2
    with pytest.raises(ld.ProblemError, match=r"training\.momentum.*must stay as it is"):
        run.problem = with_training(asked, momentum=0.5)


def test_momentum_decay_and_noise_may_begin_in_the_middle():
    asked = problem()
    for fields in ({"momentum": 0.5}, {"weight_decay": 0.5}, {"noise": 0.1}):
        run = ld.start(asked, N).advance(8)
        other = with_training(asked, **fields)
        run.problem = other
        found = run.advance(20).solution["prediction"]
        for whole in (asked, other):
            different = ld.simulate(whole, N, save_at=[0, 8, 20])["prediction"]
            assert np.max(np.abs(found - different)) > 1e-3


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"loss": "sum"}, "training.loss"),
        ({"criterion": "logistic"}, "training.criterion"),
    ],
)
@pytest.mark.parametrize("length", [{}, {"steps": None, "time": 2.0}])
def test_the_loss_stays_as_it_is(length, change, name):
    run = ld.start(problem(**length), N)
    with pytest.raises(ld.ProblemError, match=f"{name} = .*: must stay as it is"):
        run.problem = with_training(run.problem, **change)


def test_points_stay_as_they_are():
    run = ld.start(problem(), N)
    with pytest.raises(ld.ProblemError, match=r"data(.|\n)*must stay as it is"):
        run.problem = problem(seed=8)


def test_training_with_responses_stays_as_it_is():
    asked = problem(steps=4, count=1, test_points=0)
    run = ld.start(asked, N, method=ld.WideDescent(responses=True))
    with pytest.raises(ld.LearndynError, match="while responses are measured"):
        run.problem = with_training(asked, learning_rate=0.1)


def outputs(weights, asked, x):
    """f of the points x, from the formulas of `Wide`."""
    phi, width = x, weights["w"].shape[1]
    for ell in range(asked.network.depth):
        h = phi @ weights[f"W{ell}"].T / np.sqrt(phi.shape[1])
        phi = np.tanh(h + weights[f"b{ell}"] if asked.network.bias else h)
    return phi @ weights["w"].T / (asked.network.richness * width)


@pytest.mark.parametrize("length", [{}, {"steps": None, "time": 5.0}])
@pytest.mark.parametrize("centered", [False, True])
def test_predictions_are_what_the_weights_give(centered, length):
    """To the rounding of sums over nine neurons."""
    asked = problem(bias=True, outputs=2, centered=centered, **length)
    run = ld.start(asked, N)
    first, data = run.weights, asked.data
    run.advance(5)
    for name, x in (("prediction", data.inputs), ("test_prediction", data.test_inputs)):
        f = outputs(run.weights, asked, x) - (outputs(first, asked, x) if centered else 0)
        np.testing.assert_allclose(run.state[name], f, rtol=0, atol=1e-13)
        assert np.max(np.abs(f - outputs(first, asked, x))) > 1e-2
    sample = run.sample(3)
    np.testing.assert_array_equal(sample["x"], data.inputs[:3])
    np.testing.assert_array_equal(sample["y"], data.targets[:3])


@pytest.mark.bitwise
@pytest.mark.parametrize("kind", ["Langevin noise", "flow", "limit"])
def test_looking_changes_no_later_digit(kind):
    if kind == "limit":
        asked, size, states = linear(), None, TENTHS
    elif kind == "flow":
        asked, size = problem(steps=None, time=2.0), N
        states = [0.4, 1.1, 2.0]
    else:
        asked, size, states = problem(**RULES[kind]), N, TENTHS
    looked = ld.start(asked, size)
    for state in states:
        looked.advance(state)
        assert looked.state
        assert looked.solution.axis == looked.axis
        if size is not None:
            for array in (*looked.weights.values(), *looked.sample(2).values()):
                array[...] = np.nan
    assert_equal(looked.solution, advanced(ld.start(asked, size), states).solution)


@pytest.mark.parametrize(("asked", "size"), [(linear(), None), (problem(), N)])
def test_training_ends(asked, size):
    run = ld.start(asked, size).advance(20)
    with pytest.raises(ld.ProblemError, match="until = 21: is after the end of training, 20"):
        run.advance(21)
    with pytest.raises(ld.ProblemError, match="is after the end of training"):
        run.step()
    with pytest.raises(ld.ProblemError, match="must not be before 20"):
        run.advance(3)
    assert run.now == 20


def test_a_longer_training_goes_on():
    asked = problem()
    run = ld.start(asked, N).advance(20)
    run.problem = with_training(asked, steps=24)
    found = run.advance(24).solution["prediction"]
    expected = ld.simulate(with_training(asked, steps=24), N, save_at=[0, 20, 24])["prediction"]
    np.testing.assert_array_equal(found, expected)


def test_gradient_flow_has_no_single_steps():
    run = ld.start(problem(steps=None, time=2.0), N)
    with pytest.raises(ld.LearndynError, match=r"advance\(t\)"):
        run.step()
    with pytest.raises(ld.ProblemError, match="is after the end of training, 2"):
        run.advance(2.5)
