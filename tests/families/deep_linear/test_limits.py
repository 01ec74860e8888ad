"""Analytic limits of the deep linear theory, to rounding, by both of its methods."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.problem.weight_response import impulse_response

METHODS = {"rows": ld.Rows(), "innovation": ld.Innovation(tolerance=1e-13)}
FORMS = tuple(METHODS)
LAZY = 1e-5
"""A richness γ_0 this small differs from none by γ_0² = 1e-10."""


def marchenko_pastur(function, ratio):
    """∫ρ(x) f(x) for the eigenvalues of a Wishart matrix with dimension/samples = ratio.

    With x = 1 + c + 2√c cos φ the density is (2/π) sin²φ/x dφ; the trapezoidal rule in φ converges exponentially.
    """
    c = ratio
    phi = (np.arange(2000) + 0.5) * np.pi / 2000
    x = 1 + c + 2 * np.sqrt(c) * np.cos(phi)
    integral = 2 * np.mean(np.sin(phi) ** 2 / x * function(x))
    return integral + max(0.0, 1 - 1 / c) * function(np.array(0.0))


def solved(network, data, rate, steps, form="rows", **training):
    problem = ld.Problem(network, data, ld.GradientDescent(rate, steps=steps, **training))
    return ld.solve(problem, METHODS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_lazy_network_on_a_dataset_is_linear_regression(alpha, form):
    """∫ρ_MP [(1 − ex)^2t + σ²(1 − (1 − ex)^t)²/(αx)] with e = η(L + 1)."""
    L, eta, sigma, steps = 2, 0.08, 0.4, 30
    network = ld.DeepLinear(L, np.inf, LAZY, centered=True)
    theory = solved(network, ld.Dataset(ld.LinearMap(), ratio=alpha, noise=sigma), eta, steps, form)
    clean = solved(network, ld.Dataset(ld.LinearMap(), ratio=alpha), eta, steps, form)
    e = eta * (L + 1)

    def fitted_noise(x, t):
        safe = np.where(x > 0, x, 1.0)
        return np.where(x > 0, sigma**2 / (alpha * safe) * (1 - (1 - e * x) ** t) ** 2, 0.0)

    for t in (0, 1, 2, 5, steps):
        test = marchenko_pastur(
            lambda x, t=t: (1 - e * x) ** (2 * t) + fitted_noise(x, t), 1 / alpha
        )
        train = marchenko_pastur(lambda x, t=t: x * (1 - e * x) ** (2 * t), 1 / alpha)
        assert float(theory["test_loss"].sel(step=t)) == pytest.approx(test + sigma**2, abs=1e-9)
        assert float(clean["train_loss"].sel(step=t)) == pytest.approx(train, abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("L", [1, 3])
def test_lazy_network_on_the_population_and_a_stream(L, form):
    """(1 − e)^2t, and C ← [(1 − e)² + e²/α_B] C + e²σ²/α_B."""
    eta, sigma, batch, steps = 0.1, 0.3, 0.7, 20
    e = eta * (L + 1)
    network = ld.DeepLinear(L, np.inf, LAZY, centered=True)
    population = solved(network, ld.Population(ld.LinearMap()), eta, steps, form)
    np.testing.assert_allclose(
        population["test_loss"], (1 - e) ** (2 * np.arange(steps + 1)), atol=1e-9
    )
    stream = solved(
        network, ld.Stream(ld.LinearMap(), noise=sigma, batch_ratio=batch), eta, steps, form
    )
    C = [1.0]
    for _ in range(steps):
        C.append(((1 - e) ** 2 + e**2 / batch) * C[-1] + e**2 * sigma**2 / batch)
    np.testing.assert_allclose(stream["test_loss"], np.array(C) + sigma**2, atol=1e-9)


@pytest.mark.parametrize("richness", [1e-5, 1e-9])
@pytest.mark.parametrize("nu", [0.5, 2.0])
def test_lazy_corner_keeps_its_digits(nu, richness):
    """One hidden layer of finite width, population: ∫ρ_MP(x) (1 − η(1 + x))^2t, however small the richness.

    Differences of C_g divided by γ_0² would be all noise at γ_0 = 1e-9.
    """
    eta, steps = 0.2, 25
    theory = solved(
        ld.DeepLinear(1, nu, richness, centered=True), ld.Population(ld.LinearMap()), eta, steps
    )
    for t in (1, 4, steps):
        exact = marchenko_pastur(lambda x, t=t: (1 - eta * (1 + x)) ** (2 * t), 1 / nu)
        assert float(theory["test_loss"].sel(step=t)) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("richness", [1e-6, 1e-9])
def test_lazy_corner_with_depth_and_data_has_a_limit(richness):
    """Finite depth, width and data: the curve at γ_0 differs from the one at 10 γ_0 by O(γ_0²)."""
    data = ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.3)
    curves = [
        solved(ld.DeepLinear(3, 0.7, scale, centered=True), data, 0.03, 40)["test_loss"].values
        for scale in (richness, 10 * richness)
    ]
    np.testing.assert_allclose(*curves, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("L", [1, 2, 5])
def test_initial_error(L, form):
    """C_v(0, 0) = 1 + 1/(νγ_0²) at equal widths, any depth; 1 if centred."""
    nu, gamma = 0.6, 0.7
    for centered, expected in ((False, 1 + 1 / (nu * gamma**2)), (True, 1.0)):
        network = ld.DeepLinear(L, nu, gamma, centered=centered)
        theory = solved(network, ld.Dataset(ld.LinearMap(), ratio=1.2), 0.01, 2, form)
        start = {"step": 0, "step2": 0}
        assert theory["C_v"].sel(start).item() == pytest.approx(expected, abs=1e-12)
        C_g = theory["C_g"].sel(start | {"layer": L}).item()
        assert C_g == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "data",
    [
        ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.4),
        ld.Stream(ld.LinearMap(), noise=0.4, batch_ratio=0.8),
        ld.Population(ld.LinearMap()),
    ],
)
def test_bias_and_variances_add_up(data, form):
    theory = solved(ld.DeepLinear(2, 0.6, 0.7), data, 0.08, 30, form)
    parts = theory["bias"] + theory["width_variance"] + theory["data_variance"]
    error = theory["test_loss"] - data.noise**2
    np.testing.assert_allclose(parts, error, rtol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_dimension_free_theory_contains_the_isotropic_one(form):
    """λ = 1/D, D modes, γ_0 → γ_0/√D, η → ηD."""
    D, eta, gamma, steps = 40, 0.08, 0.7, 25
    flat = ld.Spectrum(np.full(D, 1 / D), np.ones(D))
    isotropic = solved(
        ld.DeepLinear(2, 0.5, gamma),
        ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.3),
        eta,
        steps,
        form,
    )
    network = ld.DeepLinear(2, D / 2, gamma / np.sqrt(D))
    data = ld.Dataset(ld.LinearMap(flat), examples=3 * D // 2, noise=0.3)
    counted = solved(network, data, eta * D, steps, form)
    np.testing.assert_allclose(counted["test_loss"], isotropic["test_loss"], rtol=1e-10)
    np.testing.assert_allclose(counted["train_loss"], isotropic["train_loss"], rtol=1e-10)


def fixed_point(problem, sweeps):
    """The equations of the limit, iterated over whole matrices from nothing: full batch, one output."""
    s = limit_numbers(problem, 64)
    T, L = problem.training.steps + 1, s.depth
    kappa, _ = impulse_response(problem.training, T - 1)
    one, eye = np.ones((T, T)), np.eye(T)
    S = eye - np.outer(np.ones(T), eye[0]) if s.centered else eye
    C_h, C_g, R_hr, R_gu = (np.zeros((L + 2, T, T)) for _ in range(4))
    C_g[L + 1] = one
    R_vu = np.zeros((T, T))
    for _ in range(sweeps):
        R_Delta = np.linalg.inv(eye - s.inverse_data * R_vu)
        A = s.rho[0] * (R_gu[1] / s.gamma + kappa * C_g[1])
        H = np.linalg.inv(eye + A @ R_Delta)
        R_vu = -H @ A
        width = s.rho[0] * s.inverse_width / s.gamma**2 * S @ C_g[1] @ S.T
        C_v = one.copy()
        for _ in range(T):
            C_u = s.inverse_data * R_Delta @ (C_v + s.noise**2 * one) @ R_Delta.T
            C_v = H @ (one + width + A @ C_u @ A.T) @ H.T
        cross = R_Delta @ H @ A @ C_u
        C_h[0] = C_u - cross - cross.T + R_Delta @ C_v @ R_Delta.T
        R_hr[0] = -R_Delta @ H @ S
        for ell in range(1, L + 1):
            below = s.inverse_width / s.gamma * R_hr[0] if ell == 1 else R_hr[ell - 1]
            M = below + s.gamma * kappa * C_h[ell - 1]
            K = s.rho[ell] * (R_gu[ell + 1] + s.gamma * kappa * C_g[ell + 1])
            H_u = np.linalg.inv(eye - M @ K)
            R_hr[ell], R_gu[ell] = H_u @ M, K @ H_u
            G_r = eye + K @ R_hr[ell]
            u, r = C_h[ell - 1], s.rho[ell] * C_g[ell + 1]
            C_h[ell] = H_u @ u @ H_u.T + R_hr[ell] @ r @ R_hr[ell].T
            C_g[ell] = R_gu[ell] @ u @ R_gu[ell].T + G_r @ r @ G_r.T
    return np.diag(C_v) + s.noise**2, C_h[1:-1]


@pytest.mark.parametrize("centered", [False, True])
def test_causal_solution_is_the_fixed_point(centered):
    """Where iterating over whole matrices converges (few steps, small rate), it converges to the causal solution."""
    network = ld.DeepLinear(2, 0.8, 0.7, centered=centered)
    problem = ld.Problem(
        network, ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.3), ld.GradientDescent(0.02, steps=8)
    )
    loss, C_h = fixed_point(problem, 60)
    theory = ld.solve(problem, ld.Rows())
    np.testing.assert_allclose(theory["test_loss"], loss, rtol=1e-10)
    found = theory["C_h"].squeeze(["output", "output2"])
    np.testing.assert_allclose(found, C_h, atol=1e-10 * np.abs(C_h).max())


@pytest.mark.parametrize(
    "data",
    [
        ld.Dataset(ld.LinearMap(), ratio=1.2, noise=0.4),
        ld.Stream(ld.LinearMap(), noise=0.4, batch_ratio=0.8),
        ld.Dataset(
            ld.LinearMap(ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])), examples=20, noise=0.2
        ),
    ],
    ids=["dataset", "stream", "spectrum"],
)
def test_infinitely_wide_networks_differ_by_their_data_only(data):
    """Their initial weights average out, also in the rich regime: same data, same function; same weights, nothing
    shared."""
    problem = ld.Problem(ld.DeepLinear(2, np.inf, 0.8), data, ld.GradientDescent(0.08, steps=25))
    # Two groups for the three eigenvalues: one of them stands for two.
    theory = ld.solve(problem, ld.Rows(ensembles=True, bins=2))
    error = theory["test_loss"] - data.noise**2
    np.testing.assert_allclose(theory["overlap_same_data"], error, rtol=1e-11)
    np.testing.assert_allclose(theory["overlap_same_weights"], theory["bias"], rtol=1e-11)
    np.testing.assert_allclose(ld.ensemble_loss(theory, 5), theory["test_loss"], rtol=1e-11)
    assert float(theory["data_variance"][-1]) > 0.01


def test_networks_on_the_population_differ_by_their_weights_only():
    problem = ld.Problem(
        ld.DeepLinear(2, [0.7, 1.3], 0.8),
        ld.Population(ld.LinearMap()),
        ld.GradientDescent(0.08, steps=25),
    )
    theory = ld.solve(problem, ld.Rows(ensembles=True))
    np.testing.assert_allclose(theory["overlap_same_weights"], theory["test_loss"], rtol=1e-11)
    np.testing.assert_allclose(theory["overlap_same_data"], theory["bias"], rtol=1e-11)
    assert float(theory["width_variance"][-1]) > 0.01
