"""The limit of two-layer networks on a reused dataset: its equations, identities and exact limits."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.stats import t as student_t

import learndyn as ld
from learndyn.analyses.grokking import drop_time
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.reused.equations import ReusedSetting, SampleProcess, WeightProcess
from learndyn.families.two_layer.reused.time_grid import time_grid
from learndyn.numerics.normals import QuasiNormals
from learndyn.numerics.precision import float64
from tests import problems
from tests.families.two_layer.plain_reused import plain
from tests.optional import not_none

paper = partial(problems.late_learning, ratio=3.0)


def rising(steps):
    """Training for so many steps, each a little longer than the one before it."""
    return {"rate": ld.PerStep(np.linspace(0.3, 0.9, steps)), "steps": steps}


rich = partial(problems.uneven, **rising(7))


def setting_of(problem, **grid) -> ReusedSetting:
    made, start = equations(problem)
    steps = time_grid(problem, ld.CausalSampling(**grid))
    return ReusedSetting(
        made,
        *(np.asarray(x) for x in start),
        ratio=problem.data.ratio,
        tau=steps.tau,
        decay=problem.training.weight_decay,
        noise=problem.data.noise,
    )


def sweep(setting, samples, seed):
    return ld.CausalSampling(samples=samples).batch(setting, seed, lambda done: None)


def batches_of(problem, samples, count, **grid):
    """Independent batches."""
    with float64():
        setting = setting_of(problem, **grid)
        seeds = np.random.SeedSequence(0).spawn(count)
        return setting, [sweep(setting, samples, seed) for seed in seeds]


def within_errors(values, level=1e-4):
    """Whether the mean over the first axis is zero, by a t-test at each entry, Bonferroni-corrected."""
    values = np.asarray(values).reshape(len(values), -1)
    scale = np.max(np.abs(values))
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    judged = error > 1e-13 * scale
    assert np.all(np.abs(values[:, ~judged]) <= 1e-10 * max(scale, 1.0))
    bound = student_t.isf(level / 2 / max(judged.sum(), 1), len(values) - 1)
    return np.max(np.abs(values.mean(0)[judged] / error[judged]), initial=0.0) < bound


@pytest.mark.parametrize(
    "problem",
    [
        rich(**rising(12)),
        rich(activation="tanh", teacher_activation="relu"),
        paper(steps=8, noise=0.2, weight_decay=0.1, rate=4 * 0.6),
    ],
    ids=["erf", "tanh student, relu teacher", "quadratic"],
)
def test_sweep_is_the_plain_transcription(problem):
    with float64():
        setting = setting_of(problem)
        seed, S = np.random.SeedSequence(3), 128
        batch = sweep(setting, S, seed)
        K, M = setting.hidden, setting.teachers
        T = len(setting.tau)
        columns = QuasiNormals(S, seed).columns(0, M + K + 1 + T * K)
        xi = np.delete(columns, M + K, axis=1)
        expected = plain(setting, xi, columns[:, M + K], batch.weights.root)
    close = {"rtol": 0, "atol": 1e-10}  # rounding, through the steps and a Cholesky factor
    np.testing.assert_allclose(batch.process.loss, expected["loss"], **close)
    np.testing.assert_allclose(batch.weights.W, expected["W"], **close)
    np.testing.assert_allclose(batch.process.g, expected["g"].transpose(0, 2, 1), **close)
    for name, found in (("R_w", batch.weights.R_w), ("R_h", batch.R_h)):
        np.testing.assert_allclose(found.transpose(0, 2, 1, 3), expected[name], **close)
    np.testing.assert_allclose(batch.R_star, expected["R_star"], **close)


@pytest.mark.parametrize("problem", [rich(), rich(activation="tanh")], ids=["erf", "tanh"])
def test_stein_identities_hold_to_the_sampling_error(problem):
    """⟨gρ⟩ = Σ R_h A + R* T, and [C(t+1, s) − (1 − τκ)C(t, s)]/τ = ⟨g(t)h(s)⟩, over independent batches."""
    with float64():
        setting = setting_of(problem)
        teacher, weight = [], []
        for seed in np.random.SeedSequence(1).spawn(24):
            weights = WeightProcess(setting)
            process = SampleProcess(setting, 512, seed, weights.root)
            batch = sweep(setting, 512, seed)
            h = [process.advance(t, batch.weights) for t in range(setting.states)]
            rho = batch.weights.root @ process._xi[: setting.teachers]
            C, A = batch.weights.overlaps(np.arange(setting.states))
            T = np.asarray(setting.pair.T)
            for t, tau in enumerate(setting.tau):
                g, keep = process.g[t], 1 - tau * setting.decay
                direct = g @ rho.T / 512
                by_response = np.einsum("isj,sjn->in", batch.R_h[t], A) + batch.R_star[t] @ T
                teacher.append(direct - by_response)
                moved = (C[t + 1] - keep * C[t]) / tau
                weight.append([moved[:, s] - g @ h[s].T / 512 for s in range(t + 1)])
        T = len(setting.tau)
        teacher = [teacher[i * T : (i + 1) * T] for i in range(24)]
        weight = [np.concatenate(weight[i * T : (i + 1) * T]) for i in range(24)]
    assert within_errors(teacher)
    assert within_errors(weight)


def test_standard_error_falls_with_samples():
    """As 1/√S or faster (quasi-random samples): sixteen times the samples, a quarter of the error or less."""
    problem = paper(time=10.0)
    few, many = (
        ld.solve(problem, ld.CausalSampling(step=0.5, samples=S, batches=16)) for S in (128, 2048)
    )
    for name in ("train_loss", "test_loss", "R"):
        ratio = np.sqrt(
            np.mean(not_none(few.standard_error(name)) ** 2)
            / np.mean(not_none(many.standard_error(name)) ** 2)
        )
        # The error of a standard error from 16 batches is 18 %, of the ratio of two 25 %; times are correlated.
        assert ratio > 4 * (1 - 0.5), name
    # The error bars are right: the two results differ by what they say.
    for name in ("train_loss", "test_loss"):
        difference = few[name] - many[name]
        error = np.sqrt(
            not_none(few.standard_error(name)) ** 2 + not_none(many.standard_error(name)) ** 2
        )
        assert np.all(np.abs(difference) < 5 * error + 1e-12)


def test_initial_losses_are_equal_and_exact():
    problem = rich(noise=0.5)
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    made, start = None, problem.network
    with float64():
        made, start = equations(problem)
        exact = float(made.test_loss(start))
    assert abs(float(solution["test_loss"][0]) - exact) < 1e-12
    error = float(not_none(solution.standard_error("train_loss"))[0])
    assert abs(float(solution["train_loss"][0]) - exact - 0.125) < 5 * error


def test_infinite_ratio_is_the_population_flow():
    """ratio → ∞; extrapolation in the step removes the first order of Euler's error, and the second bounds the rest."""
    many = paper(ratio=1e8, time=6.0, weight_decay=0.05)
    flow = ld.Problem(many.network, ld.Population(many.data.task), many.training)
    exact = ld.solve(flow, save_at=7)
    found = [
        ld.solve(many, ld.CausalSampling(step=h, samples=2048, batches=8), save_at=7)
        for h in (0.5, 0.25, 0.125)
    ]
    for name in ("R", "Q", "test_loss"):
        coarse, middle, fine = (solution[name].values for solution in found)
        first, second = 2 * middle - coarse, 2 * fine - middle
        # Second-order errors fall by four: a third of the last difference is what is left, half is safe. The samples
        # are the same for all steps, so that the sampling error is that of one solve.
        bound = (
            np.max(np.abs(second - first)) / 2 + 5 * not_none(found[-1].standard_error(name)).values
        )
        assert np.all(np.abs(second - exact[name].values) < bound), name
        # Euler's error itself is of first order, and seen.
        assert np.max(np.abs(coarse - exact[name].values)) > 2 * np.max(bound)


