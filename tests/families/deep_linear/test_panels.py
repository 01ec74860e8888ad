"""Panels: exact where steps are carried out one by one, and as accurate as stated where they are not."""

import dataclasses

import numpy as np
import pytest
import scipy.optimize

import learndyn as ld
from learndyn.families.deep_linear.equations.panels import FeedforwardPanels, ResidualPanels
from learndyn.families.deep_linear.limit_numbers import DATASET, limit_numbers
from learndyn.families.deep_linear.panel_training import PanelTraining
from learndyn.numerics.panels import summed
from learndyn.problem.weight_response import impulse_response

DATASET_OF_TESTS = ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.5)
POPULATION = ld.Population(ld.LinearMap())
POWER_LAW = ld.LinearMap(ld.PowerLaw(1.5, 1.2, 12))
TWO_OUTPUTS = ld.LinearMap(ld.Spectrum([1.0, 0.5, 0.2], [[1.0, 0.3, 0.2], [0.1, 0.8, -0.4]]))


def problem(
    data=DATASET_OF_TESTS, steps=None, time=None, rate=0.04, decay=0.0, momentum=0.0, **network
):
    network = {"depth": 2, "width": 0.6, "richness": 1.0} | network
    training = ld.GradientDescent(
        rate, steps=steps, time=time, weight_decay=decay, momentum=momentum
    )
    return ld.Problem(ld.DeepLinear(**network), data, training)


