"""Approximations of the limit of wide networks: where they are exact, how they fail, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.errors import NoTheory
from learndyn.families.wide.equations.approximations import (
    gradient_independent_linear,
    initial_kernels,
    perturbative_linear,
    static_kernel,
)
from learndyn.families.wide.equations.linear import kernel_now, solve_linear
from learndyn.families.wide.network import Wide
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from learndyn.problem.activations import as_activation
from learndyn.problem.points import Points
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import PowerDecay
from learndyn.problem.training import GradientDescent

pytestmark = pytest.mark.compiles


def made(depth, data, rate, steps, richness=1.0, bias=False, activation="linear", **rule):
    training = GradientDescent(rate, steps=steps, **rule)
    return wide_setting(Problem(Wide(depth, activation, richness, bias), data, training), steps)


def full(chosen):
    return solve_linear(chosen, lambda fraction: None)


def some_points(outputs=1):
    """Four points, one of them held out; outputs are not multiples of each other, and classes if there are three."""
    data = Points.random(3, 5, seed=1, test_points=1)
    y = np.array([[1.0, 0.5], [-1.2, 0.8], [0.3, -1.0]])[:, :outputs]
    y = np.eye(3) if outputs == 3 else y
    return Points(data.inputs, y, data.test_inputs)


def test_static_kernel_of_descent_is_a_power_of_a_matrix():
    data = Points.random(4, 6, seed=3, outputs=2)
    chosen = made(1, data, 0.4, 12, loss="mean")
    K = np.cov(np.random.default_rng(0).standard_normal((4, 9)))
    got = static_kernel(chosen, K)
    for t in range(13):
        left = np.linalg.matrix_power(np.eye(4) - 0.4 * K / 4, t) @ data.targets
        np.testing.assert_allclose(got[t], data.targets - left, rtol=0, atol=1e-13)


@pytest.mark.parametrize("bias", [False, True])
def test_static_kernel_is_the_limit_without_richness_for_momentum_and_schedules(bias):
    rule = {"momentum": 0.6, "criterion": "cross_entropy"}

    def deviation(gamma):
        chosen = made(2, some_points(3), PowerDecay(0.2, 0.3), 15, gamma, bias, **rule)
        static = static_kernel(chosen, initial_kernels(chosen).kernel)
        return np.abs(full(chosen).f - static).max()

    near, nearer = deviation(1e-2), deviation(1e-3)
    assert nearer < 1e-4
    # γ_0² (c + O(γ_0²)), and rounding 1e-16/γ_0.
    assert near / nearer == pytest.approx(100, rel=1e-2)


@pytest.mark.parametrize("rule", [{"weight_decay": 0.1}, {"noise": 0.1}])
def test_static_kernel_refuses_weights_that_move_by_themselves(rule):
    points = ld.Points(gram=np.eye(2), targets=[1.0, -1.0])
    asked = ld.Problem(ld.Wide(2, "linear"), points, ld.GradientDescent(0.1, steps=5, **rule))
    with pytest.raises(NoTheory, match="weight decay or noise"):
        ld.solve(asked, ld.StaticKernel())


def test_initial_kernel_of_linear_networks_is_that_of_the_inputs():
    chosen = made(3, some_points(), 0.1, 1)
    np.testing.assert_allclose(initial_kernels(chosen).kernel, 4 * chosen.K, rtol=1e-14)
    # With biases Φ^ℓ = K^x + ℓ, and three of the four layers of weights have them.
    biased = initial_kernels(chosen._replace(bias=1.0))
    np.testing.assert_allclose(biased.kernel, 4 * chosen.K + 1 + 2 + 3 + 3, rtol=1e-14)


@pytest.mark.parametrize("bias", [False, True])
def test_initial_kernels_of_relu_are_arc_cosine_kernels(bias):
    chosen = made(2, some_points(), 0.1, 1, activation="relu", bias=bias)
    Phi, slopes = [chosen.K], []
    for _ in range(2):
        C = Phi[-1] + bias
        size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
        angle = np.arccos(np.clip(C / size, -1, 1))
        Phi.append(size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi))
        slopes.append((np.pi - angle) / (2 * np.pi))
    G = [slopes[0] * slopes[1], slopes[1], np.ones_like(chosen.K)]
    kernel = G[0] * (Phi[0] + bias) + G[1] * (Phi[1] + bias) + Phi[2]
    got = initial_kernels(chosen)
    # arccos loses half the digits at equal points.
    np.testing.assert_allclose(got.Phi, Phi, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.G, G, rtol=0, atol=3e-8)
    np.testing.assert_allclose(got.kernel, kernel, rtol=0, atol=1e-7)


def test_initial_kernels_of_erf_are_arc_sine_kernels():
    chosen = made(1, some_points(), 0.1, 1, activation="erf", bias=True)
    C = chosen.K + 1
    one = 1 + np.diag(C)
    ratio = C / np.sqrt(np.outer(one, one))
    slope = 2 / np.pi / np.sqrt(np.outer(one, one) - C**2)
    got = initial_kernels(chosen)
    np.testing.assert_allclose(got.Phi[1], 2 / np.pi * np.arcsin(ratio), rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.G[0], slope, rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "erf", "relu", "gelu"])
def test_initial_kernels_are_averages_over_gaussian_fields(activation):
    chosen = made(2, some_points(), 0.1, 1, activation=activation, bias=True)
    got = initial_kernels(chosen)
    samples = 200_000
    normals = np.random.default_rng(4).standard_normal((samples, 4))
    phi = as_activation(activation)
    for ell in (1, 2):
        u = normals @ np.linalg.cholesky(got.Phi[ell - 1] + 1).T
        with float64():
            values, slopes = np.asarray(phi(u)), np.asarray(phi.derivative(u))
        for each, expected in ((values, got.Phi[ell]), (slopes, got.G[ell - 1] / got.G[ell])):
            products = np.einsum("si,sj->sij", each, each)
            error = products.std(0) / np.sqrt(samples)
            assert np.all(np.abs(products.mean(0) - expected) < 5 * error)


def test_initial_kernel_is_the_gradient_product_of_wide_networks():
    data, N, seeds, gamma = some_points(), 600, 8, 1.3
    chosen = made(2, data, 0.1, 1, gamma, bias=True, activation="tanh")
    x = data.all_inputs()

    def f(theta):
        W, b, V, c, w = theta
        h = jnp.tanh(x @ W.T / np.sqrt(x.shape[1]) + b)
        h = jnp.tanh(h @ V.T / np.sqrt(N) + c)
        return h @ w / (gamma * N)

    shapes = [(N, x.shape[1]), (N,), (N, N), (N,), (N,)]
    found = []
    with float64():
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            slopes = jax.jacobian(f)([jnp.asarray(rng.standard_normal(s)) for s in shapes])
            flat = np.concatenate([np.asarray(s).reshape(len(x), -1) for s in slopes], axis=1)
            found.append(gamma**2 * N * flat @ flat.T)
    mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(seeds)
    # Five standard errors, and what a finite width changes on average, O(1/N).
    assert np.all(np.abs(mean - initial_kernels(chosen).kernel) < 5 * error + 5 / N)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_expansion_is_what_the_full_solution_does_at_small_richness(depth, outputs):
    def deviations(gamma):
        # With the squared loss Q is symmetric.
        criterion = "cross_entropy" if outputs == 3 else "squared"
        rate = PowerDecay(0.3, 0.3)
        chosen = made(depth, some_points(outputs), rate, 15, gamma, criterion=criterion)
        exact, got = full(chosen), perturbative_linear(chosen)
        one, K = np.eye(outputs), chosen.K
        lazy = (depth + 1) * K[:, None, :, None] * one[None, :, None, :], K[:, None], one[:, None]
        exact = kernel_now(chosen, exact.H_now, exact.G_now), exact.H, exact.G
        found = got["kernel"], got["H"], got["G"]
        return np.array(
            [
                np.abs(a - b).max() / np.abs(b - c).max()
                for a, b, c in zip(exact, found, lazy, strict=True)
            ]
        )

    near, nearer = deviations(0.04), deviations(0.02)
    # Relative to the change of the kernels, γ_0² (c + O(γ_0²)).
    assert nearer.max() < 2e-3
    np.testing.assert_allclose(near / nearer, 4, rtol=0.02)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_printed_factor_is_that_of_gradient_independence(depth):
    chosen = made(depth, some_points(), PowerDecay(0.3, 0.3), 15, 0.01)
    lazy = (depth + 1) * chosen.K[:, None, :, None]
    corrected = perturbative_linear(chosen, memory=False)["kernel"] - lazy
    exact, independent = full(chosen), gradient_independent_linear(chosen)
    exact = kernel_now(chosen, exact.H_now, exact.G_now) - lazy
    independent = kernel_now(chosen, independent.H_now, independent.G_now) - lazy
    size = np.abs(exact).max()
    ratio = 6 / ((depth + 1) * (depth + 2))
    # O(γ_0²) = 1e-4, times a number of order one.
    np.testing.assert_allclose(corrected / size, exact / size, rtol=0, atol=3e-4)
    np.testing.assert_allclose(independent / size, ratio * exact / size, rtol=0, atol=3e-4)


def test_outputs_of_the_expansion_are_right_to_first_order_as_steps_become_small():
    gamma, end = 0.02, 3.0

    def gap(steps):
        rate = PowerDecay(end / steps, 0.5, steps / 4)
        chosen = made(2, some_points(2), rate, steps, gamma)
        lazy = static_kernel(chosen, 3 * chosen.K)[-1]
        change = full(chosen).f[-1] - lazy
        found = perturbative_linear(chosen, memory=False)["f"][-1] - lazy
        return (found - change) / np.abs(change).max()

    gaps = [gap(steps) for steps in (20, 40, 80)]
    coarse, fine = 2 * gaps[1] - gaps[0], 2 * gaps[2] - gaps[1]
    # O(η), extrapolated to O(η²), and O(γ_0²) = 4e-4.
    assert np.abs(gaps[0]).max() > 0.01
    assert np.all(np.abs(fine) < np.abs(fine - coarse) + 2e-3)
    assert np.abs(fine - coarse).max() < 0.03


def test_gradient_independence_is_exact_for_one_hidden_layer_and_small_steps():
    def gap(depth, steps):
        chosen = made(depth, some_points(2), 3.0 / steps, steps, 1.5)
        exact, got = full(chosen), gradient_independent_linear(chosen)
        return np.append(got.f[-1] - exact.f[-1], got.H_now[-1, -1] - exact.H_now[-1, -1])

    def extrapolated(depth):
        gaps = [gap(depth, steps) for steps in (20, 40, 80)]
        coarse, fine = 2 * gaps[1] - gaps[0], 2 * gaps[2] - gaps[1]
        return gaps[0], fine, np.abs(fine - coarse)

    first, fine, error = extrapolated(1)
    # Outputs move by the kernel at equal times, which differs from descent by O(η): extrapolated, O(η²).
    assert np.abs(first).max() > 3 * error.max()
    assert np.all(np.abs(fine) < error + 1e-6)
    assert error.max() < 5e-3
    _, fine, error = extrapolated(2)
    assert np.abs(fine).max() > 0.05 + 10 * error.max()


@pytest.mark.parametrize("approximation", [perturbative_linear, gradient_independent_linear])
@pytest.mark.parametrize("rule", [{"momentum": 0.5}, {"weight_decay": 0.1}, {"noise": 0.1}])
def test_approximations_by_the_kernel_refuse_other_rules(approximation, rule):
    with pytest.raises(NoTheory, match="plain gradient descent"):
        approximation(made(2, some_points(), 0.1, 5, **rule))


def test_the_expansion_refuses_biases():
    with pytest.raises(NoTheory, match="bias"):
        perturbative_linear(made(2, some_points(), 0.1, 5, bias=True))