def test_population_step_of_the_quadratic_network():
    """At ratio → ∞: R_h(t, t) = (ε/2)[1 − (αε/N)ΣC]δ − (α/N)(1 + ε²C), R* = εA, in the paper's units."""
    alpha, eps = 0.8, 0.5
    problem = paper(alpha=alpha, eps=eps, ratio=1e9, steps=6, rate=2 / alpha * 0.3)
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    C, A = solution["Q"].values, solution["R"].values[..., 0]
    unit = alpha / 2  # our forces carry the factor α/N that the paper's leave out
    bracket = eps / 2 * (1 - alpha * eps / 2 * np.trace(C, axis1=1, axis2=2))
    expected = unit * (bracket[:, None, None] * np.eye(2) - unit * (1 + eps**2 * C))
    local = np.einsum("titj->tij", solution["R_h"].values)
    error = np.einsum("titj->tij", not_none(solution.standard_error("R_h")).values)
    assert np.all(np.abs(local - expected) < 5 * error + 1e-12)
    error = not_none(solution.standard_error("R_star")).values[..., 0]
    assert np.all(np.abs(solution["R_star"].values[..., 0] - unit * eps * A) < 5 * error + 1e-12)


def marchenko_pastur(function, ratio):
    """The average of a function over the eigenvalues Λ of XᵀX/P with P = ratio·D."""
    low, high = (1 - ratio**-0.5) ** 2, (1 + ratio**-0.5) ** 2

    def density(angle):  # Λ = centre + radius·cos(angle) removes the square roots at the edges
        centre, radius = (low + high) / 2, (high - low) / 2
        value = centre + radius * np.cos(angle)
        weight = ratio * (radius * np.sin(angle)) ** 2 / (2 * np.pi * value)
        return weight * function(value)

    continuous = quad(density, 0, np.pi, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
    return continuous + max(0.0, 1 - ratio) * function(0.0)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_linear_network_is_regression(ratio):
    """φ = h: the response of Σv_iw_i is the Marchenko–Pastur average of (1 − τ|v|²Λ)^(t−s−1); the rest stands still."""
    v = np.array([0.6, 0.8])
    network = ld.TwoLayer("linear", [[1.0, 0.3], [0.3, 0.7]], [[0.2], [-0.1]], readout=v)
    data = ld.Dataset(ld.Teacher("linear", [[1.0]]), ratio=ratio, noise=0.4)
    tau, T = 0.3, 12
    problem = ld.Problem(network, data, ld.GradientDescent(tau, steps=T))
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    R_w = np.einsum("i,tisj,j->ts", v, solution["R_w"].values, v)
    for t in range(1, T + 1):
        exact = [
            marchenko_pastur(lambda x, k=t - s - 1: (1 - tau * x) ** k, ratio) for s in range(t)
        ]
        np.testing.assert_allclose(R_w[t, :t], exact, rtol=0, atol=1e-9)  # the quadrature's
    # The direction without a readout feels no force.
    still = np.array([0.8, -0.6])
    C = np.einsum("i,tisj,j->ts", still, solution["C"].values, still)
    np.testing.assert_allclose(C, C[0, 0], rtol=0, atol=1e-12)
    # Regression on w = Σv_iw_i: w − w* = (1 − τΛ)^t (w_0 − w*) + noise.
    Q0, A0 = v @ network.Q @ v, (v @ network.R)[0]
    distance = Q0 - 2 * A0 + 1

    def losses(t):
        def test(x):
            k = np.arange(t)
            grown = tau * np.sum((1 - tau * x) ** k)
            return distance * (1 - tau * x) ** (2 * t) + 0.16 / ratio * grown**2 * x

        def train(x):
            return x * distance * (1 - tau * x) ** (2 * t)

        # The noise in the residual: (1 − τΛ)^t along the data's directions, all of it outside of them.
        inside = marchenko_pastur(lambda x: (1 - tau * x) ** (2 * t) if x > 0 else 0.0, ratio)
        rank = min(1.0, ratio)
        noise = 0.16 / ratio * (inside + ratio - rank)
        return marchenko_pastur(test, ratio), marchenko_pastur(train, ratio) + noise

    for t in (0, 3, T):
        test, train = losses(t)
        for name, exact in (("test_loss", test), ("train_loss", train)):
            error = float(not_none(solution.standard_error(name))[t])
            assert abs(float(solution[name][t]) - exact / 2) < 5 * error + 1e-9, (name, t)


def test_equal_neurons_stay_equal():
    network = ld.TwoLayer(
        ld.Polynomial([0, 1, 0.2]), np.ones((2, 2)), [[0.4], [0.4]], readout=[0.4, 0.4]
    )
    data = ld.Dataset(ld.Teacher(ld.Polynomial([0, 0.3, 0.5]), [[1.0]]), ratio=1.5)
    problem = ld.Problem(network, data, ld.GradientDescent(1.0, time=6.0))
    solution = ld.solve(problem, ld.CausalSampling(samples=256, batches=4))
    Q = solution["Q"].values
    np.testing.assert_allclose(Q, Q[:, :1, :1] * np.ones((2, 2)), rtol=1e-10)
    assert abs(Q[-1, 0, 0] - Q[0, 0, 0]) > 0.1


def test_the_solution_of_the_task_stands_still():
    """w_1 = −w_2 = β/√(αε) has no loss, so nothing moves."""
    alpha, eps = 0.7, 0.4
    scale = 1 / np.sqrt(alpha * eps)
    network = ld.TwoLayer(
        ld.Polynomial([0, 1, eps / 2]),
        scale**2 * np.array([[1, -1], [-1, 1]]),
        [[scale], [-scale]],
        readout=[alpha / 2] * 2,
    )
    data = ld.Dataset(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1.0]]), ratio=2.0)
    problem = ld.Problem(network, data, ld.GradientDescent(1.0, time=4.0))
    solution = ld.solve(problem, ld.CausalSampling(samples=256, batches=2))
    assert np.max(np.abs(solution["train_loss"])) < 1e-20
    np.testing.assert_allclose(
        solution["Q"], np.broadcast_to(network.Q, solution["Q"].shape), rtol=1e-9
    )


