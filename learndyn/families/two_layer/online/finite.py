"""Finite two-layer networks, trained for real.

Three ways to the same observables: `SGD` moves the N-dimensional weights example by example; `OverlapChain` draws the
overlaps themselves from their exact law at finite N, at a cost that does not depend on N; `PopulationDescent` moves the
weights down the exact gradient of the expected loss, in steps of 1/N. The update rules are in `TwoLayer`'s docstring.

Random numbers are drawn on the host in blocks of a fixed number of steps, so that a seed's curve depends neither on
when it is recorded nor on the other seeds.
"""

import abc
import copy
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Report, Trainee
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.two_layer.observables import specialisation
from learndyn.families.two_layer.online.equations import TASK, Equations, equations
from learndyn.families.two_layer.student_teacher import OrderParameters, rule_of_test_loss
from learndyn.families.two_layer.weights import TwoLayerWeights, draw_weights, overlaps
from learndyn.numerics.factor import psd_factor
from learndyn.numerics.rules import GaussianRule
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import Time

State = Any
"""A finite network in training: `TwoLayerWeights`, or its `OrderParameters` alone."""
Draws = Any
"""The random numbers of a block of steps: a tuple of arrays with the steps first, or None if there are none."""


class Dynamics(eqx.Module):
    """One way to move a finite network: its initial state, its random numbers and its step."""

    system: Equations
    start: OrderParameters
    size: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    @abc.abstractmethod
    def initial(self, rng: np.random.Generator) -> State:
        """The state before the first step."""

    @property
    @abc.abstractmethod
    def block(self) -> int:
        """Steps per block of random numbers."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> Draws:
        """Draw the random numbers of one block."""

    @abc.abstractmethod
    def step(
        self,
        state: State,
        inputs: Draws,
        index: Int[Array, ""] | int,
        time: Time,
    ) -> State:
        """The state after one step, with entry `index` of the block's random numbers."""

    @abc.abstractmethod
    def overlaps(self, state: State) -> OrderParameters:
        """The overlaps of a state."""

    def memory(self) -> float:
        """Bytes for one network."""
        K, M = self.start.R.shape
        return 8.0 * self.size * (4 * (K + M) + 2 * self.block * self.batch)