ROWS = {
    "widths": problem(steps=12, width=[0.6, 0.9]),
    "population, centred, momentum, decay": problem(
        POPULATION, 12, depth=3, centered=True, decay=0.1, momentum=0.3
    ),
    "two outputs, few examples": problem(
        ld.Dataset(ld.LinearMap(), ratio=0.7, noise=0.3), 10, outputs=2, centered=True, decay=0.1
    ),
    "residual": problem(steps=12, depth=4, skip=ld.ScaledSkip(1.0), rate=0.02, decay=0.05),
    "spectrum": problem(ld.Dataset(POWER_LAW, examples=9, noise=0.3), 12, width=20),
    "spectrum, population, centred": problem(
        ld.Population(POWER_LAW), 12, width=20, centered=True, decay=0.1
    ),
    "spectrum, two outputs": problem(
        ld.Dataset(TWO_OUTPUTS, examples=5, noise=0.3), 10, width=8, outputs=2, rate=0.1
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_with_single_steps_panels_are_the_row_recursion(name):
    """The same numbers up to rounding, all correlations and responses, in one pass, whatever it starts from."""
    asked = ROWS[name]
    expected = ld.solve(asked, ld.Rows(), save_at=asked.training.steps + 1)
    numbers = limit_numbers(asked, 64)
    limit = (FeedforwardPanels if numbers.branch is None else ResidualPanels)(numbers)
    kappa, d = map(np.asarray, impulse_response(asked.training, asked.training.steps))
    Nc = numbers.outputs
    for t in range(asked.training.steps + 1):
        ones = np.ones((Nc, (t + 1) * Nc))
        guess = [(ones, ones) for _ in limit.carried()]
        assert limit.solve_panel(kappa[t : t + 1, : t + 1], d[t : t + 1], guess) == 1
    rows = slice(0, limit.rows)
    found = {"C_v": limit.input.C_v, "C_h0": limit.input.C_h0}
    if not asked.training.weight_decay:
        # With decay the response that is reported is that to d r⁰.
        found["R_hr0"] = limit.input.R_hr0
    if numbers.data == DATASET:
        found |= {"C_Delta": limit.input.C_Delta, "R_Delta": limit.input.R}
    for matrix in found:
        square = found[matrix][rows, rows].reshape(expected[matrix].shape)
        np.testing.assert_allclose(square, expected[matrix], rtol=1e-11, atol=1e-12)
    for number, layer in enumerate(limit.layers):
        for matrix, values in (("C_h", layer.C_h), ("C_g", layer.C_g), ("R_hr", layer.H_r)):
            square = values[rows, rows].reshape(expected[matrix][number].shape)
            np.testing.assert_allclose(square, expected[matrix][number], rtol=1e-11, atol=1e-12)


def check_against_rows(asked, *methods, save_at=None):
    """Every observable is within the accuracy that panels state, which is at most the tolerance for the losses."""
    rows = ld.solve(asked, ld.Rows(), save_at=save_at)
    for method in methods:
        panels = ld.solve(asked, method, save_at=save_at)
        accuracy = panels.evidence["accuracy"]
        assert ("R_hr" in panels.observables) == method.responses
        for name in panels.observables:
            scale = float(np.max(np.abs(rows[name])))
            error = float(np.max(np.abs(panels[name] - rows[name])))
            assert error <= accuracy[name] + 1e-12 * scale, (name, error, accuracy[name])
        assert panels.evidence["nodes"] < asked.training.steps


DESCENTS = {
    "rich": problem(steps=400, richness=3.0, rate=0.01),
    "deep": problem(steps=400, depth=4, width=0.7, richness=0.5, rate=0.02),
    "noisy": problem(ld.Dataset(ld.LinearMap(), ratio=1.0, noise=1.0), 400),
    "narrow": problem(steps=400, width=0.1, rate=0.02),
    "centred": problem(steps=400, centered=True),
    "residual": problem(steps=400, depth=3, skip=ld.ScaledSkip(1.0), rate=0.015),
    "decay": problem(steps=400, decay=0.05),
    "schedule": problem(steps=400, rate=ld.Piecewise([130.0], [0.04, 0.005])),
    "warm-up, power law": problem(steps=400, rate=ld.WarmUp(30.0, ld.PowerDecay(0.05, 0.5, 100.0))),
    "population": problem(POPULATION, 400, rate=0.03),
    "two outputs": problem(steps=300, outputs=2),
    "spectrum, few examples": problem(
        ld.Dataset(POWER_LAW, examples=8, noise=0.3), 400, width=20, rate=0.1
    ),
    "spectrum, as many examples as modes": problem(
        ld.Dataset(POWER_LAW, examples=12, noise=0.3), 400, width=20, rate=0.1
    ),
    "spectrum, population": problem(ld.Population(POWER_LAW), 400, width=20, rate=0.1),
}
QUICK = (
    "rich", "centred", "residual", "decay", "schedule", "warm-up, power law", "population", "spectrum, few examples",
)  # fmt: skip


WITH_RESPONSES = ld.Panels(responses=True)


@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in DESCENTS]
)
def test_descent_is_within_the_stated_accuracy_of_its_rows(name):
    """All correlations and responses."""
    saved = [0, 3, 39, 60, 100, 200, 300]
    check_against_rows(DESCENTS[name], WITH_RESPONSES, save_at=saved)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1000, 2000])
