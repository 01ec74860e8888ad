"""The map of fresh trajectories: its limits, to rounding or to the order of the step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import comb, ive

import learndyn as ld
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.families.neural_ode.limit.epoch import epoch
from learndyn.families.neural_ode.limit.flow_numbers import Overlaps, flow_of
from learndyn.families.neural_ode.limit.overlap_map import inference
from learndyn.families.neural_ode.limit.trajectories import teacher_of
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.numerics.precision import float64
from tests import problems
from tests.optional import not_none
from tests.problems import PAPER

pytestmark = pytest.mark.compiles

ROUNDING = 1e-13
"""A few hundred operations on numbers of order one."""
problem = partial(problems.neural_ode, steps=10, epochs=10)


SERIES = [[0, 0, 0], [0, 0.5, 0.3], [0.2, 0.1, 0]]


@pytest.mark.parametrize(
    ("adjoint", "field"),
    [
        ("true", "exp(q*m) - 1"),
        ("truncated", SERIES),
        # Each adjoint and each form of a field is above.
        pytest.param("true", PAPER, marks=pytest.mark.slow),
        pytest.param("true", SERIES, marks=pytest.mark.slow),
        pytest.param("truncated", PAPER, marks=pytest.mark.slow),
        pytest.param("truncated", "exp(q*m) - 1", marks=pytest.mark.slow),
    ],
)
def test_the_teachers_control_is_a_fixed_point(adjoint, field):
    solution = ld.solve(problem(field=field, adjoint=adjoint, initial_overlap=1.0))
    for name in ("Q", "m", "C_theta"):
        np.testing.assert_allclose(solution[name], 1.0, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(solution["test_loss"], 0.0, atol=ROUNDING)


def linear_flow(n, k, u, g, h):
    """φ(n, n'; u) = Σ_j C(n, j) C(n', j) (1 − h)^{n+n'−2j} (h²gu)^j."""
    n, k = np.asarray(n)[:, None, None], np.asarray(k)[None, :, None]
    j = np.arange(40)
    powers = np.where(j <= np.minimum(n, k), n + k - 2 * j, 0)
    return np.sum(comb(n, j) * comb(k, j) * (1 - h) ** powers * (h * h * g * u) ** j, axis=-1)


def test_a_linear_flow_is_known_in_closed_form():
    g, N, Q, m = 0.7, 12, 0.6, 0.3
    network = ld.NeuralODE([[0, 0], [0, g]], 0.75, 1.5, N, confinement=1.0)
    h, n = network.step, np.arange(N + 1)
    with float64():
        found = inference(flow_of(FlowPair(network, ld.TeacherFlow())), np.ones(1), [[Q]], [[m]])
    expected = {
        "C_yy": linear_flow(n, n, Q, g, h),
        "C_yx": linear_flow(n, n, m, g, h),
        "C_xx": linear_flow(n, n, 1.0, g, h),
        "R_py": linear_flow(N - n, N - n, Q, g, h),
        "R_px": -linear_flow(N - n, N - n, m, g, h),
    }
    for name, values in expected.items():
        first = 0 if name[0] == "C" else 1
        np.testing.assert_allclose(
            found[name][:, first:], values[:, first:], rtol=1e-12, atol=1e-14
        )


@pytest.mark.slow
def test_a_linear_flow_in_continuous_time_is_a_bessel_function():
    """Extrapolation from 10, 20, 40 and 80 steps leaves an error of order h⁴: (0.15)⁴/2^6 times a number."""
    g, Q = 0.7, 0.6
    network = {"control_ratio": 0.75, "time": 1.5, "steps": 10, "confinement": 1.0}
    asked = problem(rate=0.0, epochs=1, field=[[0, 0], [0, g]], initial_norm=Q, **network)
    found = ld.solve(asked, ld.OverlapMap(extrapolation=3, inference_steps=(0,)))
    t = found["inference_time"].values
    root = 2 * np.sqrt(g * Q * np.outer(t, t))
    exact = ive(0, root) * np.exp(root - t[:, None] - t)
    error = np.max(np.abs(found["C_yy"][0].values - exact))
    assert error < 1e-5
    assert error < 2 * found.evidence["accuracy"]["C_yy"]


def test_short_times_are_linear_regression():
    """T → 0 at κ = ηT²/σ: m' = m + κg(1 − m), e' = [(1 − κg)² + σκ²g²/B] e, up to terms of order T."""
    g, sigma, kappa, B = 0.8, 0.75, 0.5, 3

    def deviation(T):
        rate = kappa * sigma / T**2
        asked = problem(rate=rate, epochs=4, batch=B, time=T, initial_norm=0.9, initial_overlap=0.2)
        found = ld.solve(asked)
        m, Q = (found[name].values[:, 0, 0] for name in ("m", "Q"))
        e = 1 - 2 * m + Q
        next_m = m[:-1] + kappa * g * (1 - m[:-1])
        next_e = ((1 - kappa * g) ** 2 + sigma * (kappa * g) ** 2 / B) * e[:-1]
        loss = T**2 * g * e / 2
        return np.array(
            [
                np.max(np.abs(m[1:] - next_m)),
                np.max(np.abs(e[1:] - next_e)),
                np.max(np.abs(found["test_loss"].values - loss)) / T**2,
            ]
        )

    coarse, fine = deviation(2e-3), deviation(1e-3)
    assert np.all(fine < 5e-3)
    np.testing.assert_allclose(coarse / fine, 2.0, rtol=0.02)


def test_fields_even_in_the_control_never_leave_zero_overlap():
    even = [[0, 0, 0], [0, 0, 0.8], [0.4, 0, 0]]
    still = ld.solve(problem(field=even, epochs=20))
    np.testing.assert_array_equal(still["m"], 0.0)
    moved = ld.solve(problem(field=even, epochs=200, initial_overlap=0.1))
    assert moved["m"].values[-1] > 0.9


def test_all_forms_of_a_field_are_the_same():
    found = [
        ld.solve(problem(field=field))["Q"].values
        for field in (PAPER, "0.8*q*m + 0.4*q**2", lambda q, m: 0.8 * q * m + 0.4 * q**2)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=ROUNDING)
    np.testing.assert_allclose(found[2], found[0], rtol=ROUNDING)


def test_one_euler_step_by_hand():
    """N = 1: y_1 = (1 − hμ)z + h r(z, θ), p_1 = y_1 − x_1, and the control moves once."""
    g, h, eta, lam, sigma, Q, m, B = 0.8, 0.7, 0.3, 0.1, 0.75, 0.6, 0.2, 2
    asked = problem(
        rate=eta, epochs=1, batch=B, weight_decay=lam, time=h, steps=1, initial_norm=Q,
        initial_overlap=m, noise=0.1, teacher_noise=0.2, adjoint_noise=0.3,
    )  # fmt: skip
    found = ld.solve(asked)
    # The part of the field without control, 0.4 q², is the same in both flows and drops out of p.
    square = h**2 * g * (Q + 1 - 2 * m) + 2 * h * (0.1 + 0.2)
    k = v = h**2 / sigma * g
    A = 1 - eta * (k + lam)
    expected_m = A * m + eta * v
    expected_Q = A**2 * Q + 2 * A * eta * v * m + (eta * v) ** 2 + eta**2 * k * square / B
    np.testing.assert_allclose(found["test_loss"][0], square / 2, rtol=ROUNDING)
    np.testing.assert_allclose(found["m"][1], expected_m, rtol=ROUNDING)
    np.testing.assert_allclose(found["Q"][1], expected_Q, rtol=ROUNDING)
    np.testing.assert_allclose(found["C_theta"][1, 0, 0, 0], A * Q + eta * v * m, rtol=ROUNDING)


@pytest.mark.slow
def test_the_error_is_of_first_order_in_the_step():
    """m(10) with N = 20 … 80: errors against the extrapolated value halve with h, up to the next order."""
    limit = ld.solve(problem(), ld.OverlapMap(extrapolation=3))
    error = [
        ld.solve(problem(steps=N))["m"].values[-1] - limit["m"].values[-1] for N in (20, 40, 80)
    ]
    ratios = np.divide(error[:-1], error[1:])
    np.testing.assert_allclose(ratios, 2.0, rtol=0.02)
    assert np.all(np.diff(np.abs(ratios - 2)) < 0)


@pytest.mark.slow
def test_extrapolation_is_of_higher_order_and_states_its_accuracy():
    errors, stated = [], []
    best = ld.solve(problem(), ld.OverlapMap(extrapolation=4))["Q"].values
    for k in (1, 2, 3):
        found = ld.solve(problem(), ld.OverlapMap(extrapolation=k))
        errors.append(np.max(np.abs(found["Q"].values - best)))
        stated.append(found.evidence["accuracy"]["Q"])
    assert errors[2] < 1e-6
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert np.all(np.array(errors) < stated)


def test_derivatives_of_the_curve():
    """Against central differences of step 1e-5: their error is of order 1e-10, their rounding 1e-11."""
    start = {"learning_rate": 0.5, "control_ratio": 0.75, "initial_overlap": 0.2, "noise": 0.1}

    def last(given):
        network = {name: value for name, value in given.items() if name != "learning_rate"}
        traced = ld.trace(problem(rate=given["learning_rate"], epochs=4, steps=3, **network))
        return traced["test_loss"][-1] + traced["C_theta"][3, 0, 1, 0]

    with ld.float64():
        step, both = 1e-5, jax.jit(jax.value_and_grad(last))
        value, slopes = both(start)
        for name, at in start.items():
            near = [both(start | {name: at + sign * step})[0] for sign in (1, -1)]
            difference = (near[0] - near[1]) / (2 * step)
            np.testing.assert_allclose(slopes[name], difference, rtol=1e-7, atol=1e-9)
    found = ld.solve(
        problem(
            rate=0.5,
            epochs=4,
            steps=3,
            **{k: v for k, v in start.items() if k[0] in "ci"},
            noise=0.1,
        )
    )
    expected = found["test_loss"].values[-1] + found["C_theta"].values[3, 0, 1, 0]
    np.testing.assert_allclose(value, expected, rtol=ROUNDING)


@pytest.mark.slow
def test_recording_less_changes_nothing():
    every = ld.solve(problem(epochs=70), save_at=71)
    few = ld.solve(problem(epochs=70), save_at=[0, 5, 33, 64, 70])
    for name in ("Q", "m", "test_loss"):
        np.testing.assert_array_equal(few[name], every[name].sel(step=few["step"]))
    both = every["C_theta"].sel(step=few["step"], step2=few["step2"])
    np.testing.assert_array_equal(few["C_theta"], both)
    of_one_step = np.einsum("kukv->kuv", every["C_theta"])
    np.testing.assert_allclose(of_one_step, every["Q"], rtol=0)


def test_schedules_and_batches():
    """Two steps at once are one after the other; a batch of infinitely many removes the noise."""
    rates = [0.5, 0.1, 0.3]
    stepped = ld.solve(problem(rate=ld.PerStep(rates), epochs=3))
    state = {"initial_norm": 1.0, "initial_overlap": 0.0}
    for a, rate in enumerate(rates):
        one = ld.solve(problem(rate=rate, epochs=1, **state))
        Q, m = (float(one[name][1, 0, 0]) for name in ("Q", "m"))
        state = {"initial_norm": Q, "initial_overlap": m}
        np.testing.assert_allclose(state["initial_norm"], stepped["Q"][a + 1], rtol=ROUNDING)
    Qs = [ld.solve(problem(rate=0.5, epochs=1, batch=B))["Q"].values[1] for B in (1, 2, 4)]
    np.testing.assert_allclose((Qs[0] - Qs[1]) / (Qs[1] - Qs[2]), 2.0, rtol=1e-10)


def test_divergence_ends_the_curve():
    found = ld.solve(problem(rate=60.0, epochs=50))
    assert found.diverged_at is not None
    assert len(found["Q"]) == found.diverged_at
    assert np.all(np.isfinite(found["Q"]))


def test_correlations_within_a_step_have_their_symmetries():
    method = ld.OverlapMap(inference_steps=(0, 7))
    found = ld.solve(problem(teacher_time=1.3, noise=0.05), method)
    assert found["C_yx"].shape == (2, 11, 14)
    for name in ("C_yy", "C_pp", "C_xx"):
        values = found[name].values
        np.testing.assert_allclose(values, values.transpose(0, 2, 1), atol=ROUNDING)
        assert np.linalg.eigvalsh(values).min() > -ROUNDING
    loss = found["C_pp"].values[:, -1, -1] / 2
    np.testing.assert_allclose(loss, found["test_loss"].sel(step=[0, 7]), rtol=ROUNDING)


@pytest.mark.parametrize("supply", [{}, {"supply": "dataset", "examples": 1}])
def test_what_is_measured_along_the_flow_ends_where_training_does(supply):
    """One Euler step is linear regression, and diverges slowly; between two records, or after the last."""
    linear = {"field": [[0, 0], [0, 0.8]], "confinement": 1.0, "steps": 1}
    asked = problem(rate=4.0, epochs=20, **linear, **supply)
    exact = ld.TrainingMemory if supply else ld.OverlapMap
    end = int(not_none(ld.solve(asked).diverged_at))
    assert 2 < end < 18
    method = exact(inference_steps=(0, 2, end - 1, end, 19))
    for saved, reached in (([0, 20], [0]), ([0, 1, 18, 20], [0, 1]), ([0, 1], [0, 1])):
        found = ld.solve(asked, method, save_at=saved)
        assert found["step"].values.tolist() == reached
        assert found["C_yy"]["inference_step"].values.tolist() == [0, 2, end - 1]
        assert np.all(np.isfinite(found["C_pp"]))
    none = ld.solve(asked, exact(inference_steps=(end, 19)), save_at=[0, 1])
    assert "C_yy" not in none.data
    # On a finer grid training may diverge earlier or later; what both grids reached is extrapolated.
    both = ld.solve(asked, exact(extrapolation=1, inference_steps=(0, end - 1)), save_at=[0, 20])
    assert set(both["C_yy"]["inference_step"].values) <= {0, end - 1}
    assert list(both.evidence["accuracy"]) == list(both.data)


def test_the_map_is_refused_where_steps_are_correlated():
    for asked in (problem(chained=True), problem(field=[[0, 0.5], [0, 0.8]])):
        for call in (ld.solve, ld.trace, ld.start):
            with pytest.raises(ld.ProblemError, match="method = 'OverlapMap': must be TrainingM"):
                call(asked, method=ld.OverlapMap())
    with pytest.raises(ld.ProblemError, match="must be one of TrainingMemory for this problem"):
        ld.solve(problem(supply="dataset"), ld.OverlapMap())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (problem(batch=2, observations=ld.Observations([0.5])), ld.OverlapMap()),
        (problem(chained=True), ld.TrainingMemory()),
        (problem(field=[[0, 0.5], [0, 0.8]]), ld.TrainingMemory()),
        (problem(supply="dataset"), ld.TrainingMemory()),
    ],
    ids=["fresh", "chained", "part without state", "reused"],
)
def test_the_method_suits_the_problem(asked, expected):
    record = Record.of(asked.training)
    assert theory_for(asked).chosen(None, asked, record) == expected


def test_one_step_depends_on_the_overlaps_only():
    """K, V, N of `epoch` at a state reached by training are those of a network that starts there."""
    asked = problem()
    found = ld.solve(asked)
    with float64():
        flow = flow_of(FlowPair.of(asked))
        Q, m = (jnp.reshape(found[name].values[4], (1, 1)) for name in ("Q", "m"))
        made = jax.jit(lambda now: epoch(flow, teacher_of(flow), now))(Overlaps(jnp.ones(1), Q, m))
        A = 1 - 0.5 * float(made.K[0, 0])
        np.testing.assert_allclose(
            found["m"][5], A * m[0, 0] + 0.5 * float(made.V[0, 0]), rtol=ROUNDING
        )
