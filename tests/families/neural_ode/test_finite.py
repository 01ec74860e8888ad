"""Finite neural ODEs: steps are gradient steps on the trajectories they should see, records are what they say."""

import dataclasses
import itertools
import math
import tracemalloc
from functools import partial

import numpy as np
import pytest

from learndyn.core.progressing import Diverged
from learndyn.core.record import Record
from learndyn.core.run import start
from learndyn.core.simulate import simulate
from learndyn.errors import NotEnoughMemory, ProblemError
from learndyn.families.neural_ode.finite.descent import AdjointDescent, memory
from learndyn.families.neural_ode.finite.flows import (
    FiniteTrajectories,
    confinement,
    draw_controls,
    lessons,
    sources,
    sphere,
)
from learndyn.families.neural_ode.finite.measurements import PROBE
from learndyn.families.neural_ode.finite.tensor_field import TensorField
from learndyn.families.neural_ode.finite.training_run import FiniteNeuralODE, FiniteSetup
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.numerics.precision import float64
from learndyn.problem.activations import Polynomial, as_activation
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import PerStep
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import Observations, TeacherFlow
from learndyn.problem.training import GradientDescent
from tests import problems
from tests.optional import not_none
from tests.problems import ALL_TERMS, MU, NO_FIELD, PAPER

EPS = np.finfo(float).eps
NOISY = {"noise": 0.05, "teacher_noise": 0.03, "adjoint_noise": 0.02}
DATA = {
    "fresh": Stream(TeacherFlow(), batch=2),
    "chained": Stream(TeacherFlow(chained=True), batch=2),
    "reused": Dataset(TeacherFlow(), examples=3),
    "in turn": Dataset(TeacherFlow(), examples=4, batch=2),
}
D, D_THETA = 6, 5
problem = partial(
    problems.neural_ode,
    field=ALL_TERMS,
    confinement=MU,
    control_ratio=D_THETA / D,
    time=0.6,
    steps=4,
    data=Stream(TeacherFlow(), batch=2),
    epochs=3,
)


def curves(made, size=D, seed=0, save_at=None, **options):
    method = AdjointDescent(**options)
    return simulate(made, size, first_seed=seed, save_at=save_at, method=method)


def values(found):
    return {str(name): one.values[0] for name, one in found.data.data_vars.items()}


def started(made, size=D, seed=0, method=None):
    """A system that has drawn its field, its controls and nothing else."""
    record = Record.of(made.training)
    return FiniteNeuralODE(
        made, FiniteSetup.of(made, size), seed, method or AdjointDescent(), record
    )


def trained(ensemble, seed):
    """All that a system of an ensemble measures."""
    with float64():
        system = ensemble.draw(seed)
        system.advance(ensemble.record.at, lambda step: None)
        return system.arrays()


