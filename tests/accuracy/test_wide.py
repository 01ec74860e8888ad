"""Standard errors and accuracies of wide networks: sampled layers, losses, gradient flow, static kernels."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.batches import pseudovalues
from learndyn.families.wide.equations import approximations
from learndyn.numerics.statistics import mean_and_error
from tests import problems
from tests.accuracy.measures import check_mean_square_z, check_ratios, mean_square_z, ratios
from tests.optional import not_none

RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.standard_normal((3, 5)), np.array([1.0, -1.0, 1.0])
POINTS = ld.Points(INPUTS[:2], TARGETS[:2], INPUTS[2:], TARGETS[2:])
OUTPUTS = ["prediction", "test_prediction", "train_loss", "test_loss"]
deep = partial(problems.wide, depth=2, activation="tanh", richness=1.0, data=POINTS, rate=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "steps", "seeds"), [(ld.SampledLayers, 12, 40), (ld.GradientIndependence, 12, 40)]
)
def test_standard_errors_of_sampled_layers(method, steps, seeds):
    """Over seeds, against a solution with 32 times the samples; ⟨z²⟩ for eight batches is 7/5, here with a further 3 %.

    256 samples: with 64 the bias of a batch, of order 1/samples, is seen in Φ (⟨z²⟩ = 2.6).
    """
    reference = ld.solve(deep(steps=steps), method(samples=16384, batches=4), seed=1000)
    found = mean_square_z(
        deep(steps=steps),
        method(samples=256, batches=8),
        reference,
        [*OUTPUTS, "Phi", "G", "kernel"],
        range(seeds),
    )
    check_mean_square_z(found, batches=8)


@pytest.mark.slow
def test_standard_errors_of_gradient_flow():
    """The standard error is honest in continuous time too, apart from the accuracy of the steps."""
    reference = ld.solve(deep(time=1.0), ld.SampledLayers(samples=8192, batches=4), seed=1000)
    method = ld.SampledLayers(samples=256, batches=8)
    found = mean_square_z(deep(time=1.0), method, reference, OUTPUTS, range(16))
    check_mean_square_z(found, batches=8)


def test_losses_are_not_biased_by_the_noise_of_outputs():
    """The loss of noisy outputs is that of their mean less half of its variance, for the squared loss exactly."""
    solution = ld.solve(deep(steps=3), ld.SampledLayers(samples=64, batches=4))
    for kind in ("train", "test"):
        name = "prediction" if kind == "train" else "test_prediction"
        both = (solution[name], not_none(solution.standard_error(name)))
        f, error = (x.isel(output=0).values for x in both)
        y = TARGETS[:2] if kind == "train" else TARGETS[2:]
        expected = 0.5 * np.mean((y - f) ** 2 - error**2, axis=1)
        np.testing.assert_allclose(solution[f"{kind}_loss"], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("criterion", ["squared", "logistic"])
def test_the_jackknife_of_a_loss(criterion):
    """Eight batches around a known output, 2000 times: no bias left, and error bars that fit (⟨z²⟩ = 7/5).

    The mean of the batches' losses is high by half their variance times the curvature, 5 (logistic) or 18 (squared)
    standard errors of the 2000; three are allowed.
    """
    loss = {
        "squared": lambda f: 0.5 * (1 - f) ** 2,
        "logistic": lambda f: np.log1p(np.exp(-f)),
    }[criterion]
    rng = np.random.default_rng(0)
    deviations, zs = [], []
    for _ in range(2000):
        f = 0.3 + 0.2 * rng.standard_normal(8)
        mean, error = mean_and_error(pseudovalues(lambda x: {"loss": loss(x)}, f)["loss"])
        deviations.append(mean - loss(0.3))
        zs.append(deviations[-1] / error)
    mean, error = mean_and_error(deviations)
    assert abs(mean) < 3 * error
    assert 1.2 < np.mean(np.square(zs)) < 1.6


def static_ratios(monkeypatch, activation: str, depth: int) -> list[float]:
    """Static kernels as if there were no closed form, against it, for inputs of several lengths."""
    found = []
    for scale in (0.5, 1.0, 2.0):
        points = ld.Points(scale * INPUTS[:2], TARGETS[:2], scale * INPUTS[2:], TARGETS[2:])
        training = ld.GradientDescent(0.2 / scale**2, steps=10)
        problem = ld.Problem(ld.Wide(depth, activation, 1.0), points, training)
        exact = ld.solve(problem, ld.StaticKernel())
        with monkeypatch.context() as patch:
            patch.setattr(approximations, "closed_form", lambda student, teacher: False)
            found += ratios(ld.solve(problem, ld.StaticKernel()), exact)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "least"), [("erf", 0.0), ("relu", 1e-3)])
def test_static_kernels_on_a_grid(monkeypatch, activation, least):
    """The error of kernels on four grids is below what their spread says, by Student's distribution.

    For smooth activations the mean of shifted grids is far better than each of them: it may be any small share.
    """
    found = static_ratios(monkeypatch, activation, 1) + static_ratios(monkeypatch, activation, 2)
    check_ratios(found, least)


@pytest.mark.slow
def test_steps_of_gradient_flow():
    """Flow of nearly lazy units, known in closed form up to γ_0²: f = [1 − exp(−tKη/P)] y on the trained points."""
    found = []
    for tolerance in (1e-2, 1e-3, 1e-4):
        for depth in (1, 2, 3):
            problem = deep(activation="linear", time=8.0, depth=depth, richness=1e-6)
            solution = ld.solve(problem, ld.Perturbative(tolerance=tolerance), save_at=9)
            K = (depth + 1) * POINTS.kernel()[:2, :2]
            values, vectors = np.linalg.eigh(K)
            decay = np.exp(-0.3 / 2 * solution.data["time"].values[:, None] * values)
            exact = TARGETS[:2] - (vectors * decay[:, None]) @ vectors.T @ TARGETS[:2]
            error = np.max(np.abs(solution["prediction"].isel(output=0).values - exact))
            found.append(error / solution.evidence["accuracy"]["prediction"])
    check_ratios(found)
