"""Finite networks: exact initial overlaps, reproducible seeds, the law of the chain, one-step averages."""

import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import learndyn as ld
from learndyn.families.two_layer.online.equations import equations
from learndyn.families.two_layer.online.finite import _Chain, _Descent
from learndyn.families.two_layer.online.solve import quadrature
from learndyn.families.two_layer.weights import draw_weights, overlaps
from learndyn.numerics.precision import float64
from tests import problems
from tests.optional import not_none

pytestmark = pytest.mark.compiles

problem = partial(
    problems.two_layer,
    seed=5,
    scale=0.8,
    readout_scale=0.9,
    train_readout=True,
    teacher_seed=3,
    teacher_readout=[1.0, 0.5],
    size=30,
    time=2.0,
    readout_rate=0.7,
)


@pytest.mark.parametrize("size", [5, 40, 3000])
def test_weights_have_exactly_the_overlaps(size):
    made = problem(units=3, teacher_units=2)
    with float64():
        system, start = equations(made)
        weights = draw_weights(start, system.T, size, np.random.default_rng(0))
        found = overlaps(weights)
        T = weights.W_star @ weights.W_star.T / size
    np.testing.assert_allclose(found.Q, made.network.Q, atol=1e-13)
    np.testing.assert_allclose(found.R, made.network.R, atol=1e-13)
    np.testing.assert_allclose(T, made.data.task.T, atol=1e-13)


def test_too_small_a_network_is_refused():
    with pytest.raises(ld.ProblemError, match=r"size = 4: must be at least 5"):
        ld.simulate(problem(units=3, teacher_units=2), 4)


@pytest.mark.bitwise
@pytest.mark.parametrize("method", [ld.SGD(), ld.OverlapChain()], ids=["sgd", "chain"])
def test_a_seed_gives_the_same_curve_alone_and_among_others(method):
    made = problem(noise=0.1)
    many = ld.simulate(made, 50, 5, method=method)
    alone = ld.simulate(made, 50, 1, method=method, first_seed=3)
    assert alone["seed"].values.tolist() == [3]
    for name in map(str, many.data.data_vars):
        np.testing.assert_array_equal(many[name].sel(seed=3), alone[name].sel(seed=3))
    assert not np.array_equal(many["Q"].sel(seed=2), many["Q"].sel(seed=3))


@pytest.mark.bitwise
@pytest.mark.parametrize("method", [ld.SGD(), ld.OverlapChain()], ids=["sgd", "chain"])
def test_recording_times_do_not_change_the_run(method):
    made = problem(batch=2, noise=0.1)
    often = ld.simulate(made, 50, 2, method=method, save_at=np.arange(101) / 50)
    seldom = ld.simulate(made, 50, 2, method=method, save_at=[1.0, 2.0])
    np.testing.assert_array_equal(often["R"].sel(time=[1.0, 2.0]), seldom["R"])


def test_simulation_measures_what_the_theory_predicts():
    made = problem()
    theory, runs = ld.solve(made), ld.simulate(made, 60, 2)
    assert set(theory.data.data_vars) == set(runs.data.data_vars)
    for name in map(str, theory.data.data_vars):
        assert runs[name].dims == ("seed", *theory[name].dims)
        assert runs[name].attrs == theory[name].attrs


def test_recorded_loss_is_the_error_on_fresh_examples():
    """A million fresh examples; tolerance five standard errors of their mean."""
    made = problem(units=3, teacher_units=2)
    runs = ld.simulate(made, 20, 1, save_at=[2.0])
    with float64():
        system, _ = equations(made)
        state = [jnp.asarray(runs[name].values[0, -1]) for name in ("Q", "R", "v")]
        Q, R, v = state
        C = np.block([[Q, R], [R.T, system.T]])
        u = jnp.asarray(np.random.default_rng(0).multivariate_normal(np.zeros(5), C, 1_000_000))
        error = system.student(u[:, :3]) @ v - system.teacher(u[:, 3:]) @ system.v_star
        samples = np.asarray(error) ** 2 / 2
    standard_error = samples.std() / 1e3
    assert abs(runs["test_loss"].values[0, -1] - samples.mean()) < 5 * standard_error