def peak_of(ensemble):
    """The memory that a system takes, after one that compiled what there is to compile."""
    trained(ensemble, 0)
    tracemalloc.start()
    try:
        trained(ensemble, 1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def mu(q):
    return 0.3 + 0.5 * q + 0.2 * q**2, 0.5 + 0.4 * q


def plain_path(frozen, made, h):
    """The Euler steps of one trajectory from its sources, for real or complex numbers."""
    x = [made[0]]
    for source in made[1:]:
        now = x[-1]
        x.append(
            now - h * mu(now @ now / len(now))[0] * now + h * frozen.drift(now[None])[0] + source
        )
    return np.array(x)


def plain_adjoint(frozen, y, end, noise, h, true):
    """The adjoint of one trajectory; `noise[n]` is added to p_n."""
    p = [end]
    for n in reversed(range(len(y) - 1)):
        value, slope = mu(y[n] @ y[n] / len(y[n]))
        gradient = h * frozen.pullback(p[0][None], y[n][None])[0][0]
        if true:
            gradient = gradient - 2 * h * slope * y[n] * (p[0] @ y[n]) / len(y[n])
        p.insert(0, p[0] - h * value * p[0] + gradient + noise[n])
    return np.array(p)


def derivative(function, direction, at):
    """The derivative along a direction by an imaginary step: no difference is taken, so only rounding errs."""
    return function(at + 1e-30j * direction).imag / 1e-30


def test_the_confinement_has_its_value_and_slope():
    q = np.linspace(0, 2, 5)
    for found, expected in zip(confinement(MU)(q), mu(q), strict=True):
        np.testing.assert_allclose(found, expected, rtol=10 * EPS)
    for found, expected in zip(confinement(Polynomial([0.7]))(q), (0.7, 0.0), strict=True):
        np.testing.assert_array_equal(found, np.full(5, expected))
    with float64():
        for found, expected in zip(
            confinement(as_activation("tanh"))(q), (np.tanh(q), 1 / np.cosh(q) ** 2), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=100 * EPS)


@pytest.mark.parametrize(("m", "Q"), [(0.0, 1.0), (-0.4, 0.5), (1.0, 1.0), (0.0, 0.0)])
def test_starts_and_controls_have_exactly_their_overlaps(m, Q):
    rng = np.random.default_rng(0)
    made = problem(initial_overlap=m, initial_norm=Q)
    (star,), (theta,) = draw_controls(FlowPair.of(made).start(), 9, rng)
    found = [star @ star / 9, theta @ star / 9, theta @ theta / 9]
    np.testing.assert_allclose(found, [1, m, Q], atol=20 * EPS)
    np.testing.assert_allclose(np.sum(sphere(rng, 3, 7) ** 2, axis=1), 7, rtol=20 * EPS)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("teacher_time", [0.6, 0.45])
def test_a_step_follows_the_gradient_of_the_loss(batch, teacher_time):
    made = problem(
        data=Stream(TeacherFlow(), batch=batch),
        teacher_time=teacher_time,
        noise=0.05,
        teacher_noise=0.1,
    )
    run, twin = started(made), started(made)
    before = run.controls.theta[0]
    run.advance([1], lambda step: None)
    taught = next(lessons(made, twin.flow, twin.teacher, D, twin.rngs))
    y_sources = sources(taught.x[0], 0.05, 0.15, 4, twin.rngs["student"])

    def loss(theta):
        frozen = twin.fields[0].at(theta)
        ends = [plain_path(frozen, y_sources[:, 0, b] + 0j, 0.15)[-1] for b in range(batch)]
        pairs = zip(ends, taught.x[-1, 0], strict=True)
        return sum(np.sum((y - x) ** 2) / 2 for y, x in pairs) / batch

    expected = [derivative(loss, one, before) for one in np.eye(D_THETA)]
    # Rounding: a few hundred operations with numbers of order one.
    np.testing.assert_allclose((before - run.controls.theta[0]) / 0.5, expected, atol=1e4 * EPS)
    assert np.min(np.abs(expected)) > 1e-4


def test_the_truncated_adjoint_lacks_exactly_the_slope_of_the_confinement():
    run = started(problem())
    flow, h = run.flow, run.flow.h
    rng = np.random.default_rng(1)
    y, p = 1.3 * sphere(rng, 2, 1, 3, D)
    drifts = [[run.fields[0].at(run.controls.theta[0])]]
    path = FiniteTrajectories(np.stack([y, y]), *(one[None] for one in mu(np.full((1, 3), 1.69))))
    ends = np.stack([np.zeros_like(p), p])
    true, truncated = (
        flow._replace(true=one).backward(drifts, path, ends)[0] for one in (True, False)
    )
    bracket = 2 * h * (0.5 + 0.4 * 1.69) * y * (np.sum(p * y, axis=-1) / D)[..., None]
    np.testing.assert_allclose(truncated - true, bracket, atol=100 * EPS)


@pytest.mark.bitwise
def test_both_adjoints_are_the_same_where_the_confinement_is_constant():
    found = [values(curves(problem(confinement=0.8, adjoint=one))) for one in ("true", "truncated")]
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


class Plain:
    """Training by the definitions, one trajectory at a time; random numbers are those of a run's generators."""

    def __init__(self, made, seed, decay, eta):
        self.made, self.decay, self.eta = made, decay, eta
        self.run = started(made, seed=seed)
        self.h, self.N, self.N_t = (
            made.network.step,
            made.network.steps,
            FlowPair.of(made).teacher_steps,
        )
        self.true = made.network.adjoint == "true"

    def teach(self, start, rng):
        made = sources(start, self.made.task.noise, self.h, self.N_t, rng)
        one = [plain_path(self.run.teacher[0][0], made[:, b], self.h) for b in range(len(start))]
        return np.stack(one, axis=1)

    def student(self, frozen, start, rng):
        made = sources(start, self.made.network.noise, self.h, self.N, rng)
        one = [plain_path(frozen, made[:, b], self.h) for b in range(len(start))]
        return np.stack(one, axis=1)

    def fresh(self, count, rng):
        return sphere(rng, count, D)

    def steps(self):
        """Control, losses, trajectories and adjoints before every step and after the last."""
        data, run, rngs = self.made.data, self.run, self.run.rngs
        theta = run.controls.theta[0]
        stored, examples = None, 0
        if isinstance(data, Dataset):
            examples = not_none(data.examples)
            stored = self.teach(self.fresh(examples, rngs["starts"]), rngs["teacher"])
        x = None
        for a in range(len(self.eta) + 1):
            if stored is not None:
                count = data.batch or examples
                x = stored[:, [(a * count + b) % examples for b in range(count)]]
            else:
                going_on = self.made.task.chained and x is not None
                start = not_none(x)[-1] if going_on else self.fresh(data.batch, rngs["starts"])
                x = self.teach(start, rngs["teacher"])
            frozen = run.fields[0].at(theta)
            y = self.student(frozen, x[0], rngs["student"])
            size = math.sqrt(2 * self.h * self.made.network.adjoint_noise)
            noise = np.zeros_like(y[1:])
            if size:
                noise = size * rngs["adjoint"].standard_normal(noise.shape)[::-1]
            B = y.shape[1]
            p = np.stack(
                [
                    plain_adjoint(
                        frozen, y[:, b], y[-1, b] - x[-1, b], noise[:, b], self.h, self.true
                    )
                    for b in range(B)
                ],
                axis=1,
            )
            rng = run._at_step("test", a)
            start = self.fresh(max(B, 4), rng)
            tested = self.teach(start, rng)[-1], self.student(frozen, start, rng)[-1]
            yield {
                "theta": theta,
                "loss": np.mean((y[-1] - x[-1]) ** 2) / 2,
                "test": np.mean((tested[1] - tested[0]) ** 2) / 2,
                "paths": (x, y, p),
            }
            if a < len(self.eta):
                gradient = 0.0
                for b, n in itertools.product(range(B), range(self.N)):
                    S = run.fields[0].moments(p[n + 1, b : b + 1], y[n, b : b + 1])
                    gradient = gradient + self.h / B * run.fields[0].value_and_gradient(theta, S)[1]
                theta = theta - self.eta[a] * (self.decay * theta + gradient)


@pytest.mark.parametrize("adjoint", ["true", "truncated"])
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_training_is_what_the_definitions_say(data, adjoint):
    eta = np.array([0.5, 0.2, 0.7, 0.4, 0.3])
    options = NOISY | {"teacher_time": 0.45, "initial_overlap": 0.3, "adjoint": adjoint}
    made = problem(data=data, rate=PerStep(eta), epochs=5, weight_decay=0.1, **options)
    found = curves(made, seed=2, inference_steps=[1, 4, 5])
    plain = Plain(made, 2, 0.1, eta)
    expected = list(plain.steps())
    theta = np.stack([one["theta"] for one in expected])
    got = values(found)
    # Rounding of some thousand operations with numbers of order one.
    close = {"rtol": 0, "atol": 1e4 * EPS}
    np.testing.assert_allclose(got["C_theta"][:, 0, :, 0], theta @ theta.T / D_THETA, **close)
    np.testing.assert_allclose(got["Q"][:, 0, 0], np.sum(theta**2, axis=1) / D_THETA, **close)
    np.testing.assert_allclose(got["m"][:, 0, 0], theta @ plain.run.star[0] / D_THETA, **close)
    np.testing.assert_array_equal(got["a"], 1.0)
    fresh = isinstance(data, Stream) and not made.task.chained
    losses = [one["loss"] for one in expected]
    np.testing.assert_allclose(got["test_loss" if fresh else "train_loss"], losses, **close)
    assert ("train_loss" in got) is not fresh
    if not fresh:
        np.testing.assert_allclose(got["test_loss"], [one["test"] for one in expected], **close)
    for i, step in enumerate((1, 4, 5)):
        paths = dict(zip("xyp", expected[step]["paths"], strict=True))
        for pair in ("yy", "yx", "xx", "pp", "py", "px"):
            u, w = (paths[one] for one in pair)
            C = np.einsum("nbi,mbi->nm", u, w) / (D * u.shape[1])
            np.testing.assert_allclose(got[f"C_{pair}"][i], C, **close)


@pytest.mark.bitwise
def test_responses_are_derivatives_by_the_sources_along_the_probes():
    made = problem(teacher_time=0.45, **NOISY)
    found = values(curves(made, seed=3, inference_steps=[0], responses=True))
    run = started(made, seed=3)
    h, frozen = run.flow.h, run.fields[0].at(run.controls.theta[0])
    teacher = run.teacher[0][0]
    taught = next(lessons(made, run.flow, run.teacher, D, run.rngs))
    y_sources = sources(taught.x[0], 0.05, h, 4, run.rngs["student"])
    noise = math.sqrt(2 * h * 0.02) * run.rngs["adjoint"].standard_normal((4, 2, D))[::-1]
    x_sources, y_sources, x = taught.sources[:, 0], y_sources[:, 0], taught.x[:, 0]
    rng = run._at_step("probes", 0)
    expected = {"R_yy": np.zeros((5, 5)), "R_py": np.zeros((5, 5)), "R_px": np.zeros((5, 4))}
    for b in range(2):

        def path(made):
            return plain_path(frozen, made, h)

        def adjoint(y, x_end, b=b):
            return plain_adjoint(frozen, y, y[-1] - x_end, noise[:, b], h, True)

        def of_teacher(made, b=b):
            return adjoint(path(y_sources[:, b]) + 0j, plain_path(teacher, made, h)[-1])

        by_student = {"R_yy": path, "R_py": lambda s, b=b: adjoint(path(s), x[-1, b])}
        for given, functions in (
            (y_sources[:, b], by_student),
            (x_sources[:, b], {"R_px": of_teacher}),
        ):
            v = np.sign(rng.choice([-1.0, 1.0], given.shape))
            for k in range(len(given)):
                direction = np.zeros_like(given)
                direction[k] = v[k]
                for name, function in functions.items():
                    moved = derivative(function, direction, given)
                    expected[name][:, k] += moved @ v[k] / (2 * D)
    for name, one in expected.items():
        # Central differences err by ε² times a third derivative, and by rounding over ε, with ε = 10⁻⁵.
        np.testing.assert_allclose(found[name][0], one, rtol=0, atol=1e-8)
    # Rounding over ε: rows of a product need not round alike.
    assert np.max(np.abs(np.triu(found["R_yy"][0], 1))) < 100 * EPS / PROBE


def test_responses_of_a_linear_flow_are_those_of_the_limit():
    made = problem(
        field=[[0, 0], [0, 0.7]],
        data=Stream(TeacherFlow(), batch=40),
        time=1.0,
        steps=4,
        confinement=1.0,
        epochs=1,
    )
    found = values(curves(made, 60, inference_steps=[0], responses=True))
    h, N, g = 0.25, 4, 0.7

    def phi(n, k, u):
        terms = (
            math.comb(n, j) * math.comb(k, j) * (1 - h) ** (n + k - 2 * j) * (h * h * g * u) ** j
            for j in range(min(n, k) + 1)
        )
        return sum(terms)

    def error(n, k):
        # v·Mv/d has variance ≤ 2|M|²/d², |M|² ≈ d φ(n+k, n+k), for a product M of n+k matrices; plus O(1/d) in all.
        return 5 * math.sqrt(2 * phi(n + k, n + k, 1.0) / (60 * 40)) + 1 / 60

    for n, k in itertools.product(range(N + 1), range(1, N + 1)):
        assert abs(found["R_py"][0][n, k] - phi(N - n, N - k, 1.0)) < error(N - n, N - k)
        assert abs(found["R_px"][0][n, k] + phi(N - n, N - k, 0.0)) < error(N - n, N - k)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_nothing_is_left_to_learn_with_the_control_of_the_teacher(data):
    found = values(curves(problem(data=data, initial_overlap=1.0)))
    for name in ("Q", "m", "C_theta"):
        np.testing.assert_allclose(found[name], 1.0, rtol=20 * EPS)
    # Two ways to the same sum: m θ* with m = 1 and a rest of zero.
    assert np.max(found["test_loss"]) < 100 * EPS**2
    assert np.max(found.get("train_loss", 0.0)) < 100 * EPS**2


@pytest.mark.bitwise
def test_a_seed_gives_the_same_curve_and_another_one_does_not():
    made = problem(**NOISY)
    first, again, other = (values(curves(made, seed=seed)) for seed in (4, 4, 5))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["test_loss"], other["test_loss"])
    assert not np.array_equal(first["Q"][1:], other["Q"][1:])