@pytest.mark.parametrize("name", [x for x in DESCENTS if x not in ("schedule", "two outputs")])
def test_long_descent_is_within_the_stated_accuracy_of_its_rows(name, steps):
    asked = DESCENTS[name]
    training = dataclasses.replace(asked.training, steps=steps)
    saved = [0, 10, 50, 100, 300, steps // 2, steps]
    asked = ld.Problem(asked.network, asked.data, training)
    check_against_rows(asked, ld.Panels(), WITH_RESPONSES, save_at=saved)


MOMENTA = {
    "0.5": problem(steps=400, momentum=0.5, rate=0.02),
    "0.9": problem(steps=400, momentum=0.9, rate=0.004, decay=0.1, centered=True),
    "0.9, fast": problem(steps=400, momentum=0.9, rate=0.03),
    "0.9, jump": problem(steps=400, momentum=0.9, rate=ld.Piecewise([250.0], [0.008, 0.001])),
    "0.9, residual": problem(
        POPULATION, 400, momentum=0.9, rate=0.002, depth=3, skip=ld.ScaledSkip(1.0)
    ),
    "0.8, spectrum": problem(
        ld.Dataset(POWER_LAW, examples=8, noise=0.3), 400, width=20, rate=0.02, momentum=0.8
    ),
}


@pytest.mark.parametrize(
    "name", [x if x == "0.5" else pytest.param(x, marks=pytest.mark.slow) for x in MOMENTA]
)
def test_momentum_is_within_the_stated_accuracy_of_its_rows(name):
    check_against_rows(MOMENTA[name], ld.Panels(), save_at=[0, 3, 39, 60, 210, 400])


def test_a_rejected_panel_leaves_nothing_behind():
    """Steps after it are the same as without it."""
    numbers = limit_numbers(MOMENTA["0.9"], 1)
    steps, tried = (PanelTraining(numbers, 0.1, 0.9) for _ in range(2))
    for step in range(12):
        steps.step(0.004)
        if step in (5, 9):
            assert tried.extend(step + 8.0, summed(4, 8), np.full(4, 0.004))
            tried.withdraw()
        tried.step(0.004)
    np.testing.assert_array_equal(tried.kappa[:13, :13], steps.kappa[:13, :13])
    for one, other in (
        (tried.limit.input.C_v, steps.limit.input.C_v),
        (tried.limit.layers[0].H_r, steps.limit.layers[0].H_r),
    ):
        np.testing.assert_allclose(one[:13, :13], other[:13, :13], rtol=1e-11, atol=1e-13)


def test_responses_to_successive_steps_are_within_the_stated_accuracy():
    """Steps after one another and jumps of the rate at recorded steps."""
    asked = problem(steps=130, rate=ld.Piecewise([80.0], [0.04, 0.01]))
    saved = [0, 40, 41, 79, 80, 81, 82, 100, 129, 130]
    check_against_rows(asked, WITH_RESPONSES, save_at=saved)


def test_a_response_is_resolved_soon_after_its_force():
    """Relative to what it was just after the force, a hundredth of the force."""
    asked = problem(POPULATION, 60, rate=0.1, depth=4, width=1.4, richness=0.0056)
    rows = ld.solve(asked, ld.Rows(), save_at=[40, 41, 60])
    found = ld.solve(asked, WITH_RESPONSES, save_at=[40, 60])
    for name in ("R_hr0", "R_vu", "R_hr", "R_gu"):
        soon, later = np.moveaxis(rows[name].values[..., 1:, 0, 0, 0], -1, 0)
        error = np.abs(found[name].values[..., 1, 0, 0, 0] - later)
        assert np.all(error < 2e-3 * np.abs(soon)), name


def test_what_changes_sign_at_every_step_counts_in_the_stated_accuracy():
    """In this narrow network it falls slowly. Panels damp it, and begin when losses have too little of it to count."""
    asked = problem(
        POPULATION, 250, rate=0.0486, depth=4, width=0.385, richness=0.637, decay=0.00457
    )
    check_against_rows(asked, ld.Panels(tolerance=1e-3), save_at=[25, 50, 75, 100, 250])
    rows, found = (
        ld.solve(asked, x, save_at=[100]) for x in (ld.Rows(), ld.Panels(tolerance=1e-5))
    )
    np.testing.assert_allclose(found["test_loss"], rows["test_loss"], rtol=1e-5)


def test_a_loss_that_has_vanished_before_the_first_recorded_step_needs_few_nodes():
    """It is known relative to its start, recorded or not."""
    asked = problem(ld.Dataset(ld.LinearMap(), ratio=0.5, noise=0.7), 450, rate=0.1, depth=1)
    found = ld.solve(asked, ld.Panels(tolerance=1e-7), save_at=[300, 450])
    assert found["train_loss"][0] < 1e-6
    assert found.evidence["nodes"] < 120


def test_responses_of_the_start_only_and_of_a_training_that_diverges():
    start = ld.solve(problem(steps=50), WITH_RESPONSES, save_at=[0])
    np.testing.assert_allclose(start["R_hr0"].values.ravel(), [-1.0])
    asked = problem(steps=300, rate=1.0)
    one, other = (ld.solve(asked, x, save_at=range(6)) for x in (WITH_RESPONSES, ld.Rows()))
    assert one.diverged_at == other.diverged_at
    np.testing.assert_allclose(one["R_hr"], other["R_hr"], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_values_between_nodes_are_as_accurate_as_stated():
    """A hundred recorded steps, of which few are nodes."""
    method = ld.Panels(tolerance=1e-4)
    check_against_rows(DESCENTS["centred"], method, save_at=np.arange(0, 401, 4))


def marchenko_pastur(alpha, t, rate, sigma):
    """Test loss of linear regression by gradient flow: ∫ρ(x) [e^{−2xt} + σ²/(αx) (1 − e^{−xt})²] + null space + σ²."""
    low, high = (1 - alpha**-0.5) ** 2, (1 + alpha**-0.5) ** 2
    angle = (np.arange(4000) + 0.5) / 4000 * np.pi
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    weight = alpha * ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * x) / 4000
    left = np.exp(-rate * np.multiply.outer(t, x))
    fitted = sigma**2 / (alpha * x) * (1 - left) ** 2
    return (left**2 + fitted) @ weight + max(0.0, 1 - alpha) + sigma**2


@pytest.mark.parametrize(
    ("depth", "alpha", "tolerance"),
    [
        *((1, 2.0, 1e-4), (2, 0.5, 1e-6)),
        pytest.param(2, 0.5, 1e-4, marks=pytest.mark.slow),
        pytest.param(1, 2.0, 1e-6, marks=pytest.mark.slow),
    ],
)
def test_lazy_flow_to_a_million_is_linear_regression(depth, alpha, tolerance):
    """γ_0 = 1e-4 adds terms of order γ_0² = 1e-8; the tangent kernel is L + 1 times that of one layer."""
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e6, 33)])
    data = ld.Dataset(ld.LinearMap(), ratio=alpha, noise=0.5)
    asked = problem(
        data, time=1e6, rate=1.0, depth=depth, width=np.inf, richness=1e-4, centered=True
    )
    found = ld.solve(asked, ld.Panels(tolerance=tolerance), save_at=times)
    exact = marchenko_pastur(alpha, times, depth + 1.0, 0.5)
    error = np.max(np.abs(found["test_loss"].values - exact))
    assert error <= found.evidence["accuracy"]["test_loss"] + 3e-8
    assert np.max(np.abs(found["test_loss"].values / exact - 1)) < tolerance
    # 27 nodes a decade, and a panel of four more for every time that is asked for.
    assert found.evidence["nodes"] < 27 * 8 + 4 * len(times)


