"""The order-parameter equations: analytic limits, fixed points, symmetries, gradients."""

from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import learndyn as ld
from learndyn.families.two_layer.online.equations import OrderParameters, equations
from learndyn.numerics.precision import float64
from tests import problems
from tests.optional import not_none

pytestmark = pytest.mark.compiles

TIGHT = ld.OrderParameterODE(rtol=1e-11, atol=1e-14)
problem = partial(problems.two_layer, seed=0, scale=0.5, size=200)


@eqx.filter_jit
def compiled_velocity(system, state):
    return system.velocity(0.0, state, None)


@eqx.filter_jit
def compiled_loss(system, state):
    return system.test_loss(state)


def velocity(made: ld.Problem, state=None):
    """(dQ, dR, dv)/dt at the problem's initial state, or at `state`."""
    with float64():
        system, start = equations(made)
        state = start if state is None else OrderParameters(*map(jnp.asarray, state))
        return jax.tree.map(np.asarray, compiled_velocity(system, state))


@pytest.mark.parametrize(
    ("K", "M"),
    # Every K and M compiles: each number of units is there once, and more and as many students as teachers.
    [(2, 2), (3, 1), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((1, 1), (1, 3)))],
)
@pytest.mark.parametrize(("batch", "noise"), [(1, 0.0), (1, 0.5), (4, 0.5)])
def test_linear_network_follows_its_exact_solution(K, M, batch, noise):
    """e = 2·loss obeys ė = −2Kηe + (K²η²/B)(e + σ²) when all readouts are one."""
    eta = 0.3
    solution = ld.solve(
        problem(units=K, teacher_units=M, activation="linear", rate=eta, batch=batch, noise=noise),
        TIGHT,
    )
    rate = -2 * K * eta + (K * eta) ** 2 / batch
    source = (K * eta * noise) ** 2 / batch
    start = 2 * solution["test_loss"].values[0]
    t = solution["time"].values
    exact = (start + source / rate) * np.exp(rate * t) - source / rate
    # The stated accuracy, and rounding of a difference of terms of order one.
    allowed = solution.evidence["accuracy"]["test_loss"] + 1e-13
    np.testing.assert_allclose(solution["test_loss"], exact / 2, rtol=0, atol=2 * allowed)


def test_linear_network_ends_at_the_noise_floor():
    eta, noise, K = 0.4, 0.5, 2
    solution = ld.solve(
        problem(units=K, teacher_units=2, activation="linear", rate=eta, noise=noise, time=200.0),
        TIGHT,
    )
    floor = eta * noise**2 * K / (4 - 2 * eta * K)
    assert solution["test_loss"].values[-1] == pytest.approx(floor, rel=1e-9)


@pytest.mark.parametrize(("eta", "diverges"), [(0.99, False), (1.01, True)])
def test_linear_network_diverges_beyond_its_largest_rate(eta, diverges):
    solution = ld.solve(problem(activation="linear", rate=eta, time=3000.0))
    assert (solution.diverged_at is not None) == diverges
    if diverges:
        assert solution["time"].values[-1] < not_none(solution.diverged_at) <= 3000.0
        assert np.isfinite(solution["test_loss"]).all()
    else:
        assert solution["test_loss"].values[-1] < 1e-9


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_symmetric_plateau_is_a_fixed_point_of_gradient_flow(K):
    made = problem(units=K, supply="population")
    state = (
        np.full((K, K), 1 / (2 * K - 1)),
        np.full((K, K), 1 / np.sqrt(K * (2 * K - 1))),
        np.ones(K),
    )
    for part in velocity(made, state):
        np.testing.assert_allclose(part, 0, atol=1e-14)
    with float64():
        system, _ = equations(made)
        loss = float(compiled_loss(system, OrderParameters(*map(jnp.asarray, state))))
    expected = K / np.pi * (np.pi / 6 - K * np.arcsin(1 / (2 * K)))
    assert loss == pytest.approx(expected, abs=1e-14)


@eqx.filter_jit
def jacobian(system, x):
    """Of the velocity by the upper triangle of Q and by R; readouts are one."""
    K = len(system.v_star)
    upper = np.triu_indices(K)

    def flow(x):
        half, R = x[: len(upper[0])], x[len(upper[0]) :].reshape(K, K)
        Q = jnp.zeros((K, K)).at[upper].set(half)
        Q = Q + jnp.triu(Q, 1).T
        d = system.velocity(0.0, OrderParameters(Q, R, jnp.ones(K)), None)
        return jnp.concatenate([d.Q[upper], d.R.ravel()])

    return jax.jacfwd(flow)(x)