@pytest.mark.bitwise
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_what_is_recorded_does_not_change_the_curve(data):
    made = problem(data=data, epochs=6, **NOISY)
    every = curves(made, inference_steps=[2, 5], responses=True).data
    some = curves(made, save_at=[1, 4], inference_steps=[5]).data
    for name in some:
        axes = {axis: some[axis] for axis in some[name].dims}
        # Overlaps of controls are sums of up to 2D terms, in an order that depends on how many states are recorded.
        rounding = 2 * D * EPS if name in ("Q", "m", "C_theta") else 0.0
        np.testing.assert_allclose(some[name], every[name].sel(axes), rtol=0, atol=rounding)
    np.testing.assert_allclose(some["inference_time"], 0.15 * np.arange(5), rtol=4 * EPS)
    assert every["step"].values.tolist() == list(range(7))


@pytest.mark.bitwise
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_controls_are_the_same_bit_for_bit_whatever_is_recorded(data):
    made, trained = problem(data=data, epochs=6, **NOISY), []
    for method, steps in (
        (AdjointDescent(inference_steps=[2, 5], responses=True), range(7)),
        (AdjointDescent(), (1, 6)),
    ):
        run = start(made, D, method=method)
        trained.append({step: run.advance(step).weights["theta"] for step in steps})
    for step, theta in trained[1].items():
        np.testing.assert_array_equal(trained[0][step], theta)