def weideman(count):
    """Points and weights of ∫ e^z f(z) dz/(2πi) on a parabola (Weideman & Trefethen 2007): error 2.85^−count."""
    angle = np.pi * np.arange(1 - count, count, 2) / count
    points = count * (0.1309 - 0.1194 * angle**2 + 0.25j * angle)
    slope = count * (-0.2388 * angle + 0.25j)
    return points, np.exp(points) * slope / (1j * count)


def lazy_loss(spectrum, examples, sigma, rate, times):
    """Test loss of linear regression with a spectrum by gradient flow, from Laplace transforms in both times.

    With a = rate/s and q = a (1 − (1/P) Σ λ q/(1 + λq)), h = 1/(1 + λq), z = 1 − h, at s and at s':
    C_v(s, s') = (1/ss') Σ (λ w*² h h' + σ² z z'/P)/(1 − Σ z z'/P).
    """
    lam, w = spectrum.arrays()
    points, weights = weideman(36)
    losses = []
    for q in followed_root(rate * np.divide.outer(times, points), lam, examples):
        h = 1 / (1 + np.multiply.outer(q, lam))
        z, over = (1 - h) / np.sqrt(examples), weights / points
        both = (h * lam * w[0] ** 2) @ h.T + sigma**2 * z @ z.T
        losses.append(float((over @ (both / (1 - z @ z.T)) @ over).real) + sigma**2)
    return np.array(losses)


