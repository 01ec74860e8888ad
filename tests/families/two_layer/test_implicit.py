"""Reused data in implicit steps: the explicit rows in explicit steps, and gradient flow at all times."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.families.two_layer.reused.equations import ReusedTraining
from learndyn.families.two_layer.reused.implicit import ImplicitExamples
from learndyn.families.two_layer.reused.implicit_sampling import _added, parted
from learndyn.families.two_layer.reused.solve import setting_of
from learndyn.families.two_layer.reused.traced import TracedInputs
from tests import problems
from tests.optional import not_none

pytestmark = pytest.mark.compiles

GROKKING = problems.late_learning(ratio=3.0, time=1000.0)
TIMES = np.array([5.0, 10.0, 20.0, 40.0, 80.0])
SEED = np.random.SeedSequence(0)


def error_of(solution, name):
    """The standard errors of a sampled observable."""
    return not_none(solution.standard_error(name)).values


class Explicit:
    """Euler's weights, in the place of the implicit ones."""

    def __init__(self, tau, decay):
        n = len(tau) + 1
        self.kappa, self.d, self.times = np.zeros((n, n)), np.ones(n), np.zeros(1)
        for t, step in enumerate(tau):
            self.kappa[t + 1] = (1 - step * decay) * self.kappa[t]
            self.kappa[t + 1, t] = step
            self.d[t + 1] = (1 - step * decay) * self.d[t]

    def add(self, time):
        """The weights are there already."""

    withdraw = add


@pytest.mark.parametrize("train_readout", [False, True])
def test_with_explicit_weights_the_rows_are_the_explicit_ones(train_readout):
    """The same samples: losses, overlaps, readout and responses to rounding, times the 1e-6 of the iteration."""
    asked = problems.uneven(time=2.0, rate=0.6, train_readout=train_readout, readout_rate=None)
    with ld.float64():
        setting = setting_of(asked, ld.CausalSampling(step=0.2))
        seed, n = np.random.SeedSequence(3), len(setting.grid.times)
        training = ReusedTraining(setting, np.arange(n))
        inputs = TracedInputs(setting, 64, seed)
        training.follow(inputs, range(n))
        examples = ImplicitExamples(setting, 64, seed, n, float(train_readout))
        explicit: Any = Explicit(setting.grid.tau, setting.decay)
        examples.rule = examples.readout_rule = explicit
        for time in setting.grid.times:
            assert examples.add(time) <= 4
        np.testing.assert_allclose(examples.loss, training.loss, rtol=1e-5)
        np.testing.assert_allclose(
            examples.W @ examples.W[3].T, inputs.W @ inputs.W[3].T, atol=1e-5
        )
        np.testing.assert_allclose(examples.v, training.v, atol=1e-5)
        np.testing.assert_allclose(examples.R_h, inputs.R_h, atol=1e-5)
        np.testing.assert_allclose(examples.R_star, inputs.R_star, atol=1e-5)


@pytest.mark.slow
def test_short_flow_is_the_limit_of_explicit_steps():
    """Noisy labels, decay and a trained readout at half the rate: explicit steps of 0.1 and 0.05, extrapolated.

    Batches differ between methods, so that the errors are independent; a bound of four of them for 20 numbers, and 1 %
    for the steps of both.
    """
    asked = problems.uneven(time=4.0, rate=0.8, train_readout=True, readout_rate=0.4)
    times = [0.0, 1.0, 4.0]
    found = ld.solve(asked, ld.ImplicitSampling(samples=256), save_at=times)
    explicit = [
        ld.solve(asked, ld.CausalSampling(step=step, samples=256), save_at=times, seed=1)
        for step in (0.1, 0.05)
    ]
    for name in ("train_loss", "test_loss", "Q", "R", "v"):
        limit = 2 * explicit[1][name] - explicit[0][name]
        spread = np.hypot(
            error_of(found, name), np.hypot(*(error_of(x, name) for x in explicit)) * 2
        )
        scale = 0.01 * float(np.max(np.abs(limit)))
        np.testing.assert_array_less(np.abs(found[name] - limit), 4 * spread + scale)