def test_gap_formula_is_the_leading_order():
    """test − train − leading_gap = O(γ⁻²): it falls four times for twice the data, the gap itself twice."""
    gaps, rests = [], []
    for ratio in (40.0, 80.0):
        # In gradient flow as in descent; small steps keep rare samples stable.
        problem = paper(ratio=ratio, time=6.0, noise=0.5)
        with float64():
            setting, batches = batches_of(problem, 1024, 16, step=0.5)
        gap, rest = [], []
        for batch in batches:
            # Both losses over the same samples, which removes most of the noise.
            process, t = batch.process, setting.states - 1
            u = process._fields(batch.weights.W[t])
            with float64():
                f = setting.v @ np.asarray(setting.pair.student(jnp.asarray(u)))
            gap.append((np.mean((process.y - f) ** 2) - process.loss[t]) / 2)
            rest.append(gap[-1] - batch._leading_gap([t])[0])
        gaps.append(np.mean(gap))
        rests.append((np.mean(rest), np.std(rest, ddof=1) / 4))
    assert 1.8 < gaps[0] / gaps[1] < 2.3
    (first, error), (second, error2) = rests
    assert abs(first) < 0.2 * gaps[0]
    # 4, up to the next order (a few per cent at γ = 40) and the sampling error.
    ratio = first / second
    spread = ratio * np.hypot(error / first, error2 / second)
    assert abs(ratio - 4) < 0.6 + 3 * spread
    assert spread < 0.5


