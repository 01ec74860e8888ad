"""Finite neural ODEs of the larger family: where they must equal simpler ones, and what is drawn and refused."""

from functools import partial

import numpy as np
import pytest

from learndyn.core.record import Record
from learndyn.core.simulate import simulate
from learndyn.errors import ProblemError
from learndyn.families.neural_ode.finite.descent import AdjointDescent, memory
from learndyn.families.neural_ode.finite.flows import draw_controls, gradients
from learndyn.families.neural_ode.finite.measurements import Observer
from learndyn.families.neural_ode.finite.tensor_field import TensorField
from learndyn.families.neural_ode.finite.training_run import FiniteNeuralODE, FiniteSetup
from learndyn.families.neural_ode.units import InitialOverlaps
from learndyn.problem.supplies import Dataset, Stream
from learndyn.problem.tasks import Observations, TeacherFlow
from tests import problems
from tests.families.neural_ode.test_finite import peak_of
from tests.optional import not_none
from tests.problems import ALL_TERMS, MU, NO_FIELD, TWO_STATES

EPS = np.finfo(float).eps
NOISY = {"noise": 0.05, "teacher_noise": 0.03, "adjoint_noise": 0.02}
DATA = {
    "fresh": Stream(TeacherFlow(), batch=2),
    "chained": Stream(TeacherFlow(chained=True), batch=2),
    "in turn": Dataset(TeacherFlow(), examples=4, batch=2),
}
D, D_THETA, H, N = 6, 9, 0.15, 4
ROUNDING = {"rtol": 0, "atol": 1e4 * EPS}
"""Some thousand operations with numbers of order one."""
problem = partial(
    problems.neural_ode,
    field=ALL_TERMS,
    confinement=MU,
    control_ratio=D_THETA / D,
    time=N * H,
    steps=N,
    data=Stream(TeacherFlow(), batch=2),
    epochs=3,
)


def curves(made, size=D, seed=0, **options):
    found = simulate(made, size, first_seed=seed, method=AdjointDescent(**options)).data
    return {str(name): one.values[0] for name, one in found.data_vars.items()}


def started(made, seed=0):
    """A system that has drawn its fields, its controls and nothing else."""
    return FiniteNeuralODE(
        made, FiniteSetup.of(made, D), seed, AdjointDescent(), Record.of(made.training)
    )


def same(found, expected, names=None):
    for name in names or expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


RECORD = {"inference_steps": [0, 2], "responses": True}


@pytest.mark.bitwise
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_windows_with_equal_controls_are_one_window(data):
    one = curves(problem(data=data, epochs=1, initial_overlap=0.3, **NOISY), inference_steps=[0])
    options = {"windows": 2, "teacher_windows": 1, "initial_norm": np.ones((2, 2))}
    options |= {"initial_overlap": np.full((2, 1), 0.3)}
    two = curves(problem(data=data, epochs=1, **options, **NOISY), inference_steps=[0])
    # Before the first step everything is the same; then each window takes its part of the gradient.
    same(two, one, [name for name in one if name.startswith("C_") and name != "C_theta"])
    for name in ("test_loss", "train_loss"):
        if name in one:
            assert two[name][0] == one[name][0]
    moved = np.sum(two["m"][1, :, 0] - 0.3)
    np.testing.assert_allclose(moved, one["m"][1] - 0.3, **ROUNDING)
    assert abs(two["m"][1, 0, 0] - two["m"][1, 1, 0]) > 1e-3


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_a_neuron_cut_in_two_is_one_neuron_with_half_the_rates(data):
    options = {"own_fields": False, "train_amplitudes": True, "teacher_amplitudes": [1.0]} | NOISY
    one = curves(
        problem(
            data=data,
            rate=0.5,
            amplitude_rate=0.3,
            amplitudes=[0.8],
            initial_overlap=0.3,
            **options,
        )
    )
    halves = {"initial_norm": np.ones((2, 2)), "initial_overlap": np.full((2, 1), 0.3)}
    made = problem(
        data=data, rate=1.0, amplitude_rate=0.6, amplitudes=[0.8, 0.8], **halves, **options
    )
    two = curves(made)
    for name in one:
        axes = (np.s_[:, :1],) if name in ("a", "m") else (np.s_[:, :1, :1], np.s_[:, 1:, 1:])
        axes = (np.s_[:, :1, :, :1], np.s_[:, 1:, :, 1:]) if name == "C_theta" else axes
        axes = (np.s_[:],) if name.endswith("loss") else axes
        for axis in axes:
            np.testing.assert_allclose(two[name][axis], one[name], **ROUNDING)
    assert np.max(np.abs(np.diff(one["a"], axis=0))) > 1e-3


