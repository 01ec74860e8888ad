"""Correlated training steps: the process against the map, and against what is known exactly."""

from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.families.neural_ode.limit.memory import Memory
from learndyn.problem.supplies import Dataset
from tests import problems

pytestmark = pytest.mark.compiles

ROUNDING = 1e-12
"""A few thousand operations on numbers of order one."""
problem = partial(problems.neural_ode, steps=5, epochs=6)

MEMORY = ld.TrainingMemory(inference_steps=(0, 4, 6))


@pytest.mark.parametrize(
    "settings",
    [
        # The true gradient, and its field, are in the settings below.
        pytest.param({}, marks=pytest.mark.slow),
        {"adjoint": "truncated"},
        {"field": "q*m*exp(m/2) + 0.1*q**3", "confinement": ld.Formula("z + z**2/4")},
        {
            "noise": 0.1,
            "teacher_noise": 0.05,
            "adjoint_noise": 0.2,
            "teacher_time": 1.4,
            "initial_overlap": 0.3,
            "initial_norm": 0.7,
            "weight_decay": 0.02,
        },
    ],
)
def test_independent_steps_are_the_map(settings):
    asked = problem(batch=2, **settings)
    memory = ld.solve(asked, MEMORY)
    found = ld.solve(asked, ld.OverlapMap(inference_steps=(0, 4, 6)))
    assert (memory.evidence["form"], found.evidence["form"]) == ("memory", "map")
    assert set(memory.data) == set(found.data)
    for name in map(str, found.data):
        np.testing.assert_allclose(memory[name], found[name], rtol=0, atol=ROUNDING)


def test_independent_steps_do_not_feel_each_other():
    made = Memory(problem(batch=2), 2)
    blocks = []
    for step in range(2):
        first = made.engine.scalars.count
        taught = made.teach(step)
        students = [made.student(x) for x in taught]
        for y, x in zip(students, taught, strict=True):
            made.adjoint(y, x)
        made.update(students, 0.5)
        blocks.append(slice(first, made.engine.scalars.count))
    for array in (made.engine.scalars.C, made.engine.scalars.R):
        np.testing.assert_array_equal(array[blocks[1], blocks[0]], 0.0)
        assert np.any(array[blocks[1], blocks[1]])


def marchenko_pastur(c, function):
    """∫ρ_c(s) f(s) ds for the law of ratio c (c ≤ 1 has no mass at 0), by the midpoint rule in its angle."""
    angle = (np.arange(2000) + 0.5) * np.pi / 2000
    s = 1 + c + 2 * np.sqrt(c) * np.cos(angle)
    weight = (4 * np.sqrt(c)) ** 2 / 4 * np.sin(angle) ** 2 / (2 * np.pi * c * s) * np.pi / 2000
    return np.sum(weight * function(s)) + max(0.0, 1 - 1 / c) * function(0.0)


@pytest.mark.parametrize(("examples", "sigma"), [(2, 3.0), (4, 3.0), (3, 1.0)])
def test_one_euler_step_on_reused_trajectories_is_linear_regression(examples, sigma):
    """G = g q m, N = 1: m_a = 1 − ∫ρ(1 − κs)^a, 1 − 2m + Q = 2∫ρ(1 − κs)^{2a}, κ = ηh²g/σ, c = σ/n."""
    g, h, eta, epochs = 0.8, 0.7, 1.5, 8
    asked = problem(
        supply="dataset", examples=examples, field=[[0, 0], [0, g]], rate=eta, epochs=epochs,
        time=h, steps=1, control_ratio=sigma,
    )  # fmt: skip
    found = ld.solve(asked)
    kappa, c = eta * h**2 * g / sigma, sigma / examples
    for a in range(epochs + 1):
        m = 1 - marchenko_pastur(c, lambda s, a=a: (1 - kappa * s) ** a)
        e = 2 * marchenko_pastur(c, lambda s, a=a: (1 - kappa * s) ** (2 * a))
        train = h**2 * g * marchenko_pastur(c, lambda s, a=a: s * (1 - kappa * s) ** (2 * a))
        np.testing.assert_allclose(found["m"][a], m, atol=ROUNDING)
        np.testing.assert_allclose(1 - 2 * found["m"][a] + found["Q"][a], e, atol=ROUNDING)
        np.testing.assert_allclose(found["train_loss"][a], train, atol=ROUNDING)
        np.testing.assert_allclose(found["test_loss"][a], h**2 * g * e / 2, atol=ROUNDING)


