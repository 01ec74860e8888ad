"""Finite wide networks: steps are gradient steps, records are what they say, flow is the limit of small steps."""

import concurrent.futures
import dataclasses
import itertools
import tracemalloc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.simulate import trained as train
from learndyn.core.theory import theory_for
from learndyn.errors import NotEnoughMemory, ProblemError
from learndyn.families.wide import finite as module
from learndyn.families.wide.finite import WideDescent
from learndyn.numerics.precision import float64
from learndyn.problem.points import Points
from learndyn.problem.schedules import ExponentialDecay, PerStep, Piecewise, as_schedule
from tests import problems

pytestmark = pytest.mark.compiles

N, D, P = 9, 5, 4
ACTIVATIONS = {
    "tanh": jnp.tanh,
    "relu": lambda h: jnp.maximum(h, 0.0),
    "erf": lambda h: jax.scipy.special.erf(h / np.sqrt(2)),
    "linear": lambda h: h,
}
points = partial(problems.points, P, D, 3)
problem = partial(problems.wide, data=points(test_points=2), richness=0.7)


def curves(made, size=N, seed=0, save_at=None, samples=0):
    return ld.simulate(made, size, first_seed=seed, save_at=save_at, method=WideDescent(samples))


def values(found):
    """The observables of the only seed."""
    return {name: found[name].isel(seed=0).values for name in found.observables}


def trained(made, steps, seed=0, size=N):
    """The weights after so many steps of the simulator, for the functions below."""
    found = ld.start(made, size, seed).advance(steps).weights
    layers = range(made.network.depth)
    return {
        "W": [found[f"W{ell}"] for ell in layers],
        "b": [found[f"b{ell}"] for ell in layers if made.network.bias],
        "w": found["w"],
    }


def start(made, seed=0, size=N):
    return trained(made, 0, seed, size)


def outputs(theta, made, x, shifts=None):
    """f (points × C) as the network's docstring defines it; `shifts` are added to every h^ℓ. Also φ^1 … φ^L."""
    phi, features = x, []
    for ell, W in enumerate(theta["W"]):
        h = phi @ W.T / np.sqrt(W.shape[1])
        if theta["b"]:
            h = h + theta["b"][ell]
        if shifts is not None:
            h = h + shifts[ell]
        phi = ACTIVATIONS[made.network.activation.to_dict()](h)
        features.append(phi)
    width = theta["w"].shape[1]
    return phi @ theta["w"].T / (made.network.richness * width), features


def loss(theta, made, origin=0.0):
    """𝓛 of the trained points."""
    y = made.data.targets.reshape(made.data.trained, -1)
    f = outputs(theta, made, made.data.inputs)[0] - origin
    criterion = made.training.criterion
    if criterion == "squared":
        each = (y - f) ** 2 / 2
    elif criterion == "logistic":
        each = jnp.log1p(jnp.exp(-y * f))
    else:
        each = -y * jnp.log(jnp.exp(f) / jnp.exp(f).sum(1, keepdims=True))
    return each.sum() / (len(y) if made.training.loss == "mean" else 1)


def force(theta, made, origin: float | np.ndarray = 0.0):
    """−γ_0²N ∇𝓛."""
    scale = -(made.network.richness**2) * theta["w"].shape[1]
    with float64():
        return jax.tree.map(lambda g: scale * np.asarray(g), jax.grad(loss)(theta, made, origin))


def largest_difference(one, other):
    differences = jax.tree.map(lambda a, b: float(np.max(np.abs(a - b))), one, other)
    return max(jax.tree.leaves(differences))


# Sums of at most a few dozen products of order 1 to 10 in another order.
ROUNDING = 1e-12


COVERING = {("tanh", 1, False), ("relu", 2, True), ("erf", 3, False), ("tanh", 3, True)}
"""Every activation, every depth and both biases, for every criterion."""


