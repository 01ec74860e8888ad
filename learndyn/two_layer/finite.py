"""Finite two-layer networks, trained for real.

Three ways to the same observables: `SGD` moves the N-dimensional weights example by example; `OverlapChain` draws the
overlaps themselves from their exact law at finite N, at a cost that does not depend on N; `PopulationDescent` moves the
weights down the exact gradient of the expected loss, in steps of 1/N. The update rules are in `TwoLayer`'s docstring.

Random numbers are drawn on the host in blocks of a fixed number of steps, so that a seed's curve depends neither on
when it is recorded nor on the other seeds.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.divergence import diverged
from learndyn.errors import ProblemError
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.factor import psd_factor
from learndyn.numerics.gaussian import closed_form, gaussian_rule
from learndyn.numerics.times import resolve_times
from learndyn.part import Part
from learndyn.theory import Curves, Trainer
from learndyn.two_layer.observables import observables
from learndyn.two_layer.stream import Equations, OrderParameters, equations


class SGD(Part):
    """Stochastic gradient descent on the N-dimensional weights."""


class OverlapChain(Part):
    """The Markov chain of the overlaps, with the same law as SGD at this N and a cost independent of N."""


class PopulationDescent(Part):
    """Descent of the weights along the gradient of the expected loss, by automatic differentiation."""


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


def finite(problem, size: int, method, save_at) -> Trainer:
    """What trains one network: `run(seed, report) -> Curves`, and the memory for it."""
    made, start = equations(problem)
    K, M = start.R.shape
    batch = getattr(problem.data, "batch", 1)
    least = K + M + (batch if isinstance(method, OverlapChain) else 0)
    if size < least:
        raise ProblemError(
            "size", size, f"must be at least {least} for {K} student and {M} teacher units"
        )
    steps = np.unique(
        np.rint(resolve_times(save_at, problem.training.time) * size).astype(np.int64)
    )
    rule = None
    if not closed_form(made.student, made.teacher):
        rule = gaussian_rule(K + M, 2**14, 1, seed=0).replicate(0)
    if isinstance(method, PopulationDescent):
        dynamics = _ExpectedDescent(made, start, size, batch, rule)
    else:
        dynamics = {SGD: _Descent, OverlapChain: _Chain}[type(method)](made, start, size, batch)
    scale = 1 + float(jnp.max(jnp.abs(start.Q))) + float(jnp.max(jnp.abs(made.T)))

    def run(seed: int, report) -> Curves:
        rng = np.random.Generator(np.random.SFC64(seed))
        state = dynamics.initial(rng)
        inputs, drawn, step, records = None, 0, 0, []
        for save in steps:
            while step < save:
                if step == drawn:
                    inputs = dynamics.draw(rng)
                    drawn += dynamics.block
                first = drawn - dynamics.block
                high = min(save, drawn)
                window = np.array([first, step - first, high - first])
                state = _advance(dynamics, state, inputs, window)
                step = high
                report(step / steps[-1])
            loss, y = jax.device_get(_measure(dynamics, state, rule))
            if not np.isfinite(loss) or np.any(diverged(y.Q, scale)):
                break
            records.append((loss, *y))
        columns = [np.stack(column) for column in zip(*records, strict=True)]
        names = ("test_loss", "Q", "R", "v")
        measured = dict(zip(names, columns, strict=True))
        curves = observables(T=problem.data.teacher.T, **measured)
        times = steps / size
        reached = len(records)
        diverged_at = float(times[reached]) if reached < len(times) else None
        return Curves(curves, times[:reached], diverged_at=diverged_at)

    what = f"training networks of size {size} with batch {batch}"
    return Trainer(run, dynamics.memory(), what, "use a smaller size or batch")
