"""Matrices that change at random, in the sampled limit."""

import inspect
import textwrap

import numpy as np
import pytest

from learndyn.programs import SGD, Coordinates, Lazy, Limit, einsum, mean, noisy, run

X = np.random.default_rng(0).standard_normal((3, 4)) / 2
Y = np.array([1.0, -0.5, 0.3])


def network(net, nonlinear=False, steps=6):
    """Two layers of different sizes, trained with momentum, decay and noise."""
    N, M = net.dim("first"), net.dim("second", 0.5)
    V, W, w = net.normal(N, 4), net.matrix(M, N), net.normal(M)
    train = SGD(net, 0.3, momentum=0.4, decay=0.2, temperature=0.1)
    for _ in net.steps(steps):
        h = einsum("pd,d->p", X, V)
        f = mean(w * (W @ (np.tanh(h) if nonlinear else h)))
        net.record(f=f)
        train.step(((f - Y) ** 2).sum() / 2)


def outputs(**options):
    return run(network, None, Limit(256, drop=1e-9, **options)).records["f"]


def test_linear_programs_with_noise_are_exact():
    """Samples obey the same algebra as coordinates, which reveal every noise as a matrix of its own: rounding."""
    exact = run(network, None, Coordinates()).records["f"]
    np.testing.assert_allclose(outputs(), exact, rtol=0, atol=1e-10)
    assert np.max(np.abs(exact[-1])) > 0.1


@pytest.mark.parametrize(
    ("function", "text", "instead"),
    [
        ("product", "math.sqrt(self.rho), self.rho)", "1.0, self.rho)"),
        ("product", "factor * responses", "0 * responses"),
        ("product", "* other.correlation(time)", ""),
        ("_process", "own.correlation(time)[:, None] * ", ""),
        ("_process", "variance * own.here.scale * sums(x, x)", "own.here.scale * sums(x, x)"),
    ],
)
def test_a_missing_factor_is_noticed(function, text, instead, monkeypatch):
    exact = run(network, None, Coordinates()).records["f"]
    source = textwrap.dedent(inspect.getsource(getattr(noisy.NoisyRows, function)))
    assert source.count(text) == 1
    names = dict(vars(noisy))
    exec(source.replace(text, instead), names)
    monkeypatch.setattr(noisy.NoisyRows, function, names[function])
    assert not np.allclose(outputs(), exact, rtol=0, atol=1e-4)


def test_nonlinear_programs_with_noise_agree_with_networks():
    """Twelve of 1000 neurons: within five standard errors, and O(1/N)."""
    limit = [run(network, {"nonlinear": True}, Limit(1024, seed)).records["f"] for seed in range(8)]
    nets = [run(network, {"nonlinear": True}, Lazy(1000, seed)).records["f"] for seed in range(12)]
    a, b = np.array(limit), np.array(nets)
    error = np.sqrt(a.var(0, ddof=1) / 8 + b.var(0, ddof=1) / 12)
    assert np.all(np.abs(a.mean(0) - b.mean(0)) < 5 * error + 1e-3)