@pytest.mark.slow
def test_grokking_to_a_thousand():
    """Six runs of 4096 samples with 60 nodes of second order gave these numbers, twice our losses, with their errors.

    Second order and 80 nodes has an error of 1 % (four runs, extrapolated from 40 and 80 nodes; standard errors in the
    table); ours has one of 1 % allowed; so a bound of four standard errors and 2 %.
    """
    times = np.concatenate([[0.0], TIMES, [1000.0]])
    found = ld.solve(GROKKING, ld.ImplicitSampling(samples=2048), save_at=times)
    assert found.evidence["nodes"] < 100
    train, test = (2 * found[name].values[1:6] for name in ("train_loss", "test_loss"))
    errors = [2 * error_of(found, name)[1:6] for name in ("train_loss", "test_loss")]
    expected = np.array([0.1669, 0.0752, 0.0291, 0.0086, 0.0017])
    spread = np.hypot(errors[0], [0.0006, 0.0003, 0.0002, 0.0002, 0.0001])
    np.testing.assert_array_less(np.abs(train - expected), 4 * spread + 0.02 * expected)
    expected = np.array([0.604, 0.446, 0.276, 0.128, 0.038])
    spread = np.hypot(errors[1], [0.0002, 0.0006, 0.0008, 0.0009, 0.0008])
    np.testing.assert_array_less(np.abs(test - expected), 4 * spread + 0.02 * expected)
    # The solution w = ±w*/√(αε) is reached.
    np.testing.assert_allclose(np.abs(found["R"][-1, :, 0]), 1 / np.sqrt(0.5 * 0.3), rtol=1e-3)
    assert float(found["test_loss"][-1]) < 1e-5


@pytest.mark.slow
def test_smaller_steps_change_losses_within_the_tolerance():
    """0.01 against 0.002, in a bound of 1 % and four standard errors of the difference of independent batches."""
    times = np.concatenate([[0.0], TIMES])
    asked = problems.late_learning(ratio=3.0, time=80.0)
    coarse, fine = (
        ld.solve(asked, ld.ImplicitSampling(tolerance=x, samples=1024), save_at=times)
        for x in (0.01, 0.002)
    )
    assert coarse.evidence["nodes"] < fine.evidence["nodes"]
    for name in ("train_loss", "test_loss"):
        spread = np.hypot(error_of(coarse, name), error_of(fine, name))
        change = np.abs(coarse[name] - fine[name])
        np.testing.assert_array_less(change, 0.01 * fine[name] + 4 * spread + 1e-12)


@pytest.mark.slow
def test_flow_agrees_with_explicit_rows_and_with_networks():
    """Steps of 0.5 and 0.25, extrapolated, to t = 40; and networks of D = 300 and 900 in steps of 0.1."""
    asked = problems.late_learning(ratio=3.0, time=40.0)
    times = np.concatenate([[0.0], TIMES[:4]])
    found = ld.solve(asked, ld.ImplicitSampling(), save_at=times)
    explicit = [
        ld.solve(asked, ld.CausalSampling(step=step), save_at=times, seed=1) for step in (0.5, 0.25)
    ]
    for name in ("train_loss", "test_loss"):
        limit = 2 * explicit[1][name] - explicit[0][name]
        spread = np.hypot(*(error_of(x, name) for x in explicit)) * 2
        spread = np.hypot(spread, error_of(found, name))
        # The next order of explicit steps is about a tenth of their difference.
        rest = 0.1 * np.abs(explicit[1][name] - explicit[0][name])
        allowed = 4 * spread + 0.01 * np.abs(limit) + rest + 1e-12
        np.testing.assert_array_less(np.abs(found[name] - limit), allowed)
    deviations = []
    for size in (300, 900):
        runs = ld.simulate(asked, size, 8, method=ld.FullBatch(step=0.1), save_at=times)
        assert ld.compare(found, runs, level=0.01 / 2).agrees
        deviations.append(float((np.log(runs["test_loss"] / found["test_loss"]) ** 2).mean()))
    assert deviations[1] < deviations[0]


