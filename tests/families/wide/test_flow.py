"""Gradient flow of wide networks: exact solutions, and the stated accuracy."""

from functools import partial

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.core.curves import Curves, Quantity
from learndyn.core.record import Record
from learndyn.families.wide.gradient_flow import first_step, flow
from learndyn.numerics.max_t import max_t_test
from learndyn.programs import Dense, einsum, mean, run
from learndyn.programs import flow as integrator
from learndyn.programs.flow import Flow
from tests.optional import not_none

WHITE = ld.Points(gram=np.eye(3), targets=[1.0, -0.5, 0.8])


@pytest.mark.parametrize("richness", [0.3, 2.0])
def test_white_inputs_follow_the_exact_equation(richness):
    """L = 1, linear, K = 1, sum loss: dΔ/dt = −2√(1 + γ_0²(y − Δ)²)Δ, and the kernel grows along the targets."""
    training = ld.GradientDescent(1.0, time=1.5, loss="sum")
    found = ld.solve(ld.Problem(ld.Wide(1, "linear", richness), WHITE, training), save_at=7)
    y = np.linalg.norm(WHITE.targets)

    def velocity(t, error):
        return -2 * np.sqrt(1 + richness**2 * (y - error) ** 2) * error

    exact = solve_ivp(
        velocity, (0, 1.5), [y], t_eval=found["time"].values, rtol=1e-10, atol=1e-12
    ).y[0]
    error = np.linalg.norm(WHITE.targets - found["prediction"].isel(output=0).values, axis=1)
    allowed = 3 * found.evidence["accuracy"]["prediction"]
    assert allowed < 5e-3
    np.testing.assert_allclose(error, exact, rtol=0, atol=allowed)
    unit = WHITE.targets / y
    now = np.einsum("titj->tij", found["Phi"].isel(layer=0).values)
    along = np.einsum("i,tij,j->t", unit, now, unit)
    expected = np.sqrt(1 + richness**2 * (y - exact) ** 2)
    np.testing.assert_allclose(along, expected, rtol=0, atol=3 * found.evidence["accuracy"]["Phi"])


def test_flow_is_the_limit_of_small_steps():
    points = ld.Points.random(3, 5, seed=2)
    # Neurons start the same for all steps, so that their sampling error cancels.
    network = ld.Wide(1, "tanh", 1.0)
    method = ld.SampledLayers(samples=256, batches=4)
    limit = ld.solve(
        ld.Problem(network, points, ld.GradientDescent(1.0, time=4.0)), method, save_at=3
    )
    assert limit.axis == "time"
    distances = []
    for steps in (10, 20):
        descent = ld.Problem(network, points, ld.GradientDescent(4.0 / steps, steps=steps))
        found = ld.solve(descent, method, save_at=3)
        distances.append(
            float(np.max(np.abs(found["prediction"].values - limit["prediction"].values)))
        )
    # First order: half the step, half the distance; the next order is a step of 0.4 or 0.2 times smaller.
    assert 1.5 < distances[0] / distances[1] < 2.6


def test_recorded_times_are_met_exactly():
    points = ld.Points.random(3, 5, seed=2)
    asked = ld.Problem(ld.Wide(2, "linear", 1.0), points, ld.GradientDescent(1.0, time=4.0))
    times = np.array([0.0, 0.3, 1.7, 4.0])
    some, more = (ld.solve(asked, save_at=t) for t in (times, np.linspace(0, 4, 41)))
    np.testing.assert_array_equal(some["time"], times)
    at = [0, 3, 17, 40]
    allowed = some.evidence["accuracy"]["prediction"] + more.evidence["accuracy"]["prediction"]
    assert (
        np.max(np.abs(some["prediction"].values - more["prediction"].values[at])) < allowed + 1e-9
    )