@pytest.mark.bitwise
def test_chained_trajectories_are_one_long_one():
    made = problem(
        data=Stream(TeacherFlow(chained=True), batch=2), teacher_time=0.45, teacher_noise=0.1
    )
    run = started(made)
    parts = list(itertools.islice(lessons(made, run.flow, run.teacher, D, run.rngs), 4))
    long = np.concatenate([parts[0].sources, *(one.sources[1:] for one in parts[1:])])
    x = run.flow.forward([4 * one for one in run.teacher], long).x
    assert len(x) == 4 * 3 + 1
    for a, one in enumerate(parts):
        np.testing.assert_array_equal(one.x, x[3 * a : 3 * a + 4])


def test_examples_are_used_in_turn():
    made = problem(data=Dataset(TeacherFlow(), examples=6, batch=2), teacher_noise=0.1)
    run, twin = started(made), started(made)
    parts = list(itertools.islice(lessons(made, run.flow, run.teacher, D, run.rngs), 5))
    full = dataclasses.replace(made, data=Dataset(made.task, examples=6))
    everything = next(lessons(full, twin.flow, twin.teacher, D, twin.rngs))
    for a, one in enumerate(parts):
        first = 2 * (a % 3)
        np.testing.assert_allclose(one.x, everything.x[:, :, first : first + 2], atol=100 * EPS)
    assert len(np.unique(everything.x[0, 0, :, 0])) == 6