@pytest.mark.slow
def test_ten_thousand():
    """Ten times longer costs a few nodes more, and nothing moves after the solution is found."""
    asked = problems.late_learning(ratio=3.0, time=1e4)
    found = ld.solve(asked, ld.ImplicitSampling(samples=256, batches=2), save_at=[0, 1e3, 1e4])
    assert found.evidence["nodes"] < 120
    np.testing.assert_allclose(found["R"][1], found["R"][2], atol=2e-3)


def test_schedules_are_a_change_of_time():
    """Twice the rate from t = 1 on is time 5 instead of 3: the same nodes and samples, the same numbers."""
    jump = problems.uneven(time=3.0, rate=ld.Piecewise([1.0], [0.4, 0.8]))
    plain = problems.uneven(time=5.0, rate=0.4)
    method = ld.ImplicitSampling(samples=64, batches=2)
    first, second = (
        ld.solve(asked, method, save_at=[0.0, end]) for asked, end in ((jump, 3.0), (plain, 5.0))
    )
    np.testing.assert_allclose(first["test_loss"], second["test_loss"], rtol=1e-6)


def test_implicit_steps_are_chosen_where_explicit_ones_are_many():
    theory = theory_for(GROKKING)
    short = dataclasses.replace(GROKKING, training=ld.GradientDescent(4.0, time=5.0))
    for asked, method in ((GROKKING, ld.ImplicitSampling()), (short, ld.CausalSampling())):
        assert theory.automatic(asked, Record.of(asked.training)) == method


