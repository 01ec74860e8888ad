"""Neural ODEs on fresh trajectories: the whole of training is a map of two numbers.

With the k, v, n of one step (`epoch.py`), which depend on Q and m only, A = 1 − η(k + λ) and a batch of B trajectories,

    m ← A m + ηv,    Q ← A²Q + 2Aηv m + η²v² + η²n/B,    C_θ(a+1, b) = A_a C_θ(a, b) + ηv_a m_b,

exact as d → ∞ on the Euler grid of the finite system. Every step costs one forward and one backward sweep.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from learndyn.neural_ode.epoch import Epoch, Flow, Trajectory, epoch, flow_of, teacher_of
from learndyn.training import rates

CHUNK = 32
"""At most so many training steps are compiled into one call: then progress is shown, and divergence noticed."""
DIVERGED = 1e10
"""Training has diverged where the loss or the control exceeds this."""


class Overlaps(NamedTuple):
    """The state: Q, m, and C_θ(a, b) with the recorded steps b."""

    Q: Array
    m: Array
    C_theta: Array


class Rule(NamedTuple):
    """How a step moves the control, besides its rate: decay λ and batch B."""

    decay: Array
    batch: Array


def moved(step: Epoch, Q, m, eta, rule: Rule):
    """Q and m after a step, with A and ηv."""
    A = 1 - eta * (step.k + rule.decay)
    pull = eta * step.v
    noise = eta**2 * step.n / rule.batch
    return A**2 * Q + 2 * A * pull * m + pull**2 + noise, A * m + pull, A, pull


def steps(flow: Flow, x: Trajectory, rule: Rule, state: Overlaps, m_saved, etas, index, saved):
    """Training steps with the rates `etas`, the first of which is number `index`.

    `m_saved` holds m at the recorded steps reached so far. Returns the last state, m_saved, and Q, m, the loss and C_θ
    before each step.
    """

    def one(carry, eta):
        state, m_saved, a = carry
        m_saved = jnp.where(saved == a, state.m, m_saved)
        row = jnp.where(saved == a, state.Q, state.C_theta)
        made = epoch(flow, x, state.Q, state.m)
        Q, m, A, pull = moved(made, state.Q, state.m, eta, rule)
        next_row = jnp.where(saved <= a, A * row + pull * m_saved, 0.0)
        out = {"Q": state.Q, "m": state.m, "test_loss": made.loss, "C_theta": row}
        return (Overlaps(Q, m, next_row), m_saved, a + 1), out

    (state, m_saved, _), out = jax.lax.scan(one, (state, m_saved, index), etas)
    return state, m_saved, out


_epoch = eqx.filter_jit(epoch)
_teacher = eqx.filter_jit(teacher_of)
_teachers = eqx.filter_jit(eqx.filter_vmap(teacher_of))


@eqx.filter_jit
def _steps(flow, x, rule, state, m_saved, etas, index, saved):
    """`steps` for several problems, along the first axis of all but `index` and `saved`."""

    def one(flow, x, rule, state, m_saved, etas):
        return steps(flow, x, rule, state, m_saved, etas, index, saved)

    return eqx.filter_vmap(one)(flow, x, rule, state, m_saved, etas)


class Setting(NamedTuple):
    """A problem on one Euler grid, and the state in which it starts."""

    flow: Flow
    rule: Rule
    start: Overlaps
    m_saved: Array


def setting_of(problem, saved) -> Setting:
    """The setting of a problem whose steps `saved` are recorded."""
    network, data, training = problem.network, problem.data, problem.training
    flow = flow_of(network)
    rule = Rule(jnp.asarray(training.weight_decay, float), jnp.asarray(data.batch, float))
    zeros = jnp.zeros(len(saved))
    start = Overlaps(
        jnp.asarray(network.initial_norm, float), jnp.asarray(network.initial_overlap, float), zeros
    )
    return Setting(flow, rule, start, zeros)


def curves(problem, saved: np.ndarray, report) -> dict[str, np.ndarray]:
    """Q, m, test_loss and C_θ at the recorded steps, up to the first that is not reached."""
    return curves_of([problem], saved, report)[0]


def curves_of(problems: list, saved: np.ndarray, report) -> list[dict[str, np.ndarray]]:
    """`curves` for problems that differ in numbers only, side by side."""
    last, count = int(saved[-1]), len(problems)
    length = min(CHUNK, last + 1)
    etas = np.zeros((count, -(-(last + 1) // length) * length))
    for row, problem in zip(etas, problems, strict=True):
        row[:last] = np.asarray(rates(problem.training, problem.training.steps))[:last]
    made = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *[setting_of(problem, saved) for problem in problems]
    )
    x = _teachers(made.flow)
    state, m_saved, at = made.start, made.m_saved, jnp.asarray(saved)
    recorded: list[dict[str, list]] = [{} for _ in problems]
    going = np.ones(count, dtype=bool)
    for index in range(0, last + 1, length):
        chunk = jnp.asarray(etas[:, index : index + length])
        state, m_saved, out = _steps(
            made.flow, x, made.rule, state, m_saved, chunk, jnp.asarray(index), at
        )
        values = {name: np.asarray(value) for name, value in out.items()}
        for i in np.flatnonzero(going):
            here = saved[(saved >= index) & (saved < index + length)] - index
            size = np.maximum(np.abs(values["test_loss"][i]), np.abs(values["Q"][i]))
            lost = np.flatnonzero(~(size < DIVERGED))
            if lost.size:
                here, going[i] = here[here < lost[0]], False
            for name, value in values.items():
                recorded[i].setdefault(name, []).append(value[i, here])
        if not going.any():
            break
        report(min((index + length) / (last + 1), 1.0))
    return [_joined(one) for one in recorded]


def _joined(recorded: dict[str, list]) -> dict[str, np.ndarray]:
    found = {name: np.concatenate(parts) for name, parts in recorded.items()}
    found["C_theta"] = _symmetric(found["C_theta"][:, : len(found["Q"])])
    return found


def _symmetric(lower: np.ndarray) -> np.ndarray:
    return np.tril(lower) + np.tril(lower, -1).T


def traced_curves(problem, saved: np.ndarray) -> dict[str, Array]:
    """`curves` as a pure JAX function of the numbers of the problem."""
    made = setting_of(problem, saved)
    last = int(saved[-1])
    etas = jnp.append(jnp.asarray(rates(problem.training, problem.training.steps))[:last], 0.0)
    x = teacher_of(made.flow)
    _, _, out = steps(
        made.flow, x, made.rule, made.start, made.m_saved, etas, jnp.asarray(0), jnp.asarray(saved)
    )
    found = {name: value[saved] for name, value in out.items()}
    lower = found["C_theta"]
    return found | {"C_theta": jnp.tril(lower) + jnp.tril(lower, -1).T}


def inference(flow: Flow, Q, m) -> dict[str, np.ndarray]:
    """Correlations and responses within a training step at overlaps Q and m."""
    x = _teacher(flow)
    made = _epoch(flow, x, jnp.asarray(Q, float), jnp.asarray(m, float))
    arrays = {"C_xx": x.C, "R_xx": x.R, "C_yy": made.y.C, "R_yy": made.y.R, "C_yx": made.C_yx}
    arrays |= made.p._asdict()
    return {name: np.asarray(value) for name, value in arrays.items()}