class _Descent(Dynamics):
    """SGD on weights."""

    def initial(self, rng: np.random.Generator) -> TwoLayerWeights:
        return draw_weights(self.start, self.system.T, self.size, rng)

    @property
    def block(self) -> int:
        return max(1, 2**18 // (self.size * self.batch))

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((self.block, self.batch, self.size))
        return x, rng.standard_normal((self.block, self.batch))

    def step(
        self,
        state: TwoLayerWeights,
        inputs: Sequence[Array | np.ndarray],
        index: Int[Array, ""] | int,
        time: Time,
    ) -> TwoLayerWeights:
        (W, v, W_star), N, system = state, self.size, self.system
        x, xi = (array[index] for array in inputs)
        lam, rho = x @ W.T / np.sqrt(N), x @ W_star.T / np.sqrt(N)
        g = system.student(lam)
        delta = system.teacher(rho) @ system.v_star + system.noise * xi - g @ v
        rate, rate_v = system.eta(time), system.eta_v(time)
        pull = delta[:, None] * system.student.derivative(lam) * v
        W = (1 - rate * system.decay / N) * W + rate / (self.batch * np.sqrt(N)) * pull.T @ x
        if system.train_readout:
            v = (1 - rate_v * system.decay / N) * v + rate_v / (self.batch * N) * delta @ g
        return TwoLayerWeights(W, v, W_star)

    def overlaps(self, state: TwoLayerWeights) -> OrderParameters:
        return overlaps(state)


class _Chain(Dynamics):
    """The exact chain of the overlaps at size N.

    Fields u_s = L z_s with LLᵀ = C, and x_s·x_s' = z_s·z_s' + Wishart_{N−n}(1_B)_ss' (Bartlett's factor), n = K + M.
    """

    def initial(self, rng: np.random.Generator) -> OrderParameters:
        return self.start

    @property
    def block(self) -> int:
        return max(1, 2**12 // self.batch)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, B = self.system.T.shape[0] + self.start.v.shape[0], self.batch
        z = rng.standard_normal((self.block, B, n))
        xi = rng.standard_normal((self.block, B))
        bartlett = np.tril(rng.standard_normal((self.block, B, B)), -1)
        degrees = self.size - n - np.arange(B)
        diagonal = np.sqrt(rng.chisquare(degrees, (self.block, B)))
        bartlett[:, np.arange(B), np.arange(B)] = diagonal
        return z, xi, bartlett

    def step(
        self,
        state: OrderParameters,
        inputs: Sequence[Array | np.ndarray],
        index: Int[Array, ""] | int,
        time: Time,
    ) -> OrderParameters:
        (Q, R, v), N, B, system = state, self.size, self.batch, self.system
        K = v.shape[0]
        z, xi, bartlett = (array[index] for array in inputs)
        u = z @ psd_factor(system.covariance(state)).T
        lam, rho = u[:, :K], u[:, K:]
        gram = z @ z.T + bartlett @ bartlett.T
        g = system.student(lam)
        delta = system.teacher(rho) @ system.v_star + system.noise * xi - g @ v
        rate, rate_v = system.eta(time), system.eta_v(time)
        keep = 1 - rate * system.decay / N
        pull = (delta[:, None] * system.student.derivative(lam) * v).T
        cross = rate / (B * N) * keep * pull @ lam
        square = (rate / (B * N)) ** 2 * pull @ gram @ pull.T
        Q = keep**2 * Q + cross + cross.T + square
        R = keep * R + rate / (B * N) * pull @ rho
        if system.train_readout:
            v = (1 - rate_v * system.decay / N) * v + rate_v / (B * N) * delta @ g
        return OrderParameters(Q, R, v)

    def overlaps(self, state: OrderParameters) -> OrderParameters:
        return state


class _ExpectedDescent(Dynamics):
    """Steps of 1/N along −∂(test loss)/∂(W, v)."""

    rule: GaussianRule | None

    def initial(self, rng: np.random.Generator) -> TwoLayerWeights:
        return draw_weights(self.start, self.system.T, self.size, rng)

    @property
    def block(self) -> int:
        return 1024

    def draw(self, rng: np.random.Generator) -> None:
        return None

    def step(
        self,
        state: TwoLayerWeights,
        inputs: None,
        index: Int[Array, ""] | int,
        time: Time,
    ) -> TwoLayerWeights:
        system, N = self.system, self.size

        def expected(W: Float[Array, "K N"], v: Float[Array, " K"]) -> Float[Array, ""]:
            return system.test_loss(overlaps(TwoLayerWeights(W, v, state.W_star)), self.rule)

        slope_W, slope_v = jax.grad(expected, (0, 1))(state.W, state.v)
        rate, rate_v = system.eta(time), system.eta_v(time)
        W = state.W - rate * (slope_W + system.decay / N * state.W)
        v = state.v
        if system.train_readout:
            v = v - rate_v / N * (slope_v + system.decay * v)
        return TwoLayerWeights(W, v, state.W_star)

    def overlaps(self, state: TwoLayerWeights) -> OrderParameters:
        return overlaps(state)


@eqx.filter_jit
def _advance(
    dynamics: Dynamics,
    state: State,
    inputs: Draws,
    window: Int[Array, " 3"] | Int[np.ndarray, " 3"],
) -> State:
    """Take the steps `low` to `high` of the block that starts at step `first`; `window` is (first, low, high)."""
    first, low, high = window

    def body(index: Int[Array, ""] | int, state: State):
        return dynamics.step(state, inputs, index, (first + index) / dynamics.size)

    return jax.lax.fori_loop(low, high, body, state)


@eqx.filter_jit
def _measure(
    dynamics: Dynamics, state: State, rule: GaussianRule | None
) -> tuple[Float[Array, ""], OrderParameters]:
    y = dynamics.overlaps(state)
    return dynamics.system.test_loss(y, rule), y


class OnlineNetwork(Trainee):
    """One network in training; a step takes 1/N of time."""

    changeable = TASK

    def __init__(
        self,
        problem: Problem,
        dynamics: Dynamics,
        rule: GaussianRule | None,
        seed: int,
        expected: int,
    ):
        super().__init__(expected)
        self.problem, self.dynamics, self.rule, self.seed = problem, dynamics, rule, seed
        self.rng = np.random.Generator(np.random.SFC64(seed))
        self.state = dynamics.initial(self.rng)
        self.inputs, self.drawn, self.steps = None, 0, 0
        largest = [float(jnp.max(jnp.abs(x))) for x in (dynamics.start.Q, dynamics.system.T)]
        self.scale = 1 + sum(largest)

    def move(self, until: float, report: Report):
        dynamics, last = self.dynamics, round(until * self.dynamics.size)
        while self.steps < last:
            if self.steps == self.drawn:
                self.inputs = dynamics.draw(self.rng)
                self.drawn += dynamics.block
            first = self.drawn - dynamics.block
            high = min(last, self.drawn)
            window = np.array([first, self.steps - first, high - first])
            self.state = _advance(dynamics, self.state, self.inputs, window)
            self.steps = high
            report(self.steps / dynamics.size)
        self._look()

    def _look(self) -> None:
        """Compute the loss and the overlaps of the present state; raise `Diverged` if they are out of bounds."""
        self.loss, self.overlaps = jax.device_get(_measure(self.dynamics, self.state, self.rule))
        if diverged(self.loss, np.inf) or diverged(np.max(np.abs(self.overlaps.Q)), self.scale):
            raise Diverged

    def measure(self) -> dict[str, Any]:
        y = self.overlaps
        special = specialisation(y.Q, y.R, np.asarray(self.dynamics.system.T))
        return {"test_loss": self.loss, **y._asdict(), "specialisation": special}

    def nearest(self, until: float) -> float:
        return round(until * self.dynamics.size) / self.dynamics.size

    def after(self) -> float:
        return (self.steps + 1) / self.dynamics.size

    def change(self, problem: Problem):
        system, _ = equations(problem)
        self.dynamics = eqx.tree_at(lambda dynamics: dynamics.system, self.dynamics, system)
        self.problem = problem
        self._look()

    def weights(self) -> dict[str, np.ndarray]:
        if not isinstance(self.state, TwoLayerWeights):
            return super().weights()
        return {name: np.array(value) for name, value in self.state._asdict().items()}

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The next examples of the stream, or fresh ones of a population."""
        dynamics, system = self.dynamics, self.dynamics.system
        if not isinstance(self.state, TwoLayerWeights):
            return super().sample(count)
        if isinstance(dynamics, _Descent):
            rng, (x, xi) = copy.deepcopy(self.rng), self._ahead()
            while len(x) < count:
                next_x, next_xi = dynamics.draw(rng)
                x, xi = np.concatenate([x, next_x]), np.concatenate([xi, next_xi])
            x, xi = x.reshape(-1, dynamics.size)[:count], xi.ravel()[:count]
        else:
            # A population has no examples of its own; training never sees these.
            rng = np.random.Generator(np.random.SFC64([self.seed, self.steps]))
            x, xi = rng.standard_normal((count, dynamics.size)), np.zeros(count)
        rho = x @ np.asarray(self.state.W_star).T / np.sqrt(dynamics.size)
        clean = np.asarray(system.teacher(jnp.asarray(rho)) @ system.v_star)
        return {"x": x, "y": clean + float(system.noise) * xi}

    def _ahead(self) -> tuple[np.ndarray, ...]:
        """The random numbers of the block that training has not used yet (steps × batch × …)."""
        left = self.drawn - self.steps
        if self.inputs is None or not left:
            D = self.dynamics
            return np.empty((0, D.batch, D.size)), np.empty((0, D.batch))
        return tuple(array[-left:] for array in self.inputs)


class WeightsOrOverlaps(Simulator, abstract=True):
    """Base of the ways to train on a `Stream` or a `Population`."""

    @abc.abstractmethod
    def dynamics(
        self,
        system: Equations,
        start: OrderParameters,
        size: int,
        batch: int,
        rule: GaussianRule | None,
    ) -> Dynamics:
        """The dynamics of a network of this size."""

    def smallest(self, units: int, batch: int) -> int:
        """The smallest size of a network."""
        return units

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        system, start = equations(problem)
        K, M = start.R.shape
        batch = getattr(problem.data, "batch", 1)
        least = self.smallest(K + M, batch)
        if size < least:
            allowed = f"must be at least {least} for {K} student and {M} teacher units"
            raise ProblemError("size", size, allowed)
        rule = rule_of_test_loss(system, K + M)
        dynamics = self.dynamics(system, start, size, batch, rule)
        record = record.on_whole_steps(size)
        return Ensemble(
            lambda seed: OnlineNetwork(problem, dynamics, rule, seed, len(record)),
            record,
            dynamics.memory(),
            f"training networks of size {size} with batch {batch}",
            "use a smaller size or batch",
        )


class SGD(WeightsOrOverlaps):
    """Stochastic gradient descent on the N-dimensional weights."""

    def dynamics(
        self,
        system: Equations,
        start: OrderParameters,
        size: int,
        batch: int,
        rule: GaussianRule | None,
    ) -> Dynamics:
        return _Descent(system, start, size, batch)


class OverlapChain(WeightsOrOverlaps):
    """The Markov chain of the overlaps, with the same law as SGD at this N and a cost independent of N."""

    def dynamics(
        self,
        system: Equations,
        start: OrderParameters,
        size: int,
        batch: int,
        rule: GaussianRule | None,
    ) -> Dynamics:
        return _Chain(system, start, size, batch)

    def smallest(self, units: int, batch: int) -> int:
        return units + batch


class PopulationDescent(WeightsOrOverlaps):
    """Descent of the weights along the gradient of the expected loss, by automatic differentiation."""

    def dynamics(
        self,
        system: Equations,
        start: OrderParameters,
        size: int,
        batch: int,
        rule: GaussianRule | None,
    ) -> Dynamics:
        return _ExpectedDescent(system, start, size, batch, rule)
