"""Sampled layers and particles: exact where they must be, and their responses against finite differences."""

from functools import partial

import numpy as np
import pytest
from learndyn.families.wide.equations.particles import TrainingRule, move
from learndyn.families.wide.equations.sampled import Adjoint, Layer, sweep
from scipy.stats import t as student_t

import learndyn as ld
from learndyn.families.wide.equations import sampled
from learndyn.families.wide.equations.linear import solve_linear
from learndyn.families.wide.network import Wide
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.precision import float64
from learndyn.numerics.rules import gaussian_rule
from learndyn.problem.points import Points
from learndyn.problem.weight_response import rates
from tests import problems
from tests.optional import not_none

RULES = {
    "descent": {},
    "momentum and decay": {"momentum": 0.5, "weight_decay": 0.3},
    "noise": {"temperature": 0.05, "weight_decay": 0.1},
    "logistic": {"criterion": "logistic", "loss": "mean"},
}
problem = partial(
    problems.wide, steps=10, richness=0.8, rate=0.1, loss="sum", count=3, dimension=4, test_points=1
)


def batch(asked, samples=256, seed=0, **options):
    with float64():
        made = wide_setting(asked, asked.training.steps)
        return made, sweep(
            made, samples, np.random.SeedSequence(seed), lambda done: None, **options
        )


def agree(first, second, level=1e-4):
    """Whether two sets of independent batches have the same mean: Welch's t at each entry, Bonferroni-corrected."""
    a, b = (np.asarray(x).reshape(len(x), -1) for x in (first, second))
    error = np.sqrt(a.var(0, ddof=1) / len(a) + b.var(0, ddof=1) / len(b))
    moves = error > 1e-12
    bound = student_t.isf(level / 2 / moves.sum(), min(len(a), len(b)) - 1)
    return np.max(np.abs(a.mean(0) - b.mean(0))[moves] / error[moves]) < bound


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_linear_units_are_sampled_exactly(depth, rule, precision):
    """Matched normals make the sample covariances of linear fields exact.

    What is left is directions dropped at 1e-10; in single precision the rounding, 2^-24 of numbers up to 8, of the
    terms of the longest products in the recursion, as many as states times points.
    """
    bias = rule == "noise"
    outputs = 1 if rule == "logistic" else 2
    asked = problem(activation="linear", depth=depth, outputs=outputs, bias=bias, **RULES[rule])
    made, found = batch(asked, precision=precision)
    exact = solve_linear(made, lambda done: None)
    _, stein = batch(asked, stein=True)
    dropped, rounded = 3e-7, 2.0**-24 * 8 * made.states * made.points
    close = {"rtol": 0, "atol": dropped if precision == "double" else dropped + rounded}
    np.testing.assert_allclose(found.f, exact.f, **close)
    np.testing.assert_allclose(stein.f, exact.f, rtol=0, atol=dropped)
    for index, layer in enumerate(found.layers):
        np.testing.assert_allclose(layer.Phi, not_none(exact.H)[index], **close)
        np.testing.assert_allclose(layer.G[:, 0, :, :, 0], not_none(exact.G)[index], **close)
        if index < depth - 1:
            np.testing.assert_allclose(layer.A.sum(3), not_none(exact.A)[index], **close)
        if index > 0:
            np.testing.assert_allclose(layer.B[:, 0], not_none(exact.B)[index], **close)


def small_layer(rng, n=4, p=2, C=2, samples=8):
    """A layer with arbitrary causal couplings, and the history h, g of its samples for given u and r."""
    layer = Layer(n, p, C, samples, np.random.SeedSequence(0))
    later = np.tri(n, k=-1)[:, None, :, None, None]
    layer.C = 0.4 * later * rng.standard_normal((n, p, n, p, C))
    layer.D = 0.4 * np.tri(n)[:, None, None, :, None] * rng.standard_normal((n, p, C, n, p))
    return layer