def test_neurons_of_amplitude_zero_do_not_act_but_learn_their_amplitude():
    options = {"amplitudes": [2.0, 0.0], "teacher_amplitudes": [1.0], "train_amplitudes": True}
    found, one = curves(problem(epochs=1, **options)), curves(problem(epochs=1))
    # a/h_s = 1 for the first neuron, whose field and control are drawn first.
    assert found["test_loss"][0] == one["test_loss"][0]
    np.testing.assert_allclose(found["m"][1, 0, 0], one["m"][1], **ROUNDING)
    # The control of a neuron without amplitude feels no force.
    assert found["Q"][1, 1, 1] == pytest.approx(1.0, abs=10 * EPS)
    assert abs(found["a"][1, 1]) > 1e-4


@pytest.mark.bitwise
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_a_delay_that_the_field_ignores_changes_nothing(data):
    plain = curves(problem(data=data, **NOISY), **RECORD)
    for delay in (0.0, 0.3):
        same(curves(problem(data=data, field=[ALL_TERMS], delay=delay, **NOISY), **RECORD), plain)


def test_a_field_of_the_state_or_of_the_same_state_delayed_by_nothing_is_the_same():
    as_second = [[[0, 0], [0, 0]], [[0, 0.8], [0, 0]]]
    first = curves(problem(field=[[0, 0], [0, 0.8]], **NOISY), **RECORD)
    second = curves(problem(field=as_second, delay=0.0, **NOISY), **RECORD)
    for name, one in first.items():
        np.testing.assert_allclose(second[name], one, rtol=0, atol=1e-9)
    delayed = curves(problem(field=as_second, delay=H, **NOISY), **RECORD)
    assert np.max(np.abs(delayed["test_loss"] - first["test_loss"])) > 1e-3


def separate(field):
    """A drawn field of two states that does not depend on the second, as a field of one."""
    fixed = {orders[:1]: T for orders, T in field.fixed.items()}
    tensors = {(orders[:1], j): T for (orders, j), T in field.tensors.items()}
    return TensorField(field.d, field.d_theta, fixed, tensors)


def test_a_stack_without_drive_is_two_systems():
    made = problem(driven=[ALL_TERMS], driver_loss=1.0, windows=2, **NOISY)
    run, simple = started(made), problem(windows=2)
    pair = [run.fields[0], separate(run.fields[1])]
    rng = np.random.default_rng(0)
    sources, ends = rng.standard_normal((2, N + 1, 2, 3, D))
    flow, controls = run.flow, run.controls
    drifts = [run.teacher[0], run.teacher[1]]
    y = flow.forward(drifts, sources)
    p = flow.backward(drifts, y, ends)
    found = gradients(flow, run.fields, run.setup.student, controls, y.x, p, True)
    for s in range(2):
        alone = started(simple)
        some = slice(2 * s, 2 * s + 2)
        theta = controls._replace(theta=controls.theta[some], a=controls.a[some])
        star = [[one if s == 0 else separate_drift(one) for one in run.teacher[s]]]
        path = flow.forward(star, sources[:, s : s + 1])
        back = flow.backward(star, path, ends[:, s : s + 1])
        np.testing.assert_allclose(y.x[:, s : s + 1], path.x, **ROUNDING)
        np.testing.assert_allclose(p[:, s : s + 1], back, **ROUNDING)
        expected = gradients(flow, [pair[s]], alone.setup.student, theta, path.x, back, True)
        np.testing.assert_allclose(found.theta[some], expected.theta, **ROUNDING)
        np.testing.assert_allclose(found.a[some], expected.a, **ROUNDING)


def separate_drift(frozen):
    """The same for a field at one control."""
    return type(frozen)(frozen.d, {orders[:1]: A for orders, A in frozen.A.items()})