def followed_root(a, lam, examples):
    """q(a), by small steps from a = 0 along the rays, each with Newton's method."""
    q = np.zeros_like(a)
    for part in np.geomspace(1e-3 / np.max(np.abs(a)), 1.0, 400):
        for _ in range(4):
            answers = 1 / (1 + np.multiply.outer(q, lam))
            value = q - part * a * (1 - q * (answers @ lam) / examples)
            q = q - value / (1 + part * a * (answers**2 @ lam) / examples)
    return q


@pytest.mark.parametrize(
    "examples", [8, *(pytest.param(x, marks=pytest.mark.slow) for x in (12, 30))]
)
def test_lazy_flow_with_a_power_law_is_linear_regression(examples):
    """To t = 1e6, with fewer examples than modes, as many, and more.

    γ_0 adds terms of order γ_0² times the size of the function, which is large with as many examples as modes: 1.7e-4
    at γ_0 = 1e-4, a hundredth of that at 1e-5.
    """
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e6, 15)])
    data = ld.Dataset(POWER_LAW, examples=examples, noise=0.5)
    asked = problem(data, time=1e6, rate=1.0, width=np.inf, richness=1e-5, centered=True)
    found = ld.solve(asked, ld.Panels(tolerance=1e-5), save_at=times)
    exact = lazy_loss(POWER_LAW.spectrum, examples, 0.5, 3.0, times[1:])
    error = np.abs(found["test_loss"].values[1:] - exact)
    assert np.max(error) <= found.evidence["accuracy"]["test_loss"] + 1e-7 * np.max(exact)
    assert np.max(error / exact) < 1e-5


def test_lazy_flow_on_the_population_decays_mode_by_mode():
    """Σ λ w*² e^{−2(L+1)λt}, to t = 1e6, for eigenvalues over three decades."""
    lam, w = ld.PowerLaw(2.0, 0.6, 40).arrays()
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e6, 15)])
    data = ld.Population(ld.LinearMap(ld.PowerLaw(2.0, 0.6, 40)))
    asked = problem(data, time=1e6, rate=1.0, width=np.inf, richness=1e-4, centered=True)
    found = ld.solve(asked, ld.Panels(tolerance=1e-6), save_at=times)
    exact = np.exp(-6 * np.multiply.outer(times, lam)) @ (lam * w[0] ** 2)
    error = np.max(np.abs(found["test_loss"].values - exact))
    assert error <= found.evidence["accuracy"]["test_loss"] + 1e-7


def test_late_flow_with_few_examples_ends_at_the_interpolator():
    """Lazy: κ with Σ λ/(λ + κ) = P, and test loss (κ² Σ λ w*²/(λ + κ)² + σ²)/(1 − Σ λ²/(λ + κ)²/P)."""
    lam, w = POWER_LAW.spectrum.arrays()
    root = scipy.optimize.root_scalar(
        lambda k: np.sum(lam / (lam + k)) - 8, bracket=(1e-6, 1.0), xtol=1e-15
    )
    kappa = root.root
    left = kappa**2 * np.sum(lam * w[0] ** 2 / (lam + kappa) ** 2) + 0.25
    exact = left / (1 - np.sum(lam**2 / (lam + kappa) ** 2) / 8)
    data = ld.Dataset(POWER_LAW, examples=8, noise=0.5)
    asked = problem(data, time=1e5, rate=1.0, width=np.inf, richness=1e-4, centered=True)
    found = ld.solve(asked, save_at=[0, 1e5])
    np.testing.assert_allclose(found["test_loss"][-1], exact, rtol=1e-6)
    assert found["train_loss"][-1] < 1e-12


