"""The limit of two-layer networks on a reused dataset: its equations, identities and exact limits."""

import functools
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.stats import t as student_t

import learndyn as ld
from learndyn.analyses.grokking import drop_time
from learndyn.core.record import Record
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.reused import finite
from learndyn.families.two_layer.reused.equations import ReusedTraining, State
from learndyn.families.two_layer.reused.finite import ReusedExamples, ReusedNetwork
from learndyn.families.two_layer.reused.revealed import INPUTS, trained
from learndyn.families.two_layer.reused.solve import setting_of
from learndyn.families.two_layer.reused.time_grid import time_grid
from learndyn.families.two_layer.reused.traced import TracedInputs
from learndyn.numerics.normals import QuasiNormals
from learndyn.numerics.precision import float64
from learndyn.programs import Dense, Limit, run
from tests import problems
from tests.families.two_layer.plain_reused import plain
from tests.optional import not_none

pytestmark = pytest.mark.compiles

paper = partial(problems.late_learning, ratio=3.0)


def rising(steps):
    """Training for so many steps, each a little longer than the one before it."""
    return {"rate": ld.PerStep(np.linspace(0.3, 0.9, steps)), "steps": steps}


rich = partial(problems.uneven, **rising(7))
ALL = {"momentum": 0.4, "batch_ratio": 0.8, "train_readout": True, "readout_rate": 0.5}
"""Everything that training on a dataset can have beyond descent on the weights, on all examples."""


class Watched(ReusedTraining):
    """A run that keeps its inputs and the examples of all states."""

    def __init__(self, setting):
        super().__init__(setting, np.arange(len(setting.grid.times)))
        self.states: list[State] = []
        self.inputs: Any = None

    def _note(self, t, inputs, w_star, w, state):
        super()._note(t, inputs, w_star, w, state)
        self.inputs, self.w_star = inputs, w_star
        self.y = state.Delta + state.v @ state.phi
        self.states.append(state)


def traced(problem, samples, seed, **grid):
    """One batch of traced inputs."""
    with float64():
        setting = setting_of(problem, ld.CausalSampling(**grid))
        training = Watched(setting)
        inputs = TracedInputs(setting, samples, np.random.SeedSequence(seed))
        training.follow(inputs, range(len(setting.grid.times)))
    return training


def revealed(problem, backend, **grid):
    """One run of the program."""
    with float64():
        training = Watched(setting_of(problem, ld.CausalSampling(**grid)))
        run(functools.partial(trained, training=training), None, backend)
    return training


def within_errors(values, level=1e-4):
    """Whether the mean over the first axis is zero, by a t-test at each entry, Bonferroni-corrected."""
    values = np.asarray(values).reshape(len(values), -1)
    scale = np.max(np.abs(values))
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    judged = error > 1e-13 * scale
    assert np.all(np.abs(values[:, ~judged]) <= 1e-10 * max(scale, 1.0))
    bound = student_t.isf(level / 2 / max(judged.sum(), 1), len(values) - 1)
    return np.max(np.abs(values.mean(0)[judged] / error[judged]), initial=0.0) < bound


TRANSCRIBED = {
    "erf": rich(**rising(12)),
    "tanh student, relu teacher": rich(activation="tanh", teacher_activation="relu"),
    "quadratic": paper(steps=8, noise=0.2, weight_decay=0.1, rate=4 * 0.6),
    "momentum": rich(momentum=0.4),
    "readout": rich(train_readout=True, readout_rate=0.5),
    "batches": rich(batch_ratio=0.8),
    "all": rich(**ALL),
}