@pytest.mark.bitwise
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_seeing_the_end_in_full_is_seeing_without_observations(data):
    plain = curves(problem(data=data, **NOISY), **RECORD)
    # With 10⁻⁹ not one of the few hundred components is hidden, but masks are drawn.
    for visible, mask in (
        (1.0, "observation"),
        (1 - 1e-9, "observation"),
        (1 - 1e-9, "trajectory"),
    ):
        seen = Observations([N * H], visible=visible, mask=mask)
        found = curves(problem(data=data, observations=seen, **NOISY), **RECORD)
        same(found, plain)
        if data is DATA["fresh"]:
            np.testing.assert_allclose(found["train_loss"], found["test_loss"], rtol=10 * EPS)


def test_a_weight_is_a_factor_of_the_losses_and_of_the_rate():
    data = [
        Stream(TeacherFlow(observations=Observations([0.3, 0.6], weight=w)), batch=2)
        for w in (1.0, 2.5)
    ]
    one, other = curves(problem(data=data[0], rate=0.5)), curves(problem(data=data[1], rate=0.2))
    for name, factor in (("Q", 1), ("m", 1), ("train_loss", 2.5), ("test_loss", 2.5)):
        np.testing.assert_allclose(other[name], factor * one[name], **ROUNDING)


@pytest.mark.parametrize("mask", ["observation", "trajectory"])
def test_components_are_seen_as_often_as_asked_and_masks_last_as_long_as_asked(mask):
    seen = Observations([[0.3, 0.6], [0.15, 0.45, 0.6]], visible=0.3, mask=mask)
    observer = Observer(problem(data=Stream(TeacherFlow(observations=seen), batch=2)))
    rng = np.random.default_rng(0)
    B, d = 40, 50
    first, second, third = (observer.at(step, (2, B, d), rng) for step in range(3))
    assert [one.student.tolist() for one in (first, second, third)] == [[2, 4], [1, 3, 4], [2, 4]]
    assert observer.everything.student.tolist() == [1, 2, 3, 4]
    assert observer.everything.mask is None
    count = 3 if mask == "observation" else 1
    masks = [not_none(one.mask) for one in (first, second, third)]
    assert masks[1].shape == (count, 2, B, d)
    for one in masks:
        # The mean of n independent components varies by ρ(1 − ρ)/n; so do products of two masks, for ρ².
        assert abs(np.mean(one) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / one.size)
    for a, b in ((masks[0][0], masks[2][0]), (masks[0][0, 0], masks[0][0, 1])):
        assert abs(np.mean(a & b) - 0.09) < 5 * np.sqrt(0.09 * 0.91 / a.size)


def test_the_teacher_is_seen_at_the_same_fraction_of_its_time():
    seen = Observations([0.3, 0.6])
    made = problem(data=Stream(TeacherFlow(observations=seen)), teacher_time=0.3)
    observer = Observer(made)
    assert observer.everything.student.tolist() == [2, 4]
    assert observer.everything.teacher.tolist() == [1, 2]


