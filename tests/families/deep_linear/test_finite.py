"""Finite deep linear networks: steps are gradient steps, records are what they say, seeds are reproducible."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learndyn.core.record import Record
from learndyn.core.simulate import simulate, trained
from learndyn.core.theory import theory_for
from learndyn.errors import NotEnoughMemory, ProblemError
from learndyn.families.deep_linear.finite import Descent, draw, finite_spec, random_input
from learndyn.families.deep_linear.network import DeepLinear
from learndyn.numerics.delayed import DELAY
from learndyn.numerics.precision import float64
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import ExponentialDecay
from learndyn.problem.spectra import PowerLaw, Spectrum
from learndyn.problem.supplies import Dataset, Population, Stream
from learndyn.problem.tasks import LinearMap
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import Step
from tests import problems

SIZE = 12
SPECTRUM = Spectrum(
    np.linspace(1.5, 0.1, SIZE), np.random.default_rng(8).standard_normal((2, SIZE))
)
DATA = {
    "dataset": Dataset(LinearMap(), ratio=0.8, noise=0.3),
    "stream": Stream(LinearMap(), noise=0.3, batch_ratio=0.5),
    "population": Population(LinearMap(), noise=0.3),
    "dataset, spectrum": Dataset(LinearMap(SPECTRUM), examples=7, noise=0.3),
    "stream, spectrum": Stream(LinearMap(SPECTRUM), noise=0.3, batch=5),
    "population, spectrum": Population(LinearMap(SPECTRUM), noise=0.3),
}


UNEQUAL = (0.5, 1.5, 0.75)
problem = partial(problems.deep_linear, depth=3, width_ratio=UNEQUAL, outputs=2, centered=True)


def curves(made, size=SIZE, seed=0, save_at=None, partners=False):
    return reported(made, size, seed, save_at, partners, lambda fraction: None)


def reported(made, size, seed, save_at, partners, report):
    theory = theory_for(made)
    with float64():
        record = Record.of(made.training, save_at)
        ensemble = theory.train(made, size, Descent(partners), record)
        return trained(theory.table_of(made), ensemble, seed, report)


def values(found):
    return found.arrays


def function(weights, made):
    """The function's coefficients θ_c, f_c(x) = θ_c·x, as the network's docstring defines them (Nc × D)."""
    theta = weights[-1] / (made.sizes.N[-1] * made.gamma)
    for W, n in zip(weights[-2:0:-1], made.sizes.N[-2::-1], strict=True):
        image = theta @ W / np.sqrt(n)
        theta = image if made.branch is None else theta + made.branch * image
    return theta @ weights[0]


def weights_of(network):
    """Copies of W^0 … W^{L−1} and w."""
    return [W.settle().copy() for W in network.matrices] + [network.w.copy()]


def labels(made, target, X, noise):
    """y (Nc × P); isotropic data have w*·x/√D."""
    return target @ X.T / made.r[0] + noise


@pytest.mark.parametrize(
    ("centered", "skip"),
    [
        pytest.param(True, None, id="centred-feedforward"),
        pytest.param(False, 0.6, id="uncentred-residual"),
        pytest.param(True, 0.6, id="centred-residual", marks=pytest.mark.slow),
        pytest.param(False, None, id="uncentred-feedforward", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("case", DATA)
def test_one_step_is_a_gradient_step(case, centered, skip):
    """Against `jax.grad` of ½ Σ_c ⟨(y − f)²⟩ on the examples of a later step, for every weight; rounding is 1e-14."""
    with float64():
        width = UNEQUAL if skip is None else [0.75] * 3
        setup = problem(data=DATA[case], width_ratio=width, centered=centered, skip=skip)
        made, eta = finite_spec(setup, SIZE), setup.training.learning_rate
        (source,), ((network,),), target = draw(made, 3, False)
        start = weights_of(network)
        step = Step.of(eta, 0.0, 0.0, coupled=False)
        network.step(network.fields(source.at(0)), step)
        before = weights_of(network)
        examples = source.at(1)

        def loss(weights):
            theta = function(weights, made) - centered * function(start, made)
            if examples is None:
                return jnp.sum(made.lam * (target / made.r[0] - theta) ** 2) / 2
            X, noise = examples
            return jnp.sum((labels(made, target, X, noise) - theta @ X.T) ** 2) / (2 * len(X))

        slopes = jax.grad(loss)([jnp.asarray(W) for W in before])
        network.step(network.fields(examples), step)
        rate = made.sizes.N[-1] * made.gamma**2 * eta
        for old, slope, new in zip(before, slopes, weights_of(network), strict=True):
            assert np.abs(slope).max() > 1e-4
            np.testing.assert_allclose(new, old - rate * np.asarray(slope), rtol=0, atol=1e-10)


RULES = {
    "plain": {},
    "momentum": {"momentum": 0.6},
    "decay": {"weight_decay": 0.4},
    "both, schedule": {"momentum": 0.6, "weight_decay": 0.4},
    "coupled, schedule": {"momentum": 0.6, "weight_decay": 0.4, "momentum_rule": "coupled"},
    "coupled, no momentum": {"weight_decay": 0.4, "momentum_rule": "coupled"},
}
STEP = Step.of(0.05, 0.0, 0.0, coupled=False)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", ["dataset", "dataset, spectrum", "population"])
def test_training_is_the_plain_loop(case, rule):
    """All records after more steps than forces are held back, against a loop that updates dense matrices.

    Rounding errors, 1e-16 a step, grow by at most the factor 10³ by which products of weights could amplify them.
    """
    rate = ExponentialDecay(0.05, 0.02) if "schedule" in rule else 0.05
    steps = 2 * DELAY + 5
    setup = problem(data=DATA[case], rate=rate, steps=steps, **RULES[rule])
    with float64():
        made = finite_spec(setup, SIZE)
        (source,), ((network,),), target = draw(made, 1, False)
        W = weights_of(network)
        examples = source.at(0)
    eta = [0.05 * np.exp(-0.02 * t) if "schedule" in rule else 0.05 for t in range(steps)]
    beta, decay = setup.training.momentum, setup.training.weight_decay
    r, gamma, depth = made.r, made.gamma, len(W) - 1
    start, B = function(W, made), [np.zeros_like(M) for M in W]
    rows = []
    for t in range(steps + 1):
        g = [W[-1]]
        for layer in range(depth - 1, 0, -1):
            g.insert(0, g[0] @ W[layer] / r[layer])
        v = target - r[0] * (function(W, made) - start)
        h, Delta = [made.lam * v], np.zeros((2, 1))
        if examples is not None:
            Delta = v @ examples[0].T / r[0] + examples[1]
            h = [r[0] / len(examples[0]) * Delta @ examples[0]]
        for layer in range(depth):
            h.append(h[-1] @ W[layer].T / r[layer])
        rows.append((v, Delta, *h, *g))
        if t == steps:
            break
        forces = [gamma / r[k] * g[k].T @ h[k] for k in range(depth)] + [gamma * h[-1]]
        for k, force in enumerate(forces):
            if "coupled" in rule:
                B[k] = beta * B[k] + force - decay * W[k]
                W[k] = W[k] + eta[t] * B[k]
            else:
                B[k] = beta * B[k] + eta[t] * force
                W[k] = (1 - eta[t] * decay) * W[k] + B[k]
    v, Delta, *fields = (np.stack(column) for column in zip(*rows, strict=True))
    h, g = fields[: depth + 1], fields[depth + 1 :]
    expected = {
        "test_loss": np.einsum("tck,tck,k->t", v, v, made.lam * np.ones(SIZE)) / r[0] ** 2
        + 2 * 0.3**2,
        "C_v": _gram(v * np.sqrt(made.lam), r[0] ** 2),
        "C_h0": _gram(h[0], r[0] ** 2),
        "C_h": np.stack([_gram(x, x.shape[-1]) for x in h[1:]]),
        "C_g": np.stack([_gram(x, x.shape[-1]) for x in g]),
    }
    if "spectrum" in case:
        # Three inputs of different variances, and the others of one.
        expected["mode_loss"] = np.einsum("tck,k,km->tm", v**2, made.lam, _same(made.lam))
        overlap = np.einsum("tck,ck,k,km->tm", v, target, made.lam, _same(made.lam))
        power = np.einsum("ck,k,km->m", target**2, made.lam, _same(made.lam))
        expected["transfer"] = overlap / power
    if examples is not None:
        P = Delta.shape[-1]
        expected |= {"train_loss": np.sum(Delta**2, (1, 2)) / P, "C_Delta": _gram(Delta, P)}
    found = values(curves(setup, seed=1))
    assert set(found) == {*expected, "alignment", "kernel"}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-11, atol=1e-12, err_msg=name)


def _same(lam):
    """Which inputs (rows) have which of the eigenvalues (columns), the largest first."""
    return (lam[:, None] == np.unique(lam)[::-1]).astype(float)


def _gram(x, n):
    return np.einsum("tck,sdk->tcsd", x, x) / n


@pytest.mark.parametrize("skip", [None, 0.6])
@pytest.mark.parametrize("case", ["dataset", "dataset, spectrum"])
def test_the_tangent_kernel_is_that_of_the_jacobian(case, skip):
    """N_L γ_0² Σ (∂f/∂W)² at an input of length 1, the learning rate included; equal up to rounding."""
    with float64():
        width = UNEQUAL if skip is None else [0.75] * 3
        setup = problem(data=DATA[case], width_ratio=width, skip=skip)
        spec = finite_spec(setup, SIZE)
        _, ((network,),), _ = draw(spec, 3, False)
        W, x = weights_of(network), random_input(spec, 3)
        scaled = jax.jacobian(lambda weights: function(weights, spec) @ x[0])(W)
        flat = np.concatenate([np.reshape(J, (len(W[-1]), -1)) for J in scaled], axis=1)
        found = network.tangent_kernel(network.fields(None).g, x)
    np.testing.assert_allclose(
        found, spec.sizes.N[-1] * spec.gamma**2 * flat @ flat.T, rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("case", DATA)
def test_recorded_losses_are_those_of_the_function(case):
    """Direct evaluation of y and f on the step's examples, and of the expected error; equal up to rounding."""
    setup = problem(data=DATA[case], centered=False)
    found = values(curves(setup, seed=4, save_at=[0, 2, 6]))
    with float64():
        made = finite_spec(setup, SIZE)
        (source,), ((network,),), target = draw(made, 4, False)
    test, train, cosine = [], [], []
    for t in range(7):
        examples, theta = source.at(t), function(weights_of(network), made)
        goal = target / made.r[0]
        test.append(np.sum(made.lam * (goal - theta) ** 2) + 2 * 0.3**2)
        lengths = np.sum(made.lam * goal**2) * np.sum(made.lam * theta**2)
        cosine.append(np.sum(made.lam * goal * theta) / np.sqrt(lengths))
        if examples is not None:
            errors = labels(made, target, *examples) - theta @ examples[0].T
            train.append(np.sum(errors**2) / len(examples[0]))
        network.step(network.fields(examples), STEP)
    np.testing.assert_allclose(found["test_loss"], np.array(test)[[0, 2, 6]], rtol=1e-11)
    np.testing.assert_allclose(found["alignment"], np.array(cosine)[[0, 2, 6]], atol=1e-11)
    assert ("train_loss" in found) == bool(train)
    assert ("C_Delta" in found) == case.startswith("dataset")
    if train:
        np.testing.assert_allclose(found["train_loss"], np.array(train)[[0, 2, 6]], rtol=1e-11)


