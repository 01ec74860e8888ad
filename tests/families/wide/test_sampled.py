"""Sampled layers: exact where they must be, and noticed where a term is missing."""

import dataclasses
import inspect
import textwrap
from functools import partial

import numpy as np
import pytest
from scipy.stats import t as student_t

import learndyn as ld
from learndyn.core.batches import pseudovalues
from learndyn.families.wide import solve as methods
from learndyn.families.wide.forward import ForwardPass
from learndyn.families.wide.problem_arrays import wide_setting
from learndyn.numerics.precision import float64
from learndyn.numerics.statistics import mean_and_error
from learndyn.programs import Limit, gaussian, mean, run, sites
from learndyn.sampling.losses import loss_on_points
from learndyn.sampling.rules import descent_rule
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
NAMES = ("prediction", "test_prediction", "train_loss", "Phi", "G", "kernel")


def deep(points=10, steps=30, rate=0.5, activation="tanh", depth=3, richness=1.0):
    """Random points in 30 dimensions with targets ±1, the mean loss."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((points, 30))
    data = ld.Points(inputs, np.sign(rng.standard_normal(points)))
    training = ld.GradientDescent(rate, steps=steps)
    return ld.Problem(ld.Wide(depth, activation, richness), data, training)


def sampled(asked, samples=1024, batches=2, seed=0, save_at=None, **options):
    method = ld.SampledLayers(samples=samples, batches=batches, **options)
    return ld.solve(asked, method, save_at=save_at or [asked.training.steps], seed=seed)


@pytest.mark.parametrize(
    ("depth", "precision"),
    [
        *((1, "double"), (2, "single"), (3, "double")),
        *(
            pytest.param(*other, marks=pytest.mark.slow)
            for other in ((1, "single"), (2, "double"), (3, "single"))
        ),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_linear_units_are_sampled_exactly(depth, rule, precision):
    """Even normals make the sample covariances of linear fields exact.

    What is left is what matrices drop, 1e-6 of a vector, squared in predictions; in single precision it is 3e-3, with a
    factor of ten for ten steps and three layers.
    """
    bias, outputs = rule == "noise", 1 if rule == "logistic" else 2
    asked = problem(activation="linear", depth=depth, outputs=outputs, bias=bias, **RULES[rule])
    drop = 1e-6 if precision == "double" else None
    method = ld.SampledLayers(samples=256, batches=2, precision=precision, drop=drop)
    found, exact = ld.solve(asked, method), ld.solve(asked, ld.LinearRows())
    outputs_within, kernels_within = (3e-8, 3e-7) if precision == "double" else (9e-5, 3e-3)
    for name in NAMES:
        within = outputs_within if "prediction" in name or "loss" in name else kernels_within
        np.testing.assert_allclose(found[name], exact[name], rtol=0, atol=within, err_msg=name)


def test_noise_in_single_precision_needs_a_drop_above_rounding():
    asked = problem(activation="linear", depth=3, temperature=0.05)
    with pytest.raises(
        ld.ProblemError, match=r"SampledLayers\.drop = 1e-05: must be at least 0\.0003"
    ):
        ld.solve(asked, ld.SampledLayers(samples=256, drop=1e-5))


@pytest.mark.parametrize(
    ("drop", "within"),
    [(1e-3, 3e-4), pytest.param(1e-4, 3e-6, marks=pytest.mark.slow), (1e-6, 1e-9)],
)
def test_linear_units_are_as_exact_as_little_is_dropped(drop, within):
    asked = deep(activation="linear")
    method = ld.SampledLayers(samples=256, batches=2, precision="double", drop=drop)
    found = ld.solve(asked, method, save_at=31)
    exact = ld.solve(asked, ld.LinearRows(), save_at=31)
    assert np.max(np.abs(found["prediction"].values - exact["prediction"].values)) < within


@pytest.mark.parametrize(
    ("single", "start", "identity"), [(False, 1e-13, 1e-12), (True, 1e-7, 3e-6)]
)
@pytest.mark.parametrize(("activation", "depth"), [("tanh", 1), ("relu", 2), ("erf", 3)])
def test_outputs_start_at_zero_and_the_readout_obeys_its_identity(
    activation, depth, single, start, identity
):
    """q(t+1) = q(t) + 2ηγ_0² Σ E f + η²γ_0² Σ EΦE for q = ⟨w²⟩, at finite η and any number of samples, to rounding."""
    eta, gamma = 0.1, 1.3
    asked = problem(activation=activation, depth=depth, steps=5, richness=gamma)
    setting = with_float64(lambda: wide_setting(asked, 5))
    norms, moved = [], []

    def program(net):
        forward, trained = ForwardPass(net, asked), slice(setting.trained)
        train, loss = descent_rule(net, asked.training, gamma), loss_on_points("squared", "sum")
        for _ in net.steps(5):
            fields = forward(trained)
            f, Phi = fields.f.data[:, 0], fields.phi[-1].data.astype(float)
            E = setting.loss.force(fields.f.data)[:, 0]
            norms.append(float(mean(forward.w * forward.w).data[0]))
            kernel = Phi @ Phi.T / Phi.shape[1]
            moved.append(2 * eta * gamma**2 * E @ f + eta**2 * gamma**2 * E @ kernel @ E)
            net.record(f=forward(slice(None)).f)
            train.step(loss(fields.f, setting.loss.targets))

    outcome = run(program, None, Limit(128, drop=3e-3, single=single))
    assert np.max(np.abs(outcome.records["f"][0])) < start
    np.testing.assert_allclose(np.diff(norms), moved[:-1], rtol=0, atol=identity)
    assert moved[0] > 1e-3


def with_float64(function):
    with float64():
        return function()


def test_readouts_that_know_the_features_would_not_start_at_zero(monkeypatch):
    """What is broken: the readout is drawn without looking at the features."""
    source = inspect.getsource(ForwardPass.__init__)
    names = dict(vars(inspect.getmodule(ForwardPass)))
    exec(textwrap.dedent(source).replace(", apart_from=features[-1]", ""), names)
    monkeypatch.setattr(ForwardPass, "__init__", names["__init__"])
    found = ld.solve(problem(depth=2), ld.SampledLayers(samples=128, batches=2), save_at=2)
    assert np.max(np.abs(found["prediction"].values[0])) > 1e-4


BROKEN = {
    "responses of features": ("_forced", "if not self.tied", "if not transposed", 0.24),
    "responses of gradients": ("_forced", "if not self.tied", "if transposed", 0.12),
    "memory of gradients": (
        "apply_transposed",
        "trained = self.rho",
        "trained = 0 * self.rho",
        0.16,
    ),
}
"""By how much outputs move without a term, in a network of three tanh layers within 30 steps."""


@pytest.fixture(scope="module")
def right():
    """Outputs with all terms."""
    return sampled(deep(), save_at=7)["prediction"].values


@pytest.mark.parametrize("name", BROKEN)
def test_a_missing_term_moves_the_outputs(name, right, monkeypatch):
    function, text, instead, size = BROKEN[name]
    source = textwrap.dedent(inspect.getsource(getattr(gaussian.Gaussian, function)))
    assert source.count(text) == 1
    names = dict(vars(gaussian))
    exec(source.replace(text, instead), names)
    monkeypatch.setattr(gaussian.Gaussian, function, names[function])
    wrong = sampled(deep(), save_at=7)["prediction"].values
    # Sampling errors are a hundredth; the sizes were measured on other points.
    assert np.max(np.abs(wrong - right)) > size / 3


def test_normals_that_are_not_projected_make_linear_units_inexact(monkeypatch):
    asked = deep(activation="linear", rate=0.1)
    exact = ld.solve(asked, ld.LinearRows(), save_at=[30])["prediction"]

    def innovations(self, count, V, rng):
        return self._drawn(count, rng)

    monkeypatch.setattr(sites.Samples, "innovations", innovations)
    found = sampled(asked, 256, precision="double", drop=1e-6)["prediction"]
    assert np.max(np.abs(found - exact)) > 3e-3


@pytest.mark.slow
def test_directions_follow_the_path_and_not_the_steps():
    """The same training time in eight times the steps: features ask for 20 % more directions at most, all for 30 %."""
    few, many = (
        np.array(list(sampled(deep(10, n, 25 / n)).evidence["ranks"].values())) for n in (50, 400)
    )
    assert many[:, 0].sum() < 1.2 * few[:, 0].sum()
    assert many.sum() < 1.3 * few.sum()


def test_single_precision_is_enough():
    """Rounding is another draw: means over batches agree within their errors."""
    asked = problem(activation="tanh", depth=2, steps=12, richness=2.0, rate=0.3)
    runs = [
        [
            sampled(asked, 512, 2, seed, precision=precision)["prediction"].values
            for seed in range(8)
        ]
        for precision in ("single", "double")
    ]
    a, b = (np.asarray(x).reshape(8, -1) for x in runs)
    error = np.sqrt(a.var(0, ddof=1) / 8 + b.var(0, ddof=1) / 8)
    # Bonferroni over a handful of entries, at 1e-4.
    bound = student_t.isf(1e-4 / 2 / a.shape[1], 7)
    assert np.all(np.abs(a.mean(0) - b.mean(0)) < bound * error)


@pytest.mark.slow
def test_four_times_the_samples_have_less_than_half_the_error():
    asked = deep()
    errors = [
        float(
            np.sqrt(
                np.mean(not_none(sampled(asked, S, 8).standard_error("prediction")).values ** 2)
            )
        )
        for S in (4096, 16384)
    ]
    assert errors[1] < 0.5 * errors[0]


def test_too_few_samples_are_refused_in_words():
    asked = deep(steps=20, activation="relu", depth=2)
    with pytest.raises(
        ld.ProgramError, match=r"64 samples are too few: the dimension .* Try samples=\d+"
    ):
        ld.solve(asked, ld.SampledLayers(samples=64))


def test_as_many_samples_are_taken_as_a_tolerance_needs():
    found = ld.solve(problem(depth=2), ld.SampledLayers(tolerance=4e-3), save_at=3)
    for name in ("prediction", "train_loss", "Phi", "G", "kernel"):
        scale = max(1.0, float(np.max(np.abs(found[name]))))
        assert np.max(not_none(found.standard_error(name))) <= 4e-3 * scale, name
    assert found.evidence["tolerance"] == 4e-3


@pytest.mark.parametrize(
    ("activation", "depth"),
    [("tanh", 2), pytest.param("relu", 2, marks=pytest.mark.slow), ("erf", 1)],
)
def test_lazy_networks_follow_the_static_kernel(activation, depth):
    """γ_0 → 0: corrections are of order γ_0² = 1e-4, the rest is the sampling error."""
    asked = problem(activation=activation, depth=depth, steps=6, richness=1e-2, rate=0.2)
    full = ld.solve(asked, ld.SampledLayers(samples=1024, batches=8))
    lazy = ld.solve(asked, ld.StaticKernel())
    error = not_none(full.standard_error("prediction"))
    assert np.all(np.abs(full["prediction"] - lazy["prediction"]) < 6 * error + 1e-3)
    assert np.max(np.abs(lazy["prediction"])) > 0.3


def test_kernels_are_symmetric_and_positive():
    """To the rounding of single precision."""
    found = ld.solve(problem(depth=2, steps=6), ld.SampledLayers(samples=256, batches=2))
    for name in ("Phi", "G"):
        for kernel in found[name].values:
            flat = kernel.reshape(2 * [7 * 4])
            np.testing.assert_allclose(flat, flat.T, atol=1e-6)
            assert np.linalg.eigvalsh(flat)[0] > -1e-6 * np.max(flat)


def test_training_that_diverges_before_the_first_recorded_step_has_empty_curves():
    for depth in (1, 2):
        asked = problem(activation="tanh", depth=depth, steps=60, rate=100.0)
        found = ld.solve(asked, ld.SampledLayers(samples=256, batches=2), save_at=[59, 60])
        assert found.diverged_at == 59
        assert found["Phi"].shape == (depth, 0, 4, 0, 4)


def test_held_out_points_change_no_trained_one():
    """They are other draws: the difference is within the standard errors."""
    with_test = problem(activation="tanh", depth=2, richness=1.5, rate=0.2)
    data = dataclasses.replace(with_test.data, test_inputs=None, test_targets=None)
    found, alone = (
        ld.solve(asked, ld.SampledLayers(samples=1024), save_at=[10])
        for asked in (with_test, dataclasses.replace(with_test, data=data))
    )
    error = np.hypot(*(not_none(x.standard_error("prediction")).values for x in (found, alone)))
    # Student's t with seven degrees of freedom exceeds 5.4 in one of a thousand.
    assert np.all(np.abs(found["prediction"].values - alone["prediction"].values) < 5.4 * error)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_independent_gradients_of_linear_units_are_the_exact_ones(depth, monkeypatch):
    """As if they were not linear; two layers of samples drop 3e-3 of a vector."""
    asked = problem(activation="linear", depth=depth, outputs=2)
    exact = ld.solve(asked, ld.GradientIndependence())
    monkeypatch.setattr(methods, "is_linear", lambda activation: False)
    found = ld.solve(asked, ld.GradientIndependence(samples=256, batches=2, precision="double"))
    assert found.evidence["solver"] == "independent gradients"
    np.testing.assert_allclose(found["prediction"], exact["prediction"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(found["kernel"], exact["kernel"], rtol=0, atol=3e-3)


def products(solution, setting):
    """A C_W G and B C_W Φ, which are well defined where A and B are not."""
    A, B, Phi, G = (solution[name].values for name in ("A", "B", "Phi", "G"))
    C_W = setting.C_W[:, None, :, None]
    G = C_W[:, :, None, :, :, None] * G[1:]
    return (
        np.einsum("ltmsac,lsacubd->ltmubd", A[:-1], G),
        np.einsum("ltmcsa,lsaub->ltmcub", B[1:], C_W * (Phi[:-1] + setting.bias)),
    )


@pytest.mark.parametrize("rule", ["descent", "momentum and decay"])
@pytest.mark.parametrize("depth", [2, 3])
def test_responses_of_linear_units(depth, rule):
    """Entries are not defined where fields stand still; their products with kernels are the exact ones."""
    asked = problem(activation="linear", depth=depth, test_points=0, steps=6, **RULES[rule])
    setting = with_float64(lambda: wide_setting(asked, 6))
    found = ld.solve(asked, ld.SampledLayers(samples=256, batches=2, responses=True))
    exact = ld.solve(asked, ld.LinearRows())
    for mine, theirs in zip(products(found, setting), products(exact, setting), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)
        assert np.max(np.abs(theirs)) > 0.05


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"temperature": 0.1}, "with Langevin noise"),
        ({"steps": None, "time": 1.0}, "gradient flow"),
    ],
)
def test_responses_that_are_not_known_are_refused(fields, words):
    with pytest.raises(ld.ProblemError, match=rf"SampledLayers\.responses = True: .*{words}"):
        ld.solve(problem(depth=2, **fields), ld.SampledLayers(responses=True))


@pytest.mark.slow
def test_many_points_and_steps_of_a_relu_are_right():
    """Two layers, 20 points, 50 steps: integration by parts with 1024 samples was 28 % low here, without a word.

    Against networks of two widths, extrapolated in 1/N: within four standard errors, which are below 7 %. The loss is
    that of mean outputs, jackknifed, because the outputs of single networks scatter.
    """
    asked = deep(20, 50, activation="relu", depth=2)
    asked = dataclasses.replace(asked, network=ld.Wide(2, "relu", 1.0, centered=True))
    saved, y = [30, 40, 50], asked.data.targets
    found = ld.solve(asked, save_at=saved)
    coarse, fine = (
        ld.simulate(asked, width, 280, save_at=saved)["prediction"].values[..., 0]
        for width in (256, 512)
    )
    each = pseudovalues(lambda f: {"loss": 0.5 * np.mean((y - f) ** 2, axis=-1)}, 2 * fine - coarse)
    networks, spread = mean_and_error(each["loss"])
    error = np.hypot(spread, not_none(found.standard_error("train_loss")).values)
    assert np.all(error < 0.07 * networks)
    assert np.all(np.abs(found["train_loss"].values - networks) < 4 * error)