@pytest.mark.parametrize(
    ("activation", "depth", "bias"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case not in COVERING))
        for case in itertools.product(["tanh", "relu", "erf"], [1, 2, 3], [False, True])
    ],
)
@pytest.mark.parametrize(
    ("criterion", "count", "reduction"),
    [
        ("squared", 1, "mean"),
        ("squared", 2, "sum"),
        ("logistic", 1, "sum"),
        ("cross_entropy", 3, "mean"),
    ],
)
def test_a_step_is_a_gradient_step_of_every_weight(
    activation, depth, bias, criterion, count, reduction
):
    data = points(count, classes=criterion == "cross_entropy", test_points=2)
    made = problem(
        activation=activation,
        depth=depth,
        data=data,
        bias=bias,
        criterion=criterion,
        loss=reduction,
    )
    first = start(made)
    expected = jax.tree.map(lambda w, F: w + 0.3 * F, first, force(first, made))
    found = trained(made, 1)
    assert len(found["b"]) == (depth if bias else 0)
    assert largest_difference(found, expected) < ROUNDING
    assert largest_difference(found, first) > 1e-3  # the comparison is not empty


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    ("momentum", "rule"), [(0.0, "decoupled"), (0.8, "decoupled"), (0.8, "coupled")]
)
def test_momentum_decay_and_schedules_act_as_the_training_rule_says(momentum, rule, centered):
    rate, decay = ExponentialDecay(0.3, 0.2), 0.4
    made = problem(
        data=points(2),
        rate=rate,
        momentum=momentum,
        momentum_rule=rule,
        weight_decay=decay,
        bias=True,
        centered=centered,
    )
    theta = start(made)
    with float64():
        origin = np.asarray(outputs(theta, made, made.data.inputs)[0]) if centered else 0.0
    buffer = jax.tree.map(np.zeros_like, theta)
    for t in range(6):
        eta = 0.3 * np.exp(-0.2 * t)
        F = force(theta, made, origin)
        if rule == "coupled":
            buffer = jax.tree.map(lambda B, F, w: momentum * B + F - decay * w, buffer, F, theta)
            theta = jax.tree.map(lambda w, B, eta=eta: w + eta * B, theta, buffer)
            continue
        buffer = jax.tree.map(lambda B, F, eta=eta: momentum * B + eta * F, buffer, F)
        theta = jax.tree.map(lambda w, B, eta=eta: (1 - eta * decay) * w + B, theta, buffer)
    assert largest_difference(trained(made, 6), theta) < 10 * ROUNDING


def test_noise_has_the_variance_of_its_temperature_and_is_new_for_every_weight_and_step():
    made = problem(temperature=0.5, weight_decay=0.4, bias=True)
    size, residuals, before = 60, [], start(made, size=60)
    for t in (1, 2):
        after = trained(made, t, size=size)
        drift = jax.tree.map(
            lambda w, F: (1 - 0.3 * 0.4) * w + 0.3 * F, before, force(before, made)
        )
        each = jax.tree.map(lambda a, b: (a - b).ravel() / np.sqrt(2 * 0.3 * 0.5), after, drift)
        residuals.append(np.concatenate(jax.tree.leaves(each)))
        before = after
    count = len(residuals[0])
    # Five standard errors of the mean square, and of the mean product, of standard normals.
    for zeta in residuals:
        assert abs(np.mean(zeta**2) - 1) < 5 * np.sqrt(2 / count)
    assert abs(np.mean(residuals[0] * residuals[1])) < 5 / np.sqrt(count)
    assert len(np.unique(residuals[0])) == count