REFUSED = {
    "steps": (problems.uneven(steps=5), "is for gradient flow"),
    "kink": (problems.two_layer(supply="dataset", activation="relu", time=1.0), "has a kink"),
    "rates": (
        problems.uneven(
            time=1.0, train_readout=True, rate=ld.ExponentialDecay(0.3, 1.0), readout_rate=0.2
        ),
        "in proportion to the learning_rate",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_implicit_steps_is_refused(name):
    asked, words = REFUSED[name]
    with pytest.raises(ld.ProblemError, match=words):
        ld.solve(asked, ld.ImplicitSampling())


def marchenko_pastur(gamma, count=4000):
    """Eigenvalues of X^⊤X/γ and their weights, for γ > 1."""
    low, high = (1 - gamma**-0.5) ** 2, (1 + gamma**-0.5) ** 2
    angle = (np.arange(count) + 0.5) / count * np.pi
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    return x, gamma * ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * x) / count


@pytest.mark.slow
def test_a_linear_unit_is_linear_regression_at_all_times():
    """Exact losses to t = 1e4, where steps are as long as time: a wrong response at equal times would show.

    With left = e^{−xt}: test ½⟨A left² + ς²(1 − left)²/(γx)⟩, train ½[A⟨x left²⟩ + ς²(1 − ⟨1 − left²⟩/γ)], and
    A = |w − w*|²/D at the start. In a bound of four standard errors, and 1 % for the steps.
    """
    gamma, noise, times = 1.5, 0.5, np.array([0.0, 0.5, 2.0, 10.0, 100.0, 1e4])
    asked = problems.two_layer(
        activation="linear",
        teacher_activation="linear",
        Q=[[0.8]],
        R=[[0.2]],
        T=[[1.0]],
        readout=[1.0],
        teacher_readout=[1.0],
        supply="dataset",
        ratio=gamma,
        noise=noise,
        rate=1.0,
        time=1e4,
    )
    found = ld.solve(asked, ld.ImplicitSampling(samples=512), save_at=times)
    x, weights = marchenko_pastur(gamma)
    left, A = np.exp(-np.multiply.outer(times, x)), 0.8 - 2 * 0.2 + 1.0
    exact = {
        "test_loss": (A * left**2 + noise**2 * (1 - left) ** 2 / (gamma * x)) @ weights / 2,
        "train_loss": (A * x * left**2 - noise**2 * (1 - left**2) / gamma) @ weights / 2
        + noise**2 / 2,
    }
    for name, expected in exact.items():
        allowed = 4 * error_of(found, name) + 0.01 * expected + 1e-12
        np.testing.assert_array_less(np.abs(found[name].values - expected), allowed)
    assert float(np.max(error_of(found, "train_loss"))) < 0.02 * exact["train_loss"][0]


@pytest.mark.parametrize(("decay", "added"), [(0.0, False), (0.1, True)])
def test_a_step_in_which_the_training_loss_rises_is_taken_back(monkeypatch, decay, added):
    """A solution with a larger loss than before is not that of gradient flow; with weight decay it may be."""
    asked = problems.late_learning(ratio=3.0, time=1.0, weight_decay=decay)
    with ld.float64():
        examples = ImplicitExamples(
            setting_of(asked, ld.CausalSampling(step=1.0)), 256, SEED, 8, 0.0
        )
        assert examples.add(0.0)
        assert _added(examples, 0.01)
        assert examples.loss[1] < examples.loss[0]
        honest = ImplicitExamples.add

        def risen(examples, time):
            passes = honest(examples, time)
            examples.loss[examples.count - 1] = 1.02 * examples.loss[examples.count - 2]
            return passes

        monkeypatch.setattr(ImplicitExamples, "add", risen)
        assert _added(examples, 0.02) == added
        assert examples.count == 2 + added


def test_batches_that_part_are_reported():
    """Some have dropped and others stay far above; not if all or none have, or if they are only on the way."""
    times = np.geomspace(1.0, 100.0, 50)
    early, late, stuck = (
        np.stack([1 / times, np.maximum(end, 1 / (1 + times / when))])
        for end, when in ((0.01, 2.0), (0.01, 8.0), (0.3, 2.0))
    )
    slow = np.stack([1 / times, 1 / (1 + times / 11.5)])
    (words,) = parted([early, stuck, early], times)
    assert "dropped in 2 of 3 batches, to 0.02 at the end, and is 0.3 in the others" in words
    assert not parted([early, early], times)
    assert not parted([stuck, stuck], times)
    assert not parted([late, slow], times)


@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_a_node_solves_its_equations(hidden):
    """h = u + R g/γ with g = vφ'Δ and M̃ = M (1 + R M̃/γ) at equal times, and w = d w(0) + κF.

    The bounds are a hundred times `settled`, because a change in a pass is smaller than the error it leaves.
    """
    rng = np.random.default_rng(0)
    asked = problems.two_layer(
        activation="tanh",
        Q=np.eye(hidden),
        R=rng.uniform(0.2, 0.5, (hidden, 1)),
        T=[[1.0]],
        readout=rng.uniform(0.5, 1.0, hidden),
        teacher_readout=[1.0],
        supply="dataset",
        ratio=2.0,
        rate=1.0,
        time=50.0,
    )
    with ld.float64():
        setting = setting_of(asked, ld.CausalSampling(step=50.0))
        examples = ImplicitExamples(setting, 64, SEED, 6, 0.0)
        for time in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0):
            assert 0 < examples.add(time) < 12
        h, phi, slope, curvature = examples._fields
        forced = np.tensordot(examples.R[5], examples.g, 2) / setting.ratio
        u = examples.W[5] @ examples._xi
        assert np.max(np.abs(u + forced - h)) < 1e-4 * np.max(np.abs(h))
        v = examples.v[5]
        pull, Delta = v[:, None] * slope, examples.y - v @ phi
        np.testing.assert_allclose(examples.g[5], pull * Delta, atol=1e-12)
        M = -np.einsum("is,js->ijs", pull, pull)
        M += np.einsum("ij,is->ijs", np.eye(hidden), v[:, None] * curvature * Delta)
        own = examples.R[5, :, 5] / setting.ratio
        again = M + np.einsum("ijs,jk,kls->ils", M, own, examples.M[5])
        np.testing.assert_allclose(examples.M[5], again, atol=1e-12)
        np.testing.assert_allclose(phi, np.tanh(h), atol=1e-12)
        w = examples.W[0] + np.tensordot(examples.rule.kappa, examples.F, 1)
        np.testing.assert_allclose(examples.W, w, atol=1e-4)
        assert np.max(np.abs(forced)) > 0.1 * np.max(np.abs(u))
