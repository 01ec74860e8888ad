"""Trajectories of finite neural ODEs, forward and back, and the gradients that they give.

A trajectory is given by its *sources*: its start, and the noise √(2hτ)ζ in the equation that produces a later state,

    x_0 = s_0,    x_{n+1} = (1 − hμ̂(|x_n|²/d)) x_n + h Σ_i (a_u/h_s) r_i(x_n, θ_u) + s_{n+1},

where u = `FlowUnits.numbers[i, n]`. A second state of the field is x_{max(n−Δ,0)} with a delay of Δ steps, or the
state of the first of two stacked systems. Arrays of states have the axes time, system, trajectory, component.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from learndyn.families.neural_ode.finite.tensor_field import FrozenField, TensorField, weighted
from learndyn.families.neural_ode.network import NeuralODE
from learndyn.families.neural_ode.pair import FlowPair
from learndyn.families.neural_ode.units import FlowUnits, InitialOverlaps
from learndyn.numerics.covariance import lower_root
from learndyn.problem.activations import Activation, Linear, Polynomial
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Stream

Steps = int | Int[np.ndarray, " steps"]
"""One step of a flow, or several."""
Drifts = list[list[FrozenField]]
"""The drift of every system at every step."""
States = Float[np.ndarray, "times systems trajectories d"]
"""States, adjoints or sources of several trajectories."""
Confinement = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""q ↦ μ̂(q), μ̂'(q)."""


class FiniteTrajectories(NamedTuple):
    """Trajectories x_0 … x_N, with μ̂ (`mu`) and μ̂' (`slope`) at |x_n|²/d, n < N."""

    x: States
    mu: Float[np.ndarray, "N systems trajectories"]
    slope: Float[np.ndarray, "N systems trajectories"]


class EulerFlow(NamedTuple):
    """How states and adjoints move.

    - `h`: the Euler step
    - `confinement`: q ↦ μ̂(q), μ̂'(q)
    - `true`: whether the adjoint contains the derivative of the confinement
    - `delay`: Δ in Euler steps; None without a delay
    """

    h: float
    confinement: Confinement
    true: bool
    delay: int | None = None

    @classmethod
    def of(cls, network: NeuralODE) -> "EulerFlow":
        """The flow of a network."""
        return cls(
            h=network.step,
            confinement=confinement(network.confinement),
            true=network.adjoint == "true",
            delay=None if network.delay is None else network.delay_steps,
        )

    def second(self, system: int, n: Steps) -> tuple[Steps, int] | None:
        """The step and the system of the second state in the drift of a system at step n; None if it has none."""
        if self.delay is not None:
            return np.maximum(n - self.delay, 0), system
        return (n, 0) if system else None

    def states(self, x: States, system: int, n: Steps) -> list[np.ndarray]:
        """The states in the drift of a system at one step n, or at several."""
        second = self.second(system, n)
        return [x[n, system]] if second is None else [x[n, system], x[second]]

    def forward(self, drifts: Drifts, sources: States) -> FiniteTrajectories:
        """The trajectories that `sources` produce."""
        x = np.empty_like(sources)
        mu, slope = np.empty((2, len(x) - 1, *x.shape[1:3]))
        x[0] = sources[0]
        for n in range(len(x) - 1):
            now, after = x[n], x[n + 1]
            mu[n], slope[n] = self.confinement(overlap(now, now))
            np.multiply((1 - self.h * mu[n])[..., None], now, out=after)
            for system, drift in enumerate(drifts):
                after[system] += self.h * drift[n].drift(*self.states(x, system, n))
            after += sources[n + 1]
        return FiniteTrajectories(x, mu, slope)

    def backward(self, drifts: Drifts, path: FiniteTrajectories, sources: States) -> States:
        """The adjoint p_0 … p_N along `path`: p_N = s_N, and s_n is added to the equation that produces p_n."""
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


def overlap(
    a: Float[np.ndarray, "systems trajectories d"], b: Float[np.ndarray, "systems trajectories d"]
) -> Float[np.ndarray, "systems trajectories"]:
    """a·b/d for every system and trajectory."""
    return np.einsum("sbi,sbi->sb", a, b) / a.shape[-1]


class FiniteControls(NamedTuple):
    """Controls θ_u (rows) with amplitudes a_u, or the gradients of a loss in them."""

    theta: Float[np.ndarray, "units d_theta"]
    a: Float[np.ndarray, " units"]


class FlowPiece(NamedTuple):
    """The steps of a flow that share their units, with the field label and the unit of every neuron."""

    steps: Int[np.ndarray, " steps"]
    labels: tuple[int, ...]
    units: list[int]


def pieces(units: FlowUnits) -> list[FlowPiece]:
    """The pieces of a flow, in the order of time."""
    steps_by_units: dict[tuple[int, ...], list[int]] = {}
    for n, step_units in enumerate(zip(*units.numbers.tolist(), strict=True)):
        steps_by_units.setdefault(step_units, []).append(n)
    return [
        FlowPiece(np.array(steps), units.labels, list(step_units))
        for step_units, steps in steps_by_units.items()
    ]