@pytest.mark.parametrize("problem", TRANSCRIBED.values(), ids=TRANSCRIBED)
def test_traced_inputs_are_the_plain_transcription(problem):
    S, found = 128, traced(problem, 128, 3)
    setting, inputs = found.setting, found.inputs
    K, M, T = setting.hidden, setting.teachers, len(setting.grid.tau)
    columns = QuasiNormals(S, np.random.SeedSequence(3)).columns(0, M + K + 1 + T * K)
    with float64():
        chosen = np.stack([state.m for state in found.states])
        expected = plain(setting, np.delete(columns, M + K, axis=1), columns[:, M + K], chosen)
    close = {"rtol": 0, "atol": 1e-10}  # rounding, through the steps and a Cholesky factor
    np.testing.assert_allclose(0.5 * np.array(found.loss), expected["train_loss"], **close)
    np.testing.assert_allclose(inputs.W[:, :, : M + K + T * K], expected["W"], **close)
    for name in ("Q", "R", "v"):
        np.testing.assert_allclose(getattr(found, name), expected[name], **close)
    for name in ("C", "C_g"):
        np.testing.assert_allclose(found.two_time()[name], expected[name], **close)
    for name in ("R_w", "R_h", "R_star"):
        np.testing.assert_allclose(getattr(inputs, name), expected[name], **close)
    assert setting.fraction == 1 or {*chosen.ravel()} == {0.0, 1 / setting.fraction}


def dense_and_finite(monkeypatch, problem, size):
    """The program run as a network, and the finite network of the library on the same weights and examples."""
    program = revealed(problem, Dense(size, seed=4))
    X, D = program.inputs.X.state, program.inputs.D.site.length
    examples = ReusedExamples(np.sqrt(D) * X, np.zeros((0, len(X))), program.y)
    chosen = iter([state.m for state in program.states])
    start = program.w[0], program.w_star, examples
    monkeypatch.setattr(finite, "draw", lambda *_: start)
    monkeypatch.setattr(ReusedNetwork, "_chosen", lambda self: next(chosen))
    with float64():
        record, grid = Record.of(problem.training), time_grid(problem, ld.FullBatch())
        network = ReusedNetwork(problem, D, grid, record.at, False, seed=0)
        network.advance(record.at, lambda state: None)
        return program, network.arrays()


