"""The innovation-basis solver against the equations row by row, known limits, and what it promises about its arrays."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from learndyn.core.progressing import of_states
from learndyn.families.deep_linear.growing_training import GrowingTraining
from learndyn.families.deep_linear.limit_numbers import DATASET, POPULATION, STREAM, LimitNumbers
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import ExponentialDecay, PerStep
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import impulse_response, rates
from tests.families.deep_linear.naive import naive

STEPS = 15
EXACT = 1e-13
LOSSES = ("test_loss", "train_loss", "bias", "width_variance", "data_variance", "alignment")


def made(data=DATASET, widths=(0.6,), outputs=1, modes=None, **changes) -> LimitNumbers:
    """Numbers of a limit; `widths` are ν_1 … ν_L, `modes` (λ, ω, w*_ck) of structured inputs."""
    nu = np.asarray(widths)
    lam, omega, gram = np.ones(1), np.ones(1), np.eye(outputs)[None]
    if modes is not None:
        lam, omega, target = map(np.asarray, modes)
        gram = np.einsum("ck,dk->kcd", target, target)
    usual = {
        "data": data,
        "gamma": 0.7,
        "rho": np.concatenate([[nu[0] / nu[-1]], nu[1:] / nu[:-1], [1.0]]),
        "inverse_width": 1 / nu[-1],
        "inverse_data": 0.0 if data == POPULATION else 1 / 1.2,
        "noise": 0.5,
        "centered": False,
        "outputs": outputs,
        "lam": lam,
        "omega": omega,
        "gram": gram,
    }
    return LimitNumbers(**usual | changes)


def solved(
    numbers,
    eta: float | np.ndarray = 0.02,
    steps=STEPS,
    saved=None,
    tolerance=EXACT,
    beta=0.0,
    decay=0.0,
    momentum_rule="decoupled",
):
    saved = np.arange(steps + 1) if saved is None else np.asarray(saved)
    eta = np.full(steps, eta) if np.ndim(eta) == 0 else eta
    rule = GradientDescent(
        PerStep(eta),
        steps=steps,
        momentum=beta,
        weight_decay=decay,
        momentum_rule=momentum_rule,
    )
    return trained(numbers, rule, saved, tolerance, lambda fraction: None)


def stand_in(rule) -> Any:
    """Of a problem, only the rule and what the evidence says of the data are used."""
    return SimpleNamespace(training=rule, task=SimpleNamespace(spectrum=None))


def trained(numbers, rule, saved, tolerance, report) -> dict:
    """All arrays, the last step that was reached of the saved ones, and the evidence."""
    with float64():
        training = GrowingTraining(stand_in(rule), numbers, tolerance)
        count = training.advance(saved, of_states(report, saved[-1]))
    found = training.arrays()
    assert len(found["test_loss"]) == count
    evidence = training.evidence()
    edge, basis = evidence["edge_of_stability"], evidence["basis"]
    reached = saved[count - 1] if count else None
    return found | {"reached": reached, "basis": basis, "edge": edge}


THREE_MODES = ([1.5, 0.8, 0.3], [1.0, 2.0, 5.0], [[1.0, -0.6, 0.4]])
TWO_OUTPUTS = ([1.5, 0.8, 0.3], [0.2, 0.3, 0.5], [[1.0, -0.6, 0.4], [0.5, 0.9, -1.1]])
SCHEDULE = ExponentialDecay(0.04, 0.1)
CASES = {
    "one layer": (made(), {}),
    "three layers": (made(widths=(0.6, 0.6, 0.6)), {}),
    "unequal widths, centred": (made(widths=(0.5, 1.4, 0.8), centered=True), {}),
    "schedule": (made(widths=(0.6, 0.6)), {"learning_rate": SCHEDULE}),
    "momentum": (made(widths=(0.5, 0.9)), {"momentum": 0.7}),
    "decay": (made(widths=(0.5, 0.9), centered=True), {"weight_decay": 2.0}),
    "two outputs, momentum, decay": (
        made(widths=(0.5, 0.9), outputs=2),
        {"momentum": 0.7, "weight_decay": 2.0, "learning_rate": SCHEDULE},
    ),
    "coupled rule": (
        made(widths=(0.5, 0.9), outputs=2),
        {
            "momentum": 0.7,
            "weight_decay": 2.0,
            "learning_rate": SCHEDULE,
            "momentum_rule": "coupled",
        },
    ),
    "infinite width": (made(widths=(1.0, 1.0), inverse_width=0.0), {}),
    "modes": (made(widths=(8.0, 5.0), modes=THREE_MODES, inverse_data=0.1), {}),
    "modes, two outputs, decay": (
        made(widths=(0.5, 0.9, 0.7), modes=TWO_OUTPUTS, outputs=2, centered=True),
        {"momentum": 0.5, "weight_decay": 1.0},
    ),
    "stream": (made(STREAM, widths=(0.5, 0.9)), {}),
    "stream, modes, two outputs": (
        made(STREAM, widths=(0.6,), modes=TWO_OUTPUTS, outputs=2, centered=True),
        {"momentum": 0.5, "weight_decay": 1.0},
    ),
    "population": (made(POPULATION, widths=(0.5, 0.9, 0.7)), {"weight_decay": 1.0}),
    "population, modes, two outputs": (
        made(POPULATION, widths=(0.5, 0.9), modes=TWO_OUTPUTS, outputs=2, centered=True),
        {"momentum": 0.5},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_equations_row_by_row(case):
    numbers, rule = CASES[case]
    training = GradientDescent(**{"learning_rate": 0.02, "steps": STEPS} | rule)
    with float64():
        eta = np.asarray(rates(training, STEPS))
        expected = naive(numbers, *map(np.asarray, impulse_response(training, STEPS)))
    found = solved(
        numbers,
        eta,
        beta=training.momentum,
        decay=training.weight_decay,
        momentum_rule=training.momentum_rule,
    )
    shared = {name for name in expected if not name.startswith("R_")}
    assert shared | {"alignment", "kernel", "reached", "basis", "edge"} == found.keys()
    for name in sorted(shared):
        # About 10² parts of 10⁻¹³ may be dropped, each amplified by training at most about tenfold.
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name], expected[name], 0, 1e-10 * scale, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_the_loss_add_up(case):
    numbers, _ = CASES[case]
    found = solved(numbers)
    total = np.einsum("tctc->t", found["C_v"])
    # Sums of positive terms in another order: rounding only.
    parts = found["bias"] + found["width_variance"] + found["data_variance"]
    np.testing.assert_allclose(parts, total, rtol=1e-12)
    np.testing.assert_allclose(
        found["test_loss"], total + numbers.outputs * numbers.noise**2, rtol=1e-12
    )


@pytest.mark.parametrize("widths", [(0.6,), (0.6, 0.6, 0.6), (0.5, 1.4, 0.8)])
def test_the_initial_function_has_variance_1_over_nu_gamma_squared(widths):
    random = solved(made(widths=widths), steps=1)
    centred = solved(made(widths=widths, centered=True), steps=1)
    initial = 1 / (widths[-1] * 0.7**2)
    # A dozen roundings.
    np.testing.assert_allclose(random["C_v"][0, 0, 0, 0], 1 + initial, rtol=1e-13)
    np.testing.assert_allclose(random["width_variance"][0], initial, rtol=1e-13)
    np.testing.assert_allclose(random["alignment"][0], 0, atol=1e-13)
    np.testing.assert_allclose(centred["C_v"][0, 0, 0, 0], 1, rtol=1e-13)
    np.testing.assert_allclose(centred["alignment"][0], 0, atol=1e-13)


def marchenko_pastur(ratio):
    """Nodes and weights for averages over eigenvalues of XᵀX/P, entries N(0, 1), `ratio` = columns/P < 1."""
    angle = (np.arange(400) + 0.5) * np.pi / 400
    x = 1 + ratio + 2 * np.sqrt(ratio) * np.cos(angle)
    return x, 2 * np.sin(angle) ** 2 / x / 400


@pytest.mark.parametrize("depth", [1, 3])
def test_lazy_infinitely_wide_networks_are_kernel_regression(depth):
    # Richness γ_0 changes the kernel by O(γ_0²) a step: here 10⁻⁸, amplified by the (L + 1)² STEPS factors of the loss.
    wide = {"gamma": 1e-4, "centered": True, "inverse_width": 0.0}
    eta, t = 0.1, np.arange(STEPS + 1)
    e = eta * (depth + 1)
    equal = (1.0,) * depth
    population = solved(made(POPULATION, equal, **wide), eta)["bias"]
    np.testing.assert_allclose(population, (1 - e) ** (2 * t), rtol=1e-5)

    x, weight = marchenko_pastur(1 / 1.2)
    shrunk = (1 - e * x[:, None]) ** t
    expected = weight @ (shrunk**2 + 0.25 / (1.2 * x[:, None]) * (1 - shrunk) ** 2)
    dataset = solved(made(DATASET, equal, **wide), eta)
    np.testing.assert_allclose(dataset["test_loss"] - 0.25, expected, rtol=1e-5)

    expected = [1.0]
    for _ in range(STEPS):
        expected.append(((1 - e) ** 2 + e**2 / 1.2) * expected[-1] + e**2 * 0.25 / 1.2)
    stream = solved(made(STREAM, equal, **wide), eta)
    np.testing.assert_allclose(stream["test_loss"] - 0.25, expected, rtol=1e-5)


def test_a_lazy_layer_of_finite_width_has_a_marchenko_pastur_kernel():
    eta, t, width = 0.1, np.arange(STEPS + 1), 1.7
    x, weight = marchenko_pastur(1 / width)
    expected = weight @ (1 - eta * (1 + x[:, None])) ** (2 * t)
    # At finite width, O(γ_0²) from the richness and 5ε/γ_0² from subtracting the initial function.
    found = solved(made(POPULATION, (width,), gamma=1e-3, centered=True), eta)
    np.testing.assert_allclose(np.einsum("tctc->t", found["C_v"]), expected, rtol=1e-5)


def test_one_mode_of_weight_D_is_the_isotropic_problem_in_other_units():
    # λ = 1/D, ω = D, γ_0 → γ_0/√D, η → ηD and ν, α → N, P map isotropic inputs to dimension-free ones.
    D, nu, alpha = 50.0, (0.5, 0.9), 1.2
    ratios = solved(made(widths=nu))
    counts = made(
        widths=D * np.array(nu),
        modes=([1 / D], [D], [[1.0]]),
        gamma=0.7 / np.sqrt(D),
        inverse_data=1 / (alpha * D),
    )
    counts = solved(counts, 0.02 * D)
    for name in LOSSES:
        # The same 10² roundings and dropped parts as above.
        np.testing.assert_allclose(counts[name], ratios[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_splitting_a_mode_changes_nothing():
    whole = made(widths=(0.5, 0.9), modes=([1.5, 0.3], [1.0, 2.0], [[1.0, 0.4]]))
    split = made(widths=(0.5, 0.9), modes=([1.5, 0.3, 0.3], [1.0, 0.7, 1.3], [[1.0, 0.4, 0.4]]))
    whole, split = solved(whole), solved(split)
    for name in LOSSES:
        np.testing.assert_allclose(split[name], whole[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_capacity_that_grows_during_training_loses_nothing():
    numbers = made(widths=(0.5, 0.9), outputs=2, centered=True)
    rule: dict[str, Any] = {"beta": 0.5, "decay": 0.3, "eta": 0.01}
    coarse, exact = (solved(numbers, steps=100, tolerance=tol, **rule) for tol in (1e-9, EXACT))
    assert exact["basis"] > 3 * 64
    assert coarse["basis"] < exact["basis"]
    for name in LOSSES:
        # Smooth training amplifies a dropped part by less than its number of steps.
        np.testing.assert_allclose(coarse[name], exact[name], rtol=1e-7, atol=1e-7, err_msg=name)
    with float64():
        training = GradientDescent(0.01, steps=100, momentum=0.5, weight_decay=0.3)
        expected = naive(numbers, *map(np.asarray, impulse_response(training, 100)))
    np.testing.assert_allclose(exact["test_loss"], expected["test_loss"], rtol=1e-10)


@pytest.mark.bitwise
def test_saved_steps_are_a_choice_of_all_steps():
    numbers, chosen = made(widths=(0.6, 0.6), outputs=2), [0, 3, 4, 11]
    every, some = solved(numbers), solved(numbers, saved=chosen)
    for name in LOSSES:
        np.testing.assert_array_equal(some[name], every[name][chosen])
    for name in ("C_v", "C_h0", "C_Delta"):
        np.testing.assert_allclose(
            some[name], every[name][chosen][:, :, chosen], rtol=1e-12, atol=1e-14
        )
    for name in ("C_h", "C_g"):
        expected = every[name][:, chosen][:, :, :, chosen]
        np.testing.assert_allclose(some[name], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("data", [DATASET, STREAM, POPULATION])
def test_divergence_ends_the_arrays(data):
    found = solved(made(data, widths=(0.6, 0.6)), eta=3.0, steps=60)
    reached = found["reached"]
    assert 0 < reached < 60
    assert len(found["test_loss"]) == reached + 1
    assert found["C_h"].shape == (2, reached + 1, 1, reached + 1, 1)
    assert np.isfinite(found["C_h"]).all()
    assert found["test_loss"].max() <= 1e10 * found["test_loss"][0]


def test_divergence_before_the_first_saved_step_leaves_empty_arrays():
    found = solved(made(widths=(0.6, 0.6)), eta=3.0, steps=60, saved=[50, 60])
    assert found["test_loss"].shape == (0,)
    assert found["C_h"].shape == (2, 0, 1, 0, 1)


def test_report_sees_increasing_fractions_and_can_stop_the_run():
    seen = []

    def report(fraction):
        seen.append(fraction)
        if fraction > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(made(), GradientDescent(0.02, steps=100), np.array([100]), 1e-10, report)
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert 0.4 < seen[-1] < 1
