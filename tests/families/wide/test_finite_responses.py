"""Responses of finite wide networks: derivatives of the run, causal, and refused where they mean nothing."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.errors import NotEnoughMemory, ProblemError
from learndyn.families.wide.finite import Descending, WideDescent, draw
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from learndyn.problem.schedules import ExponentialDecay
from tests import problems
from tests.optional import not_none

pytestmark = pytest.mark.compiles

N, P, STEPS = 6, 2, 4
problem = partial(
    problems.wide,
    richness=1.5,
    count=P,
    dimension=3,
    seed=3,
    test_points=1,
    steps=STEPS,
    rate=0.4,
    loss="sum",
)


def curves(made, size=N, save_at=None, **options):
    method = WideDescent(responses=True, **options)
    found = ld.simulate(made, size, method=method, save_at=save_at).data.isel(seed=0)
    return {str(name): one.values for name, one in found.data_vars.items()}


def tangents_of(made, recorded, probes=1, size=N):
    """The tangents of a network that was trained and recorded at some steps."""
    with float64():
        x, method = made.data.all_inputs(), WideDescent(responses=True, probes=probes)
        network = Descending(made, wide_setting(made, 1), x, size, method, recorded, 0)
        assert network.advance(recorded, lambda state: None) == len(recorded)
    return not_none(network.tangents)


class Plain:
    """The same network, trained on gradients by `jax.grad`, with a source on every field at every step.

    A source q on z^ℓ_αc is the gradient of q·φ(h^ℓ_α)/(γ_0 N) in an output f_αc that is counted with its present E.
    """

    def __init__(self, made, zeta):
        self.made, self.zeta = made, zeta
        self.x = jnp.asarray(made.data.all_inputs())
        self.y = jnp.asarray(made.data.targets.reshape(P, -1))
        weights = draw(wide_setting(made, 1), self.x.shape[1], N, 0)[0]
        self.theta = jax.tree.map(jnp.asarray, (weights.W, weights.b, weights.w))
        none = [jnp.zeros((len(self.x), N)) for _ in weights.W]
        f, _ = self.outputs(self.theta, none)
        self.origin = f[:P] if made.network.centered else 0.0

    def outputs(self, theta, on_h):
        (W, b, w), phi, features = theta, self.x, []
        for ell, matrix in enumerate(W):
            h = phi @ matrix.T / jnp.sqrt(matrix.shape[1]) + on_h[ell]
            phi = self.made.network.activation(h + b[ell] if b else h)
            features.append(phi)
        return phi @ w.T / (self.made.network.richness * N), features

    def loss(self, f):
        f, y, criterion = f[:P] - self.origin, self.y, self.made.training.criterion
        if criterion == "squared":
            return jnp.sum((y - f) ** 2) / 2
        if criterion == "logistic":
            return jnp.sum(jnp.log1p(jnp.exp(-y * f)))
        return -jnp.sum(y * (f - jax.scipy.special.logsumexp(f, axis=1, keepdims=True)))

    def sourced(self, theta, on_h, on_z):
        """Outputs f + Σ_ℓ on_z·φ^ℓ/(γ_0 N), whose gradients are those of a network with sources."""
        f, features = self.outputs(theta, on_h)
        extra = sum(jnp.einsum("mcn,mn->mc", q, phi) for q, phi in zip(on_z, features, strict=True))
        return f, f + extra / (self.made.network.richness * N), features

    def run(self, on_h, on_z):
        """φ^ℓ and g^ℓ at all states, (T+1, L, points, N) and (T+1, L, points, C, N)."""
        training, gamma = self.made.training, self.made.network.richness
        theta, phis, gs = self.theta, [], []
        buffer = jax.tree.map(jnp.zeros_like, theta)
        own = np.arange(len(self.x))
        for t in range(STEPS + 1):
            f, _, features = self.sourced(theta, on_h[t], on_z[t])
            slopes = jax.jacobian(lambda s, t=t, th=theta: self.sourced(th, s, on_z[t])[1])(on_h[t])
            phis.append(jnp.stack(features))
            gs.append(gamma * N * jnp.stack([J[own, :, own] for J in slopes]))
            E = -jax.grad(self.loss)(f)
            force = jax.grad(
                lambda th, t=t, E=E: jnp.sum(E * self.sourced(th, on_h[t], on_z[t])[1])
            )
            rate = training.learning_rate
            eta = rate(float(t)) if isinstance(rate, ExponentialDecay) else rate
            scale = eta * gamma**2 * N
            buffer = jax.tree.map(
                lambda B, F, scale=scale: training.momentum * B + scale * F, buffer, force(theta)
            )
            keep = 1 - eta * training.weight_decay
            theta = jax.tree.map(lambda w, B, keep=keep: keep * w + B, theta, buffer)
            if t < STEPS and self.zeta:
                theta = jax.tree.map(
                    lambda w, n, eta=eta: w + jnp.sqrt(2 * eta * training.noise) * n,
                    theta,
                    self.zeta[t],
                )
        return jnp.stack(phis), jnp.stack(gs)


def drawn_noise(made):
    """The noise of the simulator, step by step, in the order in which it is drawn."""
    weights, rng = draw(wide_setting(made, 1), made.data.all_inputs().shape[1], N, 0)
    like = (weights.W, weights.b, weights.w)
    return [jax.tree.map(lambda w: rng.standard_normal(w.shape), like) for _ in range(STEPS)]


SETTINGS = {
    "plain": {},
    "three layers, two outputs, biases": {"depth": 3, "outputs": 2, "bias": True},
    "momentum, decay, schedule": {
        "momentum": 0.6,
        "weight_decay": 0.3,
        "rate": ExponentialDecay(0.5, 0.1),
        "outputs": 2,
    },
    "noise": {"temperature": 0.1, "bias": True, "activation": "erf"},
    "logistic": {"criterion": "logistic", "centered": True},
    "cross-entropy": {"criterion": "cross_entropy", "outputs": 2, "activation": "erf"},
    "linear": {"activation": "linear", "outputs": 2, "rate": 0.05},
}


CONTAINED = {"plain", "logistic"}
"""Settings whose terms are all in "three layers, two outputs, biases", or in "cross-entropy"."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in CONTAINED)) for name in SETTINGS],
)
def test_responses_are_derivatives_of_the_run(name):
    """Against `jax.jvp` of plain code, up to the rounding of a few thousand sums and products of order 1."""
    made = problem(**SETTINGS[name])
    recorded, probes = np.array([0, 1, 3, 4]), 2
    with float64():
        known, tangents = wide_setting(made, 1), tangents_of(made, recorded, probes)
        plain = Plain(made, drawn_noise(made) if made.training.noise else None)
        L, p, C = known.depth, known.points, known.outputs
        none = (
            [[jnp.zeros((p, N))] * L for _ in range(STEPS + 1)],
            [[jnp.zeros((p, C, N))] * L for _ in range(STEPS + 1)],
        )
        along = jax.jit(lambda direction: jax.jvp(plain.run, none, direction)[1])
        A, B = np.zeros_like(tangents.A), np.zeros_like(tangents.B)
        found = zip(
            tangents.state, tangents.layer, tangents.point, tangents.output, tangents.v, strict=True
        )
        for s, ell, a, c, v in found:
            direction = jax.tree.map(np.zeros_like, none)
            if c < 0:
                direction[0][recorded[s]][ell] = np.zeros((p, N))
                direction[0][recorded[s]][ell][a] = v
            else:
                direction[1][recorded[s]][ell] = np.zeros((p, C, N))
                direction[1][recorded[s]][ell][a, c] = v
            phi, g = along(direction)
            if c < 0:
                B[ell, :, :, :, s, a] += np.asarray(g)[recorded, ell] @ v / N / probes
            else:
                A[ell, :, :, s, a, c] += np.asarray(phi)[recorded, ell] @ v / N / probes
    close = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(tangents.A, A, **close)
    np.testing.assert_allclose(tangents.B, B, **close)
    every = name == "linear"
    for ell in range(L):
        assert np.any(A[ell]) == (every or ell < L - 1)
        assert np.any(B[ell]) == (every or ell > 0)