def test_what_flow_cannot_have_is_refused():
    points = ld.Points.random(3, 5, seed=2)
    for rule in ({"momentum": 0.5}, {"noise": 0.1}):
        training = ld.GradientDescent(1.0, time=1.0, **rule)
        with pytest.raises(ld.ProblemError, match="must be 0 in gradient flow"):
            ld.solve(ld.Problem(ld.Wide(1, "tanh"), points, training))


MADE_UP = ld.Problem(
    ld.Wide(2, "tanh"), ld.Points.random(3, 5, seed=2), ld.GradientDescent(1.0, time=1.0)
)


TABLE = (Quantity("prediction", ("step", "train_point"), "f"),)


def made_up(error):
    """Gradient flow of a descent with known outputs x(dt) = `error`(dt) after the start."""

    def solve(problem, record, report):
        dt = 1.0 / record.last / first_step(MADE_UP)
        later = record.at[:, None] > 0
        return Curves(TABLE, record, {"prediction": error(dt) * later * np.ones(3)})

    return flow(MADE_UP, Record.of(MADE_UP.training, 3), 1e-3, lambda done: None, solve)


def test_two_orders_of_the_step_cancel():
    found = made_up(lambda dt: 3 - 0.4 * dt + 0.3 * dt**2)
    np.testing.assert_allclose(found["prediction"][1:], 3, rtol=0, atol=1e-13)
    # x − x_2 = (2 fine − 3 middle + coarse)/3, of c dt²: c dt²(2/16 − 3/4 + 1)/3 = c dt²/8.
    coarsest = 4.0 / found.evidence["steps"] / first_step(MADE_UP)
    assert abs(found.evidence["accuracy"]["prediction"] - 0.3 * coarsest**2 / 8) < 1e-13


def test_an_error_without_a_series_is_seen():
    """x ~ √dt: 0.4 √dt changes by 2 % in an extrapolation."""
    with pytest.raises(ld.NotConverged, match="gradient flow is accurate to"):
        made_up(lambda dt: 1 + 0.4 * dt**0.5)


SAMPLED = {"tanh": (512, 32), "relu": (4096, 24)}
"""Samples of a batch, and steps of the descent next to it."""


