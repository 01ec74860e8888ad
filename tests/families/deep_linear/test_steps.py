"""Training in the user's hands: pieces make the whole, changes on the way are those of a schedule, looking is free."""

import dataclasses

import numpy as np
import pytest

import learndyn as ld
from learndyn.problem.weight_response import PerStepRule
from tests import problems

STEPS, JUMP = 30, 12
SIZE = 40
EXACT = ld.Innovation(tolerance=1e-13)
LIMITS = {
    "rows": (ld.Rows(), {}),
    "rows with ensembles": (ld.Rows(ensembles=True), {}),
    "residual rows": (ld.Rows(), {"skip": 0.6, "depth": 3}),
    "innovation": (EXACT, {}),
    "innovation, stream": (EXACT, {"supply": "stream", "noise": 0.3}),
}
PIECES = range(3, STEPS + 1, 3)
RULE = {"rate": 0.04, "momentum": 0.5, "weight_decay": 0.2}
NETWORKS = {
    "dataset": {"ratio": 0.8, "noise": 0.3, "outputs": 2},
    "stream": {"supply": "stream", "batch_ratio": 0.5, "noise": 0.3, "centered": True},
    "population": {"supply": "population", "noise": 0.3, "skip": 0.5, "width": 0.8},
}

every_limit = pytest.mark.parametrize("name", LIMITS)
every_network = pytest.mark.parametrize("name", NETWORKS)


def limit(name, **properties):
    """A problem and the method that solves it."""
    method, usual = LIMITS[name]
    return problems.deep_linear(**{"steps": STEPS, "outputs": 2} | usual | properties), method


def network(name, **properties):
    return problems.deep_linear(**{"steps": STEPS} | NETWORKS[name] | properties)


def retrained(problem, **fields):
    training = dataclasses.replace(problem.training, **fields)
    return ld.Problem(problem.network, problem.data, training)


def piecewise(before, after):
    return ld.Piecewise([float(JUMP)], [before, after])


def advanced(run, states):
    for state in states:
        run.advance(state)
    return run


def assert_close(found, expected, tolerance):
    """Equal up to a part of the largest value of each observable."""
    assert list(found.observables) == list(expected.observables)
    np.testing.assert_array_equal(found["step"], expected["step"])
    for name in expected.observables:
        one, other = found[name], expected[name]
        assert one.dims == other.dims
        scale = float(np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale, err_msg=name)


def assert_identical(found, expected):
    assert list(found.observables) == list(expected.observables)
    for name in expected.observables:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@every_limit
def test_the_limit_in_ten_pieces_is_that_of_one_solve(name):
    """To 1e-13 of the largest entry: the order of a sum may depend on where its terms lie in memory."""
    problem, method = limit(name, **RULE)
    run = advanced(ld.start(problem, method=method), PIECES)
    whole = ld.solve(problem, method, save_at=[0, *PIECES])
    assert_close(run.solution, whole, 1e-13)
    np.testing.assert_array_equal(run.solution["layer"], whole["layer"])
    assert whole["layer"].values[0] == 1


@every_limit
def test_a_run_says_how_its_numbers_were_obtained(name):
    """All that `solve` says; only `solve` knows how accurate they are."""
    problem, method = limit(name)
    run = advanced(ld.start(problem, method=method), PIECES).solution.evidence
    whole = ld.solve(problem, method, save_at=[0, *PIECES]).evidence
    apart = {"accuracy", "wall_time", "compile_time"}
    assert {key: run[key] for key in run if key not in apart} == {
        key: whole[key] for key in whole if key not in apart
    }


def test_a_run_on_a_spectrum_is_called_an_approximation():
    spectrum = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])
    problem = problems.deep_linear(width=20, examples=30, spectrum=spectrum)
    assert "approximation" in ld.start(problem).solution.evidence["exactness"]


@every_limit
def test_single_steps_are_steps(name):
    problem, method = limit(name)
    run = ld.start(problem, method=method)
    for _ in range(4):
        run.step()
    assert run.now == 4
    assert_close(run.solution, ld.solve(problem, method, save_at=range(5)), 1e-13)


@every_limit
def test_a_limit_that_diverges_ends_where_solve_ends(name):
    problem, method = limit(name, rate=3.0)
    run = advanced(ld.start(problem, method=method), PIECES)
    whole = ld.solve(problem, method, save_at=[0, *PIECES])
    assert run.diverged
    assert run.solution.diverged_at == whole.diverged_at
    # Violently growing numbers amplify rounding by no more than a thousandfold.
    assert_close(run.solution, whole, 1e-10)