def history(layer, u, r):
    """φ(h) (n, p, S) and g (n, p, C, S); fills the layer with φ', φ''z on the way."""
    n, p, C, samples = r.shape
    phi, g = np.zeros((n, p, samples)), np.zeros((n, p, C, samples))
    for t in range(n):
        h = u[t] + np.einsum("mtac,tacs->ms", layer.C[t, :, :t], g[:t])
        phi[t] = np.tanh(h)
        z = r[t] + np.einsum("mcta,tas->mcs", layer.D[t, :, :, : t + 1], phi[: t + 1])
        slope = 1 - phi[t] ** 2
        g[t] = slope[:, None] * z
        layer.slopes[t] = slope
        layer.bends[t] = (-2 * phi[t] * slope)[:, None] * z
        layer.z = z
    return phi, g


@pytest.mark.parametrize(("columns", "rows"), [(4, 1), (8, 8), (16, 12), (2048, 32)])
def test_adjoint_responses_are_derivatives(columns, rows, monkeypatch):
    """A and B against central differences in u and r of every sample, to the order of the difference.

    Samples are treated one, two, four or all at a time, and times one, two, three or all.
    """
    monkeypatch.setattr(sampled, "COLUMNS", columns)
    monkeypatch.setattr(sampled, "ROWS", rows)
    rng = np.random.default_rng(5)
    n, p, C, samples = 4, 2, 2, 8
    layer = small_layer(rng, n, p, C, samples)
    u, r = rng.standard_normal((n, p, samples)), rng.standard_normal((n, p, C, samples))
    small = 1e-5

    def difference(field, index):
        """(φ, g) differentiated with respect to one component of u or r, of all samples at once."""
        ends = []
        for sign in (1, -1):
            moved = {"u": u.copy(), "r": r.copy()}
            moved[field][index] += sign * small
            ends.append(history(layer, moved["u"], moved["r"]))
        return [(a - b) / (2 * small) for a, b in zip(*ends, strict=True)]

    A, B = np.zeros((n, p, n, p, C)), np.zeros((n, p, C, n, p))
    for s in range(n):
        for a in range(p):
            B[..., s, a] = difference("u", (s, a))[1].mean(-1)
            for c in range(C):
                A[..., s, a, c] = difference("r", (s, a, c))[0].mean(-1)
    history(layer, u, r)
    adjoint = Adjoint(n, p, C, samples)
    for t in range(n):
        if t:
            np.testing.assert_allclose(adjoint.of_features(layer, t), A[t, :, :t], atol=1e-8)
        np.testing.assert_allclose(
            adjoint.of_gradients(layer, t), B[t, :, :, : t + 1], rtol=0, atol=1e-8
        )
    assert np.max(np.abs(np.einsum("tmcta->tmca", B))) > 0.1  # the part at equal times is there


@pytest.mark.parametrize("depth", [2, 3])
def test_single_precision_is_enough(depth):
    """In every entry of every observable of a rich network it changes less than 1/1000 of the standard error.

    Errors are some 1e-2 to 1e-3 of the values, and rounding is 2^-24 of these times a growth of up to a hundred; half
    precision, 2^-11, would be beyond.
    """
    asked = problem(activation="tanh", depth=depth, steps=12, richness=2.0, rate=0.3)
    single, double = (
        ld.solve(asked, ld.SampledLayers(samples=256, batches=4, precision=precision))
        for precision in ("single", "double")
    )
    changed = 0.0
    for name in double.observables:
        error = double.standard_error(name)
        if error is not None:
            change = np.abs(single[name].values - double[name].values)
            # Entries that are known exactly, at the start, have no error but rounding.
            assert np.all(change <= 1e-3 * error.values + 1e-13), name
            changed = max(changed, float(np.max(change)))
    assert changed > 1e-12