def test_temperatures_are_those_of_diffusion():
    B, d, h, N = 200, 30, 0.25, 4
    made = problem(
        field=NO_FIELD,
        data=Stream(TeacherFlow(), batch=B),
        time=N * h,
        steps=N,
        epochs=1,
        confinement=0.0,
        noise=0.5,
    )
    network = dataclasses.replace(made.network, adjoint_noise=0.3, control_ratio=0.1)
    data = Stream(TeacherFlow(time=0.5, noise=0.2), batch=B)
    asked = dataclasses.replace(made, network=network, data=data)
    found = values(curves(asked, d, save_at=[0, 1], inference_steps=[0]))
    t, s = h * np.arange(N + 1), h * np.arange(3)

    def agrees(name, expected, first=0.0):
        # A square of starts of norm 1 plus Gaussians of variance v varies by 4·first·v + 2v².
        v = expected - first
        error = np.sqrt((4 * first * v + 2 * v**2) / (B * d))
        assert np.all(np.abs(np.diagonal(found[name][0]) - expected) <= 5 * error + 10 * EPS)

    agrees("C_yy", 1 + 2 * 0.5 * t, first=1.0)
    agrees("C_xx", 1 + 2 * 0.2 * s, first=1.0)
    agrees("C_pp", 2 * 0.5 * t[-1] + 2 * 0.2 * s[-1] + 2 * 0.3 * (t[-1] - t))