CASES = {
    "erf": {"activation": "erf"},
    "erf, K > M, noise, batch": {
        "units": 3,
        "teacher_units": 1,
        "teacher_readout": [1.0],
        "noise": 0.7,
        "batch": 3,
    },
    "erf, decay": {"weight_decay": 0.8, "noise": 0.2},
    "relu": {"units": 3, "activation": "relu", "noise": 0.3},
    "linear": {"activation": "linear", "batch": 2},
    "polynomial": {"activation": ld.Polynomial([0.1, 0.7, 0.3])},
    "tanh": {"activation": "tanh", "noise": 0.3},
}


CONTAINED = {"erf", "linear"}
"""Cases whose terms are all in "erf, K > M, noise, batch", or in "polynomial"."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case in CONTAINED)) for case in CASES]
)
def test_average_of_one_step_is_the_right_hand_side(case):
    """N(⟨new⟩ − old) of the exact chain against the equations, entry by entry, in standard errors.

    At N = 10⁷ corrections of order 1/N are far below the standard errors of 200 000 steps. The largest of the ~25
    entries exceeds 4.5 with probability 2·10⁻⁴; the seeds are fixed.
    """
    made = problem(**{"units": 3, "teacher_units": 2, "rate": 0.9} | CASES[case])
    size, count = 10**7, 200_000
    with float64():
        system, start = equations(made)
        chain = _Chain(system, start, size, made.data.batch)
        rng = np.random.Generator(np.random.SFC64(1))
        blocks = [chain.draw(rng) for _ in range(-(-count // chain.block))]
        inputs = [np.concatenate(column)[:count] for column in zip(*blocks, strict=True)]

        @jax.jit
        def increments(inputs):
            new = jax.vmap(lambda i: chain.step(start, inputs, i, 0.0))(jnp.arange(count))
            return jax.tree.map(lambda a, b: (a - b) * size, new, start)

        moved = jax.tree.map(np.asarray, increments(inputs))
        expected = jax.tree.map(np.asarray, _velocity(system, start))
    for drift, prediction in zip(moved, expected, strict=True):
        standard_error = drift.std(0) / np.sqrt(count)
        assert (np.abs(drift.mean(0) - prediction) < 4.5 * standard_error + 1e-5).all()


def _velocity(system, start):
    """The right-hand side, averaged over the quadrature rules where it has no closed form."""
    return _averaged(
        system, start, quadrature(system, start.v.shape[0], ld.OrderParameterODE(), seed=0).rules
    )


@eqx.filter_jit
def _averaged(system, start, rules):
    if rules is None:
        return system.velocity(0.0, start, None)
    every = jax.vmap(lambda rule: system.velocity(0.0, start, rule))(rules)
    return jax.tree.map(lambda x: x.mean(0), every)


def _many(dynamics, count, steps, seed):
    """Overlaps of `count` independent networks after `steps` steps, flattened; one block entry feeds one network."""
    rng = np.random.default_rng(seed)

    def inputs():
        blocks = [dynamics.draw(rng) for _ in range(-(-count // dynamics.block))]
        return [np.concatenate(column)[:count] for column in zip(*blocks, strict=True)]

    @jax.jit
    def step(states, inputs, time):
        move = jax.vmap(lambda state, index: dynamics.step(state, inputs, index, time))
        return move(states, jnp.arange(count))

    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), dynamics.initial(rng))
    for k in range(steps):
        states = step(states, inputs(), k / dynamics.size)
    parts = jax.vmap(dynamics.overlaps)(states)
    return np.concatenate([np.asarray(part).reshape(count, -1) for part in parts], axis=1)


def _compared(a, b) -> Any:
    """The two-sample Kolmogorov–Smirnov test; SciPy does not type its result."""
    return stats.ks_2samp(a, b)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_chain_and_sgd_have_the_same_law(batch):
    """20 000 networks each, at a size where the limit is far off (N = 12, K + M = 4, 24 steps).

    Two-sample Kolmogorov–Smirnov tests of the ten overlaps at level 0.001 each; the seeds are fixed.
    """
    made = problem(batch=batch, noise=0.4, rate=1.5, weight_decay=0.1)
    with float64():
        system, start = equations(made)
        sgd, chain = (
            _many(kind(system, start, 12, batch), 20_000, 24, seed)
            for seed, kind in enumerate((_Descent, _Chain))
        )
    for a, b in zip(sgd.T, chain.T, strict=True):
        assert _compared(a, b).pvalue > 0.001
    limit = ld.solve(made, save_at=[2.0])["Q"].values[-1].ravel()
    Q = sgd[:, : limit.size]
    assert np.abs((Q.mean(0) - limit) / (Q.std(0) / np.sqrt(len(Q)))).max() > 8


@pytest.mark.slow
def test_bias_falls_as_one_over_the_size():
    """The mean deviation from the limit, over 40 000 chains, halves when N doubles, up to O(1/N²)."""
    made = problem(noise=0.4, rate=1.5)
    limit = ld.solve(made, save_at=[2.0])["Q"].values[-1].ravel()
    bias, error = {}, {}
    for size in (25, 50):
        with float64():
            system, start = equations(made)
            Q = _many(_Chain(system, start, size, 1), 40_000, 2 * size, size)[:, : limit.size]
        bias[size] = Q.mean(0) - limit
        error[size] = Q.std(0) / np.sqrt(len(Q))
    assert np.abs(bias[25] / error[25]).max() > 8
    gap = bias[25] - 2 * bias[50]
    # With bias = a/N + b/N² the gap is 2b/N²: of relative order 1/N, for which 0.3 is ample.
    allowed = 3.5 * np.hypot(error[25], 2 * error[50]) + 0.3 * np.abs(bias[25]).max()
    assert (np.abs(gap) < allowed).all()


def test_one_sgd_step_is_a_gradient_step():
    """Against `jax.grad` of the batch loss, for every parameter."""
    made = problem(units=3, teacher_units=2, batch=4, noise=0.5)
    size, B = 30, 4
    with float64():
        system, start = equations(made)
        descent = _Descent(system, start, size, B)
        rng = np.random.default_rng(0)
        state, inputs = descent.initial(rng), descent.draw(rng)
        new = descent.step(state, inputs, 1, 0.0)
        x, xi = inputs[0][1], inputs[1][1]

        def loss(W, v):
            target = system.teacher(x @ state.W_star.T / np.sqrt(size)) @ system.v_star + 0.5 * xi
            return jnp.sum((target - system.student(x @ W.T / np.sqrt(size)) @ v) ** 2) / (2 * B)

        slopes = jax.grad(loss, (0, 1))(state.W, state.v)
        new, state, slopes = jax.tree.map(np.asarray, (new, state, slopes))
    slope_W, slope_v = slopes
    np.testing.assert_allclose(new.W, state.W - 0.5 * slope_W, atol=1e-13)
    np.testing.assert_allclose(new.v, state.v - 0.7 / size * slope_v, atol=1e-13)


def test_population_descent_converges_to_the_flow_at_first_order():
    """Euler steps of 1/N: the deviation is O(1/N), so it halves when N doubles."""
    teacher = ld.Teacher.orthonormal("erf", 2)
    network = ld.TwoLayer.random(2, teacher, 0.8, 100, seed=2, train_readout=True)
    made = ld.Problem(network, ld.Population(teacher), ld.GradientDescent(0.8, time=5.0))
    theory = ld.solve(made, save_at=[5.0])["Q"].values[-1]
    gaps = [
        np.abs(ld.simulate(made, N, 1, save_at=[5.0])["Q"].values[0, -1] - theory).max()
        for N in (100, 200)
    ]
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.05)


def test_diverging_networks_end_where_they_diverge():
    teacher = ld.Teacher.orthonormal("linear", 1)
    network = ld.TwoLayer("linear", [[0.5]], [[0.1]])
    made = ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(20.0, time=50.0))
    runs = ld.simulate(made, 50, 2)
    assert runs.diverged_at is not None
    early = runs["test_loss"].where(runs["time"] < runs.diverged_at, drop=True)
    assert np.isfinite(early).all()


def test_size_too_large_for_the_memory_is_refused():
    with pytest.raises(ld.NotEnoughMemory, match=r"size 1000000000000 .*smaller size"):
        ld.simulate(problem(), 10**12)


@pytest.mark.slow  # the quick one is test_ctrl_c_in_a_long_simulation_keeps_what_was_finished
def test_interrupt_keeps_the_finished_seeds():
    code = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import learndyn as ld
    teacher = ld.Teacher.orthonormal("erf", 2)
    network = ld.TwoLayer.random(2, teacher, 0.5, 100)
    made = ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(0.5, time=20.0))
    ld.simulate(made, 100, 1)
    print("ready", flush=True)
    try:
        ld.simulate(made, 100, 100_000)
    except ld.Interrupted as stop:
        print(stop.solution["Q"].sizes["seed"], flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert not_none(process.stdout).readline().strip() == "ready"
            time.sleep(8)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert 0 < int(output) < 100_000