@pytest.mark.bitwise
@pytest.mark.parametrize("partners", [False, True])
@pytest.mark.parametrize(
    "data", [Dataset(LinearMap(), ratio=0.8), Stream(LinearMap(), noise=0.2, batch_ratio=0.5)]
)
def test_recorded_steps_do_not_change_the_run(data, partners):
    """Over several blocks of batches: one holds 74 steps here."""
    setup = problem(data=data, steps=150, rate=0.02)
    often, seldom = (curves(setup, 84, 2, save_at, partners) for save_at in (None, [75, 150]))
    assert often.times.tolist() == list(range(151))
    assert seldom.times.tolist() == [75, 150]
    often, seldom = values(often), values(seldom)
    for name in ("test_loss", "train_loss", "alignment") + ("bias",) * partners:
        np.testing.assert_array_equal(often[name][[75, 150]], seldom[name])


@pytest.mark.bitwise
def test_partners_do_not_change_the_run():
    setup = problem(supply="stream", batch_ratio=0.5, noise=0.2)
    alone, among = values(curves(setup)), values(curves(setup, partners=True))
    overlaps = {"bias", "overlap_same_data", "overlap_same_weights"}
    assert set(among) - set(alone) == overlaps
    for name in alone:
        np.testing.assert_array_equal(alone[name], among[name])


