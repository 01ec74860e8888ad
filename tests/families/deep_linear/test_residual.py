"""Residual networks of finite depth: the row recursion against the innovation basis, exact limits."""

import math

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.deep_linear.equations import feedforward, residual
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from learndyn.problem.weight_response import impulse_response
from tests.families.deep_linear.test_limits import METHODS, marchenko_pastur

POPULATION, DATASET = (
    ld.Population(ld.LinearMap()),
    ld.Dataset(ld.LinearMap(), ratio=1.4, noise=0.4),
)
STREAM = ld.Stream(ld.LinearMap(), noise=0.3, batch_ratio=0.8)
DATA = [POPULATION, DATASET, STREAM]
SPECTRUM = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])


def solved(network, data, rate=0.03, steps=15, form="rows", **training):
    problem = ld.Problem(network, data, ld.GradientDescent(rate, steps=steps, **training))
    method = ld.LayerNodes() if math.isinf(network.depth) else METHODS[form]
    return ld.solve(problem, method)


@pytest.mark.parametrize(
    ("network", "data", "training"),
    [
        *((ld.DeepLinear(4, 0.6, 0.8, skip=0.5), data, {}) for data in DATA),
        *((ld.DeepLinear(3, 0.6, 0.8, skip=1.2, centered=True), data, {}) for data in DATA),
        (ld.DeepLinear(4, 0.6, 0.8, skip=0.5, outputs=2), DATASET, {"momentum": 0.5}),
        (ld.DeepLinear(4, 0.6, 0.8, skip=0.5), DATASET, {"weight_decay": 0.3}),
        (ld.DeepLinear(2, 1.5, skip=0.5, parameterization="ntk"), STREAM, {"weight_decay": 0.3}),
        (ld.DeepLinear(3, 12, 0.5, skip=0.5), ld.Dataset(ld.LinearMap(SPECTRUM), examples=9), {}),
    ],
    ids=str,
)
def test_both_methods_agree(network, data, training):
    """Two algorithms with nothing in common but the network: to rounding."""
    rows, basis = (solved(network, data, form=form, **training) for form in ("rows", "innovation"))
    for name in basis.observables:
        scale = float(np.abs(rows[name]).max())
        np.testing.assert_allclose(
            rows[name], basis[name], rtol=0, atol=1e-11 * scale, err_msg=name
        )


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
@pytest.mark.parametrize("centered", [False, True])
def test_no_branch_is_one_hidden_layer(data, centered):
    """β = 0 at any depth, infinite depth included, is L = 1; and L = 1 has no blocks, whatever β."""
    plain = solved(ld.DeepLinear(1, 0.6, 0.8, centered=centered), data)["test_loss"]
    for network in (
        ld.DeepLinear(5, 0.6, 0.8, centered=centered, skip=0.0),
        ld.DeepLinear(1, 0.6, 0.8, centered=centered, skip=0.7),
        ld.DeepLinear(math.inf, 0.6, 0.8, centered=centered, skip=ld.ScaledSkip(0.0)),
    ):
        np.testing.assert_allclose(solved(network, data)["test_loss"], plain, rtol=1e-11)


def test_initial_values():
    """C_g^ℓ = (1 + β²)^(L−ℓ), C_v = 1 + (1 + β²)^(L−1)/(νγ_0²), C_h^1 = C_v + (1 + β²)^(L−1)/(νγ_0)² on the
    population."""
    L, beta, nu, gamma = 5, 0.6, 0.7, 0.9
    theory = solved(ld.DeepLinear(L, nu, gamma, skip=beta), POPULATION)
    growth = 1 + beta**2
    start = {"step": 0, "step2": 0, "output": 0, "output2": 0}
    np.testing.assert_allclose(theory["C_g"].sel(start), growth ** np.arange(L - 1, -1, -1.0))
    C_v = 1 + growth ** (L - 1) / (nu * gamma**2)
    assert theory["C_v"].sel(start).item() == pytest.approx(C_v, rel=1e-12)
    C_h = C_v + growth ** (L - 1) / (nu * gamma) ** 2
    assert theory["C_h"].sel(start | {"layer": 1}).item() == pytest.approx(C_h, rel=1e-12)


@pytest.mark.parametrize("form", ["rows", "innovation"])
def test_lazy_wide_network_has_the_known_kernel(form):
    """(1 − η𝒦)^2t with 𝒦 = 2(1 + β²)^(L−1) + (L − 1)β²(1 + β²)^(L−2)."""
    L, beta, eta = 4, 0.5, 0.05
    theory = solved(
        ld.DeepLinear(L, np.inf, 1e-5, centered=True, skip=beta), POPULATION, eta, form=form
    )
    growth = 1 + beta**2
    kernel = 2 * growth ** (L - 1) + (L - 1) * beta**2 * growth ** (L - 2)
    np.testing.assert_allclose(
        theory["test_loss"], (1 - eta * kernel) ** (2 * theory["step"]), atol=1e-9
    )