def test_a_longer_training_has_the_same_beginning():
    short, long = (
        ld.solve(paper(steps=n, rate=4 * 0.5), ld.CausalSampling(samples=128, batches=2))
        for n in (6, 40)
    )
    for name in ("train_loss", "test_loss", "Q", "R"):
        np.testing.assert_allclose(long[name][:7], short[name], rtol=1e-9, atol=1e-12)


def test_results_are_smooth_in_the_parameters():
    """The same samples for every problem: second differences are those of a smooth function, far below the error."""
    method = ld.CausalSampling(step=0.5, samples=256, batches=4)
    eps = (0.300, 0.302, 0.304)
    a, b, c = (ld.solve(paper(eps=e, time=10.0), method)["train_loss"].values[-1] for e in eps)
    error = float(not_none(ld.solve(paper(time=10.0), method).standard_error("train_loss"))[-1])
    assert abs(a - 2 * b + c) < 0.01 * error
    assert abs(a - c) > 0


def test_growing_steps_reach_the_same_curve():
    """A grid that grows agrees with an even one to first order in the steps."""
    problem = paper(time=20.0)
    even = ld.solve(problem, ld.CausalSampling(step=0.1, samples=256, batches=4), save_at=21)
    grown = ld.solve(
        problem,
        ld.CausalSampling(step=0.1, growth=0.1, largest_step=0.5, samples=256, batches=4),
    )
    assert grown.evidence["time_steps"] < 0.35 * even.evidence["time_steps"]
    times = grown["time"].values
    assert np.max(np.diff(times)) <= 0.5 + 1e-12
    assert times[-1] == 20.0
    there = np.interp(even["time"].values, times, grown["test_loss"].values)
    coarse = ld.solve(problem, ld.CausalSampling(step=0.5, samples=256, batches=4), save_at=21)
    bound = np.max(np.abs(coarse["test_loss"].values - even["test_loss"].values))
    # No step is longer than 0.5, so that its error is at most about that of even steps of 0.5.
    assert np.max(np.abs(there - even["test_loss"].values)) < 1.2 * bound