@pytest.mark.parametrize(
    "problem",
    [rich(), rich(**ALL), rich(activation="relu", **ALL), paper(steps=5, rate=1.0)],
    ids=["erf", "all", "relu, all", "quadratic"],
)
def test_the_program_is_the_finite_network(monkeypatch, problem):
    """Run with arrays instead of samples it trains the network of `finite.py`, step by step, to rounding."""
    program, network = dense_and_finite(monkeypatch, problem, 60)
    names = {"train_loss": 0.5 * np.array(program.loss), "Q": program.Q, "R": program.R}
    names |= program.two_time(scale=1 / 60)
    if problem.network.train_readout:
        names["v"] = program.v
        assert np.abs(network["v"][-1] - network["v"][0]).max() > 0.05
    for name, values in names.items():
        np.testing.assert_allclose(values, network[name], rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("problem", [rich(), rich(**ALL)], ids=["descent", "all"])
def test_revealed_inputs_agree_with_traced_ones(problem):
    """Within the standard errors of 12 batches on both sides; the bias, of order 1/2048, is below these."""
    one, other = (
        ld.solve(problem, ld.CausalSampling(inputs=inputs, samples=2048, batches=12))
        for inputs in ("traced", "revealed")
    )
    assert (one.evidence["inputs"], other.evidence["inputs"]) == ("traced", "revealed")
    names = ["train_loss", "test_loss", "leading_gap", "Q", "R", "C", "C_g"]
    for name in names + ["v"] * problem.network.train_readout:
        errors = [not_none(x.standard_error(name)).values for x in (one, other)]
        both, difference = np.hypot(*errors), np.abs(one[name].values - other[name].values)
        judged = both > 1e-9
        assert np.all(difference[~judged] < 1e-7), name
        # Welch's test with at least 11 degrees of freedom, Bonferroni-corrected.
        bound = student_t.isf(1e-4 / 2 / max(judged.sum(), 1), 11)
        assert np.all(difference[judged] < bound * both[judged]), name


@pytest.mark.parametrize("problem", [rich(), rich(activation="tanh")], ids=["erf", "tanh"])
def test_stein_identities_hold_to_the_sampling_error(problem):
    """⟨gρ⟩ = Σ R_h A + R* T, and [C(t+1, s) − (1 − τκ)C(t, s)]/τ = ⟨g(t)h(s)⟩, over independent batches."""
    teacher, weight = [], []
    for seed in range(24):
        batch = traced(problem, 512, seed)
        setting, inputs, A = batch.setting, batch.inputs, np.array(batch.R)
        rho = batch.w_star @ inputs._xi[: batch.w_star.shape[1]]
        C, T = batch.two_time()["C"], np.asarray(setting.pair.T)
        for t, tau in enumerate(setting.grid.tau):
            g, keep = batch.states[t].g, 1 - tau * setting.decay
            by_response = np.einsum("isj,sjn->in", inputs.R_h[t], A) + inputs.R_star[t] @ T
            teacher.append(g @ rho.T / 512 - by_response)
            moved = (C[t + 1] - keep * C[t]) / tau
            weight.append([moved[:, s] - g @ batch.states[s].h.T / 512 for s in range(t + 1)])
    T = len(setting.grid.tau)
    assert within_errors([teacher[i * T : (i + 1) * T] for i in range(24)])
    assert within_errors([np.concatenate(weight[i * T : (i + 1) * T]) for i in range(24)])


def test_forces_and_fields_of_revealed_inputs_are_adjoint():
    """[C(t+1, s) − (1 − τκ)C(t, s)]/τ = ⟨g(t)h(s)⟩ to rounding, because X^⊤ is that of the same X."""
    found = revealed(rich(), Limit(512, drop=1e-11, linear=(INPUTS,)))
    C = found.two_time()["C"]
    for t, tau in enumerate(found.setting.grid.tau):
        moved = (C[t + 1] - (1 - tau * found.setting.decay) * C[t]) / tau
        products = [found.states[t].g @ found.states[s].h.T / 512 for s in range(t + 1)]
        np.testing.assert_allclose(moved[:, : t + 1].transpose(1, 0, 2), products, atol=1e-9)


def test_traced_responses_are_those_of_the_revealed_inputs():
    """Σ_s τ_s R_w(t, s) ⟨g(s) V_j⟩ = √γ c_j(t): tangents of single examples against the coordinates of the weights."""
    R_w = ld.solve(rich(), ld.CausalSampling(samples=4096))["R_w"].values
    differences = []
    for seed in range(24):
        found = revealed(rich(), Limit(512, seed, linear=(INPUTS,)))
        setting, V = found.setting, found.inputs.X.gaussian.V
        L = np.stack([V.coordinates(state.g) for state in found.states])
        predicted = np.einsum("tisj,s,sjk->tik", R_w[:, :, :-1], setting.grid.tau, L[:-1])
        first = 1 + setting.teachers + setting.hidden
        c = np.zeros_like(predicted)
        for t, w in enumerate(found.w):
            c[t, :, : w.shape[1] - first] = np.sqrt(setting.ratio) * w[:, first:]
        # The first two steps open four directions, the same functions of the examples in every batch.
        differences.append((predicted - c)[:, :, :4])
        assert np.abs(c[:, :, :4]).max() > 0.1
    assert within_errors(differences)


@pytest.mark.parametrize("inputs", ["traced", "revealed"])
def test_a_batch_of_all_examples_is_the_full_batch(inputs):
    """batch_ratio = ratio, momentum 0 and a readout that is trained with rate 0: the very same samples."""
    method = ld.CausalSampling(inputs=inputs, samples=256, batches=2)
    idle = {"batch_ratio": 1.3, "momentum": 0.0, "train_readout": True, "readout_rate": 0.0}
    plainly, same = (
        ld.solve(rich(**more), method)
        for more in ({"weight_decay": 0.0}, idle | {"weight_decay": 0.0})
    )
    for name in ("train_loss", "test_loss", "Q", "R", "C_g"):
        np.testing.assert_array_equal(same[name], plainly[name])


@pytest.mark.slow
def test_many_examples_train_a_readout_as_the_population_does():
    """ratio → ∞, with a readout: gradient flow on the population, by extrapolation in the step."""
    readout = {"train_readout": True, "readout_rate": 0.7, "weight_decay": 0.05}
    many = problems.uneven(ratio=1e8, time=3.0, noise=0.0, rate=1.0, **readout)
    flow = ld.Problem(many.network, ld.Population(many.data.task), many.training)
    exact = ld.solve(flow, save_at=4)
    found = [
        ld.solve(many, ld.CausalSampling(step=h, batches=4), save_at=4) for h in (0.2, 0.1, 0.05)
    ]
    for name in ("R", "Q", "v", "test_loss"):
        coarse, middle, fine = (solution[name].values for solution in found)
        first, second = 2 * middle - coarse, 2 * fine - middle
        # As in the test below.
        error = not_none(found[-1].standard_error(name)).values
        bound = np.max(np.abs(second - first)) / 2 + 5 * error
        assert np.all(np.abs(second - exact[name].values) < bound), name
    assert np.abs(exact["v"].values[-1] - exact["v"].values[0]).min() > 0.05


def test_standard_error_falls_with_samples():
    """As 1/√S or faster (quasi-random samples): sixteen times the samples, a quarter of the error or less."""
    problem = paper(time=10.0)
    few, many = (
        ld.solve(problem, ld.CausalSampling(step=0.5, samples=S, batches=16)) for S in (128, 2048)
    )
    for name in ("train_loss", "test_loss", "R"):
        ratio = np.sqrt(
            np.mean(not_none(few.standard_error(name)) ** 2)
            / np.mean(not_none(many.standard_error(name)) ** 2)
        )
        # The error of a standard error from 16 batches is 18 %, of the ratio of two 25 %; times are correlated.
        assert ratio > 4 * (1 - 0.5), name
    # The error bars are right: the two results differ by what they say.
    for name in ("train_loss", "test_loss"):
        difference = few[name] - many[name]
        error = np.sqrt(
            not_none(few.standard_error(name)) ** 2 + not_none(many.standard_error(name)) ** 2
        )
        assert np.all(np.abs(difference) < 5 * error + 1e-12)


def test_initial_losses_are_equal_and_exact():
    problem = rich(noise=0.5)
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    made, start = None, problem.network
    with float64():
        made, start = equations(problem)
        exact = float(made.test_loss(start))
    assert abs(float(solution["test_loss"][0]) - exact) < 1e-12
    error = float(not_none(solution.standard_error("train_loss"))[0])
    assert abs(float(solution["train_loss"][0]) - exact - 0.125) < 5 * error


def test_infinite_ratio_is_the_population_flow():
    """ratio → ∞; extrapolation in the step removes the first order of Euler's error, and the second bounds the rest."""
    many = paper(ratio=1e8, time=6.0, weight_decay=0.05)
    flow = ld.Problem(many.network, ld.Population(many.data.task), many.training)
    exact = ld.solve(flow, save_at=7)
    found = [
        ld.solve(many, ld.CausalSampling(step=h, samples=2048, batches=8), save_at=7)
        for h in (0.5, 0.25, 0.125)
    ]
    for name in ("R", "Q", "test_loss"):
        coarse, middle, fine = (solution[name].values for solution in found)
        first, second = 2 * middle - coarse, 2 * fine - middle
        # Second-order errors fall by four: a third of the last difference is what is left, half is safe. The samples
        # are the same for all steps, so that the sampling error is that of one solve.
        bound = (
            np.max(np.abs(second - first)) / 2 + 5 * not_none(found[-1].standard_error(name)).values
        )
        assert np.all(np.abs(second - exact[name].values) < bound), name
        # Euler's error itself is of first order, and seen.
        assert np.max(np.abs(coarse - exact[name].values)) > 2 * np.max(bound)


def test_population_step_of_the_quadratic_network():
    """At ratio → ∞: R_h(t, t) = (ε/2)[1 − (αε/N)ΣC]δ − (α/N)(1 + ε²C), R* = εA, in the paper's units."""
    alpha, eps = 0.8, 0.5
    problem = paper(alpha=alpha, eps=eps, ratio=1e9, steps=6, rate=2 / alpha * 0.3)
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    C, A = solution["Q"].values, solution["R"].values[..., 0]
    unit = alpha / 2  # our forces carry the factor α/N that the paper's leave out
    bracket = eps / 2 * (1 - alpha * eps / 2 * np.trace(C, axis1=1, axis2=2))
    expected = unit * (bracket[:, None, None] * np.eye(2) - unit * (1 + eps**2 * C))
    local = np.einsum("titj->tij", solution["R_h"].values)
    error = np.einsum("titj->tij", not_none(solution.standard_error("R_h")).values)
    assert np.all(np.abs(local - expected) < 5 * error + 1e-12)
    error = not_none(solution.standard_error("R_star")).values[..., 0]
    assert np.all(np.abs(solution["R_star"].values[..., 0] - unit * eps * A) < 5 * error + 1e-12)


def marchenko_pastur(function, ratio):
    """The average of a function over the eigenvalues Λ of XᵀX/P with P = ratio·D."""
    low, high = (1 - ratio**-0.5) ** 2, (1 + ratio**-0.5) ** 2

    def density(angle):  # Λ = centre + radius·cos(angle) removes the square roots at the edges
        centre, radius = (low + high) / 2, (high - low) / 2
        value = centre + radius * np.cos(angle)
        weight = ratio * (radius * np.sin(angle)) ** 2 / (2 * np.pi * value)
        return weight * function(value)

    continuous = quad(density, 0, np.pi, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
    return continuous + max(0.0, 1 - ratio) * function(0.0)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_linear_network_is_regression(ratio):
    """φ = h: the response of Σv_iw_i is the Marchenko–Pastur average of (1 − τ|v|²Λ)^(t−s−1); the rest stands still."""
    v = np.array([0.6, 0.8])
    network = ld.TwoLayer("linear", [[1.0, 0.3], [0.3, 0.7]], [[0.2], [-0.1]], readout=v)
    data = ld.Dataset(ld.Teacher("linear", [[1.0]]), ratio=ratio, noise=0.4)
    tau, T = 0.3, 12
    problem = ld.Problem(network, data, ld.GradientDescent(tau, steps=T))
    solution = ld.solve(problem, ld.CausalSampling(samples=4096, batches=8))
    R_w = np.einsum("i,tisj,j->ts", v, solution["R_w"].values, v)
    for t in range(1, T + 1):
        exact = [
            marchenko_pastur(lambda x, k=t - s - 1: (1 - tau * x) ** k, ratio) for s in range(t)
        ]
        np.testing.assert_allclose(R_w[t, :t], exact, rtol=0, atol=1e-9)  # the quadrature's
    # The direction without a readout feels no force.
    still = np.array([0.8, -0.6])
    C = np.einsum("i,tisj,j->ts", still, solution["C"].values, still)
    np.testing.assert_allclose(C, C[0, 0], rtol=0, atol=1e-12)
    # Regression on w = Σv_iw_i: w − w* = (1 − τΛ)^t (w_0 − w*) + noise.
    Q0, A0 = v @ network.Q @ v, (v @ network.R)[0]
    distance = Q0 - 2 * A0 + 1

    def losses(t):
        def test(x):
            k = np.arange(t)
            grown = tau * np.sum((1 - tau * x) ** k)
            return distance * (1 - tau * x) ** (2 * t) + 0.16 / ratio * grown**2 * x

        def train(x):
            return x * distance * (1 - tau * x) ** (2 * t)

        # The noise in the residual: (1 − τΛ)^t along the data's directions, all of it outside of them.
        inside = marchenko_pastur(lambda x: (1 - tau * x) ** (2 * t) if x > 0 else 0.0, ratio)
        rank = min(1.0, ratio)
        noise = 0.16 / ratio * (inside + ratio - rank)
        return marchenko_pastur(test, ratio), marchenko_pastur(train, ratio) + noise

    for t in (0, 3, T):
        test, train = losses(t)
        for name, exact in (("test_loss", test), ("train_loss", train)):
            error = float(not_none(solution.standard_error(name))[t])
            assert abs(float(solution[name][t]) - exact / 2) < 5 * error + 1e-9, (name, t)


def test_equal_neurons_stay_equal():
    network = ld.TwoLayer(
        ld.Polynomial([0, 1, 0.2]), np.ones((2, 2)), [[0.4], [0.4]], readout=[0.4, 0.4]
    )
    data = ld.Dataset(ld.Teacher(ld.Polynomial([0, 0.3, 0.5]), [[1.0]]), ratio=1.5)
    problem = ld.Problem(network, data, ld.GradientDescent(1.0, time=6.0))
    solution = ld.solve(problem, ld.CausalSampling(samples=256, batches=4))
    Q = solution["Q"].values
    np.testing.assert_allclose(Q, Q[:, :1, :1] * np.ones((2, 2)), rtol=1e-10)
    assert abs(Q[-1, 0, 0] - Q[0, 0, 0]) > 0.1


def test_the_solution_of_the_task_stands_still():
    """w_1 = −w_2 = β/√(αε) has no loss, so nothing moves."""
    alpha, eps = 0.7, 0.4
    scale = 1 / np.sqrt(alpha * eps)
    network = ld.TwoLayer(
        ld.Polynomial([0, 1, eps / 2]),
        scale**2 * np.array([[1, -1], [-1, 1]]),
        [[scale], [-scale]],
        readout=[alpha / 2] * 2,
    )
    data = ld.Dataset(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1.0]]), ratio=2.0)
    problem = ld.Problem(network, data, ld.GradientDescent(1.0, time=4.0))
    solution = ld.solve(problem, ld.CausalSampling(samples=256, batches=2))
    assert np.max(np.abs(solution["train_loss"])) < 1e-20
    np.testing.assert_allclose(
        solution["Q"], np.broadcast_to(network.Q, solution["Q"].shape), rtol=1e-9
    )