def test_late_flow_ends_at_the_least_squares_solution():
    """More examples than inputs: test loss σ² α/(α − 1), train loss σ² (α − 1)/α, whatever the network."""
    found = ld.solve(problem(time=1e5, rate=1.0), save_at=[0, 1e5])
    assert found["time"].attrs["long_name"] == "time t (gradient flow)"
    np.testing.assert_allclose(found["test_loss"][-1], 0.25 * 1.2 / 0.2, rtol=1e-7)
    np.testing.assert_allclose(found["train_loss"][-1], 0.25 * 0.2 / 1.2, rtol=1e-7)


STRONG_DECAY = {
    "weak": problem(steps=800, decay=0.02),
    "strong": problem(steps=800, decay=0.3),
    "centred, few examples": problem(
        ld.Dataset(ld.LinearMap(), ratio=0.7, noise=0.3), 800, decay=0.1, centered=True
    ),
    "residual": problem(steps=600, decay=0.1, depth=3, skip=ld.ScaledSkip(1.0), rate=0.02),
    "spectrum": problem(
        ld.Dataset(POWER_LAW, examples=8, noise=0.3), 800, width=20, rate=0.1, decay=0.05
    ),
    "momentum": problem(steps=600, decay=0.2, rate=0.02, momentum=0.5),
}


@pytest.mark.parametrize(
    "name",
    [x if x == "strong" else pytest.param(x, marks=pytest.mark.slow) for x in STRONG_DECAY],
)
def test_strong_decay_is_within_the_stated_accuracy_of_its_rows(name):
    """Training comes to rest: from then on nothing is solved, and observables between nodes are those of the end."""
    asked = STRONG_DECAY[name]
    end = asked.training.steps
    check_against_rows(asked, ld.Panels(), save_at=[0, 30, 100, 300, end - 10, end])


@pytest.mark.parametrize(
    ("depth", "richness", "decay"), [(2, 1.0, 0.1), (2, 1.0, 0.02), (3, 2.0, 0.1), (2, 1.0, 0.6)]
)
def test_late_flow_with_decay_ends_where_the_decay_is_balanced(depth, richness, decay):
    """Population, test loss (1 − θ)² with (γ_0 θ)^{2L/(L+1)} (1 − θ) = λθ; θ = 0 if no other root is left."""
    thetas = np.linspace(1.0, 1e-3, 2000)

    def surplus(theta):
        return (richness * theta) ** (2 * depth / (depth + 1)) * (1 - theta) - decay * theta

    above = np.flatnonzero(surplus(thetas) > 0)
    theta = 0.0
    if len(above):
        around = (thetas[above[0]], thetas[above[0] - 1])
        theta = scipy.optimize.root_scalar(surplus, bracket=around, xtol=1e-14).root
    asked = problem(
        POPULATION, time=1e5, rate=1.0, depth=depth, width=1.0, richness=richness, decay=decay
    )
    found = ld.solve(asked, save_at=[0, 1e5])
    error = abs(float(found["test_loss"][-1]) - (1 - theta) ** 2)
    assert error <= found.evidence["accuracy"]["test_loss"] < 1e-4
    assert error <= 1e-6


def test_flow_and_descent_with_decay_end_at_the_same_place():
    """Where the forces balance the decay does not depend on the learning rate."""
    flow = ld.solve(problem(time=1e5, rate=1.0, decay=0.05), save_at=[0, 1e5])
    descent = ld.solve(problem(steps=10**6, decay=0.05), save_at=[0, 2 * 10**4, 10**6])
    for name in ("test_loss", "train_loss"):
        values = [float(flow[name][-1]), *descent[name].values[1:].tolist()]
        stated = max(x.evidence["accuracy"][name] for x in (flow, descent))
        assert np.ptp(values) <= 2 * stated


