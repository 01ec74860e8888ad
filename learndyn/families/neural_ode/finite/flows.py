"""Trajectories of finite neural ODEs, forward and back.

A trajectory is made from its *sources*: its start, and the noise √(2hτ)ζ in the equation that produces a later state,

    x_0 = s_0,    x_{n+1} = (1 − hμ̂(|x_n|²/d)) x_n + h Σ_i (a_u/h_s) r_i(x_n, θ_u) + s_{n+1},

where u = `FlowUnits.index[i, n]`. A second state of the field, where it has one, is x_{max(n−Δ,0)} with a delay of Δ steps,
or that of the first of two stacked systems. Arrays of states have the axes time, system, trajectory, component.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from learndyn.families.neural_ode.finite.tensor_field import FrozenField, TensorField, weighted
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowUnits
from learndyn.numerics.covariance import lower_root
from learndyn.problem.activations import Linear, Polynomial
from learndyn.problem.supplies import Stream

Drifts = list[list[FrozenField]]
"""The drift of every system at every step."""


class FiniteTrajectories(NamedTuple):
    """Trajectories x_0 … x_N, with μ̂ and μ̂' at |x_n|²/d, n < N."""

    x: np.ndarray
    mu: np.ndarray
    slope: np.ndarray


class EulerFlow(NamedTuple):
    """The Euler step h, the confinement q ↦ μ̂(q), μ̂'(q), whether the adjoint is the true one, and the delay Δ."""

    h: float
    confinement: Callable
    true: bool
    delay: int | None = None

    @classmethod
    def of(cls, network) -> "EulerFlow":
        """How the states of a network move."""
        delay = None if network.delay is None else network.delay_steps
        given = (confinement(network.confinement), network.adjoint == "true", delay)
        return cls(network.step, *given)

    def second(self, system: int, n):
        """The step and the system of the second state in the drift of a system at step n; None if it has none."""
        if self.delay is not None:
            return np.maximum(n - self.delay, 0), system
        return (n, 0) if system else None

    def states(self, x, system: int, n) -> list[np.ndarray]:
        """The states in the drift of a system at step n, or at several."""
        second = self.second(system, n)
        return [x[n, system]] if second is None else [x[n, system], x[second]]

    def forward(self, drifts: Drifts, sources) -> FiniteTrajectories:
        """The trajectories that `sources` (N + 1 × systems × trajectories × d) produce."""
        x = np.empty_like(sources)
        mu, slope = np.empty((2, len(x) - 1, *x.shape[1:3]))
        x[0] = sources[0]
        for n in range(len(x) - 1):
            now, following = x[n], x[n + 1]
            mu[n], slope[n] = self.confinement(overlap(now, now))
            np.multiply((1 - self.h * mu[n])[..., None], now, out=following)
            for system, drift in enumerate(drifts):
                following[system] += self.h * drift[n].drift(*self.states(x, system, n))
            following += sources[n + 1]
        return FiniteTrajectories(x, mu, slope)

    def backward(self, drifts: Drifts, path: FiniteTrajectories, sources) -> np.ndarray:
        """p_N … p_0 in the order of the path: p_N = s_N, and s_n is added to the equation that produces p_n."""
        y, p = path.x, sources.copy()
        for n in reversed(range(len(p) - 1)):
            now, after = p[n], p[n + 1]
            now += (1 - self.h * path.mu[n])[..., None] * after
            for system, drift in enumerate(drifts):
                states = self.states(y, system, n)
                first, *others = drift[n].pullback(after[system], *states)
                now[system] += self.h * first
                for other in others:
                    p[self.second(system, n)] += self.h * other
            if self.true:
                along = 2 * self.h * path.slope[n] * overlap(after, y[n])
                now -= along[..., None] * y[n]
        return p


def overlap(a, b) -> np.ndarray:
    """a·b/d for every system and trajectory."""
    return np.einsum("sbi,sbi->sb", a, b) / a.shape[-1]


class FiniteControls(NamedTuple):
    """Controls θ_u (rows) with amplitudes a_u, or gradients of a loss in them."""

    theta: np.ndarray
    a: np.ndarray


class FlowPiece(NamedTuple):
    """Some steps of a flow, and the labels and units of the neurons that act at these."""

    steps: np.ndarray
    labels: tuple[int, ...]
    units: list[int]


def pieces(units: FlowUnits) -> list[FlowPiece]:
    """The pieces of a flow, in the order of time."""
    found: dict[tuple[int, ...], list[int]] = {}
    for n, now in enumerate(zip(*units.index.tolist(), strict=True)):
        found.setdefault(now, []).append(n)
    return [FlowPiece(np.array(steps), units.labels, list(now)) for now, steps in found.items()]