def test_gap_formula_is_the_leading_order():
    """test − train − leading_gap = O(γ⁻²): it falls four times for twice the data, the gap itself twice."""
    gaps, rests = [], []
    for ratio in (40.0, 80.0):
        # In gradient flow as in descent; small steps keep rare samples stable.
        problem = paper(ratio=ratio, time=6.0, noise=0.5)
        gap, rest = [], []
        for seed in range(16):
            batch = traced(problem, 1024, seed, step=0.5)
            # Both losses over the same samples, which removes most of the noise.
            w, v = batch.w[-1], batch.v[-1]
            u = w @ batch.inputs._xi[: w.shape[1]]
            with float64():
                f = v @ np.asarray(batch.setting.pair.student(jnp.asarray(u)))
            gap.append((np.mean((batch.y - f) ** 2) - batch.loss[-1]) / 2)
            rest.append(gap[-1] - batch.leading_gap[-1])
        gaps.append(np.mean(gap))
        rests.append((np.mean(rest), np.std(rest, ddof=1) / 4))
    assert 1.8 < gaps[0] / gaps[1] < 2.3
    (first, error), (second, error2) = rests
    assert abs(first) < 0.2 * gaps[0]
    # 4, up to the next order (a few per cent at γ = 40) and the sampling error.
    ratio = first / second
    spread = ratio * np.hypot(error / first, error2 / second)
    assert abs(ratio - 4) < 0.6 + 3 * spread
    assert spread < 0.5


