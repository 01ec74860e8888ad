"""Trajectories of finite neural ODEs, forward and back.

A trajectory is made from its *sources*: its start, and the noise √(2hτ)ζ in the equation that produces a later state,

    x_0 = s_0,    x_{n+1} = (1 − hμ̂(|x_n|²/d)) x_n + h r(x_n, θ) + s_{n+1}.

Arrays of states have the axes time, trajectory, component.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from learndyn.activations import Linear, Polynomial
from learndyn.data import Stream
from learndyn.neural_ode.tensor_field import FrozenField


class Path(NamedTuple):
    """A trajectory x_0 … x_N of each row, with μ̂ and μ̂' at |x_n|²/d, n < N."""

    x: np.ndarray
    mu: np.ndarray
    slope: np.ndarray


class Flow(NamedTuple):
    """The Euler step h, the confinement q ↦ μ̂(q), μ̂'(q), and whether the adjoint is the true one."""

    h: float
    confinement: Callable
    true: bool

    def forward(self, field: FrozenField, sources) -> Path:
        """The trajectories that `sources` (N + 1 × trajectories × d) produce."""
        x = np.empty_like(sources)
        mu, slope = np.empty((2, len(x) - 1, x.shape[1]))
        x[0] = sources[0]
        for n in range(len(x) - 1):
            mu[n], slope[n] = self.confinement(overlap(x[n], x[n]))
            x[n + 1] = (1 - self.h * mu[n])[:, None] * x[n] + self.h * field.drift(x[n])
            x[n + 1] += sources[n + 1]
        return Path(x, mu, slope)

    def backward(self, field: FrozenField, path: Path, sources) -> np.ndarray:
        """p_N … p_0 in the order of the path: p_N = s_N, and s_n is added to the equation that produces p_n."""
        y, p = path.x, np.empty_like(path.x)
        p[-1] = sources[-1]
        for n in reversed(range(len(p) - 1)):
            p[n] = (1 - self.h * path.mu[n])[:, None] * p[n + 1] + sources[n]
            p[n] += self.h * field.pullback(y[n], p[n + 1])
            if self.true:
                along = 2 * self.h * path.slope[n] * overlap(p[n + 1], y[n])
                p[n] -= along[:, None] * y[n]
        return p


def overlap(a, b) -> np.ndarray:
    """a·b/d for every row of both."""
    return np.einsum("bi,bi->b", a, b) / a.shape[1]


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


def draw_controls(network, d_theta: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """θ* and the initial θ, with exactly their norms and overlap."""
    star, other = sphere(rng, 2, d_theta)
    m, Q = network.initial_overlap, network.initial_norm
    other = other - star * np.mean(other * star)
    other /= np.sqrt(np.mean(other**2))
    return star, m * star + math.sqrt(max(Q - m * m, 0.0)) * other


class Taught(NamedTuple):
    """Sources and states of the teacher's trajectories that a step uses."""

    sources: np.ndarray
    x: np.ndarray


def lessons(problem, flow: Flow, teacher: FrozenField, d: int, rngs: dict) -> Iterator[Taught]:
    """The teacher's trajectories of step 0, 1, …"""
    network, data = problem.network, problem.data

    def taught(start) -> Taught:
        given = (network.teacher_noise, flow.h, network.teacher_steps, rngs["teacher"])
        made = sources(start, *given)
        return Taught(made, flow.forward(teacher, made).x)

    if isinstance(data, Stream):
        start = sphere(rngs["starts"], data.batch, d)
        while True:
            made = taught(start)
            yield made
            start = made.x[-1] if data.chained else sphere(rngs["starts"], data.batch, d)
    everything, batch = (
        taught(sphere(rngs["starts"], data.examples, d)),
        data.batch or data.examples,
    )
    for step in itertools.count():
        rows = (step * batch + np.arange(batch)) % data.examples
        yield Taught(*(one[:, rows] for one in everything))
