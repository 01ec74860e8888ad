"""Programs solved, trained, compared and advanced like any other problem."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.programs import mean
from tests.families.program.loops import mlp, perceptron, regression
from tests.optional import not_none

QUICK = ld.SampledLimit(samples=256, batches=4, extrapolate=False)
POINTS = ld.Points(
    inputs=[[1.0, 0.2, -0.4], [-0.3, 0.8, 0.5]],
    targets=[[1.0, 0.5], [-1.0, 0.2]],
    test_inputs=[[0.4, -0.6, 0.9]],
    test_targets=[[0.3, -0.2]],
)


def wide(**training):
    """The same linear network as a program, and as `ld.Wide`."""
    rule = ld.GradientDescent(0.2, steps=8, **training)
    program = ld.Problem(ld.Program(mlp, depth=3, richness=1.4), POINTS, rule)
    return program, ld.Problem(ld.Wide(3, "linear", richness=1.4), POINTS, rule)


@pytest.mark.parametrize(
    "training",
    [
        {},
        {"momentum": 0.4, "weight_decay": 0.3},
        {"loss": "sum", "noise": 0.2, "weight_decay": 0.1},
    ],
    ids=["plain", "momentum and decay", "sum and noise"],
)
def test_a_linear_forward_pass_is_the_wide_network_to_rounding(training):
    program, known = wide(**training)
    limit, expected = ld.solve(program), ld.solve(known, ld.LinearRows())
    assert limit.evidence.method == {"kind": "exact_limit", "drop": 1e-12}
    for name in ("train_loss", "test_loss", "prediction", "test_prediction"):
        # Rounding, amplified by the recursion over 8 steps of 3 layers; a factor would show at order one.
        np.testing.assert_allclose(limit[name], expected[name], rtol=0, atol=1e-9)
        assert limit[name].dims == expected[name].dims
        assert limit[name].attrs["long_name"] == expected[name].attrs["long_name"]


@pytest.mark.parametrize(
    ("criterion", "targets"),
    [("logistic", [1.0, -1.0]), ("cross_entropy", [[1.0, 0.0], [0.2, 0.8]])],
)
def test_other_losses_are_those_of_the_wide_network(criterion, targets):
    points = ld.Points(POINTS.inputs, targets)
    rule = ld.GradientDescent(0.2, steps=5, criterion=criterion)
    limit = ld.solve(ld.Problem(ld.Program(mlp), points, rule))
    expected = ld.solve(ld.Problem(ld.Wide(2, "linear"), points, rule), ld.LinearRows())
    np.testing.assert_allclose(limit["train_loss"], expected["train_loss"], rtol=0, atol=1e-9)


def test_a_schedule_is_followed():
    rule = ld.GradientDescent(ld.PerStep([0.3, 0.1, 0.2]), steps=3)
    limit = ld.solve(ld.Problem(ld.Program(mlp), POINTS, rule))
    expected = ld.solve(ld.Problem(ld.Wide(2, "linear"), POINTS, rule), ld.LinearRows())
    np.testing.assert_allclose(limit["prediction"], expected["prediction"], rtol=0, atol=1e-9)


def test_a_tanh_forward_pass_agrees_with_particles_within_errors():
    rule = ld.GradientDescent(0.3, steps=10)
    program = ld.Problem(ld.Program(mlp, depth=1, activation="tanh", richness=1.5), POINTS, rule)
    limit = ld.solve(program, ld.SampledLimit(samples=4096))
    expected = ld.solve(ld.Problem(ld.Wide(1, "tanh", richness=1.5), POINTS, rule))
    difference = (limit["prediction"] - expected["prediction"]).values
    errors = [not_none(s.standard_error("prediction")).values for s in (limit, expected)]
    moving = np.hypot(*errors) > 1e-9
    # Student's t with 7 degrees, 40 correlated numbers: 5.4 is exceeded in one of 1000 for each.
    assert np.abs(difference[moving] / np.hypot(*errors)[moving]).max() < 5.4


def test_a_loop_is_solved_with_standard_errors_and_evidence():
    problem = ld.Problem(ld.Program(perceptron))
    limit = ld.solve(problem, ld.SampledLimit(samples=512, batches=4))
    assert limit["overlaps"].dims == ("step", "overlaps_axis")
    assert np.all(not_none(limit.standard_error("train_loss")).values[1:] > 0)
    evidence = limit.evidence
    assert (evidence["samples"], evidence["batches"]) == (512, 4)
    assert list(evidence["ranks"]) == ["examples×inputs"]
    assert evidence["dropped"] < 2e-3
    assert evidence["orthonormality"] < 1e-5
    assert set(evidence["bias"]) == {"train_loss", "overlaps"}
    assert 0 < evidence["fullness"] < 0.2


def test_networks_agree_with_the_limit_and_say_how_they_were_made():
    problem = ld.Problem(ld.Program(perceptron, alpha=1.5))
    limit = ld.solve(problem)
    for matrices, size in (("dense", 400), ("lazy", 400)):
        runs = ld.simulate(problem, size, 12, method=ld.ProgramNetwork(matrices))
        assert runs.evidence["matrices"] == matrices
        assert runs.evidence.limiting_size == size
        assert ld.compare(limit, runs).agrees


def test_large_networks_are_lazy_by_themselves():
    problem = ld.Problem(ld.Program(perceptron, steps=2))
    assert ld.simulate(problem, 2000).evidence["matrices"] == "lazy"
    assert ld.simulate(problem, 200).evidence["matrices"] == "dense"


def test_a_wrong_limit_is_noticed():
    # The limit of another learning rate is not that of these networks.
    problem = ld.Problem(ld.Program(perceptron, rate=0.5))
    other = ld.solve(ld.Problem(ld.Program(perceptron, rate=0.8)))
    runs = ld.simulate(problem, 400, 12)
    pretended = ld.Solution(other.data, problem, dict(other.evidence), None)
    assert not ld.compare(pretended, runs).agrees


def test_the_same_seed_gives_the_same_result():
    problem = ld.Problem(ld.Program(perceptron))
    first, again, other = (ld.solve(problem, QUICK, seed=seed) for seed in (3, 3, 4))
    assert first["train_loss"].equals(again["train_loss"])
    assert not first["train_loss"].equals(other["train_loss"])
    runs = [ld.simulate(problem, 50, first_seed=5) for _ in range(2)]
    assert runs[0]["train_loss"].equals(runs[1]["train_loss"])


def test_only_the_states_of_save_at_are_kept():
    problem = ld.Problem(ld.Program(regression, steps=6))
    every, some = ld.solve(problem), ld.solve(problem, save_at=[0, 3, 6])
    assert some["step"].values.tolist() == [0, 3, 6]
    np.testing.assert_array_equal(some["test_loss"], every["test_loss"].sel(step=[0, 3, 6]))


def test_a_program_need_record_in_the_kept_states_only():
    def loop(net, steps=6):
        x = net.normal(net.dim("n"), trained=False)
        for _ in net.steps(steps):
            if net.kept:
                net.record(size=mean(x**2))

    problem = ld.Problem(ld.Program(loop))
    assert ld.solve(problem, save_at=[0, 2, 6])["size"].values == pytest.approx(np.ones(3))


def test_steps_can_be_taken_one_at_a_time():
    problem = ld.Problem(ld.Program(regression, steps=5))
    whole = ld.solve(problem)
    run = ld.start(problem)
    run.step().advance(3)
    np.testing.assert_array_equal(run.state["test_loss"], whole["test_loss"].sel(step=3))
    assert run.solution["step"].values.tolist() == [0, 1, 3]
    with pytest.raises(ld.ProblemError, match="after the end of training"):
        run.advance(6)
    network = ld.start(problem, 60, seed=2).advance(5)
    expected = ld.simulate(problem, 60, first_seed=2)
    np.testing.assert_array_equal(network.state["train_loss"], expected["train_loss"].values[0, -1])


def test_the_weights_of_a_dense_network_are_there_to_look_at():
    problem = ld.Problem(ld.Program(mlp), POINTS, ld.GradientDescent(0.2, steps=3))
    run = ld.start(problem, 40).advance(2)
    shapes = {name: array.shape for name, array in run.weights.items()}
    assert shapes == {"neurons 1": (3, 40), "neurons 2": (2, 40), "neurons×neurons": (40, 40)}
    first, W, w = run.weights["neurons 1"], run.weights["neurons×neurons"], run.weights["neurons 2"]
    expected = (W @ (POINTS.inputs / np.sqrt(3) @ first).T).T @ w.T / 40
    np.testing.assert_allclose(run.state["prediction"], expected, atol=1e-12)
    with pytest.raises(ld.LearndynError, match="start a dense network"):
        _ = ld.start(problem, 40, method=ld.ProgramNetwork("lazy")).weights


def test_a_sampled_limit_can_be_advanced_too():
    problem = ld.Problem(ld.Program(perceptron))
    run = ld.start(problem, method=QUICK).advance(4)
    expected = ld.solve(problem, QUICK)
    np.testing.assert_allclose(run.state["train_loss"], expected["train_loss"].values[-1], 1e-12)
    assert run.solution.evidence["samples"] == 256


def test_divergence_ends_the_curve():
    problem = ld.Problem(ld.Program(regression, rate=1e200, steps=8))
    limit = ld.solve(problem)
    assert limit.diverged_at is not None
    assert limit["step"].size == limit.diverged_at
    runs = ld.simulate(problem, 30, 2)
    assert runs.diverged_at is not None


def test_an_error_in_the_middle_keeps_what_was_finished():
    def failing(net, steps=5):
        x = net.normal(net.dim("n"), trained=False)
        for state in net.steps(steps):
            net.record(size=mean(np.tanh(x) ** 2))
            if state == 3:
                raise RuntimeError("out of ideas")

    problem = ld.Problem(ld.Program(failing))
    with pytest.raises(ld.ProgramError, match="RuntimeError in state 3: out of ideas") as caught:
        ld.solve(problem, QUICK)
    assert not_none(caught.value.solution)["step"].values.tolist() == [0, 1, 2, 3]


def test_a_loop_that_ends_early_is_an_error_in_words():
    def leaving(net, steps=5):
        x = net.normal(net.dim("n"), trained=False)
        for state in net.steps(steps):
            net.record(size=mean(x**2))
            if state == 2:
                break

    with pytest.raises(ld.ProgramError, match="left its loop after state 2"):
        ld.solve(ld.Problem(ld.Program(leaving)))


def test_a_record_that_is_missing_later_is_an_error_in_words():
    def forgetting(net, steps=3):
        x = net.normal(net.dim("n"), trained=False)
        for state in net.steps(steps):
            net.record(size=mean(x**2))
            if state == 0:
                net.record(other=mean(x))

    with pytest.raises(ld.ProgramError, match="other was recorded in the first state, but not in"):
        ld.solve(ld.Problem(ld.Program(forgetting)))


def test_files_and_sweeps_work_as_for_any_theory(tmp_path):
    problem = ld.Problem(ld.Program(regression))
    limit = ld.solve(problem)
    limit.save(tmp_path / "limit.nc")
    loaded = ld.load(tmp_path / "limit.nc")
    assert loaded.problem == problem
    assert loaded["test_loss"].equals(limit["test_loss"])
    runs = ld.simulate(problem, 200, 8)
    assert ld.compare(loaded, runs).agrees
    over = {"network.alpha": [1.0, 2.0]}
    swept = ld.sweep(problem, over, store=tmp_path / "points")
    np.testing.assert_array_equal(swept["test_loss"].sel(alpha=2.0), limit["test_loss"])
    assert ld.sweep(problem, over, store=tmp_path / "points").evidence["reused"] == 2