def test_unstable_steps_are_reported_with_one_that_would_do():
    problem = paper(alpha=1.3, eps=0.6, ratio=0.8, time=4.0)
    with pytest.raises(
        ld.NotConverged, match=r"single samples explode .* steps of at most"
    ) as caught:
        ld.solve(problem, ld.CausalSampling(step=0.8, samples=1024, batches=2))
    enough = float(str(caught.value).split("largest_step = ")[1].rstrip(")"))
    found = ld.solve(problem, ld.CausalSampling(step=enough, samples=1024, batches=2))
    assert found.evidence["largest_curvature"] <= 2.5
    descent = paper(alpha=1.3, eps=0.6, ratio=0.8, steps=40, rate=2 / 1.3 * 0.8)
    diverged = ld.solve(descent, ld.CausalSampling(samples=1024, batches=2))
    assert diverged.diverged_at is not None
    assert "learning rate of at most" in diverged.evidence["warnings"][0]


def test_the_drop_times_of_the_setting_that_groks():
    """γ = 3, α = 0.5, ε = 0.3: the train loss passes 0.05 near t = 8.5, the test loss near 49."""
    solution = ld.solve(paper(time=60.0), ld.CausalSampling(step=0.5, samples=1024, batches=8))
    first = float(solution["test_loss"][0])
    delay = ld.grokking_delay(solution, level=0.05 / first)
    assert abs(float(delay["train_drop"]) - 8.5) < 0.5
    assert abs(float(delay["test_drop"]) - 49) < 3
    ten_per_cent = ld.grokking_delay(solution)
    for name in ("train_drop", "test_drop", "grokking_delay"):
        assert abs(float(solution[name]) - float(ten_per_cent[name])) < 1e-9
        assert 0 < float(not_none(solution.standard_error(name))) < 0.1 * float(solution[name])


def online(y, alpha, eps, printed):
    """The right-hand side of the paper's eq. (15) for two neurons, as printed or corrected."""
    A, C = y[:2], y[2:].reshape(2, 2)
    scale = 1 / 2 if printed else alpha / 2
    bracket = 1 - (1 / 2 if printed else alpha * eps / 2) * np.trace(C)
    dA = eps / 2 * bracket * A - scale * (1 + eps**2 * C) @ A + eps * A
    if printed:
        middle = sum(
            np.outer(C[:, k], C[k]) * (2 + eps**2 * (C[:, k][:, None] + C[k][None])) for k in (0, 1)
        )
    else:
        rows = C.sum(1)
        middle = rows[:, None] + rows[None] + 2 * eps**2 * C @ C
    dC = eps * bracket * C - scale * middle + 2 * eps * np.outer(A, A)
    return np.concatenate([dA, dC.ravel()])


def test_the_printed_online_equations_are_impossible():
    """α = 1, ε = 0.5, t = 8: the corrected eq. (15) is the population flow, the printed one has A_1² > C_11."""
    A0, C0 = np.array([0.3, -0.2]), np.array([[1.0, 0.1], [0.1, 1.2]])
    network = ld.TwoLayer(ld.Polynomial([0, 1, 0.25]), C0, A0[:, None], readout=[0.5, 0.5])
    data = ld.Population(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1.0]]))
    flow = ld.solve(ld.Problem(network, data, ld.GradientDescent(2.0, time=8.0)), save_at=2)
    start = np.concatenate([A0, C0.ravel()])
    ends = {}
    for printed in (False, True):
        found = solve_ivp(
            lambda t, y, p=printed: online(y, 1.0, 0.5, p), (0, 8), start, rtol=1e-10, atol=1e-12
        )
        ends[printed] = found.y[:, -1]
    np.testing.assert_allclose(ends[False][:2], flow["R"][-1, :, 0], rtol=1e-6)
    np.testing.assert_allclose(ends[False][2:].reshape(2, 2), flow["Q"][-1], rtol=1e-6)
    assert ends[True][0] ** 2 > ends[True][2]


def test_small_scales_learn_later_by_the_logarithm():
    """dt/d ln(1/α) of the time at which the loss halves is 1/(3ε), and not the 2/(3ε) of the paper's eq. (20)."""
    eps, times = 0.5, []
    for alpha in (1e-3, 1e-4, 1e-5):
        problem = paper(alpha=alpha, eps=eps, time=60.0)
        flow = ld.Problem(problem.network, ld.Population(problem.data.task), problem.training)
        solution = ld.solve(flow, save_at=2001)
        times.append(drop_time(solution["time"].values, solution["test_loss"].values, 0.5))
    slopes = np.diff(times) / np.log(10)
    np.testing.assert_allclose(slopes, 1 / (3 * eps), rtol=0.02)