def test_a_longer_training_has_the_same_beginning():
    short, long = (
        ld.solve(paper(steps=n, rate=4 * 0.5), ld.CausalSampling(samples=128, batches=2))
        for n in (6, 40)
    )
    for name in ("train_loss", "test_loss", "Q", "R"):
        np.testing.assert_allclose(long[name][:7], short[name], rtol=1e-9, atol=1e-12)


def test_results_are_smooth_in_the_parameters():
    """The same samples for every problem: second differences are those of a smooth function, far below the error."""
    method = ld.CausalSampling(step=0.5, samples=256, batches=4)
    eps = (0.300, 0.302, 0.304)
    a, b, c = (ld.solve(paper(eps=e, time=10.0), method)["train_loss"].values[-1] for e in eps)
    error = float(not_none(ld.solve(paper(time=10.0), method).standard_error("train_loss"))[-1])
    assert abs(a - 2 * b + c) < 0.01 * error
    assert abs(a - c) > 0


@pytest.mark.slow
def test_growing_steps_reach_the_same_curve():
    """A grid that grows agrees with an even one to first order in the steps."""
    problem = paper(time=20.0)
    even = ld.solve(problem, ld.CausalSampling(step=0.1, samples=256, batches=4), save_at=21)
    grown = ld.solve(
        problem,
        ld.CausalSampling(step=0.1, growth=0.1, largest_step=0.5, samples=256, batches=4),
    )
    assert grown.evidence["time_steps"] < 0.35 * even.evidence["time_steps"]
    times = grown["time"].values
    assert np.max(np.diff(times)) <= 0.5 + 1e-12
    assert times[-1] == 20.0
    there = np.interp(even["time"].values, times, grown["test_loss"].values)
    coarse = ld.solve(problem, ld.CausalSampling(step=0.5, samples=256, batches=4), save_at=21)
    bound = np.max(np.abs(coarse["test_loss"].values - even["test_loss"].values))
    # No step is longer than 0.5, so that its error is at most about that of even steps of 0.5.
    assert np.max(np.abs(there - even["test_loss"].values)) < 1.2 * bound