@pytest.mark.parametrize("visible", [1.0, 0.5])
def test_responses_of_the_adjoint_see_every_observation(visible):
    c, w = 0.7, 1.5
    seen = Observations([0.3, 0.6], weight=w, visible=visible)
    made = problem(
        data=Stream(TeacherFlow(observations=seen), batch=2), field=NO_FIELD, confinement=c
    )
    found = curves(made, inference_steps=[0], responses=True)
    masks = started(made).rngs["masks"].random((2, 2, D)) < visible
    keep = 1 - H * c
    n, k = np.ogrid[: N + 1, : N + 1]
    expected = sum(
        w * np.mean(mask) * (o >= n) * (o >= k) * keep ** (2.0 * o - n - k)
        for o, mask in zip((round(0.3 / H), N), masks, strict=True)
    )
    # Central differences of a linear function err by rounding over 10⁻⁵.
    np.testing.assert_allclose(found["R_py"][0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["R_px"][0], -expected, rtol=0, atol=1e-9)


@pytest.mark.bitwise
def test_what_is_recorded_does_not_change_the_curve():
    seen = Observations([[0.3, 0.6], [0.45]], visible=0.5)
    for data in (
        Stream(TeacherFlow(observations=seen), batch=2),
        Dataset(TeacherFlow(observations=seen), examples=2),
    ):
        made = problem(data=data, windows=2, teacher_windows=1, **NOISY)
        same(curves(made, **RECORD), curves(made))


@pytest.mark.parametrize(("units", "d_theta"), [(2, 5), (2, 40), (3, 6)])
def test_controls_have_exactly_their_overlaps(units, d_theta):
    rng = np.random.default_rng(units)
    root = rng.standard_normal((units + 3, 20))
    G = root @ root.T / 20
    start = InitialOverlaps(None, G[:units, :units], G[:units, units:], G[units:, units:], None)
    star, theta = draw_controls(start, d_theta, rng)
    drawn = np.concatenate([theta, star])
    # Gram–Schmidt loses as many digits as the condition number of a few random vectors has.
    np.testing.assert_allclose(drawn @ drawn.T / d_theta, G, rtol=0, atol=1e4 * EPS)


@pytest.mark.bitwise
def test_controls_that_should_be_equal_are_equal():
    same_of_all = np.ones((3, 3))
    start = InitialOverlaps(None, same_of_all, 0.4 * np.ones((3, 2)), np.ones((2, 2)), None)
    star, theta = draw_controls(start, 8, np.random.default_rng(0))
    np.testing.assert_array_equal(star[0], star[1])
    np.testing.assert_array_equal(theta[0], theta[1])
    np.testing.assert_array_equal(theta[0], theta[2])
    np.testing.assert_allclose(theta[0] @ star[0] / 8, 0.4, rtol=10 * EPS)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_nothing_is_left_to_learn_with_the_controls_of_the_teacher(data):
    options = {"amplitudes": [1.2, -0.7], "teacher_amplitudes": [1.2, -0.7], "windows": 2}
    options |= {"initial_overlap": 1.0, "train_amplitudes": True}
    found = curves(problem(data=data, **options))
    np.testing.assert_allclose(found["Q"], np.broadcast_to(np.eye(4), (4, 4, 4)), **ROUNDING)
    np.testing.assert_allclose(found["m"], found["Q"], **ROUNDING)
    np.testing.assert_allclose(found["a"], np.tile([1.2, -0.7], (4, 2)), **ROUNDING)
    assert np.max(found["test_loss"]) < 100 * EPS**2


def test_axes_of_what_is_recorded():
    options = {"amplitudes": [1.0, 2.0, 0.5], "teacher_amplitudes": [1.0], "windows": 2}
    found = simulate(problem(**options, teacher_windows=1), D).data.isel(seed=0)
    axes = {name: (one.dims, one.shape) for name, one in found.data_vars.items()}
    assert axes == {
        "Q": (("step", "unit", "unit2"), (4, 6, 6)),
        "m": (("step", "unit", "teacher_unit"), (4, 6, 1)),
        "C_theta": (("step", "unit", "step2", "unit2"), (4, 6, 4, 6)),
        "a": (("step", "unit"), (4, 6)),
        "test_loss": (("step",), (4,)),
    }
    np.testing.assert_array_equal(found["a"].values, np.tile([1.0, 2.0, 0.5], (4, 2)))


@pytest.mark.parametrize(
    "options",
    [
        {"windows": 4, "teacher_windows": 1},
        {"amplitudes": [1.0, 1.0], "teacher_amplitudes": [1.0, 1.0], "train_amplitudes": True},
        {"field": TWO_STATES, "delay": 0.3},
        {"driven": TWO_STATES},
    ],
    ids=["windows", "neurons", "delay", "stack"],
)
def test_the_memory_foreseen_is_enough_and_not_much_too_much(options):
    made = problem(
        data=Stream(TeacherFlow(observations=Observations([0.3, 0.6], visible=0.5)), batch=3),
        **options,
    )
    method, d, d_theta = AdjointDescent(), 24, 36
    peak = peak_of(method.ensemble(made, d, Record.of(made.training)))
    foreseen = memory(made, d, d_theta, 4, method)
    assert peak < foreseen < 3 * peak


def test_what_cannot_be_simulated_is_refused():
    with pytest.raises(ProblemError, match=r"size = 2: .* would be 3 controls, and at least 5 are"):
        curves(problem(windows=4, teacher_windows=1), 2)
    with pytest.raises(ProblemError, match=r"network\.driven = .*: finite systems are drawn"):
        curves(problem(driven="q*m + s*q"))
    with pytest.raises(ProblemError, match=r"inference_steps = \[0\]: .* second system is driven"):
        curves(problem(driven=TWO_STATES), inference_steps=[0])
