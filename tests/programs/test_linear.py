"""Linear programs have exact limits: random matrix theory, and the library's deep linear and wide linear theories."""

from itertools import pairwise

import numpy as np
import pytest

import learndyn as ld
from learndyn.programs import SGD, Coordinates, Limit, Net, einsum, mean, run
from tests.programs.cases import EXAMPLES

STEPS = 30


def regression(net: Net, alpha: float, rate: float = 0.3, steps: int = STEPS) -> None:
    D, P = net.dim("inputs"), net.dim("examples", alpha)
    X, target, w = net.matrix(P, D, trained=False), net.normal(D, trained=False), net.zeros(D)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        loss = mean((X @ (w - target)) ** 2) / 2
        net.record(train_loss=loss, test_loss=mean((w - target) ** 2))
        train.step(loss)


def marchenko_pastur(alpha: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """½∫λ(1 − ηλ)^{2t} and ∫(1 − ηλ)^{2t} over the law of XX^⊤/P with P = αD.

    f(λ) = f(0) + λ g(λ) with a polynomial g, and λ times the density is √((b − λ)(λ − a))/(2πc) with c = 1/α, for which
    Gauss's rule with Chebyshev polynomials of the second kind is exact.
    """
    c = 1 / alpha
    a, b = (1 - np.sqrt(c)) ** 2, (1 + np.sqrt(c)) ** 2
    angle = np.arange(1, 81) * np.pi / 81
    nodes, weights = (a + b) / 2 + (b - a) / 2 * np.cos(angle), np.pi / 81 * np.sin(angle) ** 2
    weights = weights * ((b - a) / 2) ** 2 / (2 * np.pi * c)
    powers = (1 - rate * nodes) ** (2 * np.arange(STEPS + 1)[:, None])
    return powers @ weights / 2, 1 + ((powers - 1) / nodes) @ weights


@pytest.mark.parametrize("alpha", [0.5, 1.3, 2.0])
@pytest.mark.parametrize(
    "backend",
    [
        Coordinates(),
        Limit(512, seed=4, drop=1e-12, floor=0.0),
        Limit(512, seed=4, drop=1e-12, floor=0.0, linear=("inputs",)),
        Limit(16, drop=1e-12, floor=0.0, linear=("inputs", "examples")),
    ],
    ids=repr,
)
def test_regression_follows_marchenko_pastur(alpha, backend):
    # Exact but for rounding: also between even samples, for every seed.
    records = run(regression, {"alpha": alpha}, backend).records
    train_loss, test_loss = marchenko_pastur(alpha, 0.3)
    np.testing.assert_allclose(records["train_loss"], train_loss, rtol=0, atol=1e-12)
    np.testing.assert_allclose(records["test_loss"], test_loss, rtol=0, atol=1e-12)


BACKENDS = {"axes": Coordinates, "samples": lambda drop, floor: Limit(512, 1, drop, floor)}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
def test_dropping_less_is_never_worse(backend):
    _, exact = marchenko_pastur(1.3, 0.3)
    errors = []
    for drop in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
        records = run(regression, {"alpha": 1.3}, backend(drop=drop, floor=0.0)).records
        errors.append(np.abs(records["test_loss"] - exact).max())
    # Rounding aside, which is below 1e-13.
    assert all(later <= earlier + 1e-13 for earlier, later in pairwise(errors))
    assert errors[0] > 1e-6
    assert errors[-1] < 1e-12


def fresh_batches(net: Net, alpha: float, rate: float, steps: int) -> None:
    D = net.dim("inputs")
    target, w = net.normal(D, trained=False), net.zeros(D)
    train = SGD(net, rate)
    for _ in net.steps(steps):
        X = net.matrix(net.dim("batch", alpha), D, trained=False)
        loss = mean((X @ (w - target)) ** 2)
        net.record(loss=loss)
        train.step(loss / 2)


@pytest.mark.parametrize("backend", [Coordinates(), Limit(256, drop=1e-12, floor=0.0)], ids=repr)
def test_regression_on_fresh_batches_decays_by_one_factor_a_step(backend):
    # v ← (1 − ηS) v with a new Wishart matrix S at each step: ⟨S⟩ = 1 and ⟨S²⟩ = 1 + 1/α.
    loss = run(fresh_batches, {"alpha": 1.7, "rate": 0.4, "steps": 12}, backend).records["loss"]
    factor = 1 - 2 * 0.4 + 0.4**2 * (1 + 1 / 1.7)
    np.testing.assert_allclose(loss, factor ** np.arange(13), rtol=1e-11)


@pytest.mark.parametrize(
    ("depth", "momentum", "decay"), [(1, 0.0, 0.0), (2, 0.4, 0.1), (3, 0.0, 0.0)]
)
def test_deep_linear_networks_on_a_dataset_follow_their_theory(depth, momentum, decay):
    problem = ld.Problem(
        ld.DeepLinear(depth=depth, width=0.8, richness=0.7),
        ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.5),
        ld.GradientDescent(0.05, steps=30, momentum=momentum, weight_decay=decay),
    )
    theory = ld.solve(problem)
    program = EXAMPLES["deep_linear"]
    records = run(
        program, {"depth": depth, "momentum": momentum, "decay": decay}, Coordinates()
    ).records
    for name, curve in records.items():
        # Both are exact; parts of length 1e-12 are dropped, and rounding grows a little over 30 steps.
        np.testing.assert_allclose(curve, theory[name], rtol=0, atol=1e-10)