def test_a_rate_that_jumps_late_is_a_change_of_time():
    """In gradient flow a common rate only changes the clock: t → ∫η. The jump at t = 400 is sudden, by a factor 50."""
    jumping = problem(time=500.0, rate=ld.Piecewise([400.0], [0.02, 1.0]))
    constant = problem(time=108.0, rate=1.0)
    clock = {100.0: 2.0, 400.0: 8.0, 402.0: 10.0, 500.0: 108.0}
    one, other = (
        ld.solve(asked, save_at=[0.0, *times])
        for asked, times in ((jumping, clock), (constant, clock.values()))
    )
    for name in one.observables:
        allowed = one.evidence["accuracy"][name] + other.evidence["accuracy"][name]
        error = float(np.max(np.abs(one[name].values - other[name].values)))
        assert error <= allowed + 1e-10 * float(np.max(np.abs(one[name]))), name


def test_a_late_escape_from_a_saddle_is_resolved():
    """γ_0 = 100 is a small start: little happens until t ≈ 30, then the loss falls. Coarse and fine solutions agree."""
    asked = problem(
        ld.Dataset(ld.LinearMap(), ratio=2.0, noise=0.3), time=1e3, rate=1e-4,
        depth=3, width=1.0, richness=100.0,
    )  # fmt: skip
    times = [0.0, 1.0, 10.0, 30.0, 60.0, 100.0, 300.0, 1000.0]
    coarse, fine = (
        ld.solve(asked, ld.Panels(tolerance=tolerance), save_at=times) for tolerance in (1e-4, 1e-6)
    )
    loss = fine["test_loss"].values
    assert loss[2] > 0.99 * loss[0]
    assert loss[-1] < 0.2 * loss[0]
    stated = sum(x.evidence["accuracy"]["test_loss"] for x in (coarse, fine))
    assert np.max(np.abs(coarse["test_loss"].values - loss)) <= stated


def test_a_million_steps_end_where_flow_ends():
    found = ld.solve(problem(steps=10**6, rate=0.05), save_at=[0, 100, 10**6])
    assert found.evidence["method"]["kind"] == "panels"
    np.testing.assert_allclose(found["test_loss"][-1], 0.25 * 1.2 / 0.2, rtol=1e-7)


INFINITE = {"depth": np.inf, "skip": ld.ScaledSkip(1.0), "width": 0.8}


@pytest.mark.parametrize(
    "data",
    [POPULATION, pytest.param(DATASET_OF_TESTS, marks=pytest.mark.slow)],
    ids=["population", "dataset"],
)
def test_infinite_depth_is_within_the_stated_accuracy_of_its_rows(data):
    """Every observable; of the layers, τ = 0 and 1."""
    asked = problem(data, 60, rate=0.02, **INFINITE)
    saved = [0, 10, 60]
    panels, rows = (
        ld.solve(asked, method, save_at=saved)
        for method in (ld.Panels(tolerance=1e-3, responses=data is not POPULATION), ld.LayerNodes())
    )
    for name in panels.observables:
        expected = rows[name].sel(tau=[0.0, 1.0]) if "tau" in rows[name].dims else rows[name]
        error = float(np.max(np.abs(panels[name].values - expected.values)))
        allowed = panels.evidence["accuracy"][name] + rows.evidence["accuracy"][name]
        assert error <= allowed, (name, error, allowed)
    loss = panels.evidence["accuracy"]["test_loss"]
    assert loss < 2e-3 * float(panels["test_loss"].max())


def test_infinitely_deep_lazy_flow_decays_with_its_kernel():
    """Population, γ_0 → 0, infinitely wide: exp(−2𝒦t) with 𝒦 = (2 + β_0²) exp(β_0²), to an accuracy of 1e-4."""
    network = {"depth": np.inf, "skip": ld.ScaledSkip(0.7), "width": np.inf, "richness": 1e-4}
    asked = problem(POPULATION, time=2.0, rate=0.5, centered=True, **network)
    times = np.array([0.0, 0.3, 1.0, 2.0])
    found = ld.solve(asked, ld.Panels(tolerance=1e-4), save_at=times)
    kernel = (2 + 0.49) * np.exp(0.49)
    error = np.abs(found["test_loss"].values - np.exp(-kernel * times))
    assert np.max(error) <= found.evidence["accuracy"]["test_loss"] + 1e-7
    np.testing.assert_allclose(found["kernel"][:, 0, 0], kernel, rtol=1e-4)


