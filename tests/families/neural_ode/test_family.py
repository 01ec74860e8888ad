"""Neurons, windows, observations, delays and stacked systems: the map against the process, and exact limits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.neural_ode.limit.epoch import epoch
from learndyn.families.neural_ode.limit.flow_numbers import Overlaps, flow_of, overlaps_of
from learndyn.families.neural_ode.limit.memory import Memory
from learndyn.families.neural_ode.limit.overlap_map import loss_of
from learndyn.families.neural_ode.limit.trajectories import teacher_of
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.numerics.precision import float64
from tests import problems
from tests.problems import PAPER

pytestmark = pytest.mark.compiles

CONTEXT = [[[0, 0], [0, 0.8]], [[0, 0.2], [0.4, 0.1]]]
"""G = 0.8 q m + s (0.2 m + 0.4 q + 0.1 q m)."""
ROUNDING = 1e-13
"""A few hundred operations on numbers of order one."""
problem = partial(problems.neural_ode, steps=6, epochs=4)

HALF = ld.Observations([0.5, 1.0])
CASES = {
    "own fields": problem(
        amplitudes=[1.0, -0.5, 0.3],
        teacher_amplitudes=[1.0],
        train_amplitudes=True,
        amplitude_rate=ld.PowerDecay(0.3, 0.5),
        weight_decay=0.05,
    ),
    "one field": problem(
        amplitudes=[1.0, -0.5, 0.3],
        teacher_amplitudes=[1.0, 0.6],
        own_fields=False,
        train_amplitudes=True,
        teacher_overlaps=[[1.0, 0.2], [0.2, 0.9]],
        adjoint="truncated",
    ),
    "windows": problem(batch=2, windows=2, teacher_windows=3, initial_overlap=0.2),
    "windows of neurons": problem(
        windows=2,
        amplitudes=[1.0, 2.0],
        teacher_amplitudes=[0.4, 1.0, 0.3],
        train_amplitudes=True,
        noise=0.1,
        confinement=ld.Formula("z + z**2/4"),
    ),
    "sets in turn": problem(
        batch=2,
        observations=ld.Observations([[0.5], [0.5, 1.0], [1.0]], weight=0.7),
        teacher_time=2.0,
    ),
    "masks": problem(observations=ld.Observations([1 / 3, 1.0], visible=0.4)),
    "one mask": problem(
        batch=3,
        observations=ld.Observations([0.5, 1.0], visible=0.4, mask="trajectory"),
        noise=0.1,
        teacher_noise=0.05,
        adjoint_noise=0.1,
    ),
    "delay": problem(field="0.8*q*m*exp(s/3) + 0.2*s*m", delay=1 / 3),
    "stack": problem(driven=CONTEXT),
    "stack of all": problem(
        batch=2,
        observations=ld.Observations([0.5, 1.0], 0.6, mask="trajectory"),
        driven=CONTEXT,
        driver_loss=0.3,
        amplitudes=[1.0, 0.5],
        teacher_amplitudes=[0.7],
        own_fields=False,
        windows=2,
        teacher_windows=1,
        train_amplitudes=True,
        noise=0.1,
        teacher_noise=0.05,
    ),
}


def first_epoch(asked: ld.Problem):
    """What the first epoch gives, compiled as a whole."""
    with float64():
        flow = flow_of(FlowPair.of(asked))
        start = overlaps_of(FlowPair.of(asked).start())
        return jax.device_get(jax.jit(lambda now: epoch(flow, teacher_of(flow), now))(start))


COVERED = {"windows", "masks", "stack"}
"""Cases whose terms are all in the cases of several terms, or by hand below."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * (case in COVERED)) for case in CASES],
)
def test_the_map_is_the_process(case):
    """Two independent transcriptions: sums over units in JAX, and the engine's list of uses."""
    found, memory = (
        ld.solve(CASES[case], method) for method in (ld.OverlapMap(), ld.TrainingMemory())
    )
    assert set(found.data) == set(memory.data)
    for name in map(str, found.data):
        assert found[name].dims == memory[name].dims
        np.testing.assert_allclose(memory[name], found[name], rtol=0, atol=ROUNDING)
    assert abs(float(found["test_loss"][-1] - found["test_loss"][0])) > 1e-3


