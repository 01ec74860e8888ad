"""The bias of order 1/S: seen, and removed by halves of the same samples. Mirrored samples."""

import numpy as np
import pytest
from scipy import stats

from learndyn.programs import (
    SGD,
    Limit,
    Net,
    ProgramError,
    einsum,
    extrapolated,
    mean,
    relu,
    run,
)
from learndyn.programs.sites import Samples
from tests.programs.cases import reused


def two_neurons(net: Net, steps: int = 6) -> None:
    """Two tanh neurons learn the sign of one from P = 2D examples, at a large rate."""
    D, P = net.dim("inputs"), net.dim("examples", 2.0)
    X, target = net.matrix(P, D, trained=False), net.normal(D, trained=False)
    w = net.parameter(0.3 * (net.normal(D, 2, trained=False) + target))
    y = np.sign(X @ target)
    train = SGD(net, 2.0)
    for _ in net.steps(steps):
        loss = mean((np.tanh(X @ w).sum(0) / 2 - y) ** 2)
        net.record(loss=loss, norm=mean(w * w).sum() / 2)
        train.step(loss)


@pytest.mark.slow
def test_halves_remove_the_bias_of_few_samples():
    reference = [extrapolated(two_neurons, {}, Limit(8192, 1000 + k)) for k in range(6)]
    # One number, chosen beforehand: |w|²/D after the last step.
    exact = np.array([outcome.records["norm"][-1] for outcome in reference])
    biases, errors = [], []
    for samples, seeds in ((128, 160), (256, 160)):
        outcomes = [extrapolated(two_neurons, {}, Limit(samples, seed)) for seed in range(seeds)]
        plain = np.array([outcome.whole.records["norm"][-1] for outcome in outcomes])
        better = np.array([outcome.records["norm"][-1] for outcome in outcomes])
        error = [stats.sem(x) for x in (plain, better, exact)]
        biases.append(plain.mean() - exact.mean())
        errors.append(np.hypot(error[0], error[2]))
        assert abs(biases[-1]) > 3 * errors[-1]
        if samples == 256:
            # With 128 samples the halves have two samples for each direction, and 1/S² is left.
            assert abs(better.mean() - exact.mean()) < 2.5 * np.hypot(error[1], error[2])
            # It costs little noise: standard deviations grow by 1.7 at most, up to the scatter of two variances.
            scatter = stats.f.ppf(0.99, seeds - 1, seeds - 1)
            assert better.var() < scatter * 1.7**2 * plain.var()
    # S × bias is the same within errors.
    assert abs(128 * biases[0] - 256 * biases[1]) < 2.5 * np.hypot(128 * errors[0], 256 * errors[1])


def test_extrapolated_records_and_the_share_of_the_extrapolation():
    backend = Limit(256, 3)
    outcome = extrapolated(reused, {"steps": 3}, backend)
    whole, first, second = (
        run(reused, {"steps": 3}, Limit(256, 3, half=half)).records for half in (None, 0, 1)
    )
    assert set(outcome.records) == set(whole)
    for name, curve in outcome.records.items():
        shift = whole[name] - (first[name] + second[name]) / 2
        np.testing.assert_allclose(curve, whole[name] + shift, rtol=0, atol=1e-14)
        share = np.sqrt(np.mean(shift**2) / np.mean((first[name] - second[name]) ** 2 / 4))
        assert outcome.share[name] == pytest.approx(share)
    with pytest.raises(ProgramError, match="half = 2"):
        Limit(256, half=2)


def test_halves_are_halves_of_the_same_points():
    rng = lambda: np.random.default_rng(1)  # noqa: E731
    seed = np.random.SeedSequence(5)
    whole, first, second = (Samples("a", 128, seed, half=half) for half in (None, 0, 1))
    # Before evenness is imposed, on Sobol' points and on the random ones that follow.
    for count in (60, 10):
        rows = [site._drawn(count, rng()) for site in (whole, first, second)]
        np.testing.assert_array_equal(np.concatenate(rows[1:], axis=1), rows[0])
        # A half of Sobol' points is even: one in each of 64 equal intervals.
        if count == 60:
            cells = np.floor(64 * stats.norm.cdf(rows[1])).astype(int)
            assert all(len(set(row)) == 64 for row in cells)


def relus(net: Net, steps: int = 2) -> None:
    """Two hidden layers of relu."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 5)) / np.sqrt(5), np.array([1.0, -1.0, 1.0, -1.0])
    K, N = net.dim("first"), net.dim("second")
    V, W, w = net.normal(K, 5), net.matrix(N, K), net.normal(N)
    train = SGD(net, 0.3)
    for _ in net.steps(steps):
        f = mean(w * relu(W @ relu(einsum("pd,d->p", X, V))))
        loss = ((f - y) ** 2).sum() / 8
        net.record(loss=loss)
        train.step(loss)


@pytest.mark.slow
def test_mirrored_samples_scatter_less_in_early_steps_of_relu_networks():
    seeds = 60
    losses = [
        [
            run(relus, {}, Limit(256, seed, mirrored=mirrored)).records["loss"][-1]
            for seed in range(seeds)
        ]
        for mirrored in (False, True)
    ]
    plain, mirrored = np.array(losses)
    # Measured: 2.5 times smaller. The bound is what the scatter of two equal variances exceeds in 1 % of the cases.
    assert plain.var() > stats.f.ppf(0.99, seeds - 1, seeds - 1) * mirrored.var()
    # Both have the same mean.
    assert abs(plain.mean() - mirrored.mean()) < 3 * np.hypot(*map(stats.sem, losses))