def test_weight_decay_shrinks_a_control_without_force():
    found = values(curves(problem(field=NO_FIELD, epochs=5, rate=0.5, weight_decay=0.2)))
    # The force of a field of amplitude 10⁻²⁰ is far below rounding.
    np.testing.assert_allclose(found["Q"][:, 0, 0], 0.9 ** (2 * np.arange(6)), rtol=100 * EPS)


def test_a_training_that_diverges_ends_there():
    made = problem(
        field=PAPER,
        data=Stream(TeacherFlow()),
        time=1.0,
        steps=10,
        rate=40.0,
        epochs=30,
        confinement="linear",
    )
    found = curves(made, 10, save_at=[0, 2, 12, 30], inference_steps=[0, 30])
    got = values(found)
    reached = len(got["Q"])
    assert 0 < reached < 4
    assert found.diverged_at == [0, 2, 12, 30][reached]
    for name, one in got.items():
        if "inference_step" not in found[name].dims:
            assert one.shape[0] == reached
            assert np.all(np.isfinite(one))
        else:
            assert np.all(np.isfinite(one[0]))
            assert np.all(np.isnan(one[1])), name


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_a_state_that_is_finite_but_huge_ends_the_training(data):
    # |x|² grows by (1 + 150)² in each of four steps: to 3·10¹⁷.
    found = curves(problem(field=NO_FIELD, data=data, confinement=-1000.0), inference_steps=[0])
    assert found.diverged_at == 0
    assert found["C_theta"].shape == (1, 0, 1, 0, 1)
    assert np.all(np.isnan(found["C_yy"]))
    assert found.data.sizes["step"] == 0


def test_a_system_that_diverges_at_once_stands_beside_one_that_does_not(monkeypatch):
    usual = simulate(problem(), D, 2)
    monkeypatch.setattr(FiniteNeuralODE, "begin", _begin_unless(0, FiniteNeuralODE.begin))
    found = simulate(problem(), D, 2)
    assert found.diverged_at == 0
    assert set(found.data) == set(usual.data)
    for name in map(str, found.data):
        assert np.all(np.isnan(found[name].sel(seed=0)))
        np.testing.assert_array_equal(found[name].sel(seed=1), usual[name].sel(seed=1))