@pytest.mark.parametrize(
    ("K", "critical"), [(1, 4.05578), (2, 2.30683), (3, 1.62067)], ids=["K=1", "K=2", "K=3"]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_perfect_solution_loses_stability_at_the_known_rate(K, critical, batch):
    """The largest growth rate of small deviations changes sign at η_c, which is proportional to B."""

    def growth(eta):
        with float64():
            system, _ = equations(problem(units=K, rate=eta, batch=batch))
            perfect = np.concatenate([np.eye(K)[np.triu_indices(K)], np.eye(K).ravel()])
            return np.linalg.eigvals(jacobian(system, jnp.asarray(perfect))).real.max()

    # The reference values have six digits.
    assert growth(batch * (critical - 1e-5)) < 0 < growth(batch * (critical + 1e-5))


@pytest.mark.parametrize(
    ("M", "spare"), [pytest.param(1, 0, marks=pytest.mark.slow), (2, 0), (2, 1)]
)
def test_noise_floor_at_small_rate(M, spare):
    """Specialised state with L spare units: loss = ησ²/(2π)·(L + M/√3) + O(η²)."""
    noise = 0.3
    K = M + spare
    errors = []
    for eta in (0.02, 0.01):
        teacher = ld.Teacher.orthonormal("erf", M)
        Q, R = np.diag([1.0] * M + [0.01] * spare), np.eye(K, M)
        training = ld.GradientDescent(eta, time=(60 if spare == 0 else 4000) / eta)
        made = ld.Problem(ld.TwoLayer("erf", Q, R), ld.Stream(teacher, noise=noise), training)
        loss = ld.solve(made)["test_loss"].values[-1]
        expected = eta * noise**2 / (2 * np.pi) * (spare + M / np.sqrt(3))
        errors.append(abs(loss / expected - 1))
    assert errors[0] < 0.1
    # The relative error is O(η): halving η halves it, up to the next order.
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.2)


def test_student_equal_to_teacher_stays_there_without_noise():
    teacher = ld.Teacher.orthonormal("erf", 3)
    network = ld.TwoLayer("erf", np.eye(3), np.eye(3))
    made = ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(0.5, time=50.0))
    for part in velocity(made):
        np.testing.assert_allclose(part, 0, atol=1e-14)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["erf", "relu", "linear"]))
