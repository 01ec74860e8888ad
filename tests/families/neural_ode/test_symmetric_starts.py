"""Symmetric starts of neural ODEs: fields even in the control from m = 0, and neurons that start alike."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.neural_ode.limit.epoch import epoch
from learndyn.families.neural_ode.limit.flow_numbers import Overlaps, flow_of, overlaps_of
from learndyn.families.neural_ode.limit.overlap_map import UpdateRule, moved
from learndyn.families.neural_ode.limit.trajectories import teacher_of
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.symmetries import parity, symmetric_start
from learndyn.numerics.precision import float64
from tests import problems
from tests.optional import not_none
from tests.problems import PAPER

pytestmark = pytest.mark.compiles

EVEN = [[0, 0, 0], [0, 0, 1.0], [0.2, 0, 0]]
"""G = q m² + 0.2 q²."""
problem = partial(problems.neural_ode, field=EVEN, control_ratio=0.25, steps=2, rate=0.1, epochs=40)

MIXED = [[0, 0, 0], [0, 0.5, 0.5], [0.2, 0, 0]]
CASES = {
    "even": problem(),
    "even, two neurons": problem(amplitudes=[1.0, 0.5], initial_norm=[[1.0, 0.2], [0.2, 0.8]]),
    "even, one of two": problem(
        amplitudes=[1.0, 0.5],
        teacher_amplitudes=[1.0, 1.0],
        initial_overlap=[[0.3, 0.0], [0.0, 0.0]],
        own_fields=False,
    ),
    "neurons alike": problem(
        field=MIXED, amplitudes=[1.0, 1.0], own_fields=False, initial_overlap=[[0.1], [0.1]]
    ),
    "odd, without amplitude": problem(
        field=[[0, 0], [0, 0.8]], amplitudes=[0.0, 1.0], train_amplitudes=True, own_fields=False
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_map_has_every_symmetry_that_is_named(name):
    """A step from a mirrored state ends in the mirrored state; at the start the mirror does nothing."""
    asked = CASES[name]
    start = symmetric_start(asked)
    assert start is not None
    with float64():
        flow = flow_of(FlowPair.of(asked))
        teacher = teacher_of(flow)

        rule = UpdateRule(jnp.array(0.0), jnp.array(1.0))

        @jax.jit
        def after(now):
            return moved(flow, epoch(flow, teacher, now), now, 0.1, rule, 0.1)[0]

        def flat(now):
            return np.concatenate([np.ravel(part) for part in (now.Q, now.M, now.a)])

        first = overlaps_of(FlowPair.of(asked).start())
        generic = overlaps_of(FlowPair.of(not_none(start.moved)(0.02)).start())
        x, y = flat(first), flat(generic)

        def step(z):
            Q, M, a = jnp.split(z, [first.Q.size, first.Q.size + first.M.size])
            return flat(after(Overlaps(a, Q.reshape(first.Q.shape), M.reshape(first.M.shape))))

        for symmetry in start.symmetries:
            for mirror in symmetry.mirrors:
                np.testing.assert_array_equal(mirror.across(x), 0.0)
                assert np.max(np.abs(mirror.across(y))) > 1e-3
                there = step(mirror.sign * y[mirror.order])
                back = mirror.sign * step(y)[mirror.order]
                # A few hundred operations on numbers of order one.
                np.testing.assert_allclose(there, back, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (EVEN, 1),
        ([[0, 0], [0, 0.8]], -1),
        (PAPER, 0),
        ("q*m**2 + 0.2*q**2", 1),
        ("q*sinh(m)", -1),
        ("exp(q*m) - 1", 0),
        ([[[0, 0, 0], [0, 0, 0.8]], [[0, 0, 0], [0.4, 0, 0]]], 1),
        ("q*m**2 + 0.4*q*s*m", 0),
    ],
)
def test_parity_in_the_control_is_seen(field, expected):
    two = {"delay": 0.5} if np.ndim(field) == 3 or "s" in str(field).replace("sinh", "") else {}
    with float64():
        assert parity(ld.NeuralODE(field, 0.25, 1.0, 2, **two).field) == expected


@pytest.mark.parametrize("name", ["stream", "dataset"])
def test_templates_do_not_start_symmetric(name):
    (theory,) = (one for one in ld.theories() if one.name == f"neural_ode/{name}")
    assert symmetric_start(ld.Problem.from_toml(theory.template)) is None


def test_neurons_in_fields_of_their_own_are_not_exchanged():
    shared = CASES["neurons alike"]
    assert symmetric_start(shared) is not None
    own = dataclasses.replace(shared.network, own_fields=True)
    assert symmetric_start(dataclasses.replace(shared, network=own)) is None


def test_one_euler_step_in_an_even_field_leaves_at_the_known_rate():
    """m' = ρm with ρ = 1 + 2κ(1 − Q), Q' = Q[(1 − 2κQ)² + 2σκ²(1 + Q²)], κ = ηh²/σ, for G = q m² + …"""
    theory = ld.solve(problem(steps=1))
    kappa, Q, logarithms = 0.1 / 0.25, 1.0, [0.0]
    for _ in range(40):
        logarithms.append(logarithms[-1] + np.log(1 + 2 * kappa * (1 - Q)))
        Q = Q * ((1 - 2 * kappa * Q) ** 2 + 2 * 0.25 * kappa**2 * (1 + Q**2))
    found = theory.evidence["symmetric_start"]
    assert found["symmetry"] == "the field is even in the control and m = 0"
    assert found["axis"] == "step"
    # The linear growth that counts ends at 1e-3 from 1e-8, or with the training.
    growth = np.array(logarithms)
    until = min(40, int(np.argmax(growth > np.log(1e5))) or 40)
    slopes = np.diff(growth[: until + 1])[until // 3 :]
    assert slopes.min() < found["rate"] < slopes.max()
    np.testing.assert_array_equal(theory["m"], 0.0)
    assert theory.escape_time(40) == np.log(40) / (2 * found["rate"])


@pytest.mark.parametrize(
    "data",
    [None, ld.Stream(ld.TeacherFlow(chained=True)), ld.Dataset(ld.TeacherFlow(), examples=2)],
    ids=["fresh", "chained", "reused"],
)
def test_the_rate_is_that_at_which_a_start_a_little_off_leaves(data):
    asked = problem(data=data, epochs=30)
    rate = ld.solve(asked).evidence["symmetric_start"]["rate"]
    measured = []
    for start in (1e-5, 1e-6):
        network = dataclasses.replace(asked.network, initial_overlap=start)
        off = ld.solve(dataclasses.replace(asked, network=network))
        assert "symmetric_start" not in off.evidence
        m = off["m"].values[:, 0, 0]
        half = int(np.argmax(np.log(m / m.min()) > np.log(m[-1] / m.min()) / 2))
        measured.append(np.polyfit(np.arange(half, 31), np.log(m[half:]), 1)[0])
    # The overlaps are 0.03 at most at the end: they change the rate by their square.
    assert rate == pytest.approx(measured[1], rel=2e-3)
    assert rate == pytest.approx(measured[0], rel=2e-2)


def test_neurons_that_start_alike_are_noticed():
    alike = dataclasses.replace(
        CASES["neurons alike"],
        network=ld.NeuralODE(
            MIXED,
            *(0.25, 1.0, 2),
            amplitudes=[1.0, 1.0],
            own_fields=False,
            initial_overlap=np.full((2, 2), 0.1),
        ),
        data=ld.Stream(ld.TeacherFlow(amplitudes=[1.0, 1.0])),
        training=ld.GradientDescent(0.1, steps=200),
    )
    found = ld.solve(alike).evidence["symmetric_start"]
    assert found["symmetry"] == "student units 1 and 2 have the same overlaps"
    other = ld.solve(problem(field=PAPER, steps=2))
    assert "symmetric_start" not in other.evidence


def test_small_systems_in_an_even_field_leave_and_compare_says_why():
    asked = problem()
    theory, runs = ld.solve(asked), ld.simulate(asked, size=40, seeds=4)
    np.testing.assert_array_equal(theory["m"], 0.0)
    np.testing.assert_allclose(runs["m"][:, 0], 0.0, atol=1e-15)
    assert np.min(np.abs(runs["m"][:, -1])) > 0.95
    notes = ld.compare(theory, runs).notes
    assert any(note.startswith("Runs of size d = 40 leave the symmetric start") for note in notes)
    assert any(f"= {theory.escape_time(40):.3g}, when" in note for note in notes)