def test_every_source_has_as_many_probes():
    made = problem(depth=3, outputs=2)
    tangents = tangents_of(made, np.array([1, 4]), probes=3, size=60)
    where = np.stack([tangents.state, tangents.layer, tangents.point, tangents.output])
    on_h = {(s, ell, a, -1) for s in range(2) for ell in (1, 2) for a in range(3)}
    on_z = {(s, ell, a, c) for s in range(2) for ell in (0, 1) for a in range(3) for c in range(2)}
    kinds, counts = np.unique(where, axis=1, return_counts=True)
    assert {tuple(one) for one in kinds.T.tolist()} == on_h | on_z
    assert set(counts.tolist()) == {3}
    assert set(np.unique(tangents.v).tolist()) == {-1, 1}
    # 2⁶⁰ directions for 108 of them.
    assert len(np.unique(tangents.v, axis=0)) == len(tangents.v)


def test_responses_are_causal_and_test_points_act_at_once_only():
    found = curves(problem(depth=3), size=20)
    A, B = found["A"][..., 0], found["B"][:, :, :, 0]
    t, s = np.indices((STEPS + 1, STEPS + 1))
    assert not np.any(A.transpose(1, 3, 0, 2, 4)[s >= t])
    assert not np.any(B.transpose(1, 3, 0, 2, 4)[s > t])
    assert not np.any(A[..., P:])
    later = B[..., P:].transpose(1, 3, 0, 2, 4)[s != t]
    assert not np.any(later)
    now = np.arange(STEPS + 1)
    at_once = B[2][now, :, now]
    own = np.eye(3, dtype=bool)
    # The last layer's φ''(h_μ)z_μ: a point moves no other at once.
    assert np.all(at_once[:, own] != 0)
    assert not np.any(at_once[:, ~own])


