"""Convolutional networks: the limits and equations that they must obey."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from tests import problems
from tests.families.wide.architectures import trained, trainee
from tests.families.wide.errors import check_within_errors
from tests.families.wide.plain_convolution import linear_convolution, particles, readout_kernel
from tests.optional import not_none

EXACT = ld.SampledLayers(samples=1024, batches=2, precision="double", drop=1e-9)
"""Linear units are exact between samples, up to what is dropped."""


def problem(convolution, depth=2, activation="linear", data=None, richness=1.5, **properties):
    network = ld.Wide(depth, activation, richness, convolution=convolution)
    data = data or ld.Points.random(3, 6, seed=2, test_points=1)
    return problems.wide(network=network, data=data, **({"rate": 0.3, "steps": 5} | properties))


@pytest.mark.parametrize("readout", ["gap", "flat"])
def test_one_position_is_a_fully_connected_layer(readout):
    """From the same samples, to rounding."""
    method = ld.SampledLayers(samples=256, batches=2, precision="double")
    plain = ld.solve(problem(None, activation="tanh"), method)
    other = ld.solve(problem(ld.Convolution(1, 1, readout), activation="tanh"), method)
    for name in ("prediction", "test_prediction", "kernel", "Phi", "G"):
        np.testing.assert_allclose(other[name], plain[name], rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("kernel", "depth"), [(1, 1), (2, 2), (3, 3)])
def test_linear_units_with_gap_are_a_network_on_the_mean_over_positions(kernel, depth):
    data = ld.Points.random(3, 6, seed=2, test_points=1)
    averaged = ld.Points(
        data.inputs.reshape(3, 3, 2).mean(1),
        data.targets,
        data.test_inputs.reshape(1, 3, 2).mean(1),
        data.test_targets,
    )
    theory = ld.solve(problem(ld.Convolution(3, kernel), depth, data=data), EXACT)
    expected = ld.solve(problem(None, depth, data=averaged), ld.LinearRows())
    for name in ("prediction", "test_prediction"):
        np.testing.assert_allclose(theory[name], expected[name], rtol=0, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("readout", ["gap", pytest.param("flat", marks=pytest.mark.slow)])
def test_equal_inputs_at_all_positions_are_a_fully_connected_network(readout):
    """Linear units up to what is dropped, tanh within the standard errors of independent samples."""
    narrow = ld.Points.random(3, 2, seed=2, test_points=1)
    data = ld.Points(
        np.tile(narrow.inputs, 3),
        narrow.targets,
        np.tile(narrow.test_inputs, 3),
        narrow.test_targets,
    )
    convolution = ld.Convolution(3, 2, readout)
    names = ("prediction", "kernel", "Phi", "G")
    theory = ld.solve(problem(convolution, data=data), EXACT)
    expected = ld.solve(problem(None, data=narrow), ld.LinearRows())
    for name in names:
        np.testing.assert_allclose(theory[name], expected[name], rtol=0, atol=1e-6, err_msg=name)
    method = ld.SampledLayers(samples=1024, batches=8)
    theory = ld.solve(problem(convolution, activation="tanh", data=data), method)
    expected = ld.solve(problem(None, activation="tanh", data=narrow), method, seed=1)
    for name in names:
        values = [solution[name].values for solution in (theory, expected)]
        errors = [not_none(solution.standard_error(name)).values for solution in (theory, expected)]
        check_within_errors(*values, *errors)


@pytest.mark.slow
def test_gap_does_not_see_shifts():
    """A test point that is a trained one, shifted along the circle, has its outputs: in samples and in networks."""
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    shifted = np.roll(x[:1], 1, axis=1).reshape(1, 8)
    data = ld.Points(x.reshape(3, 8), [1.0, -1.0, 1.0], shifted)
    asked = problem(ld.Convolution(4, 3), activation="tanh", data=data, steps=3)
    network = asked.network.with_values(convolution=ld.Convolution(4, 3, "flat"))
    with float64():
        f = trained(trainee(asked, 30), asked)["f"]
        seen = trained(trainee(asked.with_values(network=network), 30), asked)["f"]
    np.testing.assert_allclose(f[:, 3], f[:, 0], atol=1e-13)
    assert np.abs(seen[:, 3] - seen[:, 0]).max() > 1e-3
    theory = ld.solve(
        asked, ld.SampledLayers(samples=512, batches=2, drop=1e-8, precision="double")
    )
    np.testing.assert_allclose(
        theory["test_prediction"][:, 0], theory["prediction"][:, 0], rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("readout", ["gap", "flat"])
def test_linear_units_obey_the_plain_equations(readout):
    """Two outputs, momentum and decay, up to what is dropped: outputs and both kernels."""
    data = ld.Points.random(2, 6, seed=3, outputs=2)
    convolution = ld.Convolution(3, 2, readout)
    asked = problem(
        convolution, data=data, rate=0.2, steps=4, momentum=0.4, weight_decay=0.2, richness=1.0
    )
    theory = ld.solve(asked, EXACT)
    with float64():
        f, H, G = linear_convolution(asked, wide_setting(asked, 4))
    np.testing.assert_allclose(theory["prediction"], f, rtol=0, atol=1e-7)
    Phi = [np.einsum("ab,tpasqb->tpsq", readout_kernel(asked.network), x) for x in H]
    np.testing.assert_allclose(theory["Phi"], Phi, rtol=0, atol=1e-7)
    summed = np.array([np.einsum("tcasdb->tcsd", x) for x in G])
    np.testing.assert_allclose(theory["G"][:, :, 0, :, :, 1], summed, rtol=0, atol=1e-7)


@pytest.mark.parametrize("readout", ["gap", "flat"])
def test_one_layer_obeys_the_equations_of_particles(readout):
    """tanh, within the standard errors of eight batches of each."""
    asked = problem(ld.Convolution(3, 2, readout), 1, "tanh", steps=6)
    theory = ld.solve(asked, ld.SampledLayers(samples=4096, batches=8))
    with float64():
        setting = wide_setting(asked, 6)
    batches = np.array([particles(asked, setting, 4096, seed) for seed in range(8)])
    mean, error = batches.mean(0), batches.std(0, ddof=1) / np.sqrt(8)
    for name, points in (("prediction", slice(3)), ("test_prediction", slice(3, 4))):
        errors = not_none(theory.standard_error(name)).values, error[:, points]
        check_within_errors(theory[name].values, mean[:, points], *errors)
