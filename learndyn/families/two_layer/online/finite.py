"""Finite two-layer networks, trained for real.

Three ways to the same observables: `SGD` moves the N-dimensional weights example by example; `OverlapChain` draws the
overlaps themselves from their exact law at finite N, at a cost that does not depend on N; `PopulationDescent` moves the
weights down the exact gradient of the expected loss, in steps of 1/N. The update rules are in `TwoLayer`'s docstring.

Random numbers are drawn on the host in blocks of a fixed number of steps, so that a seed's curve depends neither on
when it is recorded nor on the other seeds.
"""

import abc
import copy
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Trainee
from learndyn.errors import ProblemError
from learndyn.families.two_layer.observables import specialisation
from learndyn.families.two_layer.online.equations import TASK, Equations, OrderParameters, equations
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.factor import psd_factor
from learndyn.numerics.gaussian import closed_form
from learndyn.numerics.rules import gaussian_rule


class Weights(NamedTuple):
    """A finite network and its teacher: student weights W (K×N), readout v, teacher weights W* (M×N)."""

    W: Float[Array, "K N"]
    v: Float[Array, " K"]
    W_star: Float[Array, "M N"]


def draw_weights(start: OrderParameters, T, size: int, rng) -> Weights:
    """Weights in `size` dimensions, uniform among those with exactly the overlaps of `start` and `T`."""
    K, M = start.R.shape
    C = np.block([[start.Q, start.R], [start.R.T, T]])
    frame, _ = np.linalg.qr(rng.standard_normal((size, K + M)))
    both = np.sqrt(size) * covariance_root(C) @ frame.T
    return Weights(jnp.asarray(both[:K]), start.v, jnp.asarray(both[K:]))


def overlaps(weights: Weights) -> OrderParameters:
    """Q = WWᵀ/N, R = WW*ᵀ/N, v."""
    N = weights.W.shape[1]
    W = weights.W
    return OrderParameters(W @ W.T / N, W @ weights.W_star.T / N, weights.v)


class Dynamics(eqx.Module):
    """One way to move a finite network: where it starts, what it draws, how it steps."""

    made: Equations
    start: OrderParameters
    size: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    @abc.abstractmethod
    def initial(self, rng):
        """The state before the first step."""

    @property
    @abc.abstractmethod
    def block(self) -> int:
        """Steps per block of random numbers."""

    @abc.abstractmethod
    def draw(self, rng):
        """The random numbers of one block."""

    @abc.abstractmethod
    def step(self, state, inputs, index, time):
        """The state after one step, with entry `index` of the block's random numbers."""

    @abc.abstractmethod
    def overlaps(self, state) -> OrderParameters:
        """The overlaps of a state."""

    def memory(self) -> float:
        """Bytes for one network."""
        K, M = self.start.R.shape
        return 8.0 * self.size * (4 * (K + M) + 2 * self.block * self.batch)