def recorded(made, steps, size=N):
    """The weights at several steps."""
    return [trained(made, int(t), size=size) for t in steps]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_the_kernel_is_the_tangent_kernel_of_the_function(depth, bias):
    made = problem(depth=depth, data=points(2, test_points=2), bias=bias)
    found = values(curves(made, save_at=[0, 4]))["kernel"]
    scale = made.network.richness**2 * N
    with float64():
        for state, theta in enumerate(recorded(made, [0, 4])):
            slopes = jax.jacobian(lambda th: outputs(th, made, made.data.all_inputs())[0])(theta)
            rows = [np.asarray(J).reshape(2 * 6, -1) for J in jax.tree.leaves(slopes)]
            expected = scale * np.sum([J @ J.T for J in rows], axis=0).reshape(6, 2, 6, 2)
            np.testing.assert_allclose(found[state], expected, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_records_are_what_direct_evaluation_gives(activation):
    made = problem(
        activation=activation, depth=2, data=points(2, test_points=2), bias=True, richness=1.3
    )
    steps = [0, 2, 6]
    curve = curves(made, save_at=steps, samples=4)
    found, x = values(curve), made.data.all_inputs()
    phi, g, f = [], [], []
    with float64():
        for theta in recorded(made, steps):
            now, features = outputs(theta, made, x)
            none = [jnp.zeros((len(x), N)) for _ in range(2)]
            slopes = jax.jacobian(lambda s, th=theta: outputs(th, made, x, s)[0])(none)
            own = np.arange(len(x))  # an output depends on the preactivations of its own point
            f.append(np.asarray(now))
            phi.append(np.stack([np.asarray(one) for one in features]))
            # ∂f_μc/∂h^ℓ (point, output, neuron), times γ_0 N
            g.append(1.3 * N * np.stack([np.asarray(J)[own, :, own] for J in slopes]))
    f, phi, g = np.array(f), np.array(phi), np.array(g)
    close = {"rtol": 0, "atol": 100 * ROUNDING}
    np.testing.assert_allclose(found["prediction"], f[:, :P], **close)
    np.testing.assert_allclose(found["test_prediction"], f[:, P:], **close)
    Phi = np.einsum("tlmi,slai->ltmsa", phi, phi) / N
    np.testing.assert_allclose(found["Phi"], Phi, **close)
    G = np.einsum("tlmci,sladi->ltmcsad", g, g) / N
    np.testing.assert_allclose(found["G"], G, **close)
    y = made.data.targets
    np.testing.assert_allclose(
        found["train_loss"], ((y - f[:, :P]) ** 2).sum((1, 2)) / 2 / P, **close
    )
    rest = ((made.data.test_targets - f[:, P:]) ** 2).sum((1, 2)) / 2 / 2
    np.testing.assert_allclose(found["test_loss"], rest, **close)
    last = Phi[1, 2, :P, 2, :P]
    aligned = np.sum(last * (y @ y.T)) / np.linalg.norm(last) / np.linalg.norm(y @ y.T)
    np.testing.assert_allclose(found["alignment"][1, 2], aligned, **close)
    first = Phi[1, 0, :P, 0, :P]
    moved = np.linalg.norm(last - first) / np.linalg.norm(first)
    np.testing.assert_allclose(found["movement"][1, 2], moved, **close)
    with float64():
        seen = ACTIVATIONS[activation](found["preactivation"])
    np.testing.assert_allclose(seen, phi[..., :4].transpose(1, 0, 2, 3), **close)
    assert curve["layer"].values.tolist() == [1, 2]
    assert curve["step2"].values.tolist() == steps
    assert curve.evidence["size_symbol"] == "N"


@pytest.mark.parametrize("count", [1, 2])
def test_axes_are_those_of_the_table_for_one_output_too(count):
    curve = curves(problem(data=points(count)))
    assert curve["prediction"].dims == ("seed", "step", "train_point", "output")
    gradients = ("layer", "step", "point", "output", "step2", "point2", "output2")
    assert curve["G"].dims == ("seed", *gradients)
    assert curve["G"].sizes["output"] == curve["G"].sizes["output2"] == count
    assert not {"preactivation", "test_prediction", "test_loss"} & set(curve.observables)


def test_the_first_function_has_the_variance_of_its_features_over_width_and_is_gone_if_centered():
    count = 200
    found = ld.simulate(problem(richness=0.5), 16, count, save_at=[0])
    variance = found["Phi"].sel(layer=2, step=0, point=0, step2=0, point2=0) / (0.5**2 * 16)
    squares = found["prediction"].sel(step=0, train_point=0, output=0) ** 2 / variance
    # Given the features f is Gaussian: four standard errors of the mean of squares.
    assert abs(np.mean(squares.values) - 1) < 4 * np.sqrt(2 / count)
    centered = values(curves(problem(centered=True)))
    assert np.all(centered["prediction"][0] == 0)
    assert np.all(centered["test_prediction"][0] == 0)


def test_initial_weights_are_standard_normal_and_differ_between_seeds():
    made = problem(bias=True)
    one, other = start(made, 0, 80), start(made, 1, 80)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        # Five standard errors of a mean square, and of a mean product.
        assert abs(np.mean(a**2) - 1) < 5 * np.sqrt(2 / a.size)
        assert abs(np.mean(a * b)) < 5 / np.sqrt(a.size)


def test_a_gram_matrix_gives_networks_with_that_kernel():
    data = points(test_points=2)
    gram = Points(targets=data.targets, gram=data.kernel())
    depth_one = problem(activation="linear", depth=1, data=gram, bias=False)
    # E[Φ^1] = K for linear units; at N = 4000 entries have a standard error of at most √(2/N) max K.
    found = values(curves(depth_one, 4000, save_at=[0]))["Phi"][0, 0, :, 0]
    bound = 5 * np.sqrt(2 / 4000) * np.max(np.diagonal(data.kernel()))
    assert np.max(np.abs(found - data.kernel())) < bound


OPTIONS = {
    "descent": {"bias": True, "temperature": 0.1, "momentum": 0.5},
    "flow": {"bias": True, "weight_decay": 0.1, "time": 2.0},
}


@pytest.mark.bitwise
@pytest.mark.parametrize("kind", OPTIONS)
def test_test_points_do_not_change_training(kind):
    data = points(test_points=2)
    alone = Points(data.inputs, data.targets)
    with_test, without = (
        values(curves(problem(data=one, **OPTIONS[kind]), save_at=3)) for one in (data, alone)
    )
    for name in ("prediction", "train_loss"):
        assert np.array_equal(with_test[name], without[name]), name
    for name in ("alignment", "movement"):  # their kernels are blocks of larger products
        np.testing.assert_allclose(with_test[name], without[name], rtol=0, atol=ROUNDING)


@pytest.mark.bitwise
def test_recording_does_not_change_a_curve_and_seeds_are_reproducible_on_threads():
    made = problem(**OPTIONS["descent"])
    every, few = values(curves(made, seed=5)), values(curves(made, seed=5, save_at=[3, 6]))
    for name in ("prediction", "test_prediction", "train_loss"):
        assert np.array_equal(every[name][[3, 6]], few[name]), name
    # Kernels are sums over neurons, in an order that depends on how many states are recorded.
    np.testing.assert_allclose(every["kernel"][[3, 6]], few["kernel"], rtol=0, atol=ROUNDING)

    def one(seed):
        return values(curves(made, seed=seed))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(one, [5, 6, 5, 7]))
    for name, value in every.items():
        assert np.array_equal(together[0][name], value), name
        assert np.array_equal(together[2][name], value), name
        assert not np.array_equal(together[1][name], value), name


