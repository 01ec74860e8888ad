"""Perfect recovery of the teacher's control, and the learning rates at which it is stable."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.errors import ProblemError
from learndyn.families.neural_ode.limit.epoch import epoch
from learndyn.families.neural_ode.limit.flow_numbers import FlowNumbers, Overlaps, flow_of
from learndyn.families.neural_ode.limit.overlap_map import UpdateRule, moved
from learndyn.families.neural_ode.limit.trajectories import teacher_of
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.pair import FlowPair, steps_are_correlated
from learndyn.numerics.precision import float64
from learndyn.numerics.root import root_between
from learndyn.problem.part import traced
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Schedule
from learndyn.problem.supplies import Stream

LARGEST, POINTS = 1e6, 400
"""The edge of stability is searched up to `LARGEST` times 1/|J_1|, with this many `POINTS` per decade."""


class Recovery(NamedTuple):
    """How θ returns to θ*: every step multiplies the deviations (Q − 1, m − 1) by a matrix.

    - `eigenvalues`: those of the matrix
    - `spectral_radius`: the largest of their absolute values; recovery is stable if it is below 1
    - `largest_rate`: the rate η up to which recovery is stable; 0 if it is unstable at small rates too
    """

    eigenvalues: np.ndarray
    spectral_radius: float
    largest_rate: float


def recovery(problem: Problem) -> Recovery:
    """The stability of θ = θ* for a neural ODE on fresh trajectories, at the problem's learning rate.

    The map of (Q, m) is a polynomial of degree two in the rate η, and so is its Jacobian at (1, 1),
    J = 1 + ηJ_1 + η²J_2. At a stable rate, training can still diverge from an initial state far away.
    """
    network, data, training = problem.network, problem.data, problem.training
    if not isinstance(network, NeuralODE) or not isinstance(data, Stream):
        raise ProblemError("problem", type(network).__name__, "must be a NeuralODE on a Stream")
    pair = FlowPair.of(problem)
    if not pair.one_unit or network.delay is not None:
        allowed = "must have one control, and no delay"
        raise ProblemError("network", type(network).__name__, allowed)
    if steps_are_correlated(problem):
        allowed = "must not be chained, and the field must vanish without the state: the map needs independent steps"
        raise ProblemError("data.task.chained", pair.teacher.chained, allowed)
    for path, value in (
        ("network.noise", network.noise),
        ("data.task.noise", pair.teacher.noise),
        ("network.adjoint_noise", network.adjoint_noise),
        ("training.weight_decay", training.weight_decay),
    ):
        if value:
            allowed = "must be 0: otherwise the teacher's control is not a fixed point"
            raise ProblemError(path, value, allowed)
    if pair.teacher_steps != network.steps:
        allowed = (
            "must be that of the student: otherwise the teacher's control is not a fixed point"
        )
        raise ProblemError("data.task.time", pair.teacher.time, allowed)
    rate = training.learning_rate
    if isinstance(rate, Schedule) or traced(rate):
        raise ProblemError("training.learning_rate", rate, "must be a number here")
    with float64():
        forward, backward = (
            np.asarray(_jacobian(flow_of(pair), jnp.asarray(data.batch, float), jnp.asarray(eta)))
            for eta in (1.0, -1.0)
        )
    linear, square = (forward - backward) / 2, (forward + backward) / 2 - np.eye(2)

    def radius(eta: float) -> float:
        return float(np.max(np.abs(np.linalg.eigvals(np.eye(2) + eta * linear + eta**2 * square))))

    eigenvalues = np.linalg.eigvals(np.eye(2) + rate * linear + rate**2 * square)
    return Recovery(eigenvalues, float(np.max(np.abs(eigenvalues))), _edge(radius, linear))


@eqx.filter_jit
def _jacobian(
    flow: FlowNumbers, batch: Float[Array, ""], eta: Float[Array, ""]
) -> Float[Array, "2 2"]:
    """∂(Q', m')/∂(Q, m) at Q = m = 1."""
    x = teacher_of(flow)
    rule = UpdateRule(jnp.zeros(()), batch)

    def step(state: Float[Array, " 2"]) -> Float[Array, " 2"]:
        now = Overlaps(jnp.ones(1), state[0][None, None], state[1][None, None])
        after = moved(flow, epoch(flow, x, now), now, eta, rule)[0]
        return jnp.stack([after.Q[0, 0], after.M[0, 0]])

    return jax.jacfwd(step)(jnp.ones(2))


def _edge(radius: Callable[[float], float], linear: Float[np.ndarray, "2 2"]) -> float:
    """The smallest η > 0 at which the radius is 1; `linear` is J_1."""
    slowest = float(np.max(np.linalg.eigvals(linear).real))
    if slowest >= 0:
        return 0.0
    scale = 1 / float(np.max(np.abs(np.linalg.eigvals(linear))))
    grid = np.geomspace(1e-3 * scale, LARGEST * scale, round(np.log10(LARGEST / 1e-3) * POINTS))
    for low, high in itertools.pairwise(grid):
        if radius(high) >= 1:
            return root_between(lambda eta: radius(eta) - 1, low, high)
    return float("inf")