@pytest.mark.bitwise
def test_recorded_steps_and_responses_leave_curves_as_they_are():
    made = problem(outputs=2, temperature=0.1)
    every, few = curves(made), curves(made, save_at=[1, 3])
    # The products are the same; fewer tangents may be summed in another order.
    np.testing.assert_allclose(every["A"][:, [1, 3]][:, :, :, [1, 3]], few["A"], atol=1e-13)
    np.testing.assert_allclose(
        every["B"][:, [1, 3]][:, :, :, :, [1, 3]], few["B"], rtol=0, atol=1e-13
    )
    without = ld.simulate(made, N)
    assert set(every) - set(without.observables) == {"A", "B"}
    for name in without.observables:
        assert np.array_equal(without[name].isel(seed=0), every[name]), name


def test_linear_units_have_the_mean_of_the_responses_to_all_points():
    made = problem(activation="linear", rate=0.05)
    tangents = tangents_of(made, np.arange(STEPS + 1))
    mean = tangents.A[..., 0].mean(-1, keepdims=True)
    found = curves(made)["A"][..., 0]
    np.testing.assert_allclose(found, np.repeat(mean, 3, axis=-1), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (problem(steps=None, time=1.0), "flow"),
        (problem(activation="relu"), "relu"),
        (problem(depth=1), "hidden layer"),
    ],
)
def test_responses_without_a_meaning_are_refused(made, word):
    with pytest.raises(ProblemError, match=rf"WideDescent.responses(.|\n)*{word}"):
        curves(made)


def test_one_layer_of_linear_units_has_responses():
    assert set(curves(problem(activation="linear", depth=1))) >= {"A", "B"}


def test_responses_that_do_not_fit_in_memory_are_refused():
    made = problem()
    with pytest.raises(NotEnoughMemory, match="with responses"):
        ld.simulate(made, 1000, method=WideDescent(responses=True, probes=10**6))


def test_diverged_training_ends_the_responses():
    made = problem(activation="linear", rate=1.0)
    found = curves(made)
    count = len(found["prediction"])
    assert 1 < count < STEPS + 1
    assert found["A"].shape[1] == found["A"].shape[3] == count
    assert np.all(np.isfinite(found["A"]))
    assert np.all(np.isfinite(found["B"]))