@pytest.mark.parametrize("form", ["rows", "innovation"])
def test_lazy_wide_network_on_a_dataset_is_linear_regression(form):
    """Test and training loss of gradient descent with the step η𝒦, averaged over Marchenko–Pastur eigenvalues."""
    L, beta, eta, alpha, sigma = 3, 0.5, 0.03, 2.0, 0.3
    network = ld.DeepLinear(L, np.inf, 1e-5, centered=True, skip=beta)
    growth = 1 + beta**2
    e = eta * (2 * growth ** (L - 1) + (L - 1) * beta**2 * growth ** (L - 2))
    noisy = solved(
        network, ld.Dataset(ld.LinearMap(), ratio=alpha, noise=sigma), eta, 20, form=form
    )
    clean = solved(network, ld.Dataset(ld.LinearMap(), ratio=alpha), eta, 20, form=form)
    for t in (1, 5, 20):
        test = marchenko_pastur(
            lambda x, t=t: (
                (1 - e * x) ** (2 * t) + sigma**2 / (alpha * x) * (1 - (1 - e * x) ** t) ** 2
                if x.ndim
                else 0.0
            ),
            1 / alpha,
        )
        train = marchenko_pastur(lambda x, t=t: x * (1 - e * x) ** (2 * t), 1 / alpha)
        assert float(noisy["test_loss"].sel(step=t)) == pytest.approx(test + sigma**2, abs=1e-9)
        assert float(clean["train_loss"].sel(step=t)) == pytest.approx(train, abs=1e-9)


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
@pytest.mark.parametrize("centered", [False, True])
def test_overlap_of_forward_and_backward_fields_is_conserved_along_the_layers(data, centered):
    """⟨h^ℓ(t) g^ℓ(t)⟩ is the same for all ℓ; uncentred it is γ_0 ⟨(w* − v) h⁰⟩, here on the population, where h⁰ =
    v."""
    gamma, steps = 0.8, 12
    network = ld.DeepLinear(5, 0.6, gamma, centered=centered, skip=0.6)
    problem = ld.Problem(network, data, ld.GradientDescent(0.03, steps=steps))
    made = limit_numbers(problem, 64)
    w = feedforward.recursion_constants(made, *impulse_response(problem.training, steps))
    found = feedforward.empty_rows(made, steps)
    residual.advance_residual(0, steps + 1, found, residual.empty_blocks(found), w, 0.6)
    F = found.pairs[1:, feedforward.F]
    # In increments, g(t) = g̃(0) + γ_0 g̃(t) for t > 0.
    overlap = F[:, :, 0] + gamma * np.einsum("ltt->lt", F) * (np.arange(steps + 1) > 0)
    np.testing.assert_allclose(overlap, np.broadcast_to(overlap[0], overlap.shape), atol=1e-11)
    if data is POPULATION and not centered:
        theory = ld.solve(problem)
        C_vv = theory["test_loss"].values
        target = np.sqrt(theory["bias"].values)
        np.testing.assert_allclose(overlap[0], gamma * (target - C_vv), atol=1e-11)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("form", ["rows", "innovation"])
def test_initial_slope_does_not_depend_on_the_richness_of_a_centred_network(form, centered):
    """d(test loss)/dη at one step is −2𝒦 for every γ_0 if centred; at finite width and uncentred it is not."""
    beta, eta = 0.5, 1e-6
    growth = 1 + beta**2
    kernel = 2 * growth**2 + 2 * beta**2 * growth
    slopes = []
    for gamma in (0.5, 3.0):
        network = ld.DeepLinear(3, 1.5, gamma, centered=centered, skip=beta)
        loss = solved(network, POPULATION, eta, 1, form=form)["test_loss"].values
        slopes.append((loss[1] - loss[0]) / eta)
    if centered:
        np.testing.assert_allclose(slopes, -2 * kernel, rtol=1e-4)
    else:
        assert abs(slopes[0] - slopes[1]) > 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ld.DeepLinear(math.inf, 1.0), "may be inf only with a ScaledSkip"),
        (lambda: ld.DeepLinear(math.inf, 1.0, skip=0.5), "only with a ScaledSkip"),
        (lambda: ld.DeepLinear(2, [1.0, 2.0], skip=0.5), "the same for all layers"),
        (lambda: ld.DeepLinear(2, 1.0, skip=-0.5), "DeepLinear.skip = -0.5"),
        (lambda: ld.ScaledSkip(-1.0), "ScaledSkip.beta0"),
        (
            lambda: ld.simulate(
                ld.Problem(
                    ld.DeepLinear(math.inf, 1.0, skip=ld.ScaledSkip(1.0)),
                    POPULATION,
                    ld.GradientDescent(0.01, steps=2),
                ),
                50,
            ),
            "take a large depth",
        ),
        (
            lambda: ld.solve(
                ld.Problem(
                    ld.DeepLinear(3, 1.0, skip=0.5), POPULATION, ld.GradientDescent(0.01, steps=2)
                ),
                ld.Rows(ensembles=True),
            ),
            "residual networks, whose overlaps are not known",
        ),
    ],
)
def test_what_has_no_theory_is_refused_by_name(make, words):
    with pytest.raises(ld.LearndynError, match=words):
        make()


def test_gradient_of_a_residual_network_is_refused():
    problem = ld.Problem(
        ld.DeepLinear(3, 1.0, skip=0.5), POPULATION, ld.GradientDescent(0.01, steps=2)
    )
    with pytest.raises(ld.NoTheory, match="residual"):
        ld.trace(problem)


@pytest.mark.parametrize("skip", [0.5, ld.ScaledSkip(1.2)])
def test_problem_survives_its_file(skip, tmp_path):
    depth = math.inf if isinstance(skip, ld.ScaledSkip) else 3
    training = ld.GradientDescent(0.1, steps=3)
    problem = ld.Problem(ld.DeepLinear(depth, 1.0, skip=skip), DATASET, training)
    problem.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == problem
