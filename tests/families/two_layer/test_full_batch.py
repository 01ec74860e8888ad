"""Finite networks on a reused dataset: every step and response against automatic differentiation of plain code."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.analyses.grokking import drop_time
from learndyn.core.record import Record
from learndyn.core.simulate import trained
from learndyn.core.theory import theory_for
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.reused import finite as full_batch
from learndyn.families.two_layer.reused.finite import (
    FullBatch,
    ReusedTangents,
    _forces,
    draw,
    fields,
    pull,
    rows_times_inputs,
    sums_of_inputs,
)
from learndyn.families.two_layer.reused.time_grid import time_grid
from learndyn.numerics.precision import float64
from tests import problems

pytestmark = pytest.mark.compiles

TEACHER = {"T": [[1.0, 0.3], [0.3, 0.9]], "readout": [0.8, -0.5]}
problem = partial(
    problems.two_layer,
    activation=ld.Polynomial([0.1, 0.7, 0.3]),
    Q=[[1.0, 0.2, -0.1], [0.2, 0.8, 0.1], [-0.1, 0.1, 1.3]],
    R=[[0.3, -0.1], [0.2, 0.4], [-0.3, 0.1]],
    readout=[0.5, -0.4, 0.9],
    teacher_activation=ld.Polynomial([0.2, 0.5, 0.4]),
    T=TEACHER["T"],
    teacher_readout=TEACHER["readout"],
    supply="dataset",
    ratio=1.7,
    noise=0.3,
    rate=ld.PerStep([0.4, 0.3, 0.5, 0.2, 0.3]),
    steps=5,
    weight_decay=0.2,
)
"""Three units with an uneven readout learn two correlated ones of another activation."""
ACTIVATIONS = {
    "polynomial": {},
    "erf": {"activation": "erf", "teacher_activation": "erf"},
    "tanh": {"activation": "tanh"},
    "momentum, batches": {"activation": "tanh", "momentum": 0.6, "batch_ratio": 0.6},
}
grokking = partial(problems.late_learning, ratio=3.0, rate=4.0, time=20.0)
linear = partial(problems.two_layer, activation="linear", Q=[[1.0]], supply="dataset", ratio=2.0)


def train(made, size, seed=0, save_at=None, report=lambda fraction: None, **options):
    theory, record = theory_for(made), Record.of(made.training, save_at)
    with float64():
        ensemble = theory.train(made, size, FullBatch(**options), record)
        return trained(theory.table, ensemble, seed, report).told(**ensemble.evidence)


def values(curves):
    return curves.arrays


class Plain:
    """The same network and data, with forces by `jax.grad` of the mean of ½Δ², and a hand on every field and label."""

    def __init__(self, made, size, seed=0):
        self.made, (self.system, start) = made, equations(made)
        P = max(1, round(made.data.ratio * size))
        W, W_star, examples = draw(self.system, start, size, P, seed)
        self.W, self.W_star, self.v = jnp.asarray(W), jnp.asarray(W_star), start.v
        self.X, self.y = jnp.asarray(examples.X, dtype=float), jnp.asarray(examples.y)
        self.examples = examples
        grid = time_grid(made, FullBatch())
        self.tau, self.tau_v = np.asarray(grid.tau), np.asarray(grid.tau_v)
        B = full_batch.batch_count(made, size)
        self.m = [full_batch.chosen(P, B, seed, k) for k in range(len(self.tau) + 1)]
        self.slope_and_force = jax.jit(self._slope_and_force)

    def error(self, W, field_shift=0.0, label_shift=0.0):
        """Δ and the fields h."""
        h = W @ self.X.T / jnp.sqrt(self.X.shape[1]) + field_shift
        return self.y + label_shift - self.v @ self.system.student(h), h

    def _slope_and_force(self, W, m, field_shift, label_shift):
        """The slope of the loss of a batch, and g = −P ∂loss/∂h by the shift of the fields."""

        def loss(W, field_shift):
            errors = self.error(W, field_shift, label_shift)[0]
            return jnp.sum(jnp.where(m > 0, errors, 0.0) ** 2) / jnp.sum(m > 0) / 2

        slope, by_field = jax.grad(loss, (0, 1))(W, field_shift)
        return slope, -by_field * len(self.y)

    def run(self, weight_shift=None, field_shift=None, label_shift=0.0):
        """W and g at every state; `weight_shift` = {state: δW}, moved by a force, `field_shift` = {state: δh}."""
        D, rule = self.X.shape[1], self.made.training
        W, buffer, weights, forces = self.W, 0.0, [], []
        for k in range(len(self.tau) + 1):
            moved = (weight_shift or {}).get(k, 0.0)
            W, buffer = W + moved, buffer + moved
            shift = (field_shift or {}).get(k, jnp.zeros((len(self.v), len(self.y))))
            slope, g = self.slope_and_force(W, self.m[k], shift, label_shift)
            weights.append(W)
            forces.append(g)
            if k < len(self.tau):
                buffer = rule.momentum * buffer - self.tau[k] * D * slope
                W = (1 - self.tau[k] * rule.weight_decay) * W + buffer
        return np.stack(weights), np.stack(forces)


@pytest.mark.parametrize("P", [1, 3, 4, 7, 8, 10])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_products_with_the_inputs(P, units):
    rng = np.random.default_rng(P)
    X = rng.standard_normal((P, 13), dtype=np.float32)
    W, g = rng.standard_normal((units, 13)), rng.standard_normal((units, P))
    np.testing.assert_allclose(rows_times_inputs(W, X), W @ X.T.astype(float), atol=1e-13)
    np.testing.assert_allclose(sums_of_inputs(g, X), g @ X.astype(float), atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_steps_go_down_the_gradient_of_the_loss(activation):
    """Five steps against D times `jax.grad`; all observables are direct sums, equal up to rounding (~10⁻¹⁴ each)."""
    made = problem(**ACTIVATIONS[activation])
    D, curves = 40, train(made, 40)
    found = values(curves)
    with float64():
        plain = Plain(made, D)
        W, g = plain.run()
        W_star = np.asarray(plain.W_star)
        loss = [float(jnp.mean(plain.error(one)[0] ** 2)) / 2 for one in W]
    P = g.shape[-1]
    assert P == 68
    assert curves.evidence["sizes"].items() >= {"D": 40, "P": 68}.items()
    assert np.array_equal(curves.times, np.arange(6))
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    close(found["train_loss"], loss)
    close(found["Q"], W @ np.swapaxes(W, 1, 2) / D)
    close(found["R"], W @ W_star.T / D)
    close(found["C"], np.einsum("tik,sjk->tisj", W, W) / D)
    close(found["C_g"], np.einsum("tim,sjm->tisj", g, g) / P)


def test_a_trained_readout_goes_down_the_gradient_too():
    """Weights down D times the gradient of the batch's mean loss, the readout down the gradient itself, to rounding."""
    rule = {
        "momentum": 0.6,
        "batch_ratio": 0.6,
        "readout_rate": ld.PerStep(np.linspace(0.2, 0.9, 5)),
    }
    made = problem(activation="tanh", train_readout=True, **rule)
    D, found = 40, values(train(made, 40))
    with float64():
        plain = Plain(made, D)

        @jax.jit
        def slopes(W, v, m):
            def loss(W, v):
                h = W @ plain.X.T / np.sqrt(D)
                errors = jnp.where(m > 0, plain.y - v @ plain.system.student(h), 0.0)
                return jnp.sum(errors**2) / jnp.sum(m > 0) / 2

            return jax.grad(loss, (0, 1))(W, v)

        W, v, buffers, states = plain.W, plain.v, (0.0, 0.0), []
        for k, m in enumerate(plain.m):
            states.append((np.asarray(W), np.asarray(v)))
            if k == len(plain.tau):
                break
            slope_W, slope_v = slopes(W, v, m)
            tau, tau_v = plain.tau[k], plain.tau_v[k]
            buffers = 0.6 * buffers[0] - tau * D * slope_W, 0.6 * buffers[1] - tau_v * slope_v
            W, v = (1 - 0.2 * tau) * W + buffers[0], (1 - 0.2 * tau_v) * v + buffers[1]
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-12)
    close(found["v"], [v for _, v in states])
    close(found["Q"], [W @ W.T / D for W, _ in states])
    assert np.abs(states[-1][1] - states[0][1]).min() > 0.05