def test_seeds_differ():
    setup = problem(supply="dataset", ratio=0.8)
    first, second = (curves(setup, seed=s)["C_v"] for s in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("case", ["dataset", "stream", "stream, spectrum"])
def test_partners_share_what_they_should(case):
    """Rows of the grid learn from one source, columns start from the same weights; all have one target."""
    with float64():
        made = finite_spec(problem(data=DATA[case], centered=False), SIZE)
        sources, networks, target = draw(made, 0, True)
    assert (len(sources), len(networks), len(networks[0])) == (2, 2, 2)
    for a, b in zip(*(source.at(0) for source in sources), strict=True):
        assert a.shape == b.shape
        assert not np.any(a == b)
    (aa, ab), (ba, bb) = [[weights_of(network) for network in row] for row in networks]
    for same, other in ((aa, ba), (ab, bb)):
        for a, b in zip(same, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not any(np.any(a == b) for a, b in zip(aa, ab, strict=True))
    for row in networks:
        for network in row:
            np.testing.assert_array_equal(network.target, target)


@pytest.mark.parametrize("case", DATA)
def test_overlaps_are_those_of_the_four_networks(case):
    setup = problem(data=DATA[case])
    found = values(curves(setup, partners=True))
    with float64():
        made = finite_spec(setup, SIZE)
        sources, networks, _ = draw(made, 0, True)
    v = []
    for t in range(7):
        rows = []
        for source, row in zip(sources, networks, strict=True):
            fields = [network.fields(source.at(t)) for network in row]
            rows.append([one.v for one in fields])
            for network, forces in zip(row, fields, strict=True):
                network.step(forces, STEP)
        v.append(rows * (2 // len(rows)))
    inner = np.einsum("tijck,tabck,k->tijab", v, v, made.lam * np.ones(SIZE)) / made.r[0] ** 2
    expected = {
        "overlap_same_data": (inner[:, 0, 0, 0, 1] + inner[:, 1, 0, 1, 1]) / 2,
        "overlap_same_weights": (inner[:, 0, 0, 1, 0] + inner[:, 0, 1, 1, 1]) / 2,
        "bias": (inner[:, 0, 0, 1, 1] + inner[:, 0, 1, 1, 0]) / 2,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-11, atol=1e-13, err_msg=name)
    if case.startswith("population"):
        np.testing.assert_allclose(found["overlap_same_data"], found["bias"], rtol=1e-13)


def test_shared_data_and_shared_weights_correlate_the_errors():
    """Noisy labels, P = D/2, N = D/2: networks with the same label noise, or the same weights, err alike.

    Over sixteen seeds the differences to the bias exceed five standard errors of their mean.
    """
    network = DeepLinear(2, 0.5, richness=0.7)
    setup = Problem(
        network, Dataset(LinearMap(), ratio=0.5, noise=1.0), GradientDescent(0.05, steps=60)
    )
    runs = [values(curves(setup, 160, seed, [0, 60], partners=True)) for seed in range(16)]
    for name in ("overlap_same_data", "overlap_same_weights"):
        excess = np.array([run[name] - run["bias"] for run in runs])[:, -1]
        assert excess.mean() > 5 * excess.std(ddof=1) / np.sqrt(16)
    np.testing.assert_allclose(runs[0]["overlap_same_data"][0], runs[0]["bias"][0], rtol=1e-13)


def test_axes_and_evidence():
    one = simulate(problem(supply="dataset", ratio=0.8, outputs=1), SIZE, save_at=[0, 3])
    two = simulate(problem(supply="dataset", ratio=0.8), SIZE, save_at=[0, 3])
    assert one.axis == "step"
    assert one.diverged_at is None
    axes = ("seed", "layer", "step", "output", "step2", "output2")
    assert one["C_h"].dims == two["C_g"].dims == axes
    assert one["C_h"].shape == (1, 3, 2, 1, 2, 1)
    assert two["C_Delta"].shape == (1, 2, 2, 2, 2)
    assert two.evidence["sizes"] == {"D": 12, "N": [6, 18, 9], "examples": 10}
    assert two["layer"].values.tolist() == [1, 2, 3]
    assert two["step2"].values.tolist() == [0, 3]


@pytest.mark.parametrize("case", ["dataset", "stream, spectrum", "population"])
def test_diverging_network_ends_where_it_diverges(case):
    found = curves(problem(data=DATA[case], rate=30.0, steps=60), save_at=[0, 1, 20, 40, 60])
    assert found.diverged_at in (1.0, 20.0)
    assert len(found.times) == len(found["test_loss"])
    assert found["C_h"].shape[1] == found["C_h"].shape[3] == len(found.times)
    for name, value in values(found).items():
        assert np.isfinite(value).all(), name


def test_seeds_that_diverge_before_the_first_recorded_step_are_not_known():
    """Some of six small networks outlive the first ten steps: the others are NaN, as after a divergence."""
    made = Problem(
        DeepLinear(2, 0.8), Dataset(LinearMap(), ratio=1.2), GradientDescent(0.3, steps=60)
    )
    runs = simulate(made, 10, 6, save_at=[10, 60])
    unknown = np.isnan(runs["test_loss"].sel(step=10))
    assert 0 < unknown.sum() < 6
    assert np.isnan(runs["C_h"].sel(step=10)[unknown]).all()
    assert np.isfinite(runs["C_h"].sel(step=10, step2=10)[~unknown]).all()
    assert runs.diverged_at == 10


def test_run_reports_and_stops_when_told():
    class Stop(Exception):
        pass

    seen = []

    def report(fraction):
        seen.append(fraction)
        if fraction > 0.5:
            raise Stop

    with pytest.raises(Stop):
        reported(problem(supply="dataset", ratio=0.8), SIZE, 0, None, False, report)
    assert seen == sorted(seen)
    assert 0.5 < seen[-1] < 1


def test_impossible_sizes_are_refused():
    with pytest.raises(ProblemError, match=r"size = 1: is too small"):
        curves(problem(supply="dataset", ratio=0.8, width_ratio=(0.3, 1, 1)), size=1)
    with pytest.raises(ProblemError, match=r"network\.width = inf: only finite networks"):
        curves(
            Problem(
                DeepLinear(2, np.inf), Dataset(LinearMap(), ratio=1), GradientDescent(0.1, steps=3)
            )
        )
    with pytest.raises(ProblemError, match=r"size = 13: must be 12, the number of eigenvalues"):
        curves(problem(data=DATA["dataset, spectrum"]), size=13)
    with pytest.raises(NotEnoughMemory, match=r"size 10000000, .*smaller size"):
        simulate(problem(supply="dataset", ratio=0.8), 10**7)


def test_power_law_is_one_of_the_spectra():
    data = Stream(LinearMap(PowerLaw(1.5, 0.8, SIZE)), batch=4)
    network = DeepLinear(1, 6, centered=True)
    found = curves(Problem(network, data, GradientDescent(0.05, steps=2)))
    k = np.arange(1, SIZE + 1)
    loss = np.sum(k ** (-1.5 * 0.8 - 1))
    assert found["test_loss"][0] == pytest.approx(loss, rel=1e-13)
    assert found["alignment"][0] == 0


def recorded(save_at, steps):
    return Record.of(GradientDescent(0.1, steps=steps), save_at).at


def test_steps_to_record():
    assert recorded(None, 5).tolist() == [0, 1, 2, 3, 4, 5]
    assert recorded(None, 200).tolist() == list(range(201))
    for steps in (201, 301, 100_000):
        found = recorded(None, steps)
        assert (found[0], found[-1], len(found)) == (0, steps, 201)
        assert np.ptp(np.diff(found)) <= 1
        assert np.diff(found).min() >= 1
    assert recorded(3, 9).tolist() == [0, 4, 9]
    assert recorded(50, 3).tolist() == [0, 1, 2, 3]
    assert recorded([0.0, 3.0], 3).tolist() == [0, 3]
    assert recorded(np.array([2]), 3).dtype == np.int64


@pytest.mark.parametrize(
    "save_at",
    [1, 0, True, "all", [], [[1, 2]], [0.5, 1], [np.nan], [2, 1], [1, 1], [-1, 2], [0, 11], [True]],
    ids=str,
)
def test_impossible_steps_to_record_are_refused(save_at):
    with pytest.raises(ProblemError, match="save_at"):
        recorded(save_at, 10)
