"""Panels of gradient descent with momentum and decay: those of the steps, and stable where these are."""

import numpy as np
import pytest

from learndyn.core.panels import PanelledLimit
from learndyn.numerics.panels import summed
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import impulse_response


class Unforced(PanelledLimit):
    """A limit without equations: only κ and d are of interest."""

    @property
    def speed(self):
        return 1.0

    def __init__(self, decay, momentum):
        super().__init__(decay, momentum)
        self.begin()

    def solve_nodes(self, kappa, end, rule, precision):
        return 1

    def constants(self):
        return ()

    def forget(self, nodes):
        pass

    def loss(self):
        return 1.0

    def summary(self):
        return np.ones(1)

    def scales(self, summary):
        return np.ones(1)

    def edge_of_stability(self):
        return None

    def weights(self, rate):
        """W at the nodes, for the force −rate W and W(0) = 1."""
        n = len(self.times)
        return np.linalg.solve(np.eye(n) + rate * self.kappa[:n, :n], self.d)


def test_single_steps_are_the_impulse_response():
    limit = Unforced(0.3, 0.8)
    for _ in range(9):
        assert limit.step(0.1)
    kappa, d = impulse_response(GradientDescent(0.1, steps=9, momentum=0.8, weight_decay=0.3), 9)
    np.testing.assert_allclose(limit.kappa[:10, :10], kappa, rtol=1e-13)
    np.testing.assert_allclose(limit.d, d, rtol=1e-13)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.1), (0.5, 0.0), (0.9, 0.2), (0.95, 0.0)])
def test_panels_follow_a_slow_mode(momentum, decay):
    """The velocity is carried over the edges of panels and steps; the error is of seventh order in the length."""
    errors = []
    for length in (20, 10):
        limit = Unforced(decay, momentum)
        steps = Unforced(decay, momentum)
        for _ in range(180):
            steps.step(0.01)
        for _ in range(100):
            limit.step(0.01)
        for _ in range(40 // length):
            limit.extend(limit.end + length, summed(4, length), np.full(4, 0.01))
        for _ in range(40):
            limit.step(0.01)
        rate = 0.5 * (1 - momentum)
        errors.append(abs(limit.weights(rate)[-1] / steps.weights(rate)[-1] - 1))
    assert errors[0] < 1e-6
    assert errors[1] < errors[0] / 16 + 1e-12


@pytest.mark.parametrize("momentum", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("length", [8, 30, 1000])
def test_panels_with_momentum_are_stable_wherever_descent_is(momentum, length):
    """Ten panels from rest do not amplify what modes have at the start, ηλ < 2 (1 + β)."""
    limit = Unforced(0.0, momentum)
    for _ in range(10):
        limit.extend(limit.end + length, summed(4, length), np.ones(4))
    rates = np.concatenate([np.geomspace(1e-4, 0.1, 20), np.linspace(0.1, 2 * (1 + momentum), 40)])
    sizes = [np.max(np.abs(limit.weights(rate)[4::4])) for rate in rates]
    assert max(sizes) <= 1 + 1e-9