@pytest.mark.parametrize("activation", ["tanh", "erf"])
def test_adjoint_and_stein_responses_agree(activation):
    asked = problem(activation=activation, depth=2, steps=8, richness=1.5, rate=0.3)
    runs = {
        stein: [batch(asked, 1024, seed + 100 * stein, stein=stein)[1].f for seed in range(10)]
        for stein in (False, True)
    }
    assert agree(runs[False], runs[True])


def test_equal_time_response_matters(monkeypatch):
    """Without the part of B at equal times the outputs of a rich tanh network are wrong by many standard errors."""
    asked = problem(activation="tanh", depth=2, steps=8, richness=2.0, rate=0.3)
    right = [batch(asked, 1024, seed)[1].f[-1] for seed in range(8)]

    class Strict(Adjoint):
        def of_gradients(self, layer, t):
            row = super().of_gradients(layer, t)
            row[:, :, t] = 0.0
            return row

    monkeypatch.setattr(sampled, "Adjoint", Strict)
    wrong = [batch(asked, 1024, seed)[1].f[-1] for seed in range(8)]
    # The same samples on both sides: the differences scatter far less than the outputs.
    change = np.array(wrong) - np.array(right)
    assert np.max(np.abs(change.mean(0)) / (change.std(0, ddof=1) / np.sqrt(8))) > 10


@pytest.mark.parametrize(("activation", "depth"), [("tanh", 1), ("relu", 2), ("erf", 3)])
def test_norm_of_the_readout_obeys_its_identity(activation, depth):
    """q(t+1) = q(t) + 2ηγ_0² Σ E f + η²γ_0² Σ EΦE for q = ⟨z^L z^L⟩, exact at finite η in every batch."""
    asked = problem(activation=activation, depth=depth, steps=5, richness=1.3)
    eta, gamma = 0.1, 1.3
    q = []
    for steps in range(6):
        made, found = batch(
            problem(activation=activation, depth=depth, steps=max(steps, 1), richness=1.3), 64
        )
        last = found.layers[-1]
        if steps:
            q.append(float(np.mean(last.z[0, 0] ** 2)))
        else:
            q.append(1.0)
    made, found = batch(asked, 64)
    for t in range(5):
        E, f = made.loss.force(found.f[t])[:, 0], found.f[t, :, 0]
        Phi = found.layers[-1].Phi[t, :, t]
        moved = 2 * eta * gamma**2 * E @ f + eta**2 * gamma**2 * E @ Phi @ E
        assert abs(q[t + 1] - q[t] - moved) < 1e-12


@pytest.mark.parametrize("rule", ["descent", "momentum and decay", "noise"])
def test_particles_are_the_sampled_layer(rule):
    """One hidden layer by its Markov rule and by the general sweep: the same outputs to the sampling error."""
    asked = problem(
        activation="tanh",
        depth=1,
        steps=8,
        outputs=2,
        bias=True,
        richness=1.5,
        rate=0.2,
        **RULES[rule],
    )
    general = [batch(asked, 1024, seed)[1].f for seed in range(10)]
    with float64():
        made = wide_setting(asked, 8)
        eta = np.asarray(rates(asked.training, 8))
        options = TrainingRule(
            eta, asked.training.momentum, asked.training.weight_decay, asked.training.noise
        )
        dimensions = covariance_root(made.K + 1, rank=True).shape[1] + 2
        found = []
        for seed in range(10):
            rule_ = gaussian_rule(dimensions, 512, 1, seed).replicate(0)
            rng = np.random.default_rng(seed)
            particles = move(made, options, rule_, np.arange(9), rng, lambda done: None)
            found.append(particles.f)
    assert np.max(np.abs(found[0][0])) < 1e-14
    assert agree(general, found)