def test_batches_are_drawn_without_replacement_and_anew():
    """B = round(batch_ratio D) examples, each with the weight P/B."""
    made = problem(batch_ratio=0.6)
    assert (full_batch.example_count(made, 30), full_batch.batch_count(made, 30)) == (51, 18)
    first, again, later, other = (
        full_batch.chosen(51, 18, seed, k) for seed, k in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    for m in (first, later, other):
        assert (m > 0).sum() == 18
        np.testing.assert_allclose(m[m > 0], 51 / 18)
    np.testing.assert_array_equal(first, again)
    assert (first != later).any()
    assert (first != other).any()
    assert train(made, 30).evidence["sizes"] == {"D": 30, "P": 51, "B": 18}


def test_a_batch_of_all_examples_is_the_full_batch():
    full, batch = (values(train(problem(**more), 30)) for more in ({}, {"batch_ratio": 1.7}))
    for name in full:
        np.testing.assert_array_equal(full[name], batch[name])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_one_step_moves_every_weight_as_the_gradient_says(activation):
    with float64():
        plain = Plain(problem(**ACTIVATIONS[activation]), 40)
        W, X, y = np.array(plain.W), plain.examples.X, plain.examples.y
        fields_and_labels = jnp.asarray(fields(W, X)), jnp.asarray(y)
        _, g, _ = _forces(plain.system, plain.v, *fields_and_labels, jnp.asarray(plain.m[0]))
        tau = plain.tau[0]
        found = (1 - tau * 0.2) * W + tau * pull(np.asarray(g), X)
        expected, _ = plain.run()
    np.testing.assert_allclose(found, expected[1], rtol=1e-12, atol=1e-12)


def test_labels_are_those_of_the_teacher_with_the_noise_asked_for():
    """The noise is its own generator's: without it the labels are the clean ones; its variance within 5 errors."""
    noisy, clean = problem(noise=0.3), problem(noise=0.0)
    with float64():
        one, other = Plain(noisy, 400), Plain(clean, 400)
        rho = np.asarray(one.X @ one.W_star.T) / 20
        expected = np.asarray(noisy.data.task.activation(rho)) @ TEACHER["readout"]
    np.testing.assert_allclose(other.y, expected, atol=1e-12)
    np.testing.assert_array_equal(one.W, other.W)
    noise = np.asarray(one.y - other.y)
    assert abs(noise.var() / 0.09 - 1) < 5 * np.sqrt(2 / len(noise))
    X = np.asarray(one.X)
    assert abs(X.mean()) < 5 / np.sqrt(X.size)
    assert abs(X.var() - 1) < 5 * np.sqrt(2 / X.size)


def test_test_loss_is_the_formula_for_quadratic_units():
    """½[bᵀCb + ¼(tr BQ)² + ½ tr(BQBQ)] with B = diag(εb, −1), for φ = h + εh²/2 and σ = h²/2; clean labels."""
    found = values(train(grokking(), 60, step=0.5))
    b, e = np.full(2, 0.25), 0.3
    B = np.diag([*(e * b), -1.0])
    for Q, A, loss in zip(found["Q"], found["R"], found["test_loss"], strict=True):
        BC = B @ np.block([[Q, A], [A.T, 1.0]])
        expected = b @ Q @ b + np.trace(BC) ** 2 / 4 + np.trace(BC @ BC) / 2
        # The overlaps of the teacher are 1 up to rounding.
        assert loss == pytest.approx(expected / 2, rel=1e-11)


def test_test_loss_is_the_error_on_fresh_clean_examples():
    """A million fresh examples for a pair of activations without closed form; five standard errors."""
    made = problem(activation="tanh")
    found = values(train(made, 30, save_at=[3]))
    T = np.asarray(TEACHER["T"])
    C = np.block([[found["Q"][0], found["R"][0]], [found["R"][0].T, T]])
    u = np.random.default_rng(0).multivariate_normal(np.zeros(5), C, 1_000_000)
    clean = np.asarray(made.data.task.activation(u[:, 3:])) @ TEACHER["readout"]
    # Single precision of the activations, 10⁻⁷, is far below the standard error, 10⁻³.
    samples = (clean - np.tanh(u[:, :3]) @ made.network.readout) ** 2 / 2
    assert abs(found["test_loss"][0] - samples.mean()) < 5 * samples.std() / 1e3


@pytest.mark.bitwise
def test_what_is_recorded_does_not_change_the_run():
    made = problem(activation="tanh")
    often = train(made, 30, save_at=6)
    seldom = train(made, 30, save_at=[1, 4])
    a, b = values(often), values(seldom)
    for name in ("train_loss", "test_loss", "Q", "R"):
        np.testing.assert_array_equal(a[name][[1, 4]], b[name])
    for name in ("C", "C_g"):
        np.testing.assert_allclose(a[name][[1, 4]][:, :, [1, 4]], b[name], rtol=1e-13, atol=1e-13)
    assert np.array_equal(seldom.times, [1, 4])


@pytest.mark.bitwise
def test_a_seed_gives_one_curve_with_or_without_responses():
    made = problem()
    one, again = values(train(made, 30, seed=3)), values(train(made, 30, seed=3, responses=True))
    other = values(train(made, 30, seed=4))
    assert set(again) - set(one) == {"R_w", "R_h", "R_star"}
    for name in one:
        np.testing.assert_array_equal(one[name], again[name])
    assert not np.array_equal(one["Q"][1], other["Q"][1])


def test_time_with_growing_steps_and_steps_of_the_same_sizes_are_one_run():
    """τ_k = η(t_k)(t_{k+1} − t_k) as a schedule of steps gives the very same numbers."""
    decaying = ld.ExponentialDecay(4.0, 0.05)
    options: dict[str, Any] = {"step": 0.2, "growth": 0.1, "largest_step": 0.9}
    flow = grokking(rate=decaying, weight_decay=0.01)
    with float64():
        grid = time_grid(flow, FullBatch(**options))
    t = grid.times
    np.testing.assert_allclose(grid.tau, 4 * np.exp(-0.05 * t[:-1]) * np.diff(t), rtol=1e-14)
    timed = train(flow, 40, save_at=t[1:], **options)
    steps = {"rate": ld.PerStep(grid.tau), "time": None, "steps": len(grid.tau)}
    stepped = train(grokking(weight_decay=0.01, **steps), 40, save_at=np.arange(1, len(t)))
    a, b = values(timed), values(stepped)
    assert (timed.axis, stepped.axis) == ("time", "step")
    assert timed.evidence["time_steps"] == stepped.evidence["time_steps"] == len(grid.tau)
    for name in ("train_loss", "test_loss", "Q", "R", "C", "C_g"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(timed.times, t[1:], rtol=1e-15)


@pytest.mark.bitwise
def test_drops_use_every_step_whatever_is_recorded():
    """The drop of the train loss lies after the recorded times, and is interpolated between all steps."""
    made = grokking(time=30.0)
    every = train(made, 200, seed=1, save_at=61, step=0.5)
    few = values(train(made, 200, seed=1, save_at=[1.0, 2.0], step=0.5))
    found = values(every)
    train_drop = drop_time(every.times, found["train_loss"])
    assert train_drop > 2
    assert found["train_drop"] == few["train_drop"] == train_drop
    for name in ("test_drop", "grokking_delay"):
        np.testing.assert_array_equal(found[name], few[name])
    assert found["grokking_delay"] == pytest.approx(found["test_drop"] / train_drop, nan_ok=True)


@cache
def responses(activation):
    """A run with responses, the plain run and the directions of its tangents."""
    made = problem(**ACTIVATIONS[activation])
    found = values(train(made, 30, responses=True, save_at=[0, 1, 3, 5]))
    with float64():
        plain = Plain(made, 30)
        recorded = np.array([0, 1, 3, 5])
        tangents = ReusedTangents(plain.system, 3, plain.examples, recorded, seed=0)
    return found, plain, tangents


STATES = [0, 1, 3, 5]
SHIFT = 1e-5
"""Of central differences: errors of order SHIFT² and 10⁻¹⁵/SHIFT, both about 10⁻¹⁰; 10⁻⁸ is allowed."""


def differences(plain, **shifts):
    """∂W and ∂g at the recorded states along `shifts`."""

    def scaled(amount):
        def scale(shift):
            if isinstance(shift, dict):
                return {k: amount * one for k, one in shift.items()}
            return amount * shift

        return plain.run(**{name: scale(shift) for name, shift in shifts.items()})

    with float64():
        up, down = scaled(SHIFT), scaled(-SHIFT)
    return [(a - b)[STATES] / (2 * SHIFT) for a, b in zip(up, down, strict=True)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("a", [0, 1, 2])
def test_weight_response_is_the_difference_of_two_runs(activation, a):
    found, plain, tangents = responses(activation)
    for j in range(3):
        xi = tangents.xi[2 + 6 * a + 3 + j].astype(float)
        assert np.array_equal(np.abs(xi), np.ones(30))
        shift = np.zeros((3, 30))
        shift[j] = xi
        dW, _ = differences(plain, weight_shift={STATES[a] + 1: shift})
        np.testing.assert_allclose(found["R_w"][:, :, a, j], dW @ xi / 30, atol=1e-8)
    assert np.abs(found["R_w"][a + 1 :, :, a]).max() > 0.1
    assert not found["R_w"][: a + 1, :, a].any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("a", [0, 1, 2, 3])
def test_field_response_is_the_difference_of_two_runs(activation, a):
    found, plain, tangents = responses(activation)
    for j in range(3):
        z = tangents.z[2 + 6 * a + j].astype(float)
        assert np.array_equal(np.abs(z), np.ones(51))
        shift = np.zeros((3, 51))
        shift[j] = z
        _, dg = differences(plain, field_shift={STATES[a]: shift})
        np.testing.assert_allclose(found["R_h"][:, :, a, j], dg @ z / 51, atol=1e-8)
    assert not found["R_h"][:a, :, a].any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_response_to_the_teacher_is_the_difference_of_two_runs(activation):
    """The derivative of the teacher's activation is taken by a difference as well."""
    found, plain, tangents = responses(activation)
    rho, system = plain.examples.rho, plain.system
    for n in range(2):
        z = tangents.z[n].astype(float)
        with float64():
            up, down = (np.asarray(system.teacher(rho[n] + d * z)) for d in (SHIFT, -SHIFT))
        labels = TEACHER["readout"][n] * (up - down) / (2 * SHIFT)
        _, dg = differences(plain, label_shift=labels)
        np.testing.assert_allclose(found["R_star"][:, :, n], dg @ z / 51, atol=1e-8)


def test_responses_that_do_not_depend_on_the_directions():
    """z² = 1: R_w(s+1, s) is the identity, R_h(t, t) the mean of ∂g_i/∂h_j, R_star(0) that of ∂g_i/∂ρ_n."""
    found, plain, _ = responses("erf")
    np.testing.assert_allclose(found["R_w"][1, :, 0], np.eye(3), atol=1e-15)
    rho, v = plain.examples.rho, np.asarray(plain.v)
    with float64():
        W, _ = plain.run()
        for b, k in enumerate(STATES):
            Delta, h = (np.asarray(one) for one in plain.error(jnp.asarray(W[k])))
            slope = np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2)
            s = v[:, None] * slope
            M = np.diag(np.mean(-h * s * Delta, axis=1)) - s @ s.T / len(Delta)
            np.testing.assert_allclose(found["R_h"][b, :, b], M, atol=1e-13)
            if k == 0:
                sigma = np.sqrt(2 / np.pi) * np.exp(-(rho**2) / 2)
                expected = s @ (sigma * np.array(TEACHER["readout"])[:, None]).T / len(Delta)
                np.testing.assert_allclose(found["R_star"][0], expected, atol=1e-13)


def test_directions_do_not_depend_on_what_is_recorded():
    found, _, _ = responses("tanh")
    fewer = values(train(problem(activation="tanh"), 30, responses=True, save_at=[1, 5]))
    for name in ("R_w", "R_h"):
        np.testing.assert_allclose(found[name][[1, 3]][:, :, [1, 3]], fewer[name], atol=1e-13)
    np.testing.assert_allclose(found["R_star"][[1, 3]], fewer["R_star"], atol=1e-13)


def test_blocks_of_examples_do_not_change_responses(monkeypatch):
    found, _, _ = responses("tanh")
    monkeypatch.setattr(full_batch, "ROWS", 16)
    blocks = values(train(problem(activation="tanh"), 30, responses=True, save_at=STATES))
    for name in ("R_w", "R_h", "R_star"):
        np.testing.assert_allclose(blocks[name], found[name], atol=1e-13)


@pytest.mark.slow
def test_responses_and_overlaps_obey_the_lemma_of_stein():
    """[A(t+1) − (1 − τκ)A(t)]/τ = Σ_s R_h(t, s)A(s) + R_star(t)T for large D, with all steps recorded.

    Both sides deviate by O(1/√P) at random. Every entry of the mean deviation over 32 seeds is within 4.5 of its
    standard errors, of which each term, and the memory s < t alone, is more than 9.
    """
    made = problem(activation="tanh")
    with float64():
        tau = time_grid(made, FullBatch()).tau[:, None, None]
    gaps, terms = [], []
    for seed in range(32):
        found = values(train(made, 300, seed=seed, responses=True))
        A, R_h = found["R"], found["R_h"]
        force = (A[1:] - (1 - tau * 0.2) * A[:-1]) / tau
        through_fields = np.einsum("tisj,sjn->tin", R_h, A)[:-1]
        memory = through_fields - np.einsum("titj,tjn->tin", R_h, A)[:-1]
        through_labels = (found["R_star"] @ np.array(TEACHER["T"]))[:-1]
        gaps.append(force - through_fields - through_labels)
        terms.append([force, through_fields, through_labels, memory])
    error = np.std(gaps, 0, ddof=1) / np.sqrt(len(gaps))
    assert (np.abs(np.mean(gaps, 0)) < 4.5 * error).all()
    assert (np.abs(np.mean(terms, 0) / error).max((1, 2, 3)) > 9).all()


def test_divergence_ends_the_curve():
    made = grokking(rate=60.0, time=30.0)
    curves = train(made, 40, step=0.5, save_at=31, responses=True)
    reached = len(curves.times)
    assert curves.times[0] == 0
    assert 1 <= reached < 31
    assert curves.diverged_at == pytest.approx(reached)
    found = values(curves)
    assert found["C"].shape == found["R_w"].shape == (reached, 2, reached, 2)
    for name, array in found.items():
        assert name in ("train_drop", "test_drop", "grokking_delay") or np.isfinite(array).all()


def test_losses_up_to_ten_orders_of_magnitude_are_recorded():
    """A linear network diverges by a nearly constant factor a step, so the bound is between the last loss and the next.

    The bound is 10¹⁰ times the larger of the first loss and the mean of y².
    """
    made = linear(R=[[0.1]], rate=3.0, steps=60)
    curves = train(made, 30)
    loss = values(curves)["train_loss"]
    with float64():
        y = Plain(made, 30).examples.y
    limit = 1e10 * max(loss[0], y @ y / len(y) / 2)
    assert loss[-1] <= limit < loss[-1] ** 2 / loss[-2]
    assert curves.diverged_at == len(loss) < 61


def test_decay_from_a_perfect_start_is_no_divergence():
    """The first train loss is 0 (up to rounding), and no scale for those that follow."""
    made = linear(R=[[1.0]], rate=0.1, time=20.0, weight_decay=1.0)
    assert train(made, 20).diverged_at is None


def test_report_is_called_at_every_step_and_may_stop_the_run():
    seen = []
    train(problem(), 20, report=seen.append)
    np.testing.assert_allclose(seen, np.arange(1, 6) / 5)

    def stop(fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(problem(), 20, report=stop)


def test_refusals():
    with pytest.raises(ld.ProblemError, match=r"size = 4: must be at least 5 for 3 student and 2"):
        train(problem(), 4)
    with pytest.raises(ld.NotEnoughMemory, match=r"size 100000000 on .* record fewer times"):
        ld.simulate(problem(), 10**8)
    with pytest.raises(ld.NotEnoughMemory, match="record fewer times"):
        ld.simulate(grokking(), 3000, method=FullBatch(step=0.002, responses=True), save_at=10_001)
    with pytest.raises(ld.ProblemError, match=r"FullBatch\.step"):
        train(problem(), 20, step=0.1)
    with pytest.raises(ld.ProblemError, match=r"FullBatch\.responses"):
        FullBatch(responses="yes")
