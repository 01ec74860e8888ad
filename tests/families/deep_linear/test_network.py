"""What a deep linear problem accepts and refuses, and the numbers it hands to the solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import learndyn as ld
from learndyn.core.record import Record
from learndyn.families.deep_linear.limit_numbers import binned_spectrum
from learndyn.families.deep_linear.network import sizes
from learndyn.families.deep_linear.solve import automatic
from learndyn.numerics.precision import float64
from learndyn.problem.weight_response import impulse_response, undriven_correlation

TRAINING = ld.GradientDescent(0.1, steps=5)
SPECTRUM = ld.Spectrum([1.0, 0.5], [1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ld.DeepLinear(0, 1.0),
            "DeepLinear.depth = 0: must be a whole number of at least 1",
        ),
        (lambda: ld.DeepLinear(1.5, 1.0), "DeepLinear.depth = 1.5"),
        (lambda: ld.DeepLinear(2, 0.0), "DeepLinear.width = 0.0: must be greater than 0"),
        (lambda: ld.DeepLinear(2, -1), "DeepLinear.width = -1"),
        (lambda: ld.DeepLinear(3, [1.0, 2.0]), "one for each of the 3 hidden layers"),
        (lambda: ld.DeepLinear(2, [1.0, -2.0]), "every entry must be greater than 0"),
        (lambda: ld.DeepLinear(2, 1.0, 0.0), "DeepLinear.richness = 0.0"),
        (lambda: ld.DeepLinear(2, 1.0, outputs=0), "DeepLinear.outputs = 0"),
        (lambda: ld.DeepLinear(2, 1.0, parameterization="sp"), "must be one of 'mup', 'ntk'"),
        (lambda: ld.DeepLinear(2, np.inf, parameterization="ntk"), "must be finite"),
        (
            lambda: ld.Dataset(ld.LinearMap(), ratio=0.0),
            "Dataset.ratio = 0.0: must be greater than 0",
        ),
        (lambda: ld.Dataset(ld.LinearMap(), ratio=-1.0), "Dataset.ratio = -1.0"),
        (
            lambda: ld.Dataset(ld.LinearMap()),
            "give ratio (examples per input dimension) or examples",
        ),
        (lambda: ld.Dataset(ld.LinearMap(), ratio=1.0, examples=3), "give only one of the two"),
        (lambda: ld.Dataset(ld.LinearMap(), ratio=1.0, noise=-0.1), "Dataset.noise = -0.1"),
        (
            lambda: ld.Stream(ld.LinearMap(), batch_ratio=0),
            "Stream.batch_ratio = 0: must be greater than 0",
        ),
        (
            lambda: ld.Stream(ld.LinearMap(), batch=2, batch_ratio=1.0),
            "Stream.batch and batch_ratio",
        ),
        (lambda: ld.Spectrum([1.0, -0.5], [1, 1]), "Spectrum.eigenvalues"),
        (lambda: ld.Spectrum([1.0, np.inf], [1, 1]), "every entry must be a finite number"),
        (lambda: ld.Spectrum([0.0, 0.0], [1, 1]), "must have a positive sum"),
        (lambda: ld.Spectrum([1.0, 0.5], [1.0]), "one entry per eigenvalue (2)"),
        (lambda: ld.PowerLaw(1.0, 0.5, 10), "PowerLaw.capacity = 1.0: must be greater than 1"),
        (lambda: ld.PowerLaw(1.5, 0.0, 10), "PowerLaw.source"),
        (lambda: ld.PowerLaw(1.5, 0.5, np.inf), "PowerLaw.modes"),
        (lambda: ld.PerStep([0.1, -0.1]), "PerStep.values"),
        (lambda: ld.Rows(bins=1), "Rows.bins = 1: must be a whole number of at least 2"),
        (lambda: ld.Rows(ensembles=2), "Rows.ensembles = 2"),
        (
            lambda: ld.Innovation(tolerance=0.0),
            "Innovation.tolerance = 0.0: must be at least 1e-14",
        ),
    ],
)
def test_bad_values_are_refused_by_name(make, words):
    with pytest.raises(ld.ProblemError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("network", "data", "training", "words"),
    [
        (
            ld.DeepLinear(2, 1.0),
            ld.Stream(ld.LinearMap(), batch_ratio=1.0),
            ld.GradientDescent(0.1, time=5.0),
            "training.time = 5.0: give steps instead",
        ),
        (
            ld.DeepLinear(2, 1.0),
            ld.Stream(ld.LinearMap(), batch=4),
            TRAINING,
            "data.batch = 4: give batch_ratio",
        ),
        (
            ld.DeepLinear(2, 1.0),
            ld.Dataset(ld.LinearMap(), examples=4),
            TRAINING,
            "data.examples = 4: give ratio",
        ),
        (
            ld.DeepLinear(2, 8),
            ld.Dataset(ld.LinearMap(SPECTRUM), ratio=1.0),
            TRAINING,
            "give examples",
        ),
        (ld.DeepLinear(2, 0.5), ld.Population(ld.LinearMap(SPECTRUM)), TRAINING, "whole numbers"),
        (
            ld.DeepLinear(2, 8, outputs=2),
            ld.Population(ld.LinearMap(SPECTRUM)),
            TRAINING,
            "must be 1",
        ),
        (
            ld.DeepLinear(2, 1.0),
            ld.Dataset(ld.LinearMap(), ratio=1.0),
            ld.GradientDescent(0.1, steps=5, noise=0.1),
            "training.noise = 0.1",
        ),
        (
            ld.DeepLinear(2, 1.0),
            ld.Dataset(ld.LinearMap(), ratio=1.0),
            ld.GradientDescent(0.1, steps=5, readout_learning_rate=0.2),
            "training.readout_learning_rate",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(network, data, training, words):
    with pytest.raises(ld.ProblemError) as caught:
        ld.Problem(network, data, training)
    assert words in str(caught.value)


def test_two_layer_network_refuses_the_data_of_linear_ones():
    teacher = ld.Teacher.orthonormal("erf", 1)
    network = ld.TwoLayer("erf", [[1.0]], [[0.1]])
    training = ld.GradientDescent(0.1, time=1.0)
    with pytest.raises(ld.NoTheory, match="TwoLayer on Stream of LinearMap"):
        ld.solve(ld.Problem(network, ld.Stream(ld.LinearMap()), training))
    with pytest.raises(
        ld.ProblemError, match=r"data.batch_ratio = 0.5.*it understands: task, noise, batch"
    ):
        ld.Problem(network, ld.Stream(teacher, batch_ratio=0.5), training)


@pytest.mark.parametrize(
    "data",
    [
        ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.1),
        ld.Dataset(ld.LinearMap(SPECTRUM), examples=30),
        ld.Stream(ld.LinearMap(ld.PowerLaw(1.5, 0.7, 100)), batch=3),
        ld.Population(ld.LinearMap(SPECTRUM)),
    ],
)
def test_problem_survives_its_file(data, tmp_path):
    width = 8 if data.task.spectrum else [0.5, 1.5]
    training = ld.GradientDescent(ld.PerStep([0.2, 0.1]), steps=5, momentum=0.5)
    problem = ld.Problem(ld.DeepLinear(2, width, centered=True), data, training)
    problem.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == problem


def test_infinite_width_survives_the_file_and_cannot_be_trained(tmp_path):
    problem = ld.Problem(ld.DeepLinear(2, np.inf), ld.Dataset(ld.LinearMap(), ratio=1.0), TRAINING)
    problem.to_toml(tmp_path / "problem.toml")
    assert ld.Problem.from_toml(tmp_path / "problem.toml") == problem
    with pytest.raises(ld.ProblemError, match="take a large width"):
        sizes(problem, 100)


def test_ntk_is_mup_with_a_smaller_richness():
    widths = [2.0, 3.0]
    ntk = ld.DeepLinear(2, widths, 1.2, parameterization="ntk")
    mup = ld.DeepLinear(2, widths, 1.2 / np.sqrt(3.0))
    first, second = (
        ld.solve(ld.Problem(network, ld.Dataset(ld.LinearMap(), ratio=1.0), TRAINING))["test_loss"]
        for network in (ntk, mup)
    )
    np.testing.assert_array_equal(first, second)


@given(
    st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200),
    st.integers(1, 40),
    st.integers(1, 3),
)
def test_groups_keep_trace_and_target_power(eigenvalues, bins, outputs):
    lam = np.array(eigenvalues)
    w = np.random.default_rng(0).standard_normal((outputs, len(lam)))
    mean, count, gram = binned_spectrum(lam, w, bins)
    assert len(mean) <= max(bins, 1)
    assert count.sum() == len(lam)
    assert np.all(np.diff(mean) <= 1e-12 * mean[0])
    assert mean @ count == pytest.approx(lam.sum())
    power = np.einsum("k,ck,dk->cd", lam, w, w)
    found = np.einsum("k,k,kcd->cd", mean, count, gram)
    np.testing.assert_allclose(found, power, rtol=1e-9, atol=1e-9 * np.abs(power).max())


def test_power_law_spectrum():
    lam, w = ld.PowerLaw(1.5, 0.7, 4).arrays()
    k = np.arange(1, 5)
    np.testing.assert_allclose(lam, k**-1.5)
    np.testing.assert_allclose(w[0] ** 2 * lam, k ** (-1.5 * 0.7 - 1))


def test_many_eigenvalues_are_grouped_with_a_stated_error():
    """10^5 eigenvalues: the stated accuracy covers the difference from four times as many groups."""
    spectrum = ld.PowerLaw(1.4, 0.8, 100_000)
    network = ld.DeepLinear(2, 64, 0.3, centered=True)
    data = ld.Dataset(ld.LinearMap(spectrum), examples=128, noise=0.1)
    problem = ld.Problem(network, data, ld.GradientDescent(0.2, steps=20))
    coarse, fine = (ld.solve(problem, ld.Rows(bins=bins)) for bins in (48, 192))
    assert coarse.evidence["modes"] == 48
    difference = float(abs(coarse["test_loss"] - fine["test_loss"]).max())
    assert 0 < difference < coarse.evidence["accuracy"]["test_loss"] < 0.02


@pytest.mark.parametrize("rule", ["decoupled", "coupled"])
def test_impulse_response_reproduces_a_plain_loop(rule):
    """W(t) = d(t) W(0) + Σ κ(t, s) force(s) for momentum and decay with a schedule."""
    steps, beta, decay = 9, 0.6, 0.2
    eta = np.linspace(0.3, 0.1, steps)
    training = ld.GradientDescent(
        ld.PerStep(eta), steps=steps, momentum=beta, weight_decay=decay, momentum_rule=rule
    )
    with float64():
        kappa, d = impulse_response(training, steps)
        C = undriven_correlation(training, steps)
    rng = np.random.default_rng(1)
    force, W = rng.standard_normal(steps), [0.7]
    B = 0.0
    for t in range(steps):
        if rule == "coupled":
            B = beta * B + force[t] - decay * W[-1]
            W.append(W[-1] + eta[t] * B)
        else:
            B = beta * B + eta[t] * force[t]
            W.append((1 - eta[t] * decay) * W[-1] + B)
    np.testing.assert_allclose(d * W[0] + kappa[:, :steps] @ force, W, rtol=1e-13)
    np.testing.assert_allclose(C, np.outer(d, d), rtol=1e-13)


def test_undriven_noise_is_remembered_by_the_buffer_of_the_coupled_rule():
    """C_W from a plain loop over the initial weight and the noise of every step, one at a time."""
    steps, beta, decay, tau = 7, 0.6, 0.4, 0.3
    eta = np.linspace(0.3, 0.1, steps)
    rule = {"momentum": beta, "weight_decay": decay, "noise": tau, "momentum_rule": "coupled"}
    training = ld.GradientDescent(ld.PerStep(eta), steps=steps, **rule)
    with float64():
        C = undriven_correlation(training, steps)
    columns = []
    for source in range(steps + 1):
        W, B, column = float(source == 0), 0.0, [float(source == 0)]
        for t in range(steps):
            B = beta * B - decay * W
            W = W + eta[t] * B + np.sqrt(2 * eta[t] * tau) * (source == t + 1)
            column.append(W)
        columns.append(column)
    left = np.array(columns)
    np.testing.assert_allclose(C, left.T @ left, rtol=1e-12)


@pytest.mark.parametrize(
    ("data", "network", "steps", "method"),
    [
        (ld.Dataset(ld.LinearMap(), ratio=2.0), {}, 30, ld.Rows()),
        (ld.Dataset(ld.LinearMap(), ratio=2.0), {}, 3000, ld.Innovation()),
        (
            ld.Dataset(ld.LinearMap(), ratio=2.0),
            {"richness": 1e-4, "centered": True},
            3000,
            ld.Rows(),
        ),
        (ld.Stream(ld.LinearMap(), batch_ratio=2.0), {}, 30, ld.Rows()),
        (ld.Stream(ld.LinearMap(), batch_ratio=2.0), {}, 100_000, ld.Innovation()),
        (ld.Stream(ld.LinearMap(), batch_ratio=2.0), {"skip": 0.5}, 1000, ld.Rows()),
        (ld.Stream(ld.LinearMap(), batch_ratio=2.0), {"skip": 0.5}, 3000, ld.Innovation()),
        (ld.Dataset(ld.LinearMap(), ratio=2.0), {"skip": 0.5}, 3000, ld.Rows()),
        (
            ld.Dataset(ld.LinearMap(), ratio=2.0),
            {"skip": ld.ScaledSkip(1.0), "depth": np.inf},
            30,
            ld.LayerNodes(),
        ),
    ],
    ids=[
        "short",
        "long",
        "lazy",
        "stream",
        "long stream",
        "residual stream",
        "long residual stream",
        "residual",
        "infinite depth",
    ],
)
def test_method_is_chosen_by_the_length_of_the_training_and_what_suits_it(
    data, network, steps, method
):
    network = ld.DeepLinear(**{"depth": 2, "width": 1.0} | network)
    made = ld.Problem(network, data, ld.GradientDescent(0.01, steps=steps))
    assert automatic(made, Record.of(made.training)) == method
    # What counts is the last recorded step.
    if method == ld.Innovation():
        assert automatic(made, Record.of(made.training, [0, 30])) == ld.Rows()


def test_method_is_in_the_evidence():
    made = ld.Problem(
        ld.DeepLinear(2, 1.0),
        ld.Dataset(ld.LinearMap(), ratio=2.0),
        ld.GradientDescent(0.01, steps=30),
    )
    for method, form in ((None, "rows"), (ld.Innovation(), "innovation")):
        evidence = ld.solve(made, method).evidence
        assert evidence["form"] == form
        assert evidence["method"] == (method or ld.Rows()).to_dict()


def test_diverging_training_ends_the_curve():
    problem = ld.Problem(
        ld.DeepLinear(2, 0.8),
        ld.Dataset(ld.LinearMap(), ratio=1.2),
        ld.GradientDescent(0.6, steps=60),
    )
    for method in (ld.Rows(), ld.Innovation()):
        theory = ld.solve(problem, method)
        reached = len(theory["test_loss"])
        assert theory.diverged_at == reached < 60
        assert np.isfinite(theory["C_h"].values).all()
        late = ld.solve(problem, method, save_at=[30, 60])
        assert late.diverged_at == 30
        assert late["C_h"].shape == (2, 0, 1, 0, 1)
    runs = ld.simulate(problem, 60, 4)
    assert runs.diverged_at is not None


def test_long_row_recursion_is_refused_where_memory_is_short(monkeypatch):
    from learndyn import memory

    class Little:
        available = 1e6

    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: Little)
    problem = ld.Problem(
        ld.DeepLinear(2, 0.8),
        ld.Dataset(ld.LinearMap(), ratio=1.2),
        ld.GradientDescent(0.1, steps=200),
    )
    with pytest.raises(ld.NotEnoughMemory, match="use Innovation or fewer steps"):
        ld.solve(problem, ld.Rows())
    with pytest.raises(ld.NotEnoughMemory, match="use Innovation or fewer steps"):
        ld.start(problem, method=ld.Rows())