def test_unstable_steps_are_reported_with_one_that_would_do():
    problem = paper(alpha=1.3, eps=0.6, ratio=0.8, time=4.0)
    with pytest.raises(
        ld.NotConverged, match=r"single samples explode .* steps of at most"
    ) as caught:
        ld.solve(problem, ld.CausalSampling(step=0.8, samples=1024, batches=2))
    enough = float(str(caught.value).split("largest_step = ")[1].rstrip(")"))
    found = ld.solve(problem, ld.CausalSampling(step=enough, samples=1024, batches=2))
    assert found.evidence["largest_curvature"] <= 2.5
    descent = paper(alpha=1.3, eps=0.6, ratio=0.8, steps=40, rate=2 / 1.3 * 0.8)
    diverged = ld.solve(descent, ld.CausalSampling(samples=1024, batches=2))
    assert diverged.diverged_at is not None
    assert "learning rate of at most" in diverged.evidence["warnings"][0]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_loss_that_overflows_at_the_start_is_said():
    network = ld.TwoLayer("erf", [[0.3]], [[0.1]], readout=[1e300])
    data = ld.Dataset(ld.Teacher("erf", [[1.0]]), ratio=2.0)
    problem = ld.Problem(network, data, ld.GradientDescent(0.05, steps=3))
    with pytest.raises(ld.NotConverged, match="overflows before training starts"):
        ld.solve(problem)