def test_relabelling_student_units_commutes_with_the_flow(seed, activation):
    made = problem(
        units=3,
        teacher_units=2,
        activation=activation,
        seed=seed,
        noise=0.3,
        readout_scale=1.0,
        train_readout=True,
    )
    order = np.random.default_rng(seed).permutation(3)
    network = made.network
    shuffled = ld.TwoLayer(
        activation,
        network.Q[np.ix_(order, order)],
        network.R[order],
        network.readout[order],
        train_readout=True,
    )
    dQ, dR, dv = velocity(made)
    other = velocity(ld.Problem(shuffled, made.data, made.training))
    np.testing.assert_allclose(other.Q, dQ[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(other.R, dR[order], atol=1e-12)
    np.testing.assert_allclose(other.v, dv[order], atol=1e-12)
    np.testing.assert_allclose(dQ, dQ.T, atol=1e-12)


def test_noise_enters_only_the_student_overlaps():
    quiet, loud = (
        velocity(problem(units=3, teacher_units=2, noise=s, train_readout=True, readout_scale=1.0))
        for s in (0, 2)
    )
    np.testing.assert_array_equal(quiet.R, loud.R)
    np.testing.assert_array_equal(quiet.v, loud.v)
    assert np.linalg.eigvalsh(loud.Q - quiet.Q).min() > 0


@pytest.mark.parametrize("activation", ["erf", pytest.param("relu", marks=pytest.mark.slow)])
def test_covariance_stays_positive_semidefinite_and_symmetric(activation):
    solution = ld.solve(
        problem(units=3, teacher_units=1, activation=activation, noise=0.2, time=50.0)
    )
    T = np.eye(1)
    for Q, R in zip(solution["Q"].values, solution["R"].values, strict=True):
        np.testing.assert_allclose(Q, Q.T, atol=1e-12)
        C = np.block([[Q, R], [R.T, T]])
        assert np.linalg.eigvalsh(C).min() > -1e-8


def test_gradient_flow_is_the_small_rate_limit_of_the_stream():
    """Same time × rate: the difference is the η² term, so it halves with η."""
    flow = ld.solve(problem(supply="population", rate=1.0, time=5.0))["Q"].values[-1]
    gaps = [
        np.abs(ld.solve(problem(rate=eta, time=5.0 / eta))["Q"].values[-1] - flow).max()
        for eta in (0.01, 0.005)
    ]
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.05)


def test_weight_decay_of_a_linear_unit_is_exact():
    """K = M = 1, linear, flow: Ṙ = η(1 − R − κR)."""
    eta, decay = 0.7, 0.3
    made = problem(
        units=1,
        activation="linear",
        supply="population",
        rate=eta,
        weight_decay=decay,
    )
    solution = ld.solve(made, TIGHT)
    t, start = solution["time"].values, solution["R"].values[0, 0, 0]
    end = 1 / (1 + decay)
    exact = end + (start - end) * np.exp(-eta * (1 + decay) * t)
    np.testing.assert_allclose(solution["R"].values[:, 0, 0], exact, atol=1e-10)


def test_trained_readout_of_a_linear_unit_conserves_the_balance():
    """For linear units and flow with η = η_v, d(Q_ii − v_i²)/dt = 0."""
    made = problem(
        units=3,
        teacher_units=2,
        activation="linear",
        supply="population",
        rate=0.4,
        train_readout=True,
        readout_scale=0.8,
    )
    solution = ld.solve(made, TIGHT)
    balance = np.diagonal(solution["Q"], axis1=1, axis2=2) - solution["v"].values ** 2
    np.testing.assert_allclose(balance, np.broadcast_to(balance[0], balance.shape), atol=1e-10)


def test_readout_rate_defaults_to_the_learning_rate():
    a = problem(train_readout=True, rate=0.4)
    b = problem(train_readout=True, rate=0.4, readout_rate=0.4)
    np.testing.assert_array_equal(ld.solve(a)["v"], ld.solve(b)["v"])


def test_piecewise_rate_is_two_trainings_in_a_row():
    saved = [0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 10.0]
    jumping = problem(rate=ld.Piecewise([4.0], [1.0, 0.2]), time=10.0)
    whole = ld.solve(jumping, TIGHT, save_at=saved)
    # As many times in both parts: they share what is compiled.
    first = ld.solve(problem(rate=1.0, time=4.0), TIGHT, save_at=saved[:4])
    middle = ld.TwoLayer("erf", first["Q"].values[-1], first["R"].values[-1])
    teacher = ld.Teacher.orthonormal("erf", 2)
    rest = ld.Problem(middle, ld.Stream(teacher), ld.GradientDescent(0.2, time=6.0))
    second = ld.solve(rest, TIGHT, save_at=[t - 4.0 for t in saved[3:]])
    np.testing.assert_allclose(whole["Q"].values[:4], first["Q"].values, atol=1e-10)
    np.testing.assert_allclose(whole["Q"].values[3:], second["Q"].values, atol=1e-9)


def test_stated_accuracy_bounds_the_error():
    made = problem(time=100.0, noise=0.1)
    rough, fine = (
        ld.solve(made, ld.OrderParameterODE(rtol=r, atol=1e-3 * r)) for r in (1e-6, 1e-11)
    )
    for name in ("test_loss", "Q", "R"):
        error = np.abs(rough[name] - fine[name]).max()
        assert error <= rough.evidence["accuracy"][name]
        assert error > 0


def test_times_do_not_change_the_curve():
    made = problem(time=20.0)
    coarse = ld.solve(made, save_at=[5.0, 20.0])
    log = ld.solve(made, save_at=ld.log_times(20.0, 30, first=0.01))
    assert log["time"].values[0] == 0
    accuracy = coarse.evidence["accuracy"]["Q"] + log.evidence["accuracy"]["Q"]
    np.testing.assert_allclose(coarse["Q"].values[-1], log["Q"].values[-1], atol=accuracy)


def test_giving_up_says_how_far_it_came():
    with pytest.raises(ld.NotConverged, match=r"max_steps = 3 at time .* of 10"):
        ld.solve(problem(), ld.OrderParameterODE(max_steps=3))


def test_gradient_of_the_final_error_with_respect_to_the_rate():
    made = problem(units=1, time=5.0, noise=0.1, train_readout=True)

    def final(rate):
        training = ld.GradientDescent(rate, time=5.0)
        again = ld.Problem(made.network, made.data, training)
        return ld.trace(again, TIGHT, save_at=[5.0])["test_loss"][-1]

    step = 1e-4
    with float64():
        # Compiled once for values and slope.
        both = jax.jit(jax.value_and_grad(final))
        slope = float(both(0.8)[1])
        difference, wide = (
            float(both(0.8 + h)[0] - both(0.8 - h)[0]) / (2 * h) for h in (step, 2 * step)
        )
    # Central differences err by O(step²): a third of their change when the step doubles, plus solver error / step.
    assert slope == pytest.approx(difference, abs=abs(wide - difference) + 1e-11 / step)


def test_gradient_without_64_bit_mode_is_refused_with_the_remedy():
    made = problem(time=5.0)

    def final(rate):
        again = ld.Problem(made.network, made.data, ld.GradientDescent(rate, time=5.0))
        return ld.trace(again, save_at=[5.0])["test_loss"][-1]

    with pytest.raises(ld.LearndynError, match="float64"):
        jax.grad(final)(0.8)


def test_traced_solution_equals_solve():
    made = problem(time=5.0, noise=0.2)
    with float64():
        # As a whole: outside, every operation would be compiled by itself.
        solution, arrays = ld.solve(made), jax.jit(lambda: ld.trace(made))()
    for name, values in arrays.items():
        np.testing.assert_allclose(values, solution[name], atol=1e-7)


def test_specialisation_counts_the_lead_over_the_second_teacher():
    solution = ld.solve(problem(time=5.0))
    R, Q = solution["R"].values, solution["Q"].values
    cosine = np.sort(np.abs(R) / np.sqrt(np.diagonal(Q, axis1=1, axis2=2))[:, :, None], axis=-1)
    np.testing.assert_allclose(solution["specialisation"], cosine[..., -1] - cosine[..., -2])


def test_too_many_units_for_the_memory_are_refused(monkeypatch):
    made = problem(units=10)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2**16))
    with pytest.raises(
        ld.NotEnoughMemory, match=r"10 student and 10 teacher units .* 0\.0 GiB are free"
    ):
        ld.solve(made)