def drifts_of(
    fields: list[TensorField], systems: list[list[FlowPiece]], controls: FiniteControls
) -> Drifts:
    """The drifts of all systems at these controls."""
    drifts_of_systems = []
    for system in systems:
        drifts = []
        for steps, labels, units in system:
            neurons = zip(labels, units, strict=True)
            parts = [fields[label].at(controls.theta[u]) for label, u in neurons]
            drift = weighted(controls.a[units] / len(units), parts)
            drifts += [drift] * len(steps)
        drifts_of_systems.append(drifts)
    return drifts_of_systems


def gradients(
    flow: EulerFlow,
    fields: list[TensorField],
    systems: list[list[FlowPiece]],
    controls: FiniteControls,
    y: States,
    p: States,
    amplitudes: bool,
) -> FiniteControls:
    """h Σ_n ⟨p_{n+1}, ∂drift(y_n)⟩, the mean over trajectories, in the controls and the amplitudes.

    Unless `amplitudes` is true, their gradients lack the parts of the field without control.
    """
    gradient = FiniteControls(np.zeros_like(controls.theta), np.zeros_like(controls.a))
    rate = flow.h / y.shape[2]
    for system, flow_pieces in enumerate(systems):
        for steps, labels, units in flow_pieces:
            adjoint_and_states = (p[steps + 1, system], *flow.states(y, system, steps))
            rows = (x.reshape(-1, y.shape[-1]) for x in adjoint_and_states)
            # The fields of a system have the same orders, so that their moments are the same.
            S = fields[labels[0]].moments(*rows, fixed=amplitudes)
            for label, u in zip(labels, units, strict=True):
                value, slope = fields[label].value_and_gradient(controls.theta[u], S)
                gradient.theta[u] = slope * rate * controls.a[u] / len(units)
                gradient.a[u] = value * rate / len(units)
    return gradient


def confinement(activation: Activation) -> Confinement:
    """q ↦ μ̂(q), μ̂'(q) for NumPy arrays."""
    if not isinstance(activation, Linear | Polynomial):
        return jax.jit(lambda q: (activation(q), activation.derivative(q)))
    coefficients = activation.coefficients.tolist()

    # A call of JAX or of NumPy's polynomials takes longer than a step of a small system.
    def polynomial(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = slope = 0.0 * q
        for c in reversed(coefficients):
            slope = slope * q + value
            value = value * q + c
        return value, slope

    return polynomial


def sphere(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random vectors along the last axis, each with squared norm equal to its length."""
    z = rng.standard_normal(shape)
    return z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True))


def sources(
    start: Float[np.ndarray, "systems trajectories d"],
    temperature: float,
    h: float,
    steps: int,
    rng: np.random.Generator,
) -> States:
    """The sources of trajectories: their starts, and Langevin noise √(2hτ)ζ of temperature τ."""
    drawn = np.zeros((steps + 1, *start.shape))
    drawn[0] = start
    if temperature:
        drawn[1:] = math.sqrt(2 * h * temperature) * rng.standard_normal(drawn[1:].shape)
    return drawn


def draw_controls(
    start: InitialOverlaps, d_theta: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "teacher_units d_theta"], Float[np.ndarray, "units d_theta"]]:
    """θ* and the initial θ, one row per unit, with exactly these overlaps; d_θ must be at least the number of rows."""
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
    """Sources and states of the teacher's trajectories that a training step uses."""

    sources: States
    x: States


def lessons(
    problem: Problem,
    flow: EulerFlow,
    teacher: Drifts,
    d: int,
    rngs: dict[str, np.random.Generator],
) -> Iterator[TeacherTrajectories]:
    """The teacher's trajectories of training step 0, 1, …"""
    data, pair = problem.data, FlowPair.of(problem)
    systems, batch = len(teacher), data.batch

    def fresh_starts(count: int) -> np.ndarray:
        return sphere(rngs["starts"], systems, count, d)

    def taught(start: Float[np.ndarray, "systems trajectories d"]) -> TeacherTrajectories:
        drawn = sources(start, pair.teacher.noise, flow.h, pair.teacher_steps, rngs["teacher"])
        return TeacherTrajectories(drawn, flow.forward(teacher, drawn).x)

    if isinstance(data, Stream):
        start = fresh_starts(batch)
        while True:
            trajectories = taught(start)
            yield trajectories
            start = trajectories.x[-1] if pair.teacher.chained else fresh_starts(batch)
    dataset = taught(fresh_starts(data.examples))
    batch = batch or data.examples
    for step in itertools.count():
        rows = (step * batch + np.arange(batch)) % data.examples
        yield TeacherTrajectories(dataset.sources[:, :, rows], dataset.x[:, :, rows])