@pytest.mark.bitwise
@every_network
@pytest.mark.parametrize("partners", [False, True])
def test_a_network_in_ten_pieces_is_that_of_one_simulation(name, partners):
    problem, method = network(name, **RULE), ld.Descent(partners=partners)
    run = advanced(ld.start(problem, SIZE, seed=3, method=method), PIECES)
    whole = ld.simulate(problem, SIZE, first_seed=3, method=method, save_at=[0, *PIECES])
    assert_identical(run.solution, whole)


@pytest.mark.bitwise
@every_network
def test_looking_changes_no_later_digit(name):
    """Neither at the weights, nor at examples, nor at the observables, nor at the solution so far."""
    problem = network(name, **RULE)
    plain = advanced(ld.start(problem, SIZE, seed=1), PIECES)
    watched = ld.start(problem, SIZE, seed=1)
    for state in PIECES:
        weights, examples = watched.weights, watched.sample(3)
        state_now, so_far = watched.state, watched.solution
        for array in (*weights.values(), *examples.values()):
            array[:] = np.nan
        for array in (*state_now.values(), so_far["C_h"]):
            array.values[...] = np.nan
        watched.advance(state)
    assert_identical(watched.solution, plain.solution)


@pytest.mark.bitwise
@every_limit
def test_looking_at_a_limit_changes_no_later_digit(name):
    problem, method = limit(name)
    plain = advanced(ld.start(problem, method=method), PIECES)
    watched = ld.start(problem, method=method)
    for state in PIECES:
        for array in watched.state.values():
            array.values[...] = np.nan
        assert len(watched.solution["step"]) == len(range(0, state, 3))
        watched.advance(state)
    assert_identical(watched.solution, plain.solution)


@every_limit
def test_the_state_is_the_last_of_the_solution(name):
    problem, method = limit(name)
    run = ld.start(problem, method=method).advance(7)
    for key, value in run.state.items():
        np.testing.assert_allclose(value, run.solution[key].sel(step=7), rtol=1e-12)
    assert {"test_loss", "train_loss", "bias"} <= run.state.keys()
    assert "C_h" not in run.state


@every_limit
def test_another_rate_on_the_way_is_a_schedule_with_a_jump(name):
    """The limit, to rounding as above."""
    problem, method = limit(name, rate=0.03)
    run = ld.start(problem, method=method).advance(JUMP)
    run.problem = retrained(problem, learning_rate=0.06)
    advanced(run, [15, STEPS])
    jump = retrained(problem, learning_rate=piecewise(0.03, 0.06))
    assert_close(run.solution, ld.solve(jump, method, save_at=[0, JUMP, 15, STEPS]), 1e-13)
    plain = ld.solve(problem, method, save_at=[0, STEPS])
    assert abs(float(run.solution["test_loss"][-1] - plain["test_loss"][-1])) > 1e-3


@every_network
def test_another_rate_on_the_way_of_a_network_is_a_schedule_with_a_jump(name):
    """To rounding: forces that were held back are added earlier. A few steps amplify it at most a hundredfold."""
    problem = network(name, rate=0.03)
    run = ld.start(problem, SIZE).advance(JUMP)
    run.problem = retrained(problem, learning_rate=0.06)
    advanced(run, [15, STEPS])
    jump = retrained(problem, learning_rate=piecewise(0.03, 0.06))
    assert_close(run.solution, ld.simulate(jump, SIZE, save_at=[0, JUMP, 15, STEPS]), 1e-12)


CHANGES = {
    "momentum sets in": ({}, {"momentum": 0.7}),
    "momentum ends": ({"momentum": 0.7}, {}),
    "decay sets in": ({}, {"weight_decay": 0.4}),
    "all change": (
        {"momentum": 0.3, "weight_decay": 0.1},
        {"momentum": 0.7, "weight_decay": 0.5, "learning_rate": 0.02},
    ),
    "all of the coupled rule": (
        {"weight_decay": 0.1, "momentum_rule": "coupled"},
        {"momentum": 0.7, "weight_decay": 0.5, "learning_rate": 0.02, "momentum_rule": "coupled"},
    ),
}
RESET = {"momentum": 0.0, "weight_decay": 0.0}


def changed_on_the_way(problem, before, after, size=None, method=None, seed=0):
    run = ld.start(retrained(problem, **before), size, seed=seed, method=method).advance(JUMP)
    run.problem = retrained(problem, **RESET | after)
    return advanced(run, [JUMP + 1, JUMP + 2, STEPS])