def on_population(
    net: Net, widths: tuple[float, ...], rate: float, steps: int, skip: float | None = None
) -> None:
    """f(x) = w·W^{L−1} … W^0 x/(N_L γ_0), on the expected loss; γ_0 = 1. Residual layers with a skip."""
    D, dims = net.dim("inputs"), [net.dim("hidden 1", widths[0])]
    for k, width in enumerate(widths[1:], start=2):
        # Residual blocks add vectors of two layers: they share a dimension.
        dims.append(dims[0] if skip else net.dim(f"hidden {k}", width))
    first, w = net.matrix(dims[0], D), net.normal(dims[-1])
    layers = [net.matrix(b, a) for a, b in pairwise(dims)]
    target = net.normal(D, trained=False)
    # One raw rate for all weights is a rate of its own for each number of rows.
    trains = [SGD(net, rate, parameters=[w])]
    for W in (first, *layers):
        trains.append(SGD(net, rate * dims[-1].ratio / W.rows.ratio, parameters=[W]))
    for _ in net.steps(steps):
        g = w
        for W in reversed(layers):
            g = W.T @ g if skip is None else g + skip * (W.T @ g)
        v = target - (first.T @ g) / widths[-1]
        loss = mean(v * v)
        net.record(test_loss=loss)
        for train in trains:
            train.step(loss / 2)


@pytest.mark.parametrize(("widths", "skip"), [((1.5, 1.0, 0.7), None), ((0.9, 0.9, 0.9), 0.6)])
def test_deep_linear_and_residual_networks_on_the_population_follow_their_theory(widths, skip):
    width = list(widths) if skip is None else widths[0]
    problem = ld.Problem(
        ld.DeepLinear(depth=3, width=width, skip=skip),
        ld.Population(ld.LinearMap()),
        ld.GradientDescent(0.05, steps=20),
    )
    theory = ld.solve(problem)
    parameters = {"widths": widths, "rate": 0.05, "steps": 20, "skip": skip}
    records = run(on_population, parameters, Coordinates()).records
    np.testing.assert_allclose(records["test_loss"], theory["test_loss"], rtol=0, atol=1e-10)


def wide_linear(net: Net, X: np.ndarray, y: np.ndarray, momentum: float, decay: float) -> None:
    """Three hidden layers, two outputs, richness 1.5."""
    N, richness = net.dim("neurons"), 1.5
    V, w = net.normal(N, X.shape[1]), net.normal(N, 2)
    layers = [net.matrix(N, N) for _ in range(2)]
    train = SGD(net, 0.1 * richness**2, momentum, decay / richness**2)
    for _ in net.steps(20):
        h = einsum("pd,d->p", X / np.sqrt(X.shape[1]), V)
        for W in layers:
            h = W @ h
        f = mean(h[:, None] * w[None]) / richness
        loss = ((f - y) ** 2).sum() / (2 * len(y))
        net.record(prediction=f)
        train.step(loss)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.05)])
def test_wide_linear_networks_with_two_outputs_follow_their_theory(momentum, decay):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((3, 4)), rng.standard_normal((3, 2))
    problem = ld.Problem(
        ld.Wide(3, "linear", richness=1.5),
        ld.Points(X, y),
        ld.GradientDescent(0.1, steps=20, momentum=momentum, weight_decay=decay),
    )
    theory = ld.solve(problem)
    parameters = {"X": X, "y": y, "momentum": momentum, "decay": decay}
    records = run(wide_linear, parameters, Coordinates()).records
    np.testing.assert_allclose(records["prediction"], theory["prediction"], rtol=0, atol=1e-8)