@pytest.mark.parametrize(
    ("activation", "responses", "words"),
    [
        ("relu", "auto", "51 states of 20 points: with fewer, .* are biased$"),
        ("relu", "stein", "51 states of 20 points: with fewer, .* are biased$"),
        ("tanh", "stein", "51 states of 20 points: .*; or use responses = 'adjoint'$"),
    ],
)
@pytest.mark.parametrize("method", [ld.SampledLayers, ld.AlternatingIteration])
def test_stein_responses_to_too_many_directions_are_refused(method, activation, responses, words):
    """The loss was 28 % low here, without a word."""
    points = Points.random(20, 30, seed=0)
    asked = ld.Problem(Wide(2, activation), points, ld.GradientDescent(0.5, steps=50))
    said = rf"{method.__name__}\.samples = 1024: must be at least 4096 for {words}"
    with pytest.raises(ld.ProblemError, match=said):
        ld.solve(asked, method(responses=responses))


def test_stein_responses_of_several_outputs_need_more_samples():
    asked = problem(activation="relu", depth=2, steps=10, outputs=3)
    with pytest.raises(ld.ProblemError, match=r"at least 1024 for 11 states of 4 points and 3"):
        ld.solve(asked, ld.SampledLayers(samples=512))


def test_too_few_particles_are_refused_by_name():
    asked = problem(activation="tanh", depth=1, outputs=2)
    with pytest.raises(ld.ProblemError, match=r"Particles\.samples = 16: must be at least 24"):
        ld.solve(asked, ld.Particles(samples=16))


@pytest.mark.parametrize(("activation", "depth"), [("tanh", 2), ("relu", 2), ("erf", 1)])
def test_lazy_networks_follow_the_static_kernel(activation, depth):
    """γ_0 → 0: corrections are of order γ_0² = 1e-4, the rest is the sampling error."""
    asked = problem(activation=activation, depth=depth, steps=6, richness=1e-2, rate=0.2)
    method = ld.Particles if depth == 1 else ld.SampledLayers
    full = ld.solve(asked, method(samples=1024, batches=8))
    lazy = ld.solve(asked, ld.StaticKernel())
    error = not_none(full.standard_error("prediction"))
    assert np.all(np.abs(full["prediction"] - lazy["prediction"]) < 6 * error + 1e-3)
    assert np.max(np.abs(lazy["prediction"])) > 0.3


def test_kernels_are_symmetric_and_positive():
    made, found = batch(problem(activation="tanh", depth=2, steps=6), 256)
    size = made.states * made.points
    for layer in found.layers:
        for kernel in (layer.Phi, layer.G):
            flat = kernel.reshape(size, size)
            np.testing.assert_allclose(flat, flat.T, atol=1e-12)
            assert np.linalg.eigvalsh(flat)[0] > -1e-10 * np.max(flat)


def test_stein_needs_no_second_derivative():
    """A relu by tracing changes misses the kink, by more than the error."""
    asked = problem(activation="relu", depth=2, steps=8, richness=2.0, rate=0.2)
    right = [batch(asked, 1024, seed, stein=True)[1].f[-1] for seed in range(10)]
    wrong = [batch(asked, 1024, seed)[1].f[-1] for seed in range(10)]
    assert not agree(right, wrong)


def test_particles_that_diverge_before_the_first_recorded_step_have_empty_curves():
    asked = problem(activation="tanh", depth=1, steps=60, rate=100.0)
    found = ld.solve(asked, ld.Particles(samples=64, batches=2), save_at=[59, 60])
    assert found.diverged_at == 59
    assert found["Phi"].shape == (1, 0, 4, 0, 4)


def test_stein_responses_of_few_samples_state_their_accuracy():
    """Fewer samples than preactivations are kept: those of half the samples are then fewer."""
    asked = problems.wide(activation="relu", count=2, steps=2)
    solution = ld.solve(asked, ld.SampledLayers(samples=64, batches=2, responses="stein"))
    assert {"prediction", "kernel"} <= solution.evidence["accuracy"].keys()
    assert "preactivation" not in solution.evidence["accuracy"]