@pytest.mark.parametrize("activation", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
def test_flow_of_deep_sampled_networks(activation):
    """At the default tolerance it converges, to small steps of the same theory and to networks, within the errors.

    Networks are extrapolated in 1/N from widths 250 and 500. The alignment of relu networks is too high by about 12/N
    in the second layer, at widths 500 and 1000: four standard errors of 16 networks, more than `compare` allows.
    """
    samples, steps = SAMPLED[activation]
    network = ld.Wide(2, activation, 1.0, centered=True)
    points = ld.Points.random(3, 5, seed=2)
    method = ld.SampledLayers(samples=samples)
    asked = ld.Problem(network, points, ld.GradientDescent(1.0, time=2.0))
    limit = ld.solve(asked, method, save_at=5)
    coarse, fine = (
        ld.solve(
            ld.Problem(network, points, ld.GradientDescent(2.0 / n, steps=n)),
            method,
            save_at=np.linspace(0, n, 5).astype(int),
            seed=1,
        )
        for n in (steps, 2 * steps)
    )
    for name in ("prediction", "train_loss", "alignment"):
        known = 2 * fine[name].values - coarse[name].values
        # Batches share most of their noise between the two step sizes; that they share none is the worst case.
        errors = [not_none(x.standard_error(name)).values for x in (limit, fine, coarse)]
        error = np.sqrt(errors[0] ** 2 + 4 * errors[1] ** 2 + errors[2] ** 2)
        allowed = 4 * error + 1e-3  # the default accuracy of flow
        assert np.all(np.abs(limit[name].values - known) <= allowed), name
    assert np.max(not_none(limit.standard_error("prediction"))) < 0.02
    assert np.max(np.abs(limit["prediction"])) > 0.1
    assert limit.evidence["nodes"] > 10
    assert "warnings" not in limit.evidence
    small, large = (ld.simulate(asked, width, 16, save_at=5) for width in (250, 500))
    for name in ("prediction", "train_loss", "alignment"):
        residuals = (2 * large[name] - small[name] - limit[name]).transpose("seed", ...).values
        spread = not_none(limit.standard_error(name)).values.ravel()
        # Centred networks start from f = 0 exactly.
        moving = residuals.reshape(16, -1).std(axis=0) > 1e-12
        test = max_t_test(residuals.reshape(16, -1)[:, moving], 0.0, 0.005, further=spread[moving])
        assert test[1] > 0.005, (name, test)


LINEAR = ld.Problem(
    ld.Wide(3, "linear", 1.0), ld.Points.random(5, 10, seed=2), ld.GradientDescent(1.0, time=12.0)
)


@pytest.mark.parametrize(("stiff", "within"), [(300.0, 1e-3), (1.0, 2e-3)])
def test_both_rules_of_flow_are_as_accurate_as_they_say(stiff, within, monkeypatch):
    """Linear units have no sampling error. Dormand and Prince's rule, and Chebyshev's as if the flow were stiff."""
    monkeypatch.setattr(integrator, "STIFF", stiff)
    method = ld.SampledLayers(samples=256, batches=2, precision="double", drop=1e-6)
    found = ld.solve(LINEAR, method, save_at=25)
    exact = ld.solve(LINEAR, ld.LinearInnovation(tolerance=1e-4), save_at=25)
    error = np.max(np.abs(found["prediction"].values - exact["prediction"].values))
    assert error < within
    assert found.evidence["nodes"] < 500


def test_stiff_flows_take_few_nodes():
    """A fastest rate of 1000 for a time of 1: Dormand and Prince's rule would take 2000 nodes."""

    def program(net):
        x, rates = net.parameter(np.array([1.0, 1.0])), np.array([1.0, 1000.0])
        loss = partial(lambda: ((rates * x * x).sum()) / 2)
        flow = Flow(net, loss, lambda time: 1.0, 1.0)
        for state in net.steps(4):
            net.record(x=x)
            if not net.last:
                flow.advance((state + 1) / 4)
        assert flow.nodes < 400

    found = run(program, None, Dense(16)).records["x"]
    np.testing.assert_allclose(found[:, 0], np.exp(-np.arange(5) / 4), rtol=0, atol=2e-3)
    np.testing.assert_allclose(found[1:, 1], 0, rtol=0, atol=2e-3)


def test_programs_follow_gradient_flow_too():
    """A forward pass as a program against the same network as `Wide`, and its networks."""

    def mlp(net, inputs):
        N = net.dim("neurons")
        J, w = net.normal(N, inputs), net.normal(N)
        return lambda x: mean(w * np.tanh(einsum("pd,d->p", x / np.sqrt(inputs), J)))

    points, training = ld.Points.random(3, 5, seed=2), ld.GradientDescent(1.0, time=3.0)
    program = ld.Problem(ld.Program(mlp), points, training)
    limit = ld.solve(program, ld.SampledLimit(samples=2048), save_at=4)
    wide = ld.solve(ld.Problem(ld.Wide(1, "tanh"), points, training), save_at=4)
    error = np.hypot(*(not_none(x.standard_error("prediction")).values for x in (limit, wide)))
    assert np.all(np.abs(limit["prediction"].values - wide["prediction"].values) < 5 * error + 1e-3)
    runs = ld.simulate(program, 400, 4, save_at=4)
    assert runs.axis == "time"
    assert np.max(np.abs(runs["prediction"].mean("seed") - wide["prediction"])) < 0.2


def test_gradient_flow_records_all_times_that_are_asked_for():
    found = ld.solve(MADE_UP, ld.SampledLayers(samples=64, batches=2), save_at=[0.25, 0.5, 1.0])
    np.testing.assert_array_equal(found["time"], [0.25, 0.5, 1.0])
    assert np.all(np.abs(found["prediction"].values[0]) > 1e-3)
