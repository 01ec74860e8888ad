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
"""Training steps compiled into one call: progress is shown, and divergence noticed, after so many."""
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


_steps = eqx.filter_jit(steps)
_epoch = eqx.filter_jit(epoch)
_teacher = eqx.filter_jit(teacher_of)


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
    made = setting_of(problem, saved)
    x = _teacher(made.flow)
    last = int(saved[-1])
    etas = np.zeros(-(-(last + 1) // CHUNK) * CHUNK)
    etas[:last] = np.asarray(rates(problem.training, problem.training.steps))[:last]
    state, m_saved, index = made.start, made.m_saved, 0
    recorded: dict[str, list] = {}
    while index <= last:
        chunk = jnp.asarray(etas[index : index + CHUNK])
        state, m_saved, out = _steps(
            made.flow, x, made.rule, state, m_saved, chunk, jnp.asarray(index), jnp.asarray(saved)
        )
        here = saved[(saved >= index) & (saved < index + CHUNK)] - index
        values = {name: np.asarray(value) for name, value in out.items()}
        size = np.maximum(np.abs(values["test_loss"]), np.abs(values["Q"]))
        lost = np.flatnonzero(~(size < DIVERGED))
        if lost.size:
            here = here[here < lost[0]]
        for name, value in values.items():
            recorded.setdefault(name, []).append(value[here])
        if lost.size:
            break
        index += CHUNK
        report(min(index / (last + 1), 1.0))
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