class _Descent(Dynamics):
    """SGD on weights."""

    def initial(self, rng):
        return draw_weights(self.start, self.made.T, self.size, rng)

    @property
    def block(self):
        return max(1, 2**18 // (self.size * self.batch))

    def draw(self, rng):
        x = rng.standard_normal((self.block, self.batch, self.size))
        return x, rng.standard_normal((self.block, self.batch))

    def step(self, state, inputs, index, time):
        (W, v, W_star), N, made = state, self.size, self.made
        x, xi = inputs[0][index], inputs[1][index]
        lam, rho = x @ W.T / np.sqrt(N), x @ W_star.T / np.sqrt(N)
        g = made.student(lam)
        delta = made.teacher(rho) @ made.v_star + made.noise * xi - g @ v
        rate, rate_v = made.eta(time), made.eta_v(time)
        pull = delta[:, None] * made.student.derivative(lam) * v
        W = (1 - rate * made.decay / N) * W + rate / (self.batch * np.sqrt(N)) * pull.T @ x
        if made.train_readout:
            v = (1 - rate_v * made.decay / N) * v + rate_v / (self.batch * N) * delta @ g
        return Weights(W, v, W_star)

    def overlaps(self, state):
        return overlaps(state)


class _Chain(Dynamics):
    """The exact chain of the overlaps at size N.

    Fields u_s = L z_s with LLᵀ = C, and x_s·x_s' = z_s·z_s' + Wishart_{N−n}(1_B)_ss' (Bartlett's factor), n = K + M.
    """

    def initial(self, rng):
        return self.start

    @property
    def block(self):
        return max(1, 2**12 // self.batch)

    def draw(self, rng):
        n, B = self.made.T.shape[0] + self.start.v.shape[0], self.batch
        z = rng.standard_normal((self.block, B, n))
        xi = rng.standard_normal((self.block, B))
        bartlett = np.tril(rng.standard_normal((self.block, B, B)), -1)
        degrees = self.size - n - np.arange(B)
        diagonal = np.sqrt(rng.chisquare(degrees, (self.block, B)))
        bartlett[:, np.arange(B), np.arange(B)] = diagonal
        return z, xi, bartlett

    def step(self, state, inputs, index, time):
        (Q, R, v), N, B, made = state, self.size, self.batch, self.made
        K = v.shape[0]
        z, xi, bartlett = (array[index] for array in inputs)
        u = z @ psd_factor(made.covariance(state)).T
        lam, rho = u[:, :K], u[:, K:]
        gram = z @ z.T + bartlett @ bartlett.T
        g = made.student(lam)
        delta = made.teacher(rho) @ made.v_star + made.noise * xi - g @ v
        rate, rate_v = made.eta(time), made.eta_v(time)
        keep = 1 - rate * made.decay / N
        pull = (delta[:, None] * made.student.derivative(lam) * v).T
        cross = rate / (B * N) * keep * pull @ lam
        square = (rate / (B * N)) ** 2 * pull @ gram @ pull.T
        Q = keep**2 * Q + cross + cross.T + square
        R = keep * R + rate / (B * N) * pull @ rho
        if made.train_readout:
            v = (1 - rate_v * made.decay / N) * v + rate_v / (B * N) * delta @ g
        return OrderParameters(Q, R, v)

    def overlaps(self, state):
        return state


class _ExpectedDescent(Dynamics):
    """Steps of 1/N along −∂(test loss)/∂(W, v)."""

    rule: object

    def initial(self, rng):
        return draw_weights(self.start, self.made.T, self.size, rng)

    @property
    def block(self):
        return 1024

    def draw(self, rng):
        return None

    def step(self, state, inputs, index, time):
        made, N = self.made, self.size

        def expected(W, v):
            return made.test_loss(overlaps(Weights(W, v, state.W_star)), self.rule)

        slope_W, slope_v = jax.grad(expected, (0, 1))(state.W, state.v)
        rate, rate_v = made.eta(time), made.eta_v(time)
        W = state.W - rate * (slope_W + made.decay / N * state.W)
        v = state.v
        if made.train_readout:
            v = v - rate_v / N * (slope_v + made.decay * v)
        return Weights(W, v, state.W_star)

    def overlaps(self, state):
        return overlaps(state)


@eqx.filter_jit
def _advance(dynamics: Dynamics, state, inputs, window):
    """With `window` = (first, low, high): steps `low` to `high` of the block that starts at step `first`."""
    first, low, high = window

    def body(index, state):
        return dynamics.step(state, inputs, index, (first + index) / dynamics.size)

    return jax.lax.fori_loop(low, high, body, state)


@eqx.filter_jit
def _measure(dynamics: Dynamics, state, rule):
    y = dynamics.overlaps(state)
    return dynamics.made.test_loss(y, rule), y


class Network(Trainee):
    """One network in training; a step takes 1/N of time."""

    changeable = TASK

    def __init__(self, problem, dynamics: Dynamics, rule, seed: int, expected: int):
        super().__init__(expected)
        self.problem, self.dynamics, self.rule, self.seed = problem, dynamics, rule, seed
        self.rng = np.random.Generator(np.random.SFC64(seed))
        self.state = dynamics.initial(self.rng)
        self.inputs, self.drawn, self.steps = None, 0, 0
        largest = [float(jnp.max(jnp.abs(x))) for x in (dynamics.start.Q, dynamics.made.T)]
        self.scale = 1 + sum(largest)

    def move(self, until, report):
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
        """The loss and the overlaps of the present state; raises `Diverged`."""
        self.loss, self.overlaps = jax.device_get(_measure(self.dynamics, self.state, self.rule))
        if diverged(self.loss, np.inf) or diverged(np.max(np.abs(self.overlaps.Q)), self.scale):
            raise Diverged

    def measure(self):
        y = self.overlaps
        special = specialisation(y.Q, y.R, np.asarray(self.dynamics.made.T))
        return {"test_loss": self.loss, **y._asdict(), "specialisation": special}

    def nearest(self, until):
        return round(until * self.dynamics.size) / self.dynamics.size

    def after(self):
        return (self.steps + 1) / self.dynamics.size

    def change(self, problem):
        made, _ = equations(problem)
        self.dynamics = eqx.tree_at(lambda dynamics: dynamics.made, self.dynamics, made)
        self.problem = problem
        self._look()

    def weights(self):
        if not isinstance(self.state, Weights):
            return super().weights()
        return {name: np.array(value) for name, value in self.state._asdict().items()}

    def sample(self, count):
        """The next examples of the stream, or fresh ones of a population."""
        dynamics, made = self.dynamics, self.dynamics.made
        if not isinstance(self.state, Weights):
            return super().sample(count)
        if isinstance(dynamics, _Descent):
            rng, (x, xi) = copy.deepcopy(self.rng), self._ahead()
            while len(x) < count:
                more = dynamics.draw(rng)
                x, xi = np.concatenate([x, more[0]]), np.concatenate([xi, more[1]])
            x, xi = x.reshape(-1, dynamics.size)[:count], xi.ravel()[:count]
        else:
            # A population has no examples of its own: these are for the user's eyes only.
            rng = np.random.Generator(np.random.SFC64([self.seed, self.steps]))
            x, xi = rng.standard_normal((count, dynamics.size)), np.zeros(count)
        rho = x @ np.asarray(self.state.W_star).T / np.sqrt(dynamics.size)
        clean = np.asarray(made.teacher(jnp.asarray(rho)) @ made.v_star)
        return {"x": x, "y": clean + float(made.noise) * xi}

    def _ahead(self):
        """What is left of the block of random numbers (steps × batch × …)."""
        left = self.drawn - self.steps
        if self.inputs is None or not left:
            D = self.dynamics
            return np.empty((0, D.batch, D.size)), np.empty((0, D.batch))
        return tuple(array[-left:] for array in self.inputs)


def test_rule(made: Equations, fields: int):
    """The quadrature rule for test losses of finite networks; None for closed forms."""
    if closed_form(made.student, made.teacher):
        return None
    return gaussian_rule(fields, 2**14, 1, seed=0).replicate(0)


class WeightsOrOverlaps(Simulator, abstract=True):
    """Base of the ways to train on a `Stream` or a `Population`."""

    @abc.abstractmethod
    def dynamics(
        self, made: Equations, start: OrderParameters, size: int, batch: int, rule
    ) -> Dynamics:
        """How a network of this size moves."""

    def smallest(self, units: int, batch: int) -> int:
        """The smallest size of a network."""
        return units

    def ensemble(self, problem, size, record):
        made, start = equations(problem)
        K, M = start.R.shape
        batch = getattr(problem.data, "batch", 1)
        least = self.smallest(K + M, batch)
        if size < least:
            allowed = f"must be at least {least} for {K} student and {M} teacher units"
            raise ProblemError("size", size, allowed)
        rule = test_rule(made, K + M)
        dynamics = self.dynamics(made, start, size, batch, rule)
        record = record.on_whole_steps(size)
        return Ensemble(
            lambda seed: Network(problem, dynamics, rule, seed, len(record)),
            record,
            dynamics.memory(),
            f"training networks of size {size} with batch {batch}",
            "use a smaller size or batch",
        )


class SGD(WeightsOrOverlaps):
    """Stochastic gradient descent on the N-dimensional weights."""

    def dynamics(self, made, start, size, batch, rule):
        return _Descent(made, start, size, batch)


class OverlapChain(WeightsOrOverlaps):
    """The Markov chain of the overlaps, with the same law as SGD at this N and a cost independent of N."""

    def dynamics(self, made, start, size, batch, rule):
        return _Chain(made, start, size, batch)

    def smallest(self, units, batch):
        return units + batch


class PopulationDescent(WeightsOrOverlaps):
    """Descent of the weights along the gradient of the expected loss, by automatic differentiation."""

    def dynamics(self, made, start, size, batch, rule):
        return _ExpectedDescent(made, start, size, batch, rule)