def test_reports_grow_to_one():
    for options in OPTIONS.values():
        seen, made = [], problem(**options)
        with float64():
            theory = theory_for(made)
            ensemble = theory.train(made, N, WideDescent(), Record.of(made.training))
            train(theory.table, ensemble, 0, seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == 1


FLOW = {
    "plain": {"activation": "tanh", "depth": 2, "richness": 1.5},
    "decay": {"activation": "erf", "depth": 1, "weight_decay": 0.3, "bias": True, "richness": 1.5},
    "schedule": {"activation": "tanh", "depth": 1, "rate": Piecewise([1.0], [0.2, 0.6])},
    "fading": {"activation": "tanh", "depth": 1, "rate": ExponentialDecay(0.8, 0.9)},
    "logistic": {"activation": "tanh", "depth": 3, "criterion": "logistic", "centered": True},
}


def flowing(kind, save_at=(1.3, 3.0), **options):
    """Gradient flow for a time 3 by the sum of losses."""
    made = problem(time=3.0, loss="sum", **FLOW[kind] | options)
    return values(curves(made, 12, save_at=list(save_at)))["prediction"]


def descending(kind, count):
    """The same by `count` steps."""
    made = problem(time=3.0, loss="sum", **FLOW[kind])
    # Jumps of the rate fall between two steps.
    middles = (np.arange(count) + 0.5) * 3.0 / count
    with float64():
        eta = np.asarray(as_schedule(made.training.learning_rate)(middles)) * 3.0 / count
    rule = dataclasses.replace(made.training, learning_rate=PerStep(eta), time=None, steps=count)
    small = dataclasses.replace(made, training=rule)
    return values(curves(small, 12, save_at=[count * 13 // 30, count]))["prediction"]


@pytest.mark.parametrize("kind", FLOW)
def test_flow_is_the_limit_of_small_steps(kind):
    coarse, middle, fine = (descending(kind, count) for count in (60, 120, 240))
    first, second = 2 * middle - coarse, 2 * fine - middle
    expected = (4 * second - first) / 3
    known = np.max(np.abs(expected - second))
    # Some dozens of steps, each with the tolerance's error; tangents of gradient flow do not grow much.
    assert np.max(np.abs(flowing(kind) - expected)) < known + 10 * module.TOLERANCE
    # Descent itself is further away, so that the comparison is not empty.
    assert np.max(np.abs(expected - coarse)) > 3 * (known + 10 * module.TOLERANCE)


@pytest.mark.parametrize(
    "kind",
    # Two layers, a jump and three layers with another loss; all are among the limits of small steps.
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("decay", "fading"))) for kind in FLOW],
)
def test_flow_converges_with_the_fourth_order(kind, monkeypatch):
    # Steps as long as the intervals between recorded times, whatever their error.
    monkeypatch.setattr(module, "FLOW_STEP", 1e9)
    monkeypatch.setattr(module, "TOLERANCE", np.inf)

    def end(count):
        return flowing(kind, np.linspace(0.0, 3.0, count + 1))[-1]

    exact = end(96)
    errors = np.array([np.max(np.abs(end(count) - exact)) for count in (6, 12, 24)])
    # 2⁴ = 16, up to corrections of relative order dt; the third order would give 8.
    assert np.all(errors[:-1] / errors[1:] > 12)


def test_steps_of_flow_that_are_too_long_are_taken_again(monkeypatch):
    exact = flowing("plain", rate=4.0)
    monkeypatch.setattr(module, "FLOW_STEP", 50.0)
    # Most of its steps count as short, and a hundredth of the accuracy is asked for.
    allowed = 1000 * module.TOLERANCE
    assert np.max(np.abs(flowing("plain", rate=4.0) - exact)) < allowed
    monkeypatch.setattr(module, "TOLERANCE", np.inf)
    assert not np.max(np.abs(flowing("plain", rate=4.0) - exact)) < 10 * allowed


def test_a_rate_of_zero_leaves_gradient_flow_where_it_is():
    found = values(curves(problem(time=2.0, rate=0.0), save_at=3))
    assert np.all(found["prediction"] == found["prediction"][0])


def test_the_time_axis_has_its_names():
    curve = curves(problem(time=2.0), save_at=[0.5, 2.0])
    assert curve.axis == "time"
    assert curve["time"].values.tolist() == curve["time2"].values.tolist() == [0.5, 2.0]
    assert curve["Phi"].dims == ("seed", "layer", "time", "point", "time2", "point2")


def test_training_that_diverges_ends_the_curve():
    made = problem(activation="linear", depth=2, rate=30.0, steps=40)
    curve = curves(made)
    assert curve.diverged_at is not None
    assert 1 < curve.diverged_at < 40
    assert curve["step"].values.tolist() == list(range(int(curve.diverged_at)))
    for name, value in values(curve).items():
        assert np.all(np.isfinite(value)), name
    assert curve["Phi"].sizes["step"] == curve["Phi"].sizes["step2"] == curve["step"].size


@pytest.mark.parametrize(
    ("field", "rule"), [("momentum", {"momentum": 0.5}), ("noise", {"temperature": 0.1})]
)
def test_flow_refuses_what_has_no_meaning_in_it(field, rule):
    with pytest.raises(ProblemError, match=f"training.{field}"):
        curves(problem(time=1.0, **rule))


def test_more_samples_than_neurons_are_refused():
    with pytest.raises(ProblemError, match="samples"):
        curves(problem(), size=8, samples=9)
    assert values(curves(problem(), size=8, samples=8))["preactivation"].shape == (2, 7, 6, 8)


def test_what_does_not_fit_in_memory_is_refused():
    with pytest.raises(NotEnoughMemory, match="width"):
        ld.simulate(problem(), 10**7)


@pytest.mark.parametrize(
    ("size", "steps", "save_at", "rule"),
    [(100, 40, None, {}), (1000, 6, 3, {"momentum": 0.5}), (1000, 6, 3, {"temperature": 0.1})],
)
def test_the_estimate_of_memory_is_near_the_peak(size, steps, save_at, rule):
    """At most what is estimated, and not less than half of it."""
    made = problem(depth=3, data=points(2, test_points=3), steps=steps, **rule)
    theory = theory_for(made)
    with float64():
        record = Record.of(made.training, save_at)
        ensemble = theory.train(made, size, WideDescent(), record)
        train(theory.table, ensemble, 0, lambda done: None)
        tracemalloc.start()
        train(theory.table, ensemble, 0, lambda done: None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 0.5 * ensemble.bytes < peak < ensemble.bytes