@pytest.mark.parametrize(
    "case",
    # Windows, neurons and amplitudes are in the stack of all, too.
    [
        pytest.param("windows of neurons", marks=pytest.mark.slow),
        # The mask of the stack of all is that of a trajectory, too.
        pytest.param("one mask", marks=pytest.mark.slow),
        "delay",
        "stack of all",
    ],
)
def test_the_moves_are_the_gradient_of_the_loss(case):
    """The visible loss per component is ℓ(a, Q, M): K = (1/σ)(∂ℓ/∂Q + (∂ℓ/∂Q)ᵀ), V = −(1/σ) ∂ℓ/∂M, pull = ∂ℓ/∂a."""
    asked = CASES[case]
    sigma = asked.network.control_ratio

    @jax.jit
    def both(now):
        flow = flow_of(FlowPair.of(asked))
        x = teacher_of(flow)
        loss = jax.grad(lambda at: epoch(flow, x, at).visible_loss)(now)
        return epoch(flow, x, now), loss

    with float64():
        now = overlaps_of(FlowPair.of(asked).start())
        rng = np.random.default_rng(3)
        now = Overlaps(now.a, 0.7 * now.Q + 0.1, now.M + 0.2 * rng.random(now.M.shape))
        made, slopes = both(now)
        np.testing.assert_allclose(made.K, (slopes.Q + slopes.Q.T) / sigma, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(made.V, -slopes.M / sigma, rtol=0, atol=ROUNDING)
        if asked.network.train_amplitudes:
            np.testing.assert_allclose(made.pull, slopes.a, rtol=0, atol=ROUNDING)
        assert np.max(np.abs(made.V)) > 0.01


def test_one_euler_step_of_neurons_by_hand():
    """N = 1, own fields: a closed map of a_j, m_j and Q_j."""
    g, h, eta, eta_a, sigma, B = 0.8, 0.7, 0.6, 0.5, 0.75, 2
    a, star = np.array([1.0, -0.5, 0.4]), np.array([1.2, 0.6])
    Q, m = np.array([0.9, 0.6, 0.5]), np.array([0.3, -0.2])
    asked = problem(
        batch=B, rate=eta, epochs=1, amplitude_rate=eta_a, time=h, steps=1, amplitudes=a,
        teacher_amplitudes=star, train_amplitudes=True, initial_norm=np.diag(Q),
        initial_overlap=[[m[0], 0.0], [0.0, m[1]], [0.0, 0.0]],
    )  # fmt: skip
    found = ld.solve(asked)

    def G(overlap):
        return g * overlap + 0.4

    alpha, teacher = a / 3, np.append(star / 2, 0.0)
    m = np.append(m, 0.0)
    square = h**2 * np.sum(alpha**2 * G(Q) - 2 * alpha * teacher * G(m) + teacher**2 * G(1.0))
    K, V = h**2 / sigma * alpha**2 * g, h**2 / sigma * alpha * teacher * g
    A = 1 - eta * K
    after_m = A * m + eta * V
    after_Q = A**2 * Q + 2 * A * eta * V * m + (eta * V) ** 2 + eta**2 * K * square / B
    after_a = a - eta_a * h**2 / 3 * (alpha * G(Q) - teacher * G(m))
    np.testing.assert_allclose(found["test_loss"][0], square / 2, rtol=ROUNDING)
    np.testing.assert_allclose(np.diagonal(found["m"][1]), after_m[:2], rtol=ROUNDING)
    np.testing.assert_allclose(np.diagonal(found["Q"][1]), after_Q, rtol=ROUNDING)
    np.testing.assert_allclose(found["a"][1], after_a, rtol=ROUNDING)


def test_a_neuron_cut_in_two_halves_with_twice_the_rate_is_one_neuron():
    data = ld.Stream(ld.TeacherFlow(), batch=2)
    one = ld.solve(problem(data=data, initial_overlap=0.3, initial_norm=0.8))
    two = ld.solve(
        problem(
            data=data, rate=1.0, amplitudes=[1.0, 1.0], own_fields=False,
            initial_norm=np.full((2, 2), 0.8), initial_overlap=[[0.3], [0.3]],
        )
    )  # fmt: skip
    for name in ("Q", "m"):
        expected = np.broadcast_to(one[name].values, two[name].shape)
        np.testing.assert_allclose(two[name], expected, atol=ROUNDING)
    np.testing.assert_allclose(two["test_loss"], one["test_loss"], atol=ROUNDING)


def test_windows_with_one_control_are_one_window():
    """Two windows that start with the same control: the loss is that of one, and so is the sum of their moves."""
    one = problem(initial_overlap=0.3)
    two = problem(
        windows=2, teacher_windows=1, initial_norm=np.ones((2, 2)), initial_overlap=[[0.3], [0.3]]
    )
    epochs = [first_epoch(asked) for asked in (one, two)]
    np.testing.assert_allclose(epochs[1].loss, epochs[0].loss, rtol=ROUNDING)
    for name in ("K", "V", "N"):
        total = np.sum(getattr(epochs[1], name))
        np.testing.assert_allclose(total, getattr(epochs[0], name)[0, 0], rtol=ROUNDING)


@pytest.mark.slow
def test_flow_conserves_the_difference_of_norms():
    """G linear in the control: gradient flow conserves σQ_j/η − a_j²/η_a; its drift is proportional to the rates."""
    drift = []
    for k in (1, 2, 4):
        asked = problem(
            batch=10**6, rate=2.0 / k, epochs=8 * k, field=[[0, 0], [0, 0.8]],
            amplitude_rate=1.0 / k, amplitudes=[1.0, 0.5], teacher_amplitudes=[1.0, 1.0],
            train_amplitudes=True, initial_overlap=0.5, initial_norm=0.8,
        )  # fmt: skip
        found = ld.solve(asked)
        # The rates without k: both are divided by it.
        conserved = 0.75 * np.diagonal(found["Q"], axis1=1, axis2=2) / 2.0 - found["a"] ** 2
        drift.append(float(np.max(np.abs(conserved[-1] - conserved[0]))))
        assert abs(float(found["a"][-1, 1] - found["a"][0, 1])) > 0.1
    ratios = np.divide(drift[:-1], drift[1:])
    # First order in the rate: the ratio is 2 + O(rate).
    assert np.all(np.abs(ratios - 2) < 0.2)
    assert abs(ratios[1] - 2) < abs(ratios[0] - 2)


@pytest.mark.parametrize(
    "network",
    [
        {
            "amplitudes": [1.5 * 0.8, -1.5, 0.0],
            "teacher_amplitudes": [0.8, -1.0],
            "train_amplitudes": True,
            "initial_overlap": 1.0,
        },
        {"windows": 3, "initial_overlap": 1.0},
        {"driven": CONTEXT, "driver_loss": 0.5, "initial_overlap": 1.0},
        {"field": CONTEXT, "delay": 0.5, "initial_overlap": 1.0},
    ],
)
def test_the_teacher_is_a_fixed_point(network):
    data = ld.Stream(ld.TeacherFlow(observations=ld.Observations([0.5, 1.0], visible=0.5)))
    found = ld.solve(problem(data=data, **network))
    np.testing.assert_allclose(found["test_loss"], 0.0, atol=ROUNDING)
    for name in ("Q", "m"):
        moved = found[name] - found[name].isel(step=0)
        np.testing.assert_allclose(moved, 0.0, atol=ROUNDING)


def test_an_observation_of_the_end_is_the_loss():
    ends = ld.solve(problem(observations=ld.Observations([1.0])))
    plain = ld.solve(problem())
    for name in map(str, plain.data):
        np.testing.assert_allclose(ends[name], plain[name], atol=ROUNDING)
    np.testing.assert_allclose(ends["train_loss"], plain["test_loss"], atol=ROUNDING)


def test_masks_of_one_euler_step_by_hand():
    """N = 1: K and V are those of all components times ρ, and so is N: ⟨ε²⟩ = ρ."""
    rho, epochs = 0.4, []
    for visible in (1.0, rho):
        data = ld.Stream(ld.TeacherFlow(observations=ld.Observations([0.7], visible=visible)))
        epochs.append(first_epoch(problem(data=data, time=0.7, steps=1)))
    for name in ("K", "V", "N", "visible_loss"):
        whole, part = (np.asarray(getattr(epoch, name)) for epoch in epochs)
        np.testing.assert_allclose(part, rho * whole, rtol=ROUNDING)
    np.testing.assert_allclose(epochs[1].loss, epochs[0].loss, rtol=ROUNDING)


def test_masks_at_two_short_times_by_hand():
    """h → 0, N = 2: y_n − x_n = nhu, and the gradient is that of (ε_1 + 4ε_2)u, of which N has the second moment."""
    rho, h = 0.3, 1e-5
    N = []
    for visible, mask in ((1.0, "observation"), (rho, "observation"), (rho, "trajectory")):
        data = ld.Stream(ld.TeacherFlow(observations=ld.Observations([h, 2 * h], visible, mask)))
        N.append(float(first_epoch(problem(data=data, time=2 * h, steps=2)).N[0, 0]))
    # Relative errors are of order h.
    np.testing.assert_allclose(N[1] / N[0], (17 * rho + 8 * rho**2) / 25, rtol=10 * h)
    np.testing.assert_allclose(N[2] / N[0], rho, rtol=10 * h)


@pytest.mark.slow
def test_without_delay_a_context_is_the_state_itself():
    """Δ = 0: G(q, m, s = q); and a field that ignores its second state does not feel a delay."""
    same = ld.solve(problem(field=CONTEXT, delay=0.0))
    plain = ld.solve(problem(field="0.8*q*m + 0.2*q*m + 0.4*q**2 + 0.1*q**2*m"))
    ignored = ld.solve(problem(field=[PAPER, [[0, 0], [0, 0], [0, 0]]], delay=0.5))
    base = ld.solve(problem())
    for name in map(str, base.data):
        np.testing.assert_allclose(same[name], plain[name], atol=ROUNDING)
        np.testing.assert_allclose(ignored[name], base[name], atol=ROUNDING)
    late = ld.solve(problem(field=CONTEXT, delay=0.5))
    assert abs(float(late["test_loss"][-1] - same["test_loss"][-1])) > 1e-3


@pytest.mark.slow
def test_a_driven_system_that_ignores_its_driver_is_alone():
    ignoring = [PAPER, [[0, 0], [0, 0], [0, 0]]]
    both = ld.solve(problem(driven=ignoring, driver_loss=1.0))
    alone = ld.solve(problem())
    for name in ("Q", "m"):
        for unit in range(2):
            np.testing.assert_allclose(
                both[name][:, unit, unit], alone[name][:, 0, 0], atol=ROUNDING
            )
    np.testing.assert_allclose(both["test_loss"], 2 * alone["test_loss"], atol=ROUNDING)
    unseen = ld.solve(problem(driven=ignoring))
    np.testing.assert_array_equal(unseen["m"][:, 0], 0.0)
    np.testing.assert_allclose(unseen["m"][:, 1, 1], alone["m"][:, 0, 0], atol=ROUNDING)


@pytest.mark.parametrize(
    "asked",
    [
        problem(chained=True, windows=2, amplitudes=[1.0, 0.5], train_amplitudes=True),
        problem(supply="dataset", examples=2, observations=HALF, driven=CONTEXT),
    ],
)
def test_a_fresh_trajectory_in_the_process_has_the_loss_of_the_map(asked):
    """With G(0, ·) = 0 what was trained on is forgotten: overlaps and amplitudes are all a test feels."""
    with float64():
        made = Memory(asked, 3)
        for step in range(3):
            taught = made.teach(step)
            students = [made.student(x) for x in taught]
            for y, x in zip(students, taught, strict=True):
                made.adjoint(y, x, step)
            made.update(students, 0.5, 0.2)
        every = np.max(made.observed, axis=0)
        x = made.teacher([made.engine.start() for _ in made.systems])
        found = made.loss(made.student(x), x, every)
        C, now = made.engine.controls.C, made.students[-1]
        Q = C[np.ix_(now.numbers, now.numbers)]
        M = C[np.ix_(now.numbers, made.teachers.numbers)]
        np.testing.assert_allclose(found, loss_of(made.flow, now.a, Q, M), rtol=ROUNDING)
        trained = made.loss(made.student(taught[0]), taught[0], every)
        assert abs(trained - found) > 1e-3


def test_superfluous_neurons_switch_themselves_off():
    """Own fields, one neuron in the teacher and three in the student: the other amplitudes fall exponentially."""
    found = ld.solve(
        problem(
            rate=1.0, epochs=200, amplitudes=[1.0, 1.0, -1.0], train_amplitudes=True,
            amplitude_rate=1.0,
        ),
        save_at=[0, 50, 100, 150, 200],
    )  # fmt: skip
    a = np.abs(found["a"].values)
    decay = np.diff(np.log(a[:, 1:]), axis=0)
    assert np.all(decay < -1)
    # Straight in the logarithm from step 50 on, but for the slow change of the first neuron's own amplitude.
    np.testing.assert_allclose(decay[2:], decay[1:-1], rtol=0.02)
    np.testing.assert_allclose(found["a"][-1, 0] / 3 * found["m"][-1, 0, 0], 1.0, atol=0.02)
    assert np.all(np.diagonal(found["Q"][-1])[1:] > 0.05)


@pytest.mark.slow
def test_the_map_is_differentiable():
    """d(loss)/d(amplitude) of a trained two-layer flow, against central differences (error 1e-10)."""

    def last(a):
        traced = ld.trace(problem(epochs=2, steps=3, amplitudes=jnp.stack([a, 0.5 * a])))
        return traced["test_loss"][-1]

    with ld.float64():
        both = jax.jit(jax.value_and_grad(last))
        difference = (both(1.00001)[0] - both(0.99999)[0]) / 2e-5
        np.testing.assert_allclose(both(1.0)[1], difference, rtol=1e-7)


@pytest.mark.parametrize(
    "data",
    [ld.Stream(ld.TeacherFlow(chained=True)), ld.Dataset(ld.TeacherFlow(), examples=2, batch=1)],
)
def test_either_state_of_a_field_remembers(data):
    """Δ = 0 and G(s, m) in the place of G(q, m): all memory is then that of the second state."""
    first = ld.solve(problem(data=data, field="0.2*m + 0.8*q*m + 0.4*q**2"))
    second = ld.solve(problem(data=data, field="0.2*m + 0.8*s*m + 0.4*s**2", delay=0.0))
    for name in map(str, first.data):
        np.testing.assert_allclose(second[name], first[name], atol=10 * ROUNDING)


@pytest.mark.parametrize(
    "data",
    [
        ld.Stream(ld.TeacherFlow(), batch=2),
        ld.Stream(ld.TeacherFlow(chained=True)),
        ld.Dataset(ld.TeacherFlow(), examples=2, batch=1),
    ],
)
def test_amplitude_and_control_have_one_gradient_where_the_field_is_linear_in_the_control(data):
    """⟨π, r(y, θ)⟩ = θ·∇_θ⟨π, r(y, θ)⟩: a_k(a_k − a_{k+1})/η_a = σ(Q_k − C_θ(k+1, k))/η, neuron by neuron."""
    found = ld.solve(
        problem(
            data=data, field=[[0, 0.2], [0, 0.8], [0, 0.3]], amplitude_rate=0.3,
            amplitudes=[1.0, 0.7], teacher_amplitudes=[1.0, 0.5], train_amplitudes=True,
        )
    )  # fmt: skip
    a, C = found["a"].values, found["C_theta"].values
    k = np.arange(len(a) - 1)
    for unit in range(2):
        of_amplitude = a[:-1, unit] * (a[:-1, unit] - a[1:, unit]) / 0.3
        of_control = 0.75 * (C[k, unit, k, unit] - C[k + 1, unit, k, unit]) / 0.5
        np.testing.assert_allclose(of_amplitude, of_control, atol=ROUNDING)
        assert np.max(np.abs(of_control)) > 0.01