@pytest.mark.slow
def test_the_drop_times_of_the_setting_that_groks():
    """γ = 3, α = 0.5, ε = 0.3: the train loss passes 0.05 near t = 8.5, the test loss near 49."""
    solution = ld.solve(paper(time=60.0), ld.CausalSampling(step=0.5, samples=1024, batches=8))
    first = float(solution["test_loss"][0])
    delay = ld.grokking_delay(solution, level=0.05 / first)
    assert abs(float(delay["train_drop"]) - 8.5) < 0.5
    assert abs(float(delay["test_drop"]) - 49) < 3
    ten_per_cent = ld.grokking_delay(solution)
    for name in ("train_drop", "test_drop", "grokking_delay"):
        assert abs(float(solution[name]) - float(ten_per_cent[name])) < 1e-9
        assert 0 < float(not_none(solution.standard_error(name))) < 0.1 * float(solution[name])


def online(y, alpha, eps, printed):
    """The right-hand side of the paper's eq. (15) for two neurons, as printed or corrected."""
    A, C = y[:2], y[2:].reshape(2, 2)
    scale = 1 / 2 if printed else alpha / 2
    bracket = 1 - (1 / 2 if printed else alpha * eps / 2) * np.trace(C)
    dA = eps / 2 * bracket * A - scale * (1 + eps**2 * C) @ A + eps * A
    if printed:
        middle = sum(
            np.outer(C[:, k], C[k]) * (2 + eps**2 * (C[:, k][:, None] + C[k][None])) for k in (0, 1)
        )
    else:
        rows = C.sum(1)
        middle = rows[:, None] + rows[None] + 2 * eps**2 * C @ C
    dC = eps * bracket * C - scale * middle + 2 * eps * np.outer(A, A)
    return np.concatenate([dA, dC.ravel()])


