"""Finite networks with a convolution, other learning rules, skips and layer norm: each is what `Wide` says it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.finite_architectures import measured, outputs, pulled_back
from learndyn.numerics.precision import float64
from tests.families.wide.architectures import (
    CASES,
    marked,
    plain_trainee,
    problem,
    trained,
    trainee,
)
from tests.optional import not_none

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def double_precision():
    with float64():
        yield


@pytest.mark.parametrize("rule", ["decoupled", "coupled"])
@pytest.mark.parametrize("case", marked(["biases"], ["plain", "biases"]))
def test_without_options_it_is_the_plain_network(case, rule):
    """From the same seed, with momentum and decay, to rounding."""
    options = {"momentum": 0.5, "weight_decay": 0.1, "momentum_rule": rule}
    asked = problem(case, rate=0.3, steps=5, **options)
    plain, other = (trained(make(asked, 30, 3), asked) for make in (plain_trainee, trainee))
    for name, values in plain.items():
        np.testing.assert_allclose(other[name], values, rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.slow
def test_a_convolution_of_one_position_is_the_plain_network():
    asked = problem("biases", rate=0.3, steps=4)
    plain = trained(plain_trainee(asked, 30), asked)
    for readout in ("gap", "flat"):
        network = asked.network.with_values(convolution=ld.Convolution(1, 1, readout))
        other = trained(trainee(asked.with_values(network=network), 30), asked)
        for name, values in plain.items():
            np.testing.assert_allclose(other[name], values, rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("readout", ["gap", "flat"])
def test_a_convolution_is_that_of_its_definition(readout):
    """Written out position by position, for one hidden layer after the first."""
    S, k, N, gamma = 3, 2, 7, 1.5
    network = ld.Wide(2, "tanh", gamma, convolution=ld.Convolution(S, k, readout))
    asked = problem("plain").with_values(network=network)
    net = trainee(asked, N)
    x, (W0, W1), w = np.asarray(net.x), map(np.asarray, net.theta["W"]), np.asarray(net.theta["w"])
    D = x.shape[-1]
    f = np.zeros((len(x), len(w)))
    for point in range(len(x)):
        below = []
        for a in range(S):
            seen = np.concatenate([x[point, (a + q) % S] for q in range(k)])
            below.append(np.tanh(W0 @ seen / np.sqrt(k * D)))
        for a in range(S):
            seen = np.concatenate([below[(a + q) % S] for q in range(k)])
            features = np.tanh(W1 @ seen / np.sqrt(k * N))
            readouts = w / S if readout == "gap" else w[:, a] / np.sqrt(S)
            f[point] += readouts @ features / (gamma * N)
    np.testing.assert_allclose(outputs(net.net, net.theta, net.fixed, net.x), f, atol=1e-15)


def _fields(net, direct):
    """h, φ and the pseudo-gradients of all outputs for three tanh layers, written out."""
    W, w = [np.asarray(m) for m in net.theta["W"]], np.asarray(net.fixed["w"])
    phi, slope = [np.asarray(net.x)[:, 0]], []
    for matrix in W:
        h = phi[-1] @ matrix.T / np.sqrt(matrix.shape[1])
        phi.append(np.tanh(h))
        slope.append(1 - np.tanh(h) ** 2)
    N, g = len(W[0]), [None] * 3
    z = np.broadcast_to(w, (len(phi[0]), *w.shape))
    for ell in (2, 1, 0):
        g[ell] = slope[ell][:, None] * z
        if direct and ell:
            z = np.asarray(net.fixed["direct"][ell - 1])
        elif ell:
            z = g[ell] @ np.asarray(net.fixed["W"][ell]) / np.sqrt(N)
    return phi, g


@pytest.mark.parametrize("case", ["feedback", "direct feedback"])
def test_feedback_moves_weights_by_its_definition(case):
    """δW^ℓ = (ηγ_0/√n) Σ_αc E g^{ℓ+1} φ^ℓ, and the readout by its own gradient."""
    net, gamma = trainee(problem(case), 9), 1.5
    E = np.random.default_rng(0).standard_normal((len(net.x), 2))
    force = pulled_back(net.net, net.theta, net.fixed, net.x, jnp.asarray(E))
    phi, g = _fields(net, case == "direct feedback")
    for ell in range(3):
        scale = gamma / np.sqrt(phi[ell].shape[1])
        expected = scale * np.einsum("pc,pcn,pm->nm", E, not_none(g[ell]), phi[ell])
        np.testing.assert_allclose(force["W"][ell], expected, atol=1e-13)
    np.testing.assert_allclose(force["w"], gamma * E.T @ phi[3], atol=1e-13)


def test_fixed_weights_have_the_overlap():
    """ρ = 1 is the initial weights themselves; else the correlation is ρ within 4/N."""
    net = trainee(problem("feedback"), 200)
    pairs = [*zip(net.theta["W"][1:], net.fixed["W"][1:], strict=True)]
    for W, B in pairs:
        assert abs(np.mean(W * B) - 0.6) < 4 / 200
        assert abs(np.mean(B**2) - 1) < 4 / 200


BACKPROP = ["gap", "flat, biases", "gates", "skips, biases", "norm", "widths, scales"]


@pytest.mark.parametrize("case", marked(["norm", "widths, scales"], BACKPROP))
def test_the_force_is_the_gradient_of_the_outputs(case):
    """Along a random direction, against central differences of f: rounding over the step, 1e-9 of f."""
    net, gamma = trainee(problem(case), 9), 1.5
    rng = np.random.default_rng(0)
    E = rng.standard_normal((len(net.x), 2))
    force = pulled_back(net.net, net.theta, net.fixed, net.x, jnp.asarray(E))
    way = jax.tree.map(lambda w: rng.standard_normal(w.shape), net.theta)

    def moved(step):
        theta = jax.tree.map(lambda w, v: w + step * v, net.theta, way)
        return float(np.sum(E * np.asarray(outputs(net.net, theta, net.fixed, net.x))))

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    products = jax.tree.leaves(jax.tree.map(lambda F, v: np.sum(F * v), force, way))
    assert abs(sum(products) / (gamma**2 * 9) - slope) < 1e-7 * abs(slope) + 1e-8


@pytest.mark.parametrize("case", marked(["feedback", "all"]))
def test_a_small_step_moves_outputs_by_the_tangent_kernel(case):
    """f moves by ηKE for every rule, up to O(η²)."""
    eta = 1e-6
    asked = problem(case, rate=eta, steps=1)
    net = trainee(asked, 20)
    kernel = np.asarray(measured(net.net, net.theta, net.fixed, net.x).kernel)
    f = trained(net, asked)["f"]
    E = net.loss.force(f[0])
    expected = np.einsum("pcqd,qd->pc", kernel, E)  # E is zero at the test point
    np.testing.assert_allclose((f[1] - f[0]) / eta, expected, rtol=1e-4, atol=1e-5)


def test_gates_are_open_for_half_of_the_units():
    """And closed gates let nothing through."""
    net = trainee(problem("gates"), 30)
    gates = np.concatenate([np.asarray(net.x[:, 0] @ V.T > 0).ravel() for V in net.fixed["gates"]])
    assert abs(gates.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(gates))
    closed = [0 * V for V in net.fixed["gates"]]
    assert np.any(outputs(net.net, net.theta, net.fixed, net.x))
    assert not np.any(outputs(net.net, net.theta, {"gates": closed}, net.x))


def test_the_layer_norm_does_not_see_the_size_of_inputs():
    """Up to the number added to the variance, whose share is 1e-5/K_μμ."""
    data = problem("norm").data
    sizes = []
    for factor in (1.0, 10.0):
        points = ld.Points(factor * data.inputs, data.targets)
        net = trainee(problem("norm", data=points), 30)
        sizes.append(np.asarray(outputs(net.net, net.theta, net.fixed, net.x)))
    np.testing.assert_allclose(*sizes, rtol=1e-3, atol=1e-5)


REFUSED = [
    ({"feedback_overlap": 0.5}, "feedback_overlap = 0.5: must be 0 with the learning rule"),
    ({"learning_rule": "gated_linear"}, "activation = .*: must be 'linear'"),
    ({"learning_rule": "direct_feedback_alignment", "skip": 0.5}, "skip = 0.5: must be None"),
    ({"learning_rule": "hebb"}, "learning_rule = 'hebb': must be one of 'backprop'"),
    ({"normalization": "batch"}, "normalization = 'batch': must be one of 'none', 'layer'"),
    ({"convolution": {"positions": 2, "kernel": 3}}, "kernel = 3: must be at most 2"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ld.ProblemError, match=message):
        ld.Wide(2, "tanh", **options)


def test_points_that_do_not_fit_a_convolution_are_refused():
    asked = problem("gap")
    network = asked.network.with_values(convolution=ld.Convolution(4, 2))
    with pytest.raises(ld.ProblemError, match=r"positions = 4: must divide the 6 columns"):
        asked.with_values(network=network)
    with pytest.raises(ld.ProblemError, match=r"data.gram = .*: must be inputs"):
        asked.with_values(data=ld.Points(gram=np.eye(4), targets=asked.data.targets))


@pytest.mark.parametrize("case", CASES)
def test_options_survive_a_file(case, tmp_path):
    asked = problem(case)
    asked.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == asked


def test_what_networks_with_options_cannot_do_is_refused():
    with pytest.raises(ld.ProblemError, match=r"training\.noise = 0.1: must be 0"):
        problem("gap", temperature=0.1)
    asked = problem("gap")
    with pytest.raises(ld.ProblemError, match=r"training\.time = 1.0: must be left out"):
        asked.with_values(training=ld.GradientDescent(1.0, time=1.0))
    with pytest.raises(ld.ProblemError, match=r"WideDescent\.samples = 4: .* plain networks only"):
        ld.simulate(asked, 10, method=ld.WideDescent(samples=4))