def test_a_field_without_state_is_one_example_used_again_and_again():
    """One Euler step in r(θ), G = g m, is the same regression as one reused trajectory in G = g q m."""
    fresh = ld.solve(problem(field=[[0, 0.8]], time=0.7, steps=1))
    reused = ld.solve(
        problem(supply="dataset", examples=1, field=[[0, 0], [0, 0.8]], time=0.7, steps=1)
    )
    assert fresh.evidence["form"] == "memory"
    for name in ("Q", "m", "C_theta"):
        np.testing.assert_allclose(fresh[name], reused[name], atol=ROUNDING)
    np.testing.assert_allclose(fresh["test_loss"], reused["train_loss"], atol=ROUNDING)


def test_chained_teachers_walk_one_long_trajectory():
    asked = problem(chained=True, epochs=3, teacher_noise=0.1, teacher_time=0.6)
    made = Memory(asked, 3)
    states = [made.engine.start()]
    made.taught = []
    paths = []
    for step in range(3):
        paths.append(made.teach(step)[0][0].states)
    assert [path[0] for path in paths[1:]] == [path[-1] for path in paths[:-1]]
    walked = paths[0] + paths[1][1:] + paths[2][1:]
    C = made.engine.scalars.C[np.ix_(walked, walked)]
    long = ld.inference(asked.network, time=1.8, noise=0.1)["C"]
    np.testing.assert_allclose(C, long, atol=ROUNDING)
    assert made.engine.scalars.C[states[0], walked[0]] == 0


def test_a_dataset_in_turn_goes_round():
    asked = problem(supply="dataset", examples=4, batch=2, epochs=4)
    made = Memory(asked, 4)
    used = [[x[0].states[0] for x in made.teach(step)] for step in range(4)]
    assert used[:2] == used[2:]
    assert not set(used[0]) & set(used[1])
    assert made.engine.scalars.count == 4 * 6


def test_the_first_pass_over_a_dataset_is_a_stream():
    """While no trajectory has come twice, a dataset in turn is a stream of the same batches."""
    turn = ld.solve(problem(supply="dataset", examples=8, batch=2, epochs=4))
    stream = ld.solve(problem(batch=2, epochs=4))
    for name in ("Q", "m", "C_theta", "test_loss"):
        np.testing.assert_allclose(turn[name], stream[name], atol=ROUNDING)
    again = ld.solve(problem(supply="dataset", examples=4, batch=2, epochs=4))
    np.testing.assert_allclose(again["Q"][:3], stream["Q"][:3], atol=ROUNDING)
    assert abs(float((again["Q"] - stream["Q"])[4, 0, 0])) > 1e-3


def test_recovery_is_a_fixed_point_of_reused_and_chained_training():
    for data in (ld.Dataset(ld.TeacherFlow(), examples=2), ld.Stream(ld.TeacherFlow(chained=True))):
        found = ld.solve(problem(data=data, field=[[0, 0.3], [0.1, 0.5]], initial_overlap=1.0))
        for name in ("Q", "m"):
            np.testing.assert_allclose(found[name], 1.0, atol=ROUNDING)
        for name in ("train_loss", "test_loss"):
            np.testing.assert_allclose(found[name], 0.0, atol=ROUNDING)


def test_test_trajectories_leave_no_trace():
    """With a part of the field without state they go through the process, and are forgotten."""
    asked = problem(supply="dataset", examples=2, field=[[0, 0.3], [0.1, 0.5]])
    every = ld.solve(asked)
    last = ld.solve(asked, save_at=[6])
    for name in ("Q", "m", "train_loss", "test_loss"):
        np.testing.assert_array_equal(every[name][-1], last[name][-1])


def test_test_losses_by_the_map_and_by_the_process_agree():
    """A part of the field without state that is next to nothing takes the other way to the same loss."""
    plain = ld.solve(problem(supply="dataset", examples=2, field=[[0, 0], [0.1, 0.5]]))
    other = ld.solve(problem(supply="dataset", examples=2, field=[[0, 1e-12], [0.1, 0.5]]))
    np.testing.assert_allclose(other["test_loss"], plain["test_loss"], atol=1e-10)


def test_divergence_ends_the_curve():
    found = ld.solve(problem(supply="dataset", examples=1, rate=60.0, epochs=20))
    assert found.diverged_at is not None
    assert len(found["Q"]) == found.diverged_at < 20


def test_memory_is_refused_before_it_is_used():
    with pytest.raises(ld.NotEnoughMemory, match="correlated training steps"):
        ld.solve(problem(supply="dataset", examples=100, epochs=100_000))


@pytest.mark.slow
def test_extrapolation_works_for_correlated_steps():
    asked = problem(supply="dataset", examples=1, steps=3, epochs=3)
    found = ld.solve(asked, ld.TrainingMemory(extrapolation=2))
    fine = ld.solve(problem(supply="dataset", examples=1, steps=48, epochs=3))
    coarse = ld.solve(asked)
    error = np.abs(found["m"][-1] - fine["m"][-1])
    assert np.all(error < np.abs(coarse["m"][-1] - fine["m"][-1]) / 10)
    assert isinstance(asked.data, Dataset)
