"""One hidden layer to the order γ_0²: against the full motion of the same neurons, and against linear networks."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.equations.approximations import perturbative_linear
from learndyn.families.wide.equations.series import second_order
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.precision import float64
from learndyn.problem.activations.values import with_slope
from tests import problems
from tests.families.wide.architectures import marked
from tests.families.wide.errors import check_within_errors

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def double_precision():
    with float64():
        yield


def setting_of(activation, **properties):
    asked = problems.wide(depth=1, activation=activation, rate=0.4, steps=6, **properties)
    return wide_setting(asked, 6)


def drawn(setting, samples, seed=0):
    """Neurons in pairs (u, r), (u, −r)."""
    normals = np.random.default_rng(seed).standard_normal(
        (setting.points + setting.outputs, samples)
    )
    F = covariance_root(setting.K + setting.bias)
    u, r = F @ normals[: setting.points], normals[setting.points :]
    return np.hstack([u, u]), np.hstack([r, -r])


def moved(setting, u, r):
    """f, Φ and G of the full motion of these neurons."""
    h, z, gamma, K = u, r, setting.gamma, setting.K + setting.bias
    f, phis, gs = [], [], []
    for t in range(setting.states):
        phi, slope = map(np.asarray, with_slope(setting.activation, h))
        g = slope[:, None] * z
        phis.append(phi)
        gs.append(g)
        f.append(phi @ z.T / u.shape[1] / gamma)
        if t + 1 < setting.states:
            eta, E = gamma * setting.k[t + 1, t], setting.loss.force(f[-1])
            h = h + eta * (K @ np.einsum("pc,pcs->ps", E, g))
            z = z + eta * E.T @ phi
    phis, gs = np.array(phis), np.array(gs)
    Phi = np.einsum("tps,uqs->tpuq", phis, phis) / u.shape[1]
    G = np.einsum("tpcs,uqds->tpcuqd", gs, gs) / u.shape[1]
    return np.array(f), Phi, G


SETTINGS = {
    "tanh": {"activation": "tanh"},
    "erf, two outputs, bias": {"activation": "erf", "outputs": 2, "bias": True},
    "softplus, logistic": {"activation": "softplus", "criterion": "logistic"},
    "tanh, cross-entropy": {"activation": "tanh", "outputs": 3, "criterion": "cross_entropy"},
}


@pytest.mark.parametrize("case", marked(["erf, two outputs, bias"], SETTINGS))
def test_the_coefficient_is_that_of_the_full_motion(case):
    """(F(γ_0) − F(0))/γ_0² of the same neurons, extrapolated from γ_0 = 0.1 and 0.05, to 1e-3 of the largest."""
    setting = setting_of(**SETTINGS[case])
    u, r = drawn(setting, 300)
    saved = np.arange(setting.states)

    def series(gamma):
        found = second_order(setting._replace(gamma=gamma), u, r, saved)
        return found.f, found.Phi[0], found.G[0]

    lazy = series(1e-9)
    for k, name in enumerate(("f", "Phi", "G")):
        expected = (series(1.0)[k] - lazy[k])[1:]
        rough, fine = (
            (moved(setting._replace(gamma=gamma), u, r)[k] - lazy[k])[1:] / gamma**2
            for gamma in (0.1, 0.05)
        )
        error = np.abs((4 * fine - rough) / 3 - expected).max()
        assert error < 1e-3 * np.abs(expected).max(), name


def test_linear_units_are_those_of_deep_linear_networks():
    """Kernels, within the standard errors of eight batches."""
    setting, saved = setting_of("linear"), np.arange(7)
    expected = perturbative_linear(setting)
    batches = [second_order(setting, *drawn(setting, 4000, seed), saved) for seed in range(8)]
    G = np.einsum("ltcsd,m,a->ltmcsad", expected["G"], np.ones(4), np.ones(4))
    pairs = (("Phi", expected["H"]), ("G", G), ("kernel", expected["kernel"]))
    for name, values in pairs:
        each = np.array([getattr(batch, name) for batch in batches])
        error = each.std(0, ddof=1) / np.sqrt(8)
        check_within_errors(each.mean(0), values, error, 0 * error)


@pytest.mark.slow
def test_the_second_order_is_better_than_the_static_kernel():
    """tanh at γ_0 = 0.3: at least three times closer to the full theory."""
    asked = problems.wide(depth=1, activation="tanh", richness=0.3, rate=1.0, steps=12)
    full = ld.solve(asked, ld.SampledLayers(samples=16384, batches=4))["prediction"]
    second = ld.solve(asked, ld.Perturbative())
    static = ld.solve(asked, ld.StaticKernel())["prediction"]
    assert float(abs(second["prediction"] - full).max()) < float(abs(static - full).max()) / 3
    assert second.standard_error("prediction") is not None


def test_what_has_no_expansion_is_refused():
    for properties in ({"depth": 2, "activation": "tanh"}, {"depth": 1, "activation": "relu"}):
        with pytest.raises(ld.NoTheory, match="one hidden layer of smooth ones"):
            ld.solve(problems.wide(**properties), ld.Perturbative())
    asked = problems.wide(depth=1, activation="tanh", momentum=0.5)
    with pytest.raises(ld.NoTheory, match="plain gradient descent"):
        ld.solve(asked, ld.Perturbative())
