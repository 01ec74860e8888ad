"""The exact solution of deep linear networks: identities, limits, a plain transcription and finite networks."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.families.wide.equations.linear import kernel_now, linear_memory, solve_linear
from learndyn.families.wide.network import Wide
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import PowerDecay
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import rates
from tests.families.wide.plain_linear import plain
from tests.optional import not_none

RICH: dict[str, Any] = {"momentum": 0.5, "weight_decay": 0.2, "noise": 0.1}


def quiet(fraction):
    assert 0 < fraction <= 1


def made(depth, data, rate, steps, richness=1.0, bias=False, **rule):
    training = GradientDescent(rate, steps=steps, **rule)
    return wide_setting(Problem(Wide(depth, "linear", richness, bias), data, training), steps)


def solved(*args, memory=True, **kwargs):
    chosen = made(*args, **kwargs)
    return chosen, solve_linear(chosen, quiet, memory)


def labelled(criterion):
    """Five points, two of them held out, with targets fit for a criterion; outputs are not multiples of each other."""
    targets = {
        "squared": np.array([[1.0, 0.5], [-1.2, 0.8], [0.3, -1.0]]),
        "logistic": np.array([1.0, -1.0, 1.0]),
        "cross_entropy": np.eye(3),
    }
    data = Points.random(3, 5, seed=1, test_points=2)
    return Points(data.inputs, targets[criterion], data.test_inputs)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("criterion", ["squared", "cross_entropy"])
def test_agrees_with_dense_matrices_iterated_over_whole_trajectories(depth, criterion):
    rule = {**RICH, "loss": "sum", "criterion": criterion}
    chosen, got = solved(
        depth, labelled(criterion), PowerDecay(0.08, 0.5), 6, 1.3, bias=True, **rule
    )
    f, H, G, A, B = plain(chosen)
    n, p, C = f.shape
    # Rounding: a few hundred operations on numbers below 100.
    near = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(got.f, f, **near)
    np.testing.assert_allclose(not_none(got.H).reshape(depth, n * p, n * p), H, **near)
    np.testing.assert_allclose(not_none(got.G).reshape(depth, n * C, n * C), G, **near)
    np.testing.assert_allclose(not_none(got.A).reshape(depth, n * p, n * C), A, **near)
    np.testing.assert_allclose(not_none(got.B).reshape(depth, n * C, n * p), B, **near)
    assert np.abs(f).max() > 0.3
    assert np.abs(A[-1]).max() > 0.1 or depth == 1


def test_without_memory_the_equal_time_kernels_are_the_same():
    args = (2, labelled("squared"), PowerDecay(0.1, 0.5), 12)
    _, full = solved(*args, bias=True, **RICH)
    _, short = solved(*args, bias=True, memory=False, **RICH)
    now = np.arange(13)
    # Rounding: products are summed in another order.
    near = {"rtol": 0, "atol": 1e-13}
    np.testing.assert_allclose(short.f, full.f, **near)
    np.testing.assert_allclose(short.H_now, full.H_now, **near)
    np.testing.assert_allclose(not_none(full.H)[:, now, :, now].swapaxes(0, 1), full.H_now, **near)
    np.testing.assert_allclose(not_none(full.G)[:, now, :, now].swapaxes(0, 1), full.G_now, **near)
    np.testing.assert_allclose(short.G_now, full.G_now, **near)
    assert short.H is None
    assert full.reached == short.reached == 13


@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_whitened_points_and_one_hidden_layer_follow_the_known_equation(loss):
    gamma, y, end = 1.5, np.array([0.6, -0.9, 0.4]), 0.4
    size = np.linalg.norm(y)
    data, speed = Points(targets=y, gram=np.eye(3)), 1 if loss == "sum" else 1 / 3
    end = end / speed

    def at_the_end(steps):
        _, got = solved(1, data, end / steps, steps, gamma, loss=loss)
        along = y @ got.H_now[0, -1] @ y / size**2
        return np.append(y - got.f[-1, :, 0], along)

    def velocity(_, d):
        return -2 * speed * np.sqrt(1 + gamma**2 * (size - d) ** 2) * d

    exact = solve_ivp(velocity, (0, end), [size], rtol=1e-11, atol=1e-13).y[0, -1]
    expected = np.append(exact * y / size, np.sqrt(1 + gamma**2 * (size - exact) ** 2))
    runs = [at_the_end(steps) for steps in (20, 40, 80)]
    coarse, fine = 2 * runs[1] - runs[0], 2 * runs[2] - runs[1]
    # The error of a Richardson extrapolation is O(η²): that of the coarse one is 4/3 of the difference.
    np.testing.assert_array_less(np.abs(fine - expected), np.abs(fine - coarse) + 1e-9)
    assert np.abs(fine - coarse).max() < 1e-3


def test_whitened_points_end_at_the_known_feature_kernel():
    gamma, y, end = 2.0, np.array([0.6, -0.8]), 4.0
    data = Points(targets=y, gram=np.eye(2))
    runs = []
    for steps in (60, 120, 240):
        _, got = solved(1, data, end / steps, steps, gamma, loss="sum", memory=False)
        runs.append(got.H_now[0, -1])
    coarse, fine = 2 * runs[1] - runs[0], 2 * runs[2] - runs[1]
    expected = np.eye(2) + (np.sqrt(1 + gamma**2 * y @ y) - 1) / (y @ y) * np.outer(y, y)
    # As above; what is left of the error at the end, exp(−2·√5·4), is far below.
    np.testing.assert_array_less(np.abs(fine - expected), np.abs(fine - coarse) + 1e-7)
    assert np.abs(fine - coarse).max() < 1e-2


def test_without_richness_the_error_decays_by_the_static_kernel():
    data = Points.random(4, 6, seed=3)
    steps, rate, depth = 15, 0.5, 3
    K = (depth + 1) * data.kernel() / 4
    decayed = [np.linalg.matrix_power(np.eye(4) - rate * K, t) for t in range(steps + 1)]
    static = data.targets - np.stack(decayed) @ data.targets

    def deviation(gamma):
        _, got = solved(depth, data, rate, steps, gamma, memory=False)
        return np.abs(got.f[..., 0] - static).max()

    near, nearer = deviation(1e-2), deviation(1e-3)
    assert nearer < 1e-4
    # The deviation is γ_0² (c + O(γ_0²)), and rounding 1e-16/γ_0.
    assert near / nearer == pytest.approx(100, rel=1e-2)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_norm_of_the_readout_changes_by_what_descent_adds(depth):
    gamma, steps = 1.2, 25
    chosen, got = solved(
        depth,
        Points.random(4, 6, seed=5, outputs=2, test_points=1),
        PowerDecay(0.2, 0.3),
        steps,
        gamma,
    )
    q, H, f = got.G_now[-1], got.H_now[-1], got.f
    for t in range(steps):
        E, eta = chosen.loss.force(f[t]), chosen.k[t + 1, t]
        cross = eta * gamma**2 * E.T @ f[t]
        expected = q[t] + cross + cross.T + (eta * gamma) ** 2 * E.T @ H[t] @ E
        np.testing.assert_allclose(q[t + 1], expected, rtol=0, atol=1e-13)
    assert q[-1, 0, 0] > 1.1


@pytest.mark.parametrize("loss", ["sum", "mean"])
@pytest.mark.parametrize("depth", [1, 2])
def test_with_decay_training_ends_at_kernel_regression_with_the_final_kernel(depth, loss):
    data = Points(
        np.array([[1.0, 0.3, 0.0], [0.2, -1.0, 0.5]]), [2.0, -1.5], np.array([[0.5, 0.5, 1.0]])
    )
    decay, rate = (0.6, 0.2) if loss == "mean" else (1.2, 0.1)
    chosen, got = solved(depth, data, rate, 220, 2.0, loss=loss, weight_decay=decay, memory=False)
    K = kernel_now(chosen, got.H_now[:, -1:], got.G_now[:, -1:])[0, :, 0, :, 0]
    ridge = decay * (depth + 1) * (2 if loss == "mean" else 1)
    expected = K[:, :2] @ np.linalg.solve(K[:2, :2] + ridge * np.eye(2), data.targets)
    # The initial weights are left with (1 − ηλ)^(2·220) = 4e-25 of their variance; what else moves dies out at a rate
    # of the same order.
    np.testing.assert_allclose(got.f[-1, :, 0], expected, rtol=0, atol=1e-9)
    assert np.abs(expected).min() > 0.5


def test_held_out_points_do_not_change_the_trained_ones():
    data = labelled("squared")
    alone = Points(data.inputs, data.targets)
    args = (PowerDecay(0.1, 0.5), 15, 1.3)
    _, both = solved(2, data, *args, bias=True, **RICH)
    _, trained = solved(2, alone, *args, bias=True, **RICH)
    # Rounding: BLAS may sum products of other shapes in another order.
    near: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(both.f[:, :3], trained.f, **near)
    np.testing.assert_allclose(not_none(both.H)[:, :, :3, :, :3], not_none(trained.H), **near)
    np.testing.assert_allclose(not_none(both.G), not_none(trained.G), **near)
    np.testing.assert_allclose(not_none(both.B)[..., :3], not_none(trained.B), **near)
    assert not not_none(both.B)[..., 3:].any()


def test_kernels_are_symmetric_and_positive_and_responses_causal():
    _, got = solved(3, labelled("squared"), PowerDecay(0.1, 0.5), 12, 1.3, bias=True, **RICH)
    n = 13
    for kernels in map(not_none, (got.H, got.G)):
        for kernel in kernels.reshape(3, n * kernels.shape[2], -1):
            size = np.abs(kernel).max()
            np.testing.assert_allclose(kernel, kernel.T, rtol=0, atol=1e-14 * size)
            assert np.linalg.eigvalsh(kernel)[0] > -1e-13 * len(kernel) * size
    t, s = np.triu_indices(n)
    assert not not_none(got.A)[:, t, :, s].any()
    assert not not_none(got.B)[:, t, :, s].any()


@pytest.mark.parametrize("criterion", ["logistic", "cross_entropy", "squared"])
@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_the_loss_falls_by_the_square_of_the_force_in_the_kernel(criterion, loss):
    data = labelled(criterion)

    def gap(steps):
        rate = 0.1 / steps
        chosen, got = solved(2, data, rate, steps, loss=loss, criterion=criterion, bias=True)
        kernel = kernel_now(chosen, got.H_now, got.G_now)[-2]
        P = chosen.trained
        E = chosen.loss.force(got.f[-2])
        before, after = chosen.loss.value(got.f[-2:, :P])
        predicted = np.einsum("ic,icjd,jd->", E, kernel, E)
        return ((before - after) / rate - predicted) / predicted

    # One step changes the loss by −η E·K·E + O(η²): the gap is O(η), its Richardson extrapolation O(η²).
    gaps = [gap(steps) for steps in (10, 20, 40)]
    coarse, fine = 2 * gaps[1] - gaps[0], 2 * gaps[2] - gaps[1]
    assert abs(fine) < abs(fine - coarse) < 0.05
    assert abs(gaps[2]) < 0.15


@pytest.mark.parametrize("criterion", ["logistic", "cross_entropy"])
def test_the_force_is_the_negative_slope_of_the_loss_along_the_solution(criterion):
    data = labelled(criterion)
    chosen, got = solved(2, data, 0.5, 10, criterion=criterion)
    P, h = chosen.trained, 1e-5
    f = got.f[-1]
    assert np.abs(f).max() > 0.1
    for index in np.ndindex(P, chosen.outputs):
        shift = np.zeros((P, chosen.outputs))
        shift[index] = h
        slope = (chosen.loss.value(f[:P] + shift) - chosen.loss.value(f[:P] - shift)) / (2 * h)
        # Central differences: h² and rounding 1e-16/h.
        assert chosen.loss.force(f)[index] == pytest.approx(-slope, abs=1e-9)
    assert not chosen.loss.force(f)[P:].any()


def test_a_diverging_run_stops_at_the_last_sensible_state():
    _, got = solved(3, Points.random(4, 6, seed=3), 5.0, 40)
    assert 1 < got.reached < 20
    assert (
        len(got.f)
        == not_none(got.H).shape[1]
        == not_none(got.H).shape[3]
        == got.H_now.shape[1]
        == got.reached
    )
    for array in map(not_none, (got.f, got.H, got.G, got.A, got.B)):
        assert np.isfinite(array).all()
    assert np.abs(got.f).max() <= 1e10 * 2


@pytest.mark.parametrize("memory", [True, False])
def test_the_estimate_of_memory_is_near_the_peak(memory):
    chosen = made(3, Points.random(6, 8, seed=3, test_points=10, outputs=2), 0.1, 60)
    solve_linear(chosen, quiet, memory)
    tracemalloc.start()
    solve_linear(chosen, quiet, memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.8 * peak < linear_memory(chosen, memory) < 1.5 * peak


def finite(data, depth, richness, bias, training, width, seed):
    """f (states, points, C) and the final h^L·h^L/N of one finite network, from the definition of `Wide`."""
    rng = np.random.default_rng(seed)
    x, N, C = data.all_inputs(), width, data.outputs
    D = x.shape[1]
    weights = [rng.standard_normal((N, D))]
    weights += [rng.standard_normal((N, N)) for _ in range(depth - 1)]
    readout = rng.standard_normal((C, N))
    theta = [*weights, readout, *(bias * rng.standard_normal(N) for _ in range(depth))]
    buffers = [np.zeros_like(w) for w in theta]
    problem = Problem(Wide(depth, "linear", richness, bias), data, training)
    loss = wide_setting(problem, 1).loss
    eta = rates(training, training.steps)
    outputs = []
    for t in range(training.steps + 1):
        layers = [x.T]
        for ell in range(depth):
            scale = np.sqrt(D if ell == 0 else N)
            layers.append(theta[ell] @ layers[-1] / scale + theta[depth + 1 + ell][:, None])
        f = (theta[depth] @ layers[-1]).T / (richness * N)
        outputs.append(f)
        if t == training.steps:
            break
        E = loss.force(f)
        # Descent directions −∂𝓛/∂θ = Σ E ∂f/∂θ.
        force = [np.empty(0)] * len(theta)
        force[depth] = (layers[-1] @ E).T / (richness * N)
        back = theta[depth].T @ E.T / (richness * N)
        for ell in reversed(range(depth)):
            scale = np.sqrt(D if ell == 0 else N)
            force[ell] = back @ layers[ell].T / scale
            force[depth + 1 + ell] = bias * back.sum(1)
            back = theta[ell].T @ back / scale
        for i in range(len(theta)):
            buffers[i] *= training.momentum
            buffers[i] += eta[t] * richness**2 * N * force[i]
            theta[i] *= 1 - eta[t] * training.weight_decay
            theta[i] += buffers[i]
            if training.noise:
                kick = np.sqrt(2 * eta[t] * training.noise)
                theta[i] += kick * rng.standard_normal(theta[i].shape)
    return np.stack(outputs), layers[-1].T @ layers[-1] / N


@pytest.mark.parametrize("rich", [pytest.param(False, marks=pytest.mark.slow), True])
def test_wide_finite_networks_agree(rich):
    width, seeds, steps = (500, 24, 12) if rich else (2000, 6, 20)
    data = Points.random(3 if rich else 4, 6, seed=2, outputs=2 if rich else 1, test_points=1)
    rule = RICH if rich else {}
    rate = PowerDecay(0.15, 0.5) if rich else 0.3
    training = GradientDescent(rate, steps=steps, **rule)
    problem = Problem(Wide(2, "linear", 1.0, rich), data, training)
    theory = solve_linear(wide_setting(problem, steps), quiet)
    runs = [finite(data, 2, 1.0, rich, training, width, seed) for seed in range(seeds)]
    for name, expected, values in (
        ("f", theory.f, [run[0] for run in runs]),
        ("H", theory.H_now[-1, -1], [run[1] for run in runs]),
    ):
        mean = np.mean(values, axis=0)
        error = np.std(values, axis=0, ddof=1) / np.sqrt(seeds)
        # Five standard errors, and what a finite width changes on average, O(1/N): about 2/N in many narrow networks.
        worst = np.abs(mean - expected) / (5 * error + 5 / width)
        assert worst.max() < 1, f"{name}: {worst.max():.2f}"
    assert np.abs(theory.f).max() > 0.5
    assert np.abs(theory.H_now[-1, -1] - theory.H_now[-1, 0]).max() > 0.2