@pytest.mark.parametrize("change", CHANGES)
def test_the_impulse_response_of_a_rule_that_changes_is_that_of_a_plain_loop(change):
    """W(t) = d(t) W(0) + Σ κ(t, s) force(s); B is there without momentum too, as the force of the last step."""
    before, after = (retrained(problems.deep_linear(steps=STEPS), **x) for x in CHANGES[change])
    rule = PerStepRule.of(before.training).until(JUMP, after.training)
    kappa, d = rule.impulse_response(STEPS)
    force, W, B = np.random.default_rng(1).standard_normal(STEPS), [0.7], 0.0
    for t in range(STEPS):
        training = (before if t < JUMP else after).training
        eta = training.learning_rate
        if "coupled" in change:
            B = training.momentum * B + force[t] - training.weight_decay * W[-1]
            W.append(W[-1] + eta * B)
        else:
            B = training.momentum * B + eta * force[t]
            W.append((1 - eta * training.weight_decay) * W[-1] + B)
    np.testing.assert_allclose(d * W[0] + kappa[:, :STEPS] @ force, W, rtol=1e-13)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("skip", [None, 0.5], ids=["feedforward", "residual"])
def test_both_methods_agree_on_a_rule_that_changes(change, skip):
    """Two algorithms with nothing in common but the network: to rounding."""
    problem = problems.deep_linear(depth=3, outputs=2, noise=0.4, skip=skip, steps=STEPS, rate=0.04)
    rows, basis = (
        changed_on_the_way(problem, *CHANGES[change], method=method).solution
        for method in (ld.Rows(), EXACT)
    )
    for name in basis.observables:
        scale = float(np.abs(rows[name]).max())
        np.testing.assert_allclose(
            rows[name], basis[name], rtol=0, atol=1e-11 * scale, err_msg=name
        )


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_whose_rule_changes_is_that_of_a_plain_loop(change):
    """All weights, from those at the start, by the update rules of the docs; on the population, with two layers."""
    problem = problems.deep_linear(supply="population", steps=STEPS, rate=0.04)
    before, after = CHANGES[change]
    start = ld.start(problem, SIZE, seed=2).weights
    run = changed_on_the_way(problem, before, after, SIZE, seed=2)
    W = [start["W0"], start["W1"], start["w"]]
    B = [np.zeros_like(one) for one in W]
    w_star, gamma, N = target(run), problem.network.gamma, len(W[1])
    for t in range(STEPS):
        rule = retrained(problem, **(before if t < JUMP else RESET | after)).training
        g = [W[2] @ W[1] / np.sqrt(N), W[2]]
        h = [w_star - np.sqrt(SIZE) / (N * gamma) * g[0] @ W[0]]
        h.append(h[0] @ W[0].T / np.sqrt(SIZE))
        h.append(h[1] @ W[1].T / np.sqrt(N))
        forces = [
            gamma / np.sqrt(SIZE) * g[0].T @ h[0],
            gamma / np.sqrt(N) * g[1].T @ h[1],
            gamma * h[2],
        ]
        for k, force in enumerate(forces):
            if rule.momentum_rule == "coupled":
                B[k] = rule.momentum * B[k] + force - rule.weight_decay * W[k]
                W[k] = W[k] + rule.learning_rate * B[k]
                continue
            B[k] = rule.momentum * B[k] + rule.learning_rate * force
            W[k] = (1 - rule.learning_rate * rule.weight_decay) * W[k] + B[k]
    for name, expected in zip(("W0", "W1", "w"), W, strict=True):
        np.testing.assert_allclose(run.weights[name], expected, rtol=0, atol=1e-12)


def target(run):
    """w*, by linear regression on noiseless examples of the population."""
    examples = run.sample(4 * SIZE)
    return np.linalg.lstsq(examples["x"] / np.sqrt(SIZE), examples["y"], rcond=None)[0].T


def test_a_network_whose_rule_changes_follows_the_limit():
    """Ten networks of 400 inputs, at the level of one in a hundred, after momentum and decay have set in."""
    problem = problems.deep_linear(noise=0.4, steps=STEPS, rate=0.03)
    change = {}, {"momentum": 0.6, "weight_decay": 0.3}
    theory = changed_on_the_way(problem, *change).solution
    losses = np.array(
        [
            changed_on_the_way(problem, *change, 400, seed=seed).solution["test_loss"].values[0]
            for seed in range(10)
        ]
    )
    deviation = losses.mean(axis=0) - theory["test_loss"].values
    z = deviation / (losses.std(axis=0, ddof=1) / np.sqrt(len(losses)))
    # Student's distribution with nine degrees of freedom, for five states.
    assert np.abs(z).max() < 4.8, z
    without = ld.solve(problem, save_at=theory["step"].values)["test_loss"]
    assert float(abs(without - theory["test_loss"])[-1]) > 0.02


@every_limit
def test_a_longer_training_goes_on(name):
    problem, method = limit(name)
    run = ld.start(problem, method=method).advance(STEPS)
    longer = retrained(problem, steps=2 * STEPS)
    run.problem = longer
    run.advance(2 * STEPS)
    assert_close(run.solution, ld.solve(longer, method, save_at=[0, STEPS, 2 * STEPS]), 1e-13)