def _begin_unless(seed, begin):
    """The beginning of a system, but that of one seed diverges."""

    def changed(system):
        if system.sequences["field"].entropy == seed:
            raise Diverged
        begin(system)

    return changed


def test_a_state_whose_adjoint_diverges_is_there_whatever_is_measured():
    """Weights of 10³⁰⁸ make jumps of the adjoint that are no numbers, while all states are of order one."""
    seen = Observations([0.6], weight=1e308)
    made = problem(data=Stream(TeacherFlow(observations=seen), batch=2))
    plain, measured = curves(made), curves(made, inference_steps=[0])
    assert plain.diverged_at == measured.diverged_at == 1
    assert measured.data.sizes["step"] == 1
    assert np.all(np.isnan(measured["C_pp"]))


@pytest.mark.bitwise
def test_what_is_measured_after_the_last_record_is_that_of_a_longer_record():
    made = problem(epochs=6)
    short, long = (curves(made, save_at=at, inference_steps=[1, 5]) for at in ([0, 2], None))
    np.testing.assert_array_equal(short["C_pp"], long["C_pp"])
    np.testing.assert_array_equal(short["test_loss"], long["test_loss"].sel(step=[0, 2]))


@pytest.mark.parametrize(
    "data",
    [Stream(TeacherFlow(), batch=3), Dataset(TeacherFlow(), examples=40)],
    ids=["stream", "dataset"],
)
@pytest.mark.parametrize("responses", [False, True])
def test_the_memory_foreseen_is_enough_and_not_much_too_much(data, responses):
    made = problem(field=ALL_TERMS, data=data, epochs=20)
    method = AdjointDescent([3], responses)
    ensemble = method.ensemble(made, 30, Record.of(made.training))
    peak = peak_of(ensemble)
    foreseen = memory(made, 30, 25, 21, method)
    assert peak < foreseen < 3 * peak


def test_too_large_a_system_is_refused_before_it_is_drawn(monkeypatch):
    def no_draw(*_):
        raise AssertionError

    monkeypatch.setattr(TensorField, "draw", no_draw)
    with pytest.raises(
        NotEnoughMemory, match=r"dimension d = 100000 .* use a smaller d, or a field"
    ):
        simulate(problem(), 100000)


def test_what_cannot_be_simulated_is_refused():
    with pytest.raises(
        ProblemError, match=r"network\.field = .*: finite systems are drawn from coef"
    ):
        curves(problem(field="exp(q*m) - 1"))
    with pytest.raises(ProblemError, match=r"size = 1: must be larger: there would be 1 controls"):
        curves(problem(), 1)
    with pytest.raises(ProblemError, match=r"inference_steps = \[2, 4\]: must lie between 0 and 3"):
        curves(problem(), inference_steps=[2, 4])
    for wrong in ([2, 2], [3, 1], [-1], [0.5], "12", 3):
        with pytest.raises(ProblemError, match=r"AdjointDescent\.inference_steps = .* increasing"):
            AdjointDescent(wrong)
    with pytest.raises(
        ProblemError, match=r"AdjointDescent\.responses = True: needs inference_steps"
    ):
        AdjointDescent(responses=True)


@pytest.mark.slow
def test_the_overlap_approaches_that_of_the_limit():
    means, errors = [], []
    for d, seeds in ((16, 80), (32, 50)):
        network = NeuralODE(PAPER, 0.75, 1.0, 10, adjoint="truncated")
        made = Problem(network, Stream(TeacherFlow()), GradientDescent(0.5, steps=10))
        found = [values(curves(made, d, seed, save_at=[10]))["m"][0] for seed in range(seeds)]
        means.append(np.mean(found))
        errors.append(np.std(found) / math.sqrt(seeds))
    # The limit of the map on this grid is 0.909; a bias of order 1/d is removed by the two sizes.
    assert abs(2 * means[1] - means[0] - 0.909) < 4 * math.hypot(2 * errors[1], errors[0])