def test_the_printed_online_equations_are_impossible():
    """α = 1, ε = 0.5, t = 8: the corrected eq. (15) is the population flow, the printed one has A_1² > C_11."""
    A0, C0 = np.array([0.3, -0.2]), np.array([[1.0, 0.1], [0.1, 1.2]])
    network = ld.TwoLayer(ld.Polynomial([0, 1, 0.25]), C0, A0[:, None], readout=[0.5, 0.5])
    data = ld.Population(ld.Teacher(ld.Polynomial([0, 0, 0.5]), [[1.0]]))
    flow = ld.solve(ld.Problem(network, data, ld.GradientDescent(2.0, time=8.0)), save_at=2)
    start = np.concatenate([A0, C0.ravel()])
    ends = {}
    for printed in (False, True):
        found = solve_ivp(
            lambda t, y, p=printed: online(y, 1.0, 0.5, p), (0, 8), start, rtol=1e-10, atol=1e-12
        )
        ends[printed] = found.y[:, -1]
    np.testing.assert_allclose(ends[False][:2], flow["R"][-1, :, 0], rtol=1e-6)
    np.testing.assert_allclose(ends[False][2:].reshape(2, 2), flow["Q"][-1], rtol=1e-6)
    assert ends[True][0] ** 2 > ends[True][2]


@pytest.mark.slow
def test_small_scales_learn_later_by_the_logarithm():
    """dt/d ln(1/α) of the time at which the loss halves is 1/(3ε), and not the 2/(3ε) of the paper's eq. (20)."""
    eps, times = 0.5, []
    for alpha in (1e-3, 1e-4, 1e-5):
        problem = paper(alpha=alpha, eps=eps, time=60.0)
        flow = ld.Problem(problem.network, ld.Population(problem.data.task), problem.training)
        solution = ld.solve(flow, save_at=2001)
        times.append(drop_time(solution["time"].values, solution["test_loss"].values, 0.5))
    slopes = np.diff(times) / np.log(10)
    np.testing.assert_allclose(slopes, 1 / (3 * eps), rtol=0.02)
