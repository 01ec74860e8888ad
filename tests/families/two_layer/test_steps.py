"""Two-layer networks a step at a time: in pieces as at once, with weights to look at and tasks that change."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import learndyn as ld
from tests import problems
from tests.optional import not_none

pytestmark = pytest.mark.compiles

online = partial(problems.two_layer, Q=[[0.3, 0.05], [0.05, 0.2]], R=[[0.1, 0.0], [0.0, 0.15]])
STREAM = online(noise=0.1, time=4.0, rate=1.0, weight_decay=0.02)
POPULATION = online(supply="population", time=4.0, rate=1.0)
DATASET = problems.uneven(rate=0.4, steps=12)
CASES = {
    "sgd": (STREAM, ld.SGD(), 40),
    "chain": (STREAM, ld.OverlapChain(), 40),
    "population": (POPULATION, ld.PopulationDescent(), 20),
    "dataset": (DATASET, ld.FullBatch(), 30),
}


def pieces(problem) -> np.ndarray:
    end = problem.training.time or problem.training.steps
    at = np.linspace(0, end, 11)
    return at if problem.training.time else np.unique(np.rint(at).astype(int))


def with_rate(problem, rate) -> ld.Problem:
    training = dataclasses.replace(problem.training, learning_rate=rate)
    return dataclasses.replace(problem, training=training)


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(STREAM, id="stream"),
        pytest.param(POPULATION, id="population", marks=pytest.mark.slow),
    ],
)
def test_the_limit_in_ten_pieces_is_one_solution_to_the_tolerance(problem):
    """Local errors of 1e-9 add up over about a hundred steps, and pieces take more steps than one integration."""
    run = ld.start(problem)
    for t in pieces(problem)[1:]:
        run.advance(t)
    whole = ld.solve(problem, save_at=pieces(problem))
    assert run.solution.observables == whole.observables
    for name in whole.observables:
        np.testing.assert_allclose(run.solution[name], whole[name], rtol=0, atol=2e-8)
        assert run.solution[name].attrs == whole[name].attrs
    np.testing.assert_allclose(run.state["R"], whole["R"][-1], rtol=0, atol=2e-8)


@pytest.mark.bitwise
@pytest.mark.parametrize("case", CASES)
def test_a_network_in_ten_pieces_is_one_simulation_bit_for_bit(case):
    problem, method, size = CASES[case]
    run = ld.start(problem, size=size, seed=3, method=method)
    for t in pieces(problem)[1:]:
        run.advance(t)
        # Looking changes nothing.
        assert run.state["test_loss"].ndim == 0
        if case != "chain":
            assert run.weights["W"].shape == (2, size)
            assert run.sample(5)["x"].shape == (5, size)
    whole = ld.simulate(problem, size, 1, first_seed=3, method=method, save_at=pieces(problem))
    for name in ("test_loss", "Q", "R"):
        np.testing.assert_array_equal(run.solution[name], whole[name])
    for name in whole.observables:
        np.testing.assert_allclose(run.solution[name], whole[name], rtol=1e-12, atol=1e-13)
    assert run.solution.evidence["seeds"] == [3]


def test_steps_one_by_one_are_steps_at_once():
    one, other = (ld.start(STREAM, size=25) for _ in range(2))
    for _ in range(10):
        one.step()
    other.advance(10 / 25)
    assert one.now == pytest.approx(other.now, rel=1e-15)
    np.testing.assert_array_equal(one.weights["W"], other.weights["W"])
    assert len(one.solution["time"]) == 11
    full = ld.start(DATASET, size=25).step().step()
    assert full.now == 2


def test_examples_are_those_that_the_next_steps_use():
    """One step of SGD by hand with the next example gives the next weights."""
    run = ld.start(online(noise=0.3, time=4.0, rate=0.7), size=30, seed=1).advance(1.0)
    W, v, (x, y) = run.weights["W"], run.weights["v"], run.sample(1).values()
    field = W @ x[0] / np.sqrt(30)
    # g(z) = erf(z/√2), g'(z) = √(2/π) exp(−z²/2)
    activation = run.problem.network.activation
    error = y[0] - v @ np.asarray(activation(field))
    slope = np.sqrt(2 / np.pi) * np.exp(-(field**2) / 2)
    moved = W + 0.7 / np.sqrt(30) * np.outer(v * error * slope, x[0])
    # The activation outside the library's own precision is in 32 bits.
    np.testing.assert_allclose(run.step().weights["W"], moved, atol=1e-6)


def test_overlaps_and_loss_are_those_of_the_weights():
    for problem, size in ((STREAM, 40), (DATASET, 30)):
        run = ld.start(problem, size=size)
        run.advance(2.0 if problem is STREAM else 6)
        W, W_star = run.weights["W"], run.weights["W_star"]
        np.testing.assert_allclose(run.state["Q"], W @ W.T / size, rtol=1e-12)
        np.testing.assert_allclose(run.state["R"], W @ W_star.T / size, rtol=1e-12, atol=1e-14)


def test_examples_of_a_dataset_give_its_train_loss():
    run = ld.start(DATASET, size=30).advance(5)
    W, v = run.weights["W"], run.weights["v"]
    sample = run.sample(10**6)
    assert len(sample["y"]) == round(1.3 * 30)
    outputs = np.asarray(DATASET.network.activation(sample["x"] @ W.T / np.sqrt(30))) @ v
    loss = np.mean((sample["y"] - outputs) ** 2) / 2
    # The activation outside the library's own precision is in 32 bits.
    assert run.state["train_loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("size", [None, 40])
def test_another_rate_in_the_middle_is_a_schedule_that_jumps(size):
    scheduled = with_rate(STREAM, ld.Piecewise([2.0], [1.0, 0.25]))
    run, other = ld.start(STREAM, size=size), ld.start(scheduled, size=size)
    run.advance(2.0)
    run.problem = with_rate(STREAM, 0.25)
    for one in (run, other):
        one.advance(4.0)
    tolerance = 2e-8 if size is None else 1e-13
    for name in ("test_loss", "Q", "R"):
        np.testing.assert_allclose(run.state[name], other.state[name], rtol=0, atol=tolerance)
    assert run.solution.evidence["changed_at"] == [2.0]
    assert "changed at time 2" in run.solution.evidence["warnings"][0]


def test_another_rate_on_a_dataset_is_a_schedule_that_jumps():
    scheduled = with_rate(DATASET, ld.Piecewise([6.0], [0.4, 0.1]))
    run = ld.start(DATASET, size=30).advance(6)
    run.problem = with_rate(DATASET, 0.1)
    whole = ld.simulate(scheduled, 30, 1, save_at=[0, 12])
    np.testing.assert_allclose(run.advance(12).state["Q"], whole["Q"][0, -1], rtol=1e-13)


def test_another_task_in_the_middle_is_another_readout_of_the_teacher():
    """The limit and a large network follow the same change: within a few 1/√N."""
    first, second = (online(time=6.0, rate=1.0, teacher_readout=v) for v in ([1, 0], [0, 1]))
    ends = []
    for size in (None, 2000):
        run = ld.start(first, size=size).advance(3.0)
        before = run.state["test_loss"].item()
        run.problem = second
        assert run.state["test_loss"].item() != pytest.approx(before, rel=0.1)
        ends.append(run.advance(6.0).state)
    for name in ("test_loss", "Q", "R"):
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=4 / np.sqrt(2000))


def test_what_cannot_change_or_advance_is_said_in_words():
    run = ld.start(STREAM)
    with pytest.raises(ld.LearndynError, match=r"no single steps.*advance\(t\)"):
        run.step()
    with pytest.raises(ld.ProblemError, match=r"until = 5\.0: is after the end of training, 4"):
        run.advance(5.0)
    run.advance(1.0)
    with pytest.raises(ld.ProblemError, match="must not be before 1"):
        run.advance(0.5)
    with pytest.raises(ld.LearndynError, match="the limit has no weights; start a network"):
        _ = run.weights
    with pytest.raises(ld.ProblemError, match=r"network(.|\n)*must stay as it is"):
        run.problem = online(noise=0.1, time=4.0, rate=1.0, readout=[2.0, 2.0])
    other = online(noise=0.1, time=4.0, T=[[2.0, 0.0], [0.0, 2.0]])
    with pytest.raises(
        ld.ProblemError, match=r"data\.task\.T(.|\n)*may change:.*data\.task\.readout"
    ):
        run.problem = other
    with pytest.raises(ld.ProblemError, match="same kind"):
        run.problem = POPULATION
    with pytest.raises(ld.NoTheory, match="CausalSampling solves the whole of training at once"):
        ld.start(DATASET)
    chain = ld.start(STREAM, size=40, method=ld.OverlapChain())
    with pytest.raises(ld.LearndynError, match="does not show its weights"):
        _ = chain.weights
    full = ld.start(DATASET, size=30)
    with pytest.raises(ld.ProblemError, match=r"until = 13: is after the end"):
        full.advance(13)


def test_a_run_that_diverges_stays_where_it_was():
    wild = online(activation="linear", teacher_activation="linear", rate=60.0, time=40.0)
    for size in (None, 20):
        run = ld.start(wild, size=size)
        for t in np.linspace(4, 40, 10):
            run.advance(t)
        assert run.diverged
        with pytest.raises(ld.LearndynError, match="training has diverged by time"):
            _ = run.state
        assert run.solution.diverged_at is not None
        assert len(run.solution["time"]) < 11
        whole = ld.solve(wild) if size is None else ld.simulate(wild, 20, 1)
        assert run.solution.diverged_at >= not_none(whole.diverged_at) - 4.0