@pytest.mark.slow
def test_infinitely_deep_flow_ends_at_the_least_squares_solution():
    found = ld.solve(
        problem(time=1e4, rate=1.0, **INFINITE), ld.Panels(tolerance=1e-3), save_at=[0, 1e4]
    )
    np.testing.assert_allclose(found["test_loss"][-1], 0.25 * 1.2 / 0.2, rtol=1e-3)


@pytest.mark.parametrize("save_at", [None, [100, 300]], ids=["all", "late"])
def test_divergence_ends_the_curve(save_at):
    """Also before the first recorded step."""
    asked = problem(steps=300, rate=1.0)
    found, rows = (ld.solve(asked, x, save_at=save_at) for x in (ld.Panels(), ld.Rows()))
    assert found.diverged_at == rows.diverged_at
    assert found.data.sizes == {x: rows.data.sizes[x] for x in found.data.sizes}


def test_the_edge_of_stability_is_refused():
    """The gradient turns round at every step, and hardly shrinks."""
    edge = problem(POPULATION, 300, rate=1.0, depth=1, width=np.inf, richness=1e-3, centered=True)
    with pytest.raises(ld.NotConverged, match="edge of stability"):
        ld.solve(edge, ld.Panels())


def test_the_sharpness_is_that_of_a_lazy_network_and_of_a_learnt_function():
    """At the start (1 + 1/√α)² (L + 1); when a rich network has learnt w*, (L + 1) γ_0^{2L/(L+1)}."""
    lazy = limit_numbers(problem(width=np.inf, richness=1e-4, centered=True, steps=1), 1)
    assert PanelTraining(lazy, 0.0).sharpness() == pytest.approx(3 * (1 + 1.2**-0.5) ** 2)
    rich = limit_numbers(
        problem(POPULATION, width=np.inf, richness=30.0, centered=True, steps=1), 1
    )
    learnt = PanelTraining(rich, 0.0)
    for _ in range(60):
        learnt.step(2e-3)
    assert learnt.losses[-1] < 0.01
    assert learnt.sharpness() == pytest.approx(3 * 30.0 ** (4 / 3), rel=0.1)


def test_what_panels_are_not_for_is_refused():
    with pytest.raises(ld.ProblemError, match=r"momentum up to 0\.96"):
        ld.solve(problem(steps=50, momentum=0.97), ld.Panels())
    with pytest.raises(ld.ProblemError, match="without momentum"):
        problem(time=5.0, momentum=0.5)
    with pytest.raises(ld.ProblemError, match="must be False with momentum"):
        ld.solve(problem(steps=50, momentum=0.5), WITH_RESPONSES)
    with pytest.raises(ld.ProblemError, match="Panels for gradient flow"):
        ld.solve(problem(time=5.0), ld.Rows())
    with pytest.raises(ld.ProblemError, match="must be False for gradient flow"):
        ld.solve(problem(time=5.0), WITH_RESPONSES)
    with pytest.raises(ld.ProblemError, match="more than 40 steps are recorded, here 51"):
        ld.solve(problem(steps=50), WITH_RESPONSES, save_at=51)
    with pytest.raises(ld.ProblemError, match="Panels for gradient flow"):
        ld.solve(problem(time=5.0, **INFINITE), ld.LayerNodes())
    with pytest.raises(ld.ProblemError, match=r"training\.time"):
        problem(ld.Stream(ld.LinearMap(), batch_ratio=1.0), time=5.0)
