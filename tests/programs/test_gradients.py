"""Adjoints on the tape against central differences of dense programs, in mean-field units."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learndyn.programs import (
    Dense,
    Net,
    concatenate,
    einsum,
    erf,
    gelu,
    mean,
    relu,
    sigmoid,
    softmax,
    softplus,
    stack,
    where,
)
from learndyn.programs.gradients import adjoints
from learndyn.programs.matrices import Matrix
from tests.programs.cases import X

Built = tuple[list[Any], Callable[[], Any]]


def rectangular(net: Net) -> Built:
    N, K = net.dim("N"), net.dim("K", 0.6)
    V, W, w = net.normal(N, 2), net.matrix(K, N), net.normal(K)
    return [V, W, w], lambda: (mean(w * np.tanh(W @ np.sin(einsum("pd,d->p", X, V)))) ** 2).sum()


def tied(net: Net) -> Built:
    D, K = net.dim("D"), net.dim("K", 1.7)
    W, data = net.matrix(K, D), net.normal(D, 2)
    return [W, data], lambda: mean((W.T @ np.tanh(W @ data) - data) ** 2).sum()


def layer_norm(net: Net) -> Built:
    N = net.dim("N")
    V, W, gain = net.normal(N, 3), net.matrix(N, N), net.parameter([1.2, 0.7, -0.4])

    def loss() -> Any:
        h = W @ erf(V)
        centred = h - mean(h)[:, None][:, 0]
        return (gain * mean(sigmoid(centred / np.sqrt(mean(centred**2) + 0.1)))).sum() ** 2

    return [V, W, gain], loss


def recurrent(net: Net) -> Built:
    N = net.dim("N")
    W, h0 = net.matrix(N, N), net.normal(N, 2)

    def loss() -> Any:
        h = h0
        for _ in range(3):
            h = np.tanh(W @ h) + 0.3 * (W.T @ h)
        return mean(h**2).sum()

    return [W, h0], loss


def small_axes(net: Net) -> Built:
    N = net.dim("N")
    a, b, s = net.normal(N, 2, 3), net.normal(N, 3), net.parameter(np.ones((2, 1)))

    def loss() -> Any:
        c = stack([a[0], b, a[1] * b], axis=1)
        d = concatenate([c, a.transpose()[:, [1, 0, 1]]], axis=1).reshape(9, 2)
        e = einsum("ij,jk->ik", np.ones((2, 9)), d) + s * a[:, :2] + einsum("ij,kj->ik", a, a)
        p = softmax(einsum("pd,d->p", X, e[..., 1]), axis=0)
        return (
            mean(p * p).sum() + mean(np.cos(e)).sum() + einsum("ij,ij->", mean(e**2), s * s * s)
        ) / 4

    return [a, b, s], loss


def functions(net: Net) -> Built:
    N = net.dim("N")
    a, b = net.normal(N), net.normal(N)

    def loss() -> Any:
        c = relu(a) + gelu(b) + softplus(a * b) + np.exp(-abs(a)) + np.maximum(a, b) ** 3
        d = np.log1p(a**2) - np.sqrt(1 + b**2) + where(a > b, np.arctan(a), b / (2 + a * a))
        return mean(c * d) + mean(1.5**a) + np.log(mean(np.square(c)))

    return [a, b], loss


PROGRAMS = [rectangular, tied, layer_norm, recurrent, small_axes, functions]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_adjoints_equal_central_differences(build):
    net = Net(Dense(7, seed=5))
    parameters, loss = build(net)
    gradients = adjoints(loss(), parameters)
    rng, step = np.random.default_rng(0), 1e-5
    for parameter, gradient in zip(parameters, gradients, strict=True):
        for _ in range(4):
            if isinstance(parameter, Matrix):
                base, field = parameter.state, "state"
                # W̄ = ρ ∂L/∂W.
                units = parameter.gaussian.rho
            else:
                base, field = parameter.data, "data"
                # x̄ = n ∂L/∂x, s̄ = ∂L/∂s.
                units = 1 if parameter.dim is None else parameter.dim.site.length
            way = rng.standard_normal(base.shape)
            values = []
            for sign in (1, -1):
                setattr(parameter, field, base + sign * step * way)
                values.append(float(loss()))
            setattr(parameter, field, base)
            difference = units * (values[0] - values[1]) / (2 * step)
            # Third derivatives give 1e-10, rounding of the loss 1e-16/1e-5 = 1e-11, times sums of tens of terms.
            size = np.abs(np.broadcast_to(gradient, base.shape) * way).sum()
            assert abs(np.sum(gradient * way) - difference) < 1e-7 * max(size, 1)
