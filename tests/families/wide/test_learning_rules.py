"""Feedback alignment, direct feedback alignment and gated linear networks: their equations and lazy limits."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from tests import problems
from tests.families.wide.errors import check_within_errors
from tests.families.wide.plain_rules import two_gates, with_rule
from tests.optional import not_none

EXACT = ld.SampledLayers(samples=1024, batches=2, precision="double", drop=1e-9)
"""Linear units are exact between samples, up to what is dropped."""
FEEDBACK, DIRECT = "feedback_alignment", "direct_feedback_alignment"


def problem(rule, rho=0.0, depth=3, activation="linear", richness=1.0, points=3, **properties):
    network = ld.Wide(depth, activation, richness, learning_rule=rule, feedback_overlap=rho)
    data = ld.Points.random(points, 5, seed=2)
    return problems.wide(network=network, data=data, **({"rate": 0.3, "steps": 5} | properties))


@pytest.mark.parametrize("rule", [FEEDBACK, DIRECT, "backprop"])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_linear_units_obey_the_plain_equations(rule, rho):
    """With momentum, up to what is dropped: outputs and both kernels."""
    rho = 0.0 if rule == "backprop" else rho
    asked = problem(rule, rho, momentum=0.4)
    theory = ld.solve(asked, EXACT)
    with float64():
        f, Phi, G = with_rule(wide_setting(asked, 5), rule, rho)
    np.testing.assert_allclose(theory["prediction"][..., 0], f, rtol=0, atol=1e-7)
    np.testing.assert_allclose(theory["Phi"], Phi, rtol=0, atol=1e-7)
    np.testing.assert_allclose(theory["G"][:, :, :, 0, :, :, 0], G, rtol=0, atol=1e-7)


@pytest.mark.parametrize("depth", [1, 2])
def test_gated_networks_obey_the_plain_equations(depth):
    """The sum over all patterns of two gates, within the standard errors of eight batches."""
    asked = problem("gated_linear", depth=depth, points=2, richness=1.5, rate=0.5)
    theory = ld.solve(asked, ld.SampledLayers(samples=4096, batches=8))
    with float64():
        setting = wide_setting(asked, 5)
        f, Phi, G = with_rule(setting, "gated_linear", patterns=two_gates(setting.K))
    for name, expected in (
        ("prediction", f[..., None]),
        ("Phi", Phi),
        ("G", G[:, :, :, None, :, :, None]),
    ):
        error = not_none(theory.standard_error(name)).values
        check_within_errors(theory[name].values, expected, error, 0 * error)


@pytest.mark.parametrize("rule", [FEEDBACK, DIRECT])
def test_lazy_kernels(rule):
    """K(0) = Σ_ℓ ρ^{L−ℓ} G^{ℓ+1}Φ^ℓ with feedback, and its two last terms with direct feedback; erf, within errors."""
    rho, L = 0.6, 3
    options = {"depth": L, "activation": "erf", "steps": 1}
    theory = ld.solve(problem(rule, rho, **options), ld.SampledLayers(samples=4096, batches=8))
    static = ld.solve(problem("backprop", **options), ld.StaticKernel())
    Phi, G = static["Phi"].values[:, 0, :, 0], static["G"].values[:, 0, :, 0, 0, :, 0]
    with float64():
        below = [wide_setting(problem("backprop", **options), 1).K, *Phi[:-1]]
    terms = [G[ell] * below[ell] * rho ** (L - ell) for ell in range(L)]
    expected = Phi[-1] + (sum(terms) if rule == FEEDBACK else terms[-1])
    kernel, error = theory["kernel"].values, not_none(theory.standard_error("kernel")).values
    check_within_errors(kernel[0, :, 0, :, 0], expected, error[0, :, 0, :, 0], 0.0)


def test_the_lazy_linear_step_is_a_sum_of_powers():
    """γ_0 → 0: f(1) = η Σ_j ρ^j K^x E, up to O(γ_0²)."""
    rho, asked = 0.6, problem(FEEDBACK, 0.6, richness=1e-3, steps=1)
    theory = ld.solve(asked, EXACT)
    with float64():
        setting = wide_setting(asked, 1)
    E = setting.loss.force(np.zeros((3, 1)))
    expected = 0.3 * sum(rho**j for j in range(4)) * setting.K @ E
    np.testing.assert_allclose(theory["prediction"][1], expected, atol=1e-6)


def test_full_overlap_is_backprop_only_in_lazy_networks():
    apart = {}
    for richness in (1e-3, 1.0):
        options = {"richness": richness, "steps": 10, "rate": 0.5}
        f = [
            ld.solve(problem(rule, rho, **options), EXACT)["prediction"].values
            for rule, rho in (("backprop", 0.0), (FEEDBACK, 1.0))
        ]
        apart[richness] = np.abs(f[0] - f[1]).max()
    assert apart[1e-3] < 1e-5
    assert apart[1.0] > 0.05
