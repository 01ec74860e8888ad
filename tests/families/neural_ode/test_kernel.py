"""Sums over pairs of units, against a transcription with one loop for each sum."""

from functools import cache
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.families.neural_ode.limit.epoch import epoch
from learndyn.families.neural_ode.limit.flow_numbers import Overlaps, flow_of
from learndyn.families.neural_ode.limit.kernel import kernel_of
from learndyn.families.neural_ode.limit.trajectories import teacher_of
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowShape, systems
from learndyn.numerics.precision import float64

pytestmark = pytest.mark.compiles

ROUNDING = 1e-12
"""Relative to the largest entry: sums of a few hundred terms."""
SERIES = {
    "one state": {(0, 1, 1): 0.8, (0, 2, 0): 0.4, (0, 1, 3): 0.3, (0, 3, 2): 0.2, (0, 0, 2): 0.1},
    "two states": {(0, 1, 1): 0.8, (1, 0, 1): 0.2, (1, 1, 0): 0.4, (2, 2, 3): 0.3, (1, 1, 2): 0.1},
}
"""Terms of G: the coefficient of s^k q^i m^j by (k, i, j)."""
SHAPES = {
    "one unit": (1, 1, 1, 1, True, 1),
    "own fields": (3, 2, 1, 1, True, 1),
    "one field": (3, 2, 1, 1, False, 1),
    "windows": (1, 1, 2, 3, True, 1),
    "windows of the teacher": (2, 3, 1, 3, False, 1),
    "windows of neurons of own fields": (2, 3, 3, 2, True, 1),
    "second system": (3, 2, 2, 3, False, 2),
}
"""Neurons and windows of student and teacher, own fields, and the number of systems; the last one is tested."""
STEPS, TEACHER_STEPS = 6, 12


@cache
def fields(states: str) -> dict:
    """The same field in three forms: coefficients, a formula, and a function."""
    terms = SERIES[states]
    c = np.zeros((3, 4, 4))
    for order, value in terms.items():
        c[order] = value
    text = " + ".join(f"{value}*s**{k}*q**{i}*m**{j}" for (k, i, j), value in terms.items())
    if states == "one state":
        c, text = c[0], text.replace("*s**0", "")

    def of_one(q, m):
        return sum(value * q**i * m**j for (_, i, j), value in terms.items())

    def of_two(q, m, s):
        return sum(value * s**k * q**i * m**j for (k, i, j), value in terms.items())

    return {
        "coefficients": ld.PolynomialField(c),
        "formula": ld.FormulaField(text),
        "function": ld.CustomField(of_one if states == "one state" else of_two),
    }


def derivative(states: str, orders, s: float, q: float, m: float) -> float:
    """∂_s^a ∂_q^b ∂_m^c G, term by term, for orders (a, b, c) of at most 1."""
    total = 0.0
    for powers, value in SERIES[states].items():
        term = value
        for power, order, x in zip(powers, orders, (s, q, m), strict=True):
            term *= x**power if order == 0 else power * x ** max(power - 1, 0)
        total += term
    return total


class Sums:
    """Everything that a kernel gives, by loops over neurons and times."""

    def __init__(self, states, left, right, a, b, overlaps, R, q, s):
        N, N_right = q.shape
        self.row, self.of_state, self.of_second_state = np.zeros((3, N, N_right))
        self.of_controls, self.of_amplitudes = np.zeros((len(a), len(b))), np.zeros(len(a))
        for (i, field), (j, other) in product(enumerate(left.labels), enumerate(right.labels)):
            if field != other:
                continue
            for n, k in product(range(N), range(N_right)):
                u, v = left.numbers[i, n], right.numbers[j, k]
                at = (0.0 if s is None else s[n, k], q[n, k], overlaps[u, v])
                alpha, beta = a[u] / len(left.labels), b[v] / len(right.labels)
                G = derivative(states, (0, 0, 0), *at)
                self.row[n, k] += alpha * beta * G
                self.of_state[n, k] += alpha * beta * derivative(states, (0, 1, 0), *at)
                self.of_second_state[n, k] += alpha * beta * derivative(states, (1, 0, 0), *at)
                by_control = derivative(states, (0, 0, 1), *at)
                self.of_controls[u, v] += R[n, k] * alpha * beta * by_control
                self.of_amplitudes[u] += R[n, k] * beta * G / len(left.labels)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


CONTAINED = {
    *(("own fields", "coefficients"), ("windows", "coefficients")),
    *((shape, "formula") for shape in SHAPES if shape not in ("one unit", "second system")),
}
"""Shapes whose sums are all among those of windows of neurons, or of the second system, in the same form."""