def drifts_of(
    fields: list[TensorField], systems: list[list[FlowPiece]], controls: FiniteControls
) -> Drifts:
    """The drifts of all systems."""
    found = []
    for system in systems:
        drifts = []
        for steps, labels, units in system:
            neurons = zip(labels, units, strict=True)
            parts = [fields[label].at(controls.theta[u]) for label, u in neurons]
            drift = weighted(controls.a[units] / len(units), parts)
            drifts += [drift] * len(steps)
        found.append(drifts)
    return found


def gradients(
    flow: EulerFlow,
    fields,
    systems: list[list[FlowPiece]],
    controls: FiniteControls,
    y,
    p,
    amplitudes: bool,
) -> FiniteControls:
    """h Σ_n ⟨p_{n+1}, ∂drift(y_n)⟩, ∂ by the controls and, if asked, the amplitudes: mean over trajectories."""
    found = FiniteControls(*(np.zeros_like(one) for one in controls))
    rate = flow.h / y.shape[2]
    for system, some in enumerate(systems):
        for steps, labels, units in some:
            uses = (p[steps + 1, system], *flow.states(y, system, steps))
            rows = (one.reshape(-1, y.shape[-1]) for one in uses)
            # The fields of a system have the same orders, so that their moments are the same.
            S = fields[labels[0]].moments(*rows, fixed=amplitudes)
            for label, u in zip(labels, units, strict=True):
                value, gradient = fields[label].value_and_gradient(controls.theta[u], S)
                found.theta[u] = gradient * rate * controls.a[u] / len(units)
                found.a[u] = value * rate / len(units)
    return found


def confinement(activation) -> Callable:
    """q ↦ μ̂(q), μ̂'(q) for NumPy arrays."""
    if not isinstance(activation, Linear | Polynomial):
        return jax.jit(lambda q: (activation(q), activation.derivative(q)))
    coefficients = activation.coefficients.tolist()

    # A call of JAX or of NumPy's polynomials takes longer than a step of a small system.
    def polynomial(q):
        value = slope = 0.0 * q
        for c in reversed(coefficients):
            slope = slope * q + value
            value = value * q + c
        return value, slope

    return polynomial


def sphere(rng, *shape) -> np.ndarray:
    """Random vectors along the last axis, each with squared norm equal to its length."""
    z = rng.standard_normal(shape)
    return z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True))


def sources(start, temperature: float, h: float, steps: int, rng) -> np.ndarray:
    """Sources of trajectories with Langevin noise of a temperature."""
    made = np.zeros((steps + 1, *start.shape))
    made[0] = start
    if temperature:
        made[1:] = math.sqrt(2 * h * temperature) * rng.standard_normal(made[1:].shape)
    return made


def draw_controls(start, d_theta: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """θ* and the initial θ, a row for each unit, with exactly the overlaps of `InitialOverlaps`; d_θ ≥ the number of rows."""
    V = len(start.T)
    overlaps = np.block([[start.T, start.M.T], [start.M, start.Q]])
    basis = sphere(rng, len(overlaps), d_theta)
    for i in range(1, len(basis)):
        for other in basis[:i]:
            basis[i] -= other * np.mean(basis[i] * other)
        basis[i] /= np.sqrt(np.mean(basis[i] ** 2))
    controls = np.sum(lower_root(overlaps)[..., None] * basis, axis=1)
    return controls[:V], controls[V:]


class TeacherTrajectories(NamedTuple):
    """Sources and states of the teacher's trajectories that a step uses."""

    sources: np.ndarray
    x: np.ndarray


def lessons(
    problem, flow: EulerFlow, teacher: Drifts, d: int, rngs: dict
) -> Iterator[TeacherTrajectories]:
    """The teacher's trajectories of step 0, 1, …"""
    data, pair = problem.data, FlowPair.of(problem)
    systems = len(teacher)

    def taught(start) -> TeacherTrajectories:
        given = (pair.teacher.noise, flow.h, pair.teacher_steps, rngs["teacher"])
        made = sources(start, *given)
        return TeacherTrajectories(made, flow.forward(teacher, made).x)

    if isinstance(data, Stream):
        start = sphere(rngs["starts"], systems, data.batch, d)
        while True:
            made = taught(start)
            yield made
            start = (
                made.x[-1]
                if pair.teacher.chained
                else sphere(rngs["starts"], systems, data.batch, d)
            )
    everything, batch = (
        taught(sphere(rngs["starts"], systems, data.examples, d)),
        data.batch or data.examples,
    )
    for step in itertools.count():
        rows = (step * batch + np.arange(batch)) % data.examples
        yield TeacherTrajectories(*(one[:, :, rows] for one in everything))
