"""Residual networks, layer norm, widths and scales: closed forms at the start, invariances, and what they contain."""

import math

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.forward import ForwardPass
from learndyn.families.wide.network import NORM
from learndyn.numerics.precision import float64
from learndyn.programs import Limit, mean, run
from learndyn.programs.gradients import adjoints
from tests import problems

EXACT = ld.SampledLayers(samples=1024, batches=2, precision="double", drop=1e-9)
"""Linear units are exact between samples, up to what is dropped."""
POINTS = ld.Points.random(3, 5, seed=2, test_points=1)


def problem(depth: float = 3, activation="linear", **options):
    properties = {"rate": 0.3, "steps": 5}
    properties |= {name: options.pop(name) for name in ("rate", "steps") if name in options}
    network = ld.Wide(depth, activation, 1.5, **options)
    return problems.wide(network=network, data=POINTS, **properties)


def at_start(theory):
    """Φ, G (layers × points × points) and K of one output in the first state."""
    Phi, G = theory["Phi"].values[:, 0, :, 0], theory["G"].values[:, 0, :, 0, 0, :, 0]
    return Phi, G, theory["kernel"].values[0, :, 0, :, 0]


def test_branches_of_size_zero_leave_one_layer():
    """Linear units up to what is dropped, against the exact theory of one layer."""
    theory = ld.solve(problem(skip=0.0), EXACT)
    expected = ld.solve(problem(depth=1), ld.LinearRows())
    for name in ("prediction", "test_prediction", "kernel"):
        np.testing.assert_allclose(theory[name], expected[name], rtol=0, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("skip", [0.8, ld.ScaledSkip(1.2)])
def test_linear_branches_start_from_powers(skip):
    """Φ^ℓ = b^{ℓ−1}K^x, G^ℓ = b^{L−ℓ}, K = [2b^{L−1} + (L − 1)β²b^{L−2}]K^x with b = 1 + β²."""
    L, asked = 4, problem(depth=4, skip=skip, steps=1)
    beta, K = asked.network.branch, POINTS.kernel()
    b = 1 + beta**2
    Phi, G, kernel = at_start(ld.solve(asked, EXACT))
    layers = np.arange(1, L + 1)[:, None, None]
    np.testing.assert_allclose(Phi, b ** (layers - 1) * K, atol=1e-8)
    np.testing.assert_allclose(G, b ** (L - layers) * np.ones_like(K), atol=1e-8)
    expected = (2 * b ** (L - 1) + (L - 1) * beta**2 * b ** (L - 2)) * K
    np.testing.assert_allclose(kernel, expected, atol=1e-8)


def test_linear_normalised_layers_start_from_correlations():
    """Φ^ℓ is the correlation R of the inputs, G^1 = 1/(σσ'), G^ℓ = 1 above, and K = (L + 1)R, up to O(1e-5)."""
    Phi, G, kernel = at_start(ld.solve(problem(normalization="layer", steps=1), EXACT))
    K = POINTS.kernel()
    sigma = np.sqrt(np.diag(K))
    R = K / np.outer(sigma, sigma)
    scale = 6 * NORM / min(sigma) ** 2
    np.testing.assert_allclose(Phi, np.broadcast_to(R, Phi.shape), atol=scale)
    np.testing.assert_allclose(G[0], 1 / np.outer(sigma, sigma), rtol=scale)
    np.testing.assert_allclose(G[1:], np.ones_like(G[1:]), atol=scale)
    np.testing.assert_allclose(kernel, 4 * R, atol=4 * scale)


def test_no_gradient_goes_along_what_the_norm_takes_out():
    """⟨g⟩ = 0 exactly and ⟨g h⟩ = O(1e-5) for every layer and point, also after training."""
    asked = problem(activation="tanh", normalization="layer")
    products = []

    def program(net):
        forward = ForwardPass(net, asked)
        w = forward.w.data
        # A readout that is not orthogonal to the features, as after training.
        forward.w.data = w + forward.hidden(slice(1), True)[1][-1].data
        for _ in net.steps(0):
            fields = forward(slice(None))
            g = adjoints(fields.f.sum(), fields.h)
            shapes = zip(g, fields.h, strict=True)
            products.extend(
                [(x.mean(-1), (x * h.data).mean(-1), np.abs(x).mean()) for x, h in shapes]
            )
            net.record(f=mean(fields.h[0]))

    with float64():
        run(program, None, Limit(512))
    for along_one, along_h, size in products:
        assert np.abs(along_one).max() < 1e-12 * size
        assert np.abs(along_h).max() < 100 * NORM * size


def test_a_norm_before_one_layer_is_a_network_of_unit_inputs_at_the_start():
    """With inputs of length one, K^x_μμ = 1, the first layer norm changes Φ by its 1e-5 only, from the same samples."""
    x = POINTS.inputs / np.sqrt(np.mean(POINTS.inputs**2, axis=1, keepdims=True))
    data = ld.Points(x, POINTS.targets)
    method = ld.SampledLayers(samples=1024, batches=2, precision="double")
    Phi = []
    for normalization in ("none", "layer"):
        network = ld.Wide(1, "tanh", normalization=normalization)
        asked = problems.wide(network=network, data=data, rate=0.3, steps=1)
        Phi.append(at_start(ld.solve(asked, method))[0])
    np.testing.assert_allclose(*Phi, atol=2 * NORM)


def test_equal_widths_are_another_richness():
    """ν in all layers is γ_0/√ν: from the same samples, to rounding; widths and scales of one change nothing."""
    method = ld.SampledLayers(samples=512, batches=2, precision="double")
    wide = ld.solve(problem(activation="tanh", widths=[2.0] * 3, scales=[1.0] * 4), method)
    network = ld.Wide(3, "tanh", 1.5 / np.sqrt(2))
    plain = problems.wide(network=network, data=POINTS, rate=0.3, steps=5)
    expected = ld.solve(plain, method)
    for name in ("prediction", "test_prediction", "kernel", "Phi", "G"):
        np.testing.assert_allclose(wide[name], expected[name], rtol=0, atol=1e-10, err_msg=name)


def test_lazy_networks_see_the_scales_and_not_the_widths():
    """Linear units: K = Σ_ℓ Π_{j≠ℓ} σ_j² K^x, for any widths."""
    sigma = np.array([1.5, 0.8, 1.2, 0.7])
    asked = problem(widths=[0.5, 2.0, 1.0], scales=sigma, steps=1)
    Phi, G, kernel = at_start(ld.solve(asked, EXACT))
    K, squares = POINTS.kernel(), sigma**2
    for ell in range(3):
        np.testing.assert_allclose(Phi[ell], squares[: ell + 1].prod() * K, atol=1e-8)
        np.testing.assert_allclose(G[ell], squares[ell + 1 :].prod() * np.ones_like(K), atol=1e-8)
    expected = sum(np.delete(squares, ell).prod() for ell in range(4)) * K
    np.testing.assert_allclose(kernel, expected, atol=1e-8)


def test_infinite_depth_starts_from_exponentials():
    """Linear units: K = e^{β_0²}(2 + β_0²)K^x, closer than the stated accuracy, which is below a fifth of it."""
    asked = problem(depth=math.inf, skip=ld.ScaledSkip(1.0), steps=1)
    theory = ld.solve(asked, ld.DepthExtrapolation(samples=1024, batches=2))
    expected = math.e * 3 * POINTS.kernel()
    error = np.abs(theory["kernel"].values[0, :, 0, :, 0] - expected).max()
    stated = theory.evidence["accuracy"]["kernel"]
    assert error < stated < 0.2 * np.abs(expected).max()
    np.testing.assert_allclose(theory["Phi"]["tau"], [0.25, 0.5, 0.75, 1.0])
    tau = theory["Phi"]["tau"].values[:, None, None]
    Phi, G = at_start(theory)[:2]
    np.testing.assert_allclose(Phi, np.exp(tau) * POINTS.kernel(), rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(G, np.exp(1 - tau) * np.ones_like(G), rtol=0.02)


def test_infinite_depth_needs_scaled_skips():
    with pytest.raises(
        ld.ProblemError, match=r"Wide\.depth = inf: may be inf only with a ScaledSkip"
    ):
        ld.Wide(math.inf, "tanh", skip=0.5)
    asked = problem(depth=math.inf, skip=ld.ScaledSkip(1.0))
    with pytest.raises(ld.ProblemError, match=r"network\.depth = inf: only finite networks"):
        ld.simulate(asked, 10)
    with pytest.raises(ld.NoTheory, match="use DepthExtrapolation"):
        ld.solve(asked, ld.SampledLayers())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": [1.0]}, r"widths = .*: must have one entry for each of the 3 layers"),
        ({"scales": [1.0] * 3}, r"scales = .*: must have 4 entries"),
        ({"widths": [1.0, 2.0, 1.0], "skip": 0.5}, r"widths = .*: must be equal with a skip"),
        ({"scales": [1.0] * 4, "bias": True}, r"bias = True: must be False with scales"),
    ],
)
def test_layers_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ld.ProblemError, match=message):
        ld.Wide(3, "tanh", **options)