@pytest.mark.parametrize("size", [None, SIZE])
def test_what_cannot_change_on_the_way_is_refused(size):
    problem = problems.deep_linear(steps=STEPS)
    run = ld.start(problem, size).advance(4)
    other = ld.Problem(problem.network, ld.Dataset(ld.LinearMap(), ratio=2.0), problem.training)
    with pytest.raises(ld.ProblemError, match="during training"):
        run.problem = other
    with pytest.raises(ld.ProblemError, match=r"network(.|\n)*must stay as it is"):
        run.problem = problems.deep_linear(steps=STEPS, richness=0.1)
    with pytest.raises(ld.ProblemError, match="of the same kind"):
        run.problem = problems.deep_linear(steps=STEPS, supply="population")
    assert run.problem is problem


@pytest.mark.parametrize("size", [None, SIZE])
def test_the_end_and_the_past_are_out_of_reach(size):
    run = ld.start(problems.deep_linear(steps=5), size).advance(5)
    with pytest.raises(ld.ProblemError, match=r"after the end of training, 5; set `problem` to"):
        run.advance(6)
    with pytest.raises(ld.ProblemError, match="after the end of training"):
        run.step()
    with pytest.raises(ld.ProblemError, match="must not be before 5"):
        run.advance(4)
    assert run.now == 5


def test_memory_for_a_longer_training_is_refused_before_it_is_taken(monkeypatch):
    problem = problems.deep_linear(steps=5)
    run = ld.start(problem)
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 1e5}))
    with pytest.raises(ld.NotEnoughMemory, match="a row recursion of 500 steps"):
        run.problem = retrained(problem, steps=500)
    assert run.problem is problem


def test_infinite_depth_is_solved_as_a_whole():
    network = {"depth": np.inf, "skip": ld.ScaledSkip(1.0)}
    problem = problems.deep_linear(**network, supply="population")
    with pytest.raises(ld.NoTheory, match="LayerNodes solves the whole of training at once"):
        ld.start(problem)


def function(weights, problem):
    """θ, f_c(x) = θ_c·x, as the docs define it."""
    *inner, readout = weights.values()
    theta = readout / (readout.shape[1] * problem.network.gamma)
    for W in inner[:0:-1]:
        image = theta @ W / np.sqrt(W.shape[1])
        skip = problem.network.skip
        theta = image if skip is None else theta + skip * image
    return theta @ inner[0]


@every_network
def test_the_weights_and_the_examples_make_the_recorded_losses(name):
    """Also between the steps at which held-back forces are added to the matrices."""
    problem = network(name, **RULE)
    outputs, noise = problem.network.outputs, problem.data.noise
    run = ld.start(problem, SIZE, seed=5)
    first = function(run.weights, problem) if problem.network.centered else 0.0
    # The same seed has the same target, whatever the data; scaled to y = w*·x.
    clean = problems.deep_linear(supply="population", outputs=outputs)
    w_star = target(ld.start(clean, SIZE, seed=5)) / np.sqrt(SIZE)
    for state in (0, 1, 7, 16, 20, STEPS):
        run.advance(state)
        theta = function(run.weights, problem) - first
        test = np.sum((w_star - theta) ** 2) + outputs * noise**2
        assert float(run.state["test_loss"]) == pytest.approx(test, rel=1e-11)
        seen = run.sample(10 * SIZE)
        assert seen["y"].shape == (len(seen["x"]), outputs)
        if problem.data.kind != "population":
            train = np.sum((seen["y"] - seen["x"] @ theta.T) ** 2) / len(seen["x"])
            assert float(run.state["train_loss"]) == pytest.approx(train, rel=1e-11)


def test_as_many_examples_as_are_asked_for_and_there():
    run = ld.start(network("dataset"), SIZE)
    assert run.sample(3)["x"].shape == (3, SIZE)
    assert len(run.sample(1000)["x"]) == 32
    drawn = ld.start(network("population"), SIZE).sample(1000)
    # The labels of the population are noisy, too: by 0.3, known to a fiftieth.
    w = np.linalg.lstsq(drawn["x"], drawn["y"], rcond=None)[0]
    assert np.std(drawn["y"] - drawn["x"] @ w) == pytest.approx(0.3, rel=0.1)


def test_the_limit_has_no_weights_and_no_examples():
    run = ld.start(problems.deep_linear())
    with pytest.raises(ld.LearndynError, match="the limit has no weights"):
        _ = run.weights
    with pytest.raises(ld.LearndynError, match="the limit has no examples"):
        run.sample(3)