@pytest.mark.parametrize(
    ("shape", "form"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] * (pair in CONTAINED))
        for pair in (
            *((shape, "coefficients") for shape in SHAPES),
            *((shape, "formula") for shape in SHAPES if shape != "one field"),
            ("one field", "function"),
        )
    ],
)
@pytest.mark.parametrize("states", SERIES)
@pytest.mark.parametrize("side", ["student", "teacher"])
def test_the_sums_are_those_of_plain_loops(shape, states, form, side):
    """Amplitudes of both signs, overlaps that are not symmetric, and responses that depend on both times."""
    neurons, teacher_neurons, windows, teacher_windows, own, count = SHAPES[shape]
    system = systems(
        FlowShape(
            systems=count,
            neurons=neurons,
            teacher_neurons=teacher_neurons,
            own_fields=own,
            windows=windows,
            teacher_windows=teacher_windows,
            steps=STEPS,
            teacher_steps=TEACHER_STEPS,
            delay=None,
        )
    )[-1]
    left, right = system.student, getattr(system, side)
    units = [count * windows * neurons, count * teacher_windows * teacher_neurons]
    U, V = units[0], units[side == "teacher"]
    rng = np.random.default_rng(5)
    a, b, overlaps = (rng.standard_normal(size) for size in (U, V, (U, V)))
    times = (STEPS, TEACHER_STEPS if side == "teacher" else STEPS)
    R, q, s = rng.standard_normal((3, *times))
    s = s if states == "two states" else None
    expected = Sums(states, left, right, a, b, overlaps, R, q, s)
    # The units of other systems are not those of this kernel.
    block = np.ix_(np.unique(left.numbers), np.unique(right.numbers))
    assert np.sum(expected.of_controls != 0) <= expected.of_controls[block].size
    found = all_sums(fields(states)[form], left, right, a, b, overlaps, R, q, s)
    close(found.row, expected.row)
    close(found.of_state, expected.of_state)
    if s is not None:
        close(found.of_second_state, expected.of_second_state)
    squared = Sums(states, left, right, a, b, overlaps, 2 * R**2, q, s)
    close(found.of_controls[0], expected.of_controls[block])
    close(found.of_controls[1], squared.of_controls[block])
    close(found.of_amplitudes, expected.of_amplitudes[block[0][:, 0]])


def all_sums(field, left, right, *numbers) -> SimpleNamespace:
    """Everything that a kernel gives, compiled at once; of the controls with R and with 2R²."""

    @jax.jit
    def compute(a, b, overlaps, R, q, s):
        kernel = kernel_of(field, left, right, a, b, overlaps)
        columns = (q,) if s is None else (q, s)
        return {
            "row": jax.vmap(kernel.row)(jnp.arange(STEPS), *columns),
            "of_state": kernel.of_state(q, s),
            "of_second_state": None if s is None else kernel.of_second_state(q, s),
            "of_controls": kernel.of_controls(jnp.stack([R, 2 * R**2]), q, s),
            "of_amplitudes": kernel.of_amplitudes(R, q, s),
        }

    with float64():
        return SimpleNamespace(**jax.device_get(compute(*numbers)))


def flow_and_state(count: int, field, windows: int = 1):
    """A flow of so many neurons in one field, and overlaps without any symmetry."""
    network = ld.NeuralODE(
        field,
        control_ratio=0.75,
        time=1.0,
        steps=4,
        amplitudes=np.linspace(0.5, 1.5, count),
        own_fields=False,
        windows=windows,
        train_amplitudes=True,
    )
    units = count * windows
    mixing = np.random.default_rng(1).standard_normal((2 * units, 3 * units)) / np.sqrt(3 * units)
    overlaps = mixing @ mixing.T
    now = Overlaps(
        jnp.asarray(np.tile(np.linspace(0.5, 1.5, count), windows)),
        jnp.asarray(overlaps[:units, :units]),
        jnp.asarray(overlaps[:units, units:]),
    )
    teacher = ld.TeacherFlow(amplitudes=np.linspace(1.5, 0.5, count))
    return flow_of(FlowPair(network, teacher)), now


@pytest.mark.parametrize("form", [0, 1], ids=["coefficients", "formula"])
def test_the_compiled_code_does_not_grow_with_neurons_or_windows(form):
    """The number of equations that JAX traces, which is what compiling takes time for."""
    field = (
        ld.PolynomialField([[0, 0], [0, 0.8], [0.4, 0]]),
        ld.FormulaField("0.8*q*m + 0.4*q**2"),
    )
    with float64():

        def equations(count: int, windows: int = 1) -> int:
            flow, now = flow_and_state(count, field[form], windows)
            jaxpr = jax.make_jaxpr(lambda x: epoch(flow, teacher_of(flow), x))(now)
            return str(jaxpr).count(" = ")

        several = equations(4)
        assert several == equations(64)
        assert several < 1.05 * equations(1)
        assert equations(2, 2) == equations(16, 4)


def test_both_forms_of_a_kernel_give_the_same_epoch():
    """For a field that is a power series, stacked pairs and contracted powers are the same sums."""
    with float64():
        found = []
        for field in (
            ld.PolynomialField([[0, 0], [0, 0.8], [0.4, 0.2]]),
            "0.8*q*m + 0.4*q**2 + 0.2*q**2*m",
        ):
            flow, now = flow_and_state(3, field, windows=2)
            found.append(jax.jit(lambda x, flow=flow: epoch(flow, teacher_of(flow), x))(now))
        for name in ("loss", "K", "V", "N", "pull"):
            close(getattr(found[0], name), getattr(found[1], name))
