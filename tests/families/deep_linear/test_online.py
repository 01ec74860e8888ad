"""Online SGD of many steps in the innovation basis, whose spaces are reduced on the way, against rows and limits."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.deep_linear.equations.innovation import GrowingDeepLinear
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.problem.weight_response import PerStepRule
from tests import problems

ROUGH = ld.Innovation(tolerance=1e-6)
"""At this tolerance rounding plays no part."""
RESPONSES = ld.Innovation(tolerance=1e-6, responses=True)
POWER_LAW = ld.PowerLaw(1.5, 1.2, 8)
SETTINGS: dict[str, dict[str, Any]] = {
    "one layer": {"depth": 1, "width": 1.0, "richness": 1.0, "rate": 0.05},
    "narrow, small batches, centred": {
        "width": 0.3,
        "richness": 2.0,
        "batch_ratio": 0.1,
        "centered": True,
        "rate": 0.01,
    },
    "lazy": {"richness": 0.05, "centered": True},
    "very lazy": {"richness": 1e-3, "centered": True},
    "infinitely wide": {"width": np.inf, "depth": 3, "centered": True, "rate": 0.02},
    "no noise": {"depth": 3, "noise": 0.0, "batch_ratio": 2.0, "rate": 0.02},
    "unequal widths, large batches": {"width": [0.5, 1.4], "batch_ratio": 5.0, "rate": 0.03},
    "momentum, decay, schedule": {
        "rate": ld.ExponentialDecay(0.03, 0.005),
        "momentum": 0.8,
        "weight_decay": 0.3,
        "outputs": 2,
        "width": 0.5,
    },
    "coupled rule, lazy": {
        "rate": 0.02,
        "momentum": 0.7,
        "weight_decay": 0.3,
        "momentum_rule": "coupled",
        "richness": 0.1,
        "centered": True,
    },
    "residual": {"depth": 3, "skip": 0.7, "rate": 0.02},
    "spectrum": {"spectrum": POWER_LAW, "width": 50, "batch": 20, "depth": 1, "rate": 0.1},
    "spectrum, centred": {
        "spectrum": POWER_LAW,
        "width": 50,
        "batch": 20,
        "rate": 0.1,
        "centered": True,
    },
}
DEAR = ("momentum, decay, schedule", "residual", "spectrum", "spectrum, centred")


def online(steps: int, **properties) -> ld.Problem:
    usual = {"supply": "stream", "noise": 0.5}
    if "spectrum" not in properties:
        usual |= {"batch_ratio": 1.0}
    return problems.deep_linear(**usual | properties, steps=steps)


def states(steps: int) -> np.ndarray:
    return np.unique(np.linspace(0, steps, 14).astype(int))


def assert_within_the_stated_accuracy(found: ld.Solution, exact: ld.Solution) -> None:
    for name, accuracy in found.evidence["accuracy"].items():
        difference = np.abs(found[name].values - exact[name].values).max()
        # Both have rounding, some 10⁻¹³ of the largest value.
        rounding = 1e-12 * np.abs(exact[name].values).max()
        assert difference <= accuracy + rounding, (name, difference, accuracy)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *((name, 120 if name in DEAR else 220) for name in SETTINGS),
        *(pytest.param(name, 220, marks=pytest.mark.slow) for name in DEAR),
    ],
)
def test_reduced_spaces_are_within_the_stated_accuracy_of_rows(name, steps):
    problem, at = online(steps, **SETTINGS[name]), [0, 1, steps // 3, steps - 50, steps - 1, steps]
    exact = ld.solve(problem, ld.Rows(), save_at=at)
    found = ld.solve(problem, RESPONSES, save_at=at)
    assert_within_the_stated_accuracy(found, exact)
    assert set(found.data) == set(exact.data)
    # Without reductions a space has a direction or two for each step, output, mode, and layer in it.
    modes = len(POWER_LAW.arrays()[0]) if "spectrum" in SETTINGS[name] else 1
    layers = problem.network.depth if "skip" in SETTINGS[name] else 1
    assert found.evidence["basis"] < 2 * steps * problem.network.outputs * modes * layers


@pytest.mark.parametrize("tolerance", [1e-10, 1e-6])
@pytest.mark.parametrize(
    "properties",
    [
        {"supply": "dataset", "noise": 0.5, "ratio": 1.3},
        {"supply": "population"},
        {"supply": "dataset", "ratio": 1.3, "richness": 0.01, "centered": True},
        {
            "supply": "dataset",
            "noise": 0.5,
            "ratio": 0.8,
            "centered": True,
            "outputs": 2,
            "momentum": 0.5,
            "weight_decay": 0.1,
        },
        {"supply": "dataset", "depth": 3, "skip": 0.7, "noise": 0.3, "ratio": 1.5},
        {"supply": "dataset", "spectrum": POWER_LAW, "width": 50, "examples": 30, "rate": 0.1},
    ],
    ids=["dataset", "population", "lazy", "outputs", "residual", "spectrum"],
)
def test_responses_are_within_the_stated_accuracy_of_rows(properties, tolerance):
    """The eight eigenvalues of the spectrum are grouped into three, so that modes have different weights."""
    problem, at = problems.deep_linear(**properties, steps=40), [0, 1, 15, 39, 40]
    exact = ld.solve(problem, ld.Rows(bins=3), save_at=at)
    method = ld.Innovation(bins=3, tolerance=tolerance, responses=True)
    found = ld.solve(problem, method, save_at=at)
    assert_within_the_stated_accuracy(found, exact)
    assert set(found.data) == set(exact.data)
    # Sources of length ε change the solution by ε² = tolerance^(2/3), with factors of some tens.
    responses = [name for name in map(str, exact.data) if name.startswith("R_")]
    assert responses
    for name in responses:
        largest, difference = (
            np.abs(x.values).max() for x in (exact[name], found[name] - exact[name])
        )
        assert difference < 30 * tolerance ** (2 / 3) * largest, name
        if "spectrum" not in properties:  # else the error of grouping is stated too
            # What is dropped is a fraction of the fields, whose lengths are 1 or 2 here.
            stated = found.evidence["accuracy"][name]
            assert stated < 100 * tolerance ** (2 / 3) * max(largest, 1), name


def test_responses_that_would_cost_too_much_are_refused():
    with pytest.raises(ld.ProblemError, match=r"Innovation\.responses.*False.*40 steps.*here 51"):
        ld.solve(online(50), RESPONSES)
    with pytest.raises(ld.ProblemError, match=r"Innovation\.responses.*step by step"):
        ld.start(online(50), method=RESPONSES)


def test_a_run_that_diverges_has_the_responses_of_the_steps_before():
    problem = online(400, depth=1, rate=ld.Piecewise([100.0], [0.05, 3.0]))
    found = ld.solve(problem, RESPONSES, save_at=[0, 50, 100, 400])
    assert found.diverged_at == 400
    exact = ld.solve(online(100, depth=1, rate=0.05), ld.Rows(), save_at=[0, 50, 100])
    for name in ("R_vu", "R_hr", "R_gu"):
        difference = np.abs(found[name].values - exact[name].values).max()
        assert difference <= found.evidence["accuracy"][name], name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *((name, 1000) for name in SETTINGS),
        *((name, 2000) for name in ("one layer", "narrow, small batches, centred", "lazy")),
    ],
)
def test_a_thousand_steps_are_within_the_stated_accuracy_of_rows(name, steps):
    problem, at = online(steps, **SETTINGS[name]), states(steps)
    exact = ld.solve(problem, ld.Rows(), save_at=at)
    for method in (ld.Innovation(), RESPONSES):
        assert_within_the_stated_accuracy(ld.solve(problem, method, save_at=at), exact)


def lazy_errors(steps: int, rate: float, depth: int) -> np.ndarray:
    """C of the lazy limit, C ← [(1 − e)² + e²/α_B] C + e²σ²/α_B with α_B = 0.8, σ = 0.5, e = η(L + 1)."""
    e, C = rate * (depth + 1), np.ones(steps + 1)
    for t in range(steps):
        C[t + 1] = ((1 - e) ** 2 + e**2 / 0.8) * C[t] + e**2 * 0.25 / 0.8
    return C


@pytest.mark.parametrize(
    ("depth", "steps"), [(2, 1000), pytest.param(2, 100_000, marks=pytest.mark.slow)]
)
def test_the_lazy_limit_is_a_map_of_one_number(depth, steps):
    """The kernel of a network of richness γ_0 moves by γ_0² for each step, also by noise alone: 10⁻⁹ here."""
    rule = {"rate": 0.1, "depth": depth, "batch_ratio": 0.8}
    problem = online(steps, **rule, width=np.inf, richness=1e-7, centered=True)
    at = np.unique(np.geomspace(1, steps, 20).astype(int))
    found = ld.solve(problem, ld.Innovation(), save_at=at)
    expected = lazy_errors(steps, 0.1, depth)[at]
    np.testing.assert_allclose(found["test_loss"] - 0.25, expected, rtol=1e-7)
    assert found.evidence["basis"] < 300


def test_the_basis_does_not_grow_with_the_steps():
    """After 500 steps of rate 0.05, training is stationary, and so is what later steps can see of it."""
    sizes = [
        ld.solve(online(steps, **SETTINGS["one layer"]), ROUGH, save_at=[0, steps]).evidence[
            "basis"
        ]
        for steps in (500, 1500)
    ]
    assert sizes[1] < 1.15 * sizes[0]


@pytest.mark.slow
def test_the_tolerance_is_above_the_error_after_ten_thousand_steps():
    problem, at = online(10_000, **SETTINGS["narrow, small batches, centred"]), states(10_000)
    fine, rough = (ld.solve(problem, method, save_at=at) for method in (ld.Innovation(), ROUGH))
    assert_within_the_stated_accuracy(rough, fine)
    assert fine.evidence["basis"] < 1000


def test_what_is_still_random_of_the_first_layer_stays_in_the_kept_directions():
    """The part Kx of x = v that the first layer has not answered yet decides what a later answer adds."""
    problem = online(220, **SETTINGS["one layer"])
    rule, tolerance = PerStepRule.of(problem.training), 1e-6
    network, reductions = GrowingDeepLinear(limit_numbers(problem, 64), tolerance), 0
    for t in range(220):
        if network.grown:
            for operator in network.operators:
                operator.carry_out()
            kept = network._reachable()[network.inputs]
            x = network.v[:, : network.inputs.dimension]
            unanswered = network.W[0].asked.remaining(x)
            lost = unanswered - kept.undo(kept.apply(unanswered))
            assert np.linalg.norm(lost) <= tolerance * np.linalg.norm(x)
            network.reduce()
            reductions += 1
        network.reserve()
        network.backward()
        network.errors()
        network.forward()
        network.step(rule.at(t))
    assert reductions > 1


def test_what_is_recorded_changes_nothing():
    problem = online(150, depth=1, momentum=0.5, outputs=2)
    some, every = (ld.solve(problem, ROUGH, save_at=at) for at in ([0, 60, 150], None))
    chosen = every.data.sel(step=[0, 60, 150], step2=[0, 60, 150])
    for name in ("test_loss", "C_v", "C_h0", "C_h", "C_g", "kernel"):
        np.testing.assert_allclose(some[name], chosen[name], rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("jump", [64, 65, 66])
def test_momentum_may_be_turned_on_when_spaces_have_just_been_reduced(jump):
    """Without momentum its buffer is the force of the last step, fresh noise included."""
    problem = online(120, depth=1)
    other = dataclasses.replace(problem.training, momentum=0.8)
    finals = []
    for method in (ld.Rows(), ROUGH):
        run = ld.start(problem, method=method).advance(jump)
        run.problem = ld.Problem(problem.network, problem.data, other)
        finals.append(run.advance(120).state["test_loss"])
    np.testing.assert_allclose(finals[1], finals[0], rtol=1e-6)


def test_divergence_ends_a_reduced_run():
    problem = online(4000, depth=1, rate=ld.Piecewise([300.0], [0.05, 3.0]))
    solution = ld.solve(problem, ROUGH, save_at=[0, 200, 300, 4000])
    assert solution.diverged_at == 4000
    assert len(solution["test_loss"]) == 3


@pytest.mark.slow
def test_ten_thousand_steps_agree_with_networks():
    """Late in training, at D = 30 and 60, sixteen networks each; level 0.01/2 (two looks)."""
    problem = online(10_000, depth=2, width=0.8, richness=1.0, batch_ratio=0.5, rate=0.02)
    at = [0, 100, 1000, 3000, 6000, 8000, 9000, 10_000]
    theory = ld.solve(problem, save_at=at)
    assert theory.evidence["method"]["kind"] == "innovation"
    for size in (30, 60):
        runs = ld.simulate(problem, size, 16, save_at=at)
        comparison = ld.compare(theory, runs, level=0.01 / 2)
        assert comparison.agrees, comparison


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize(
    "properties", [{"outputs": 2}, {"spectrum": POWER_LAW, "batch": 2, "width": 5}]
)
def test_a_training_that_diverges_before_the_first_recorded_step_has_an_empty_curve(
    properties, responses
):
    problem = online(60, rate=3.0, **properties)
    found = ld.solve(problem, ld.Innovation(responses=responses), save_at=[40, 60])
    rows = ld.solve(problem, ld.Rows(), save_at=[40, 60])
    assert found.diverged_at == rows.diverged_at == 40
    assert found.data.sizes == {x: rows.data.sizes[x] for x in found.data.sizes}


def test_what_is_dropped_is_less_in_a_lazy_network():
    """The function has it with a factor 1/γ_0."""
    problem = online(60, richness=1e-3, centered=True, depth=1, width=4.5, rate=0.02)
    found, rows = (
        ld.solve(problem, x, save_at=[20, 60]) for x in (ld.Innovation(tolerance=1e-4), ld.Rows())
    )
    assert_within_the_stated_accuracy(found, rows)
