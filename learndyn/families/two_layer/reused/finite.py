"""Finite two-layer networks trained on a reused dataset, and their response functions; D is the size.

With the P×D inputs X, fields h_iμ = w_i·x_μ/√D and labels y_μ = Σ_n v*_n σ(ρ_nμ) + noise, step number k is

    Δ_μ = y_μ − Σ_i v_i g(h_iμ),    g_iμ = m_μ v_i g'(h_iμ) Δ_μ,
    F_i ← βF_i + τ_k (√D/P) Σ_μ g_iμ x_μ,    w_i ← (1 − τ_kκ) w_i + F_i,
    f_i ← βf_i + (τ_v,k/P) Σ_μ m_μ Δ_μ g(h_iμ),    v_i ← (1 − τ_v,kκ) v_i + f_i    (with a trained readout).

m_μ is 1 on the full batch; with batches it is P/B for the B examples of the step, which are drawn without replacement,
and 0 for the others.

Responses are tangents of the run, in random directions of ±1. With the slopes s_i = v_i g'(h_i), one step of a tangent
is

    δh_i = δw_i·x/√D + δu_i,  δΔ = δy − Σ_j s_j δh_j,  δg_i = m (v_i g''(h_i) Δ δh_i + s_i δΔ),
    δF_i ← βδF_i + τ_k (√D/P) Σ_μ δg_iμ x_μ,    δw_i ← (1 − τ_kκ) δw_i + δF_i,

and the traces over D inputs or P examples are estimated by the products with the direction itself:

    R_w(t, s)_ij = ξ·δw_i(t)/D       after δw_j(s+1) = δF_j = ξ;
    R_h(t, s)_ij = (1/P) z·δg_i(t)   after δu_j = z at step s alone;
    R_star(t)_in = (1/P) z·δg_i(t)   with δy = v*_n σ'(ρ_n) z at all steps.

The readout moves by O(1/√D) along such a direction, which does not enter the traces in the limit.

A step costs two passes over X, bound by memory; so X is kept in the single precision in which it is drawn, while all
sums are in double precision. Weights, inputs, noise and every direction have random generators of their own, so that
neither the recorded times nor the other seeds change a seed's curve.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Products, Report, Trainee
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.two_layer.observables import drops
from learndyn.families.two_layer.reused.time_grid import Grid, TimeSteps, time_grid
from learndyn.families.two_layer.reused.traced import has_kink
from learndyn.families.two_layer.student_teacher import (
    OrderParameters,
    StudentTeacher,
    on_the_population,
    rule_of_test_loss,
    student_teacher,
)
from learndyn.families.two_layer.weights import draw_weights
from learndyn.numerics.lower import compiled
from learndyn.problem.checks import boolean
from learndyn.problem.part import field
from learndyn.problem.problem import Problem

ROWS = 512
"""ReusedExamples converted to double precision at a time, for the tangents."""
STATES = 256
"""States whose test losses are computed at a time."""


@compiled
def rows_times_inputs(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """W Xᵀ, in double precision."""
    n, units, D = len(X), len(W), X.shape[1]
    out = np.empty((units, n))
    for m in range(0, n - 3, 4):
        x0, x1, x2, x3 = X[m], X[m + 1], X[m + 2], X[m + 3]
        for i in range(units):
            w = W[i]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for k in range(D):
                s0 += w[k] * x0[k]
                s1 += w[k] * x1[k]
                s2 += w[k] * x2[k]
                s3 += w[k] * x3[k]
            out[i, m], out[i, m + 1], out[i, m + 2], out[i, m + 3] = s0, s1, s2, s3
    for m in range(n - n % 4, n):
        for i in range(units):
            s = 0.0
            for k in range(D):
                s += W[i, k] * X[m, k]
            out[i, m] = s
    return out


@compiled
def sums_of_inputs(g: np.ndarray, X: np.ndarray) -> np.ndarray:
    """g X, in double precision."""
    n, units, D = len(X), len(g), X.shape[1]
    out = np.zeros((units, D))
    for m in range(0, n - 3, 4):
        x0, x1, x2, x3 = X[m], X[m + 1], X[m + 2], X[m + 3]
        for i in range(units):
            total = out[i]
            g0, g1, g2, g3 = g[i, m], g[i, m + 1], g[i, m + 2], g[i, m + 3]
            for k in range(D):
                total[k] += g0 * x0[k] + g1 * x1[k] + g2 * x2[k] + g3 * x3[k]
    for m in range(n - n % 4, n):
        for i in range(units):
            for k in range(D):
                out[i, k] += g[i, m] * X[m, k]
    return out


def fields(W: Float[np.ndarray, "K D"], X: Float[np.ndarray, "P D"]) -> Float[np.ndarray, "K P"]:
    """h = W Xᵀ/√D (K×P)."""
    return rows_times_inputs(W, X) / math.sqrt(X.shape[1])


def pull(g: Float[np.ndarray, "K P"], X: Float[np.ndarray, "P D"]) -> Float[np.ndarray, "K D"]:
    """What the forces g (K×P) do to the weights in a step of one: (√D/P) Σ_μ g_iμ x_μ."""
    P, D = X.shape
    return math.sqrt(D) / P * sums_of_inputs(g, X)


class ReusedExamples(NamedTuple):
    """The dataset of one seed: inputs X (P×D), teacher fields ρ (M×P), noisy labels y."""

    X: np.ndarray
    rho: np.ndarray
    y: np.ndarray


def draw(
    pair: StudentTeacher, start: OrderParameters, D: int, P: int, seed: int
) -> tuple[np.ndarray, np.ndarray, ReusedExamples]:
    """The initial weights W (K×D), the teacher's W* (M×D) and the dataset of one seed."""
    weights_rng, inputs_rng, noise_rng = (_generator(seed, k) for k in range(3))
    weights = draw_weights(start, pair.T, D, weights_rng)
    W, W_star = np.array(weights.W), np.array(weights.W_star)
    X = inputs_rng.standard_normal((P, D), dtype=np.float32)
    rho = fields(W_star, X)
    clean = np.asarray(pair.teacher(jnp.asarray(rho)).T @ pair.v_star)
    y = clean + float(pair.noise) * noise_rng.standard_normal(P)
    return W, W_star, ReusedExamples(X, rho, y)


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


@eqx.filter_jit
def _forces(
    pair: StudentTeacher,
    v: Float[Array, " K"],
    h: Float[Array, "K P"],
    y: Float[Array, " P"],
    m: Float[Array, " P"],
) -> tuple[Float[Array, " P"], Float[Array, "K P"], Float[Array, " K"]]:
    """Δ (P), g (K×P) and the mean of m Δ g(h) (K), which pulls at the readout."""
    outputs = pair.student(h)
    Delta = y - v @ outputs
    force = m * Delta
    return Delta, v[:, None] * pair.student.derivative(h) * force, outputs @ force / len(y)


@eqx.filter_jit
def _slopes(
    pair: StudentTeacher,
    v: Float[Array, " K"],
    h: Float[Array, "K P"],
    Delta: Float[Array, " P"],
) -> tuple[Float[Array, "K P"], Float[Array, "K P"]]:
    """v_i g'(h_i) and v_i g''(h_i) Δ."""
    slope, bend = jax.jvp(pair.student.derivative, (h,), (jnp.ones_like(h),))
    return v[:, None] * slope, v[:, None] * bend * Delta


class ReusedTangents:
    """The tangents of a run: M move the labels; then, for every recorded state, K move fields and K move weights.

    `z` and `xi` are their directions over examples and inputs, and 0 where a tangent has none.
    """

    def __init__(
        self,
        pair: StudentTeacher,
        K: int,
        examples: ReusedExamples,
        recorded: np.ndarray,
        seed: int,
        momentum: float = 0.0,
    ):
        self.examples, self.K, self.M = examples, K, len(examples.rho)
        P, D = examples.X.shape
        count = self.M + 2 * K * len(recorded)
        self.W = np.zeros((count, K, D))
        self.F = np.zeros((count, K, D)) if momentum else None
        self.momentum = momentum
        self.z, self.xi = np.zeros((count, P), np.int8), np.zeros((count, D), np.int8)
        self.z[: self.M] = _signs(_generator(seed, 3), (self.M, P))
        for state, first in zip(recorded, self._first(np.arange(len(recorded))), strict=True):
            rng = _generator(seed, 4, int(state))
            self.z[first : first + K] = _signs(rng, (K, P))
            self.xi[first + K : first + 2 * K] = _signs(rng, (K, D))
        slope = pair.v_star[:, None] * pair.teacher.derivative(jnp.asarray(examples.rho))
        self.labels = np.asarray(slope) * self.z[: self.M]
        self.R_star = np.zeros((len(recorded), K, self.M))
        self.R_h, self.R_w = np.zeros((2, len(recorded), K, len(recorded), K))
        self.active = self.M

    def _first(self, record: np.ndarray) -> np.ndarray:
        """The first of the 2K tangents that start at this recorded state."""
        return self.M + 2 * self.K * record

    def step(
        self,
        slopes: Sequence[np.ndarray],
        m: Float[np.ndarray, " P"],
        tau: float,
        decay: float,
        record: int | None,
    ) -> None:
        """Step from a state with these `_slopes` to the next; `record` is its number if it is recorded, else None."""
        K, (X, _, _), new = self.K, self.examples, self.active
        if record is not None:
            products = np.zeros((len(self.W), K))
            np.einsum("aid,ad->ai", self.W[:new], self.xi[:new], out=products[:new])
            self.R_w[record] = self._by_state(products / X.shape[1], 1)
            self.active += K
        n, (P, D) = self.active, X.shape
        total = np.zeros((n, K, D))
        responses = np.zeros((len(self.W), K))
        for low in range(0, P, ROWS):
            part = slice(low, low + ROWS)
            x = X[part].astype(float)
            slope, bend = slopes[0][:, part], slopes[1][:, part]
            h = (self.W[:n].reshape(n * K, D) @ x.T / math.sqrt(D)).reshape(n, K, len(x))
            for j in range(n - new):
                h[new + j, j] += self.z[new + j, part]
            Delta = -np.einsum("jm,ajm->am", slope, h)
            Delta[: self.M] += self.labels[:, part]
            g = m[part] * (bend * h + slope * Delta[:, None])
            total += (g.reshape(n * K, len(x)) @ x).reshape(n, K, D)
            if record is not None:
                responses[:n] += np.einsum("aim,am->ai", g, self.z[:n, part]) / P
        total *= tau * math.sqrt(D) / P
        if self.F is not None:
            total += self.momentum * self.F[:n]
            self.F[:n] = total
        self.W[:n] *= 1 - tau * decay
        self.W[:n] += total
        if record is not None:
            self.R_star[record] = responses[: self.M].T
            self.R_h[record] = self._by_state(responses, 0)
            for j in range(K):
                self.W[n + j, j] = self.xi[n + j]
                if self.F is not None:
                    self.F[n + j, j] = self.xi[n + j]
            self.active += K

    def _by_state(
        self, values: Float[np.ndarray, "tangents K"], kind: int
    ) -> Float[np.ndarray, "K states K"]:
        """Measured values (tangent, i) of the fields (kind 0) or the weights (kind 1) as (i, state, j)."""
        return np.moveaxis(values[self.M :].reshape(-1, 2, self.K, self.K)[:, kind], 2, 0)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 2 * rng.integers(0, 2, shape, dtype=np.int8) - 1


def memory(D: int, P: int, K: int, M: int, grid: Grid, count: int, responses: bool) -> float:
    """Bytes that one network needs if `count` states are recorded: inputs, vectors and overlaps, tangents."""
    inputs = 4.0 * P * D
    vectors = 8.0 * (count + 3) * K * (D + P) + 8.0 * len(grid.times) * K * (K + M)
    correlations = 8.0 * 4 * (count * K) ** 2
    if not responses:
        return inputs + vectors + correlations
    tangents = M + 2 * K * count
    rows = min(ROWS, P)
    moving = 8.0 * K * (3 * tangents * D + 4 * tangents * rows) + 8.0 * rows * D
    return inputs + vectors + 2 * correlations + moving + tangents * (D + P)


def example_count(problem: Problem, size: int) -> int:
    """P."""
    return max(1, round(problem.data.ratio * size))


def batch_count(problem: Problem, size: int) -> int:
    """B."""
    ratio = problem.data.batch_ratio
    P = example_count(problem, size)
    return P if ratio is None else min(P, max(1, round(ratio * size)))


def chosen(P: int, B: int, seed: int, state: int) -> Float[np.ndarray, " P"]:
    """m of a state: P/B for B of the examples, 0 for the others."""
    if B == P:
        return np.ones(P)
    m = np.zeros(P)
    m[_generator(seed, 5, state).choice(P, B, replace=False, shuffle=False)] = P / B
    return m


class ReusedNetwork(Trainee):
    """One network in training on its reused dataset; its states are those of the time grid."""

    changeable = (
        "training.learning_rate",
        "training.readout_learning_rate",
        "training.weight_decay",
    )

    def __init__(
        self,
        problem: Problem,
        size: int,
        grid: Grid,
        recorded: np.ndarray,
        responses: bool,
        seed: int,
    ):
        super().__init__(len(recorded))
        self.problem, (self.pair, start) = problem, student_teacher(problem)
        self.v, self.grid, self.recorded = start.v, grid, recorded
        self.seed, self.D, self.P = seed, size, example_count(problem, size)
        self.batch = batch_count(problem, size)
        self.W, self.W_star, self.examples = draw(self.pair, start, self.D, self.P, seed)
        # Nothing moves after the last state.
        self.tau, self.tau_v = np.append(grid.tau, 0.0), np.append(grid.tau_v, 0.0)
        self.decay = float(problem.training.weight_decay)
        self.momentum, self.F, self.f = float(problem.training.momentum), 0.0, 0.0
        self.tangents = None
        if responses:
            K = len(start.v)
            self.tangents = ReusedTangents(
                self.pair, K, self.examples, recorded, seed, self.momentum
            )
        self.state, self.followed = 0, -1
        self.train_losses: list[float] = []
        self.states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def begin(self):
        self._look()

    def _look(self) -> None:
        """Compute the fields, forces, train loss and overlaps of the present state; raise `Diverged` if it diverged."""
        X, _, y = self.examples
        self.h = fields(self.W, X)
        self.m = self._chosen()
        arrays = (jnp.asarray(x) for x in (self.h, y, self.m))
        self.Delta, self.g, self.slope_of_v = map(np.asarray, _forces(self.pair, self.v, *arrays))
        loss = float(self.Delta @ self.Delta) / self.P
        if not self.train_losses:
            # The labels set the scale if the network starts without an error.
            self.scale = max(loss, float(y @ y) / self.P)
        if diverged(loss, self.scale):
            raise Diverged
        self.train_losses.append(0.5 * loss)
        W, D = self.W, self.D
        self.states.append((W @ W.T / D, W @ self.W_star.T / D, np.asarray(self.v)))

    def _chosen(self) -> Float[np.ndarray, " P"]:
        """m of the present state."""
        return chosen(self.P, self.batch, self.seed, self.state)

    def move(self, until: float, report: Report):
        last = int(np.searchsorted(self.grid.times, until))
        while self.state < last:
            self._follow(None)
            tau, tau_v = self.tau[self.state], self.tau_v[self.state]
            self.F = self.momentum * self.F + tau * pull(self.g, self.examples.X)
            self.W = (1 - tau * self.decay) * self.W + self.F
            if self.problem.network.train_readout:
                self.f = self.momentum * self.f + tau_v * self.slope_of_v
                self.v = (1 - tau_v * self.decay) * self.v + self.f
            self.state += 1
            self._look()
            report(self.grid.times[self.state])

    def _follow(self, record: int | None) -> None:
        """Move the tangents past the present state, unless they are past it already."""
        if self.tangents is None or self.followed == self.state:
            return
        if self.state > self.recorded[-1]:
            return
        h, Delta = jnp.asarray(self.h), jnp.asarray(self.Delta)
        slopes = [np.asarray(x) for x in _slopes(self.pair, self.v, h, Delta)]
        self.tangents.step(slopes, self.m, self.tau[self.state], self.decay, record)
        self.followed = self.state

    def measure(self) -> dict[str, Any]:
        if self.state in self.recorded:
            self._follow(int(np.searchsorted(self.recorded, self.state)))
        Q, R, v = self.states[-1]
        measured = {
            "state": self.state,
            "train_loss": self.train_losses[-1],
            "Q": Q,
            "R": R,
            "C": Products(self.W),
            "C_g": Products(self.g),
        }
        return measured | ({"v": v} if self.problem.network.train_readout else {})

    def complete(self, report: Report):
        """Train to the end, because a loss may drop after the last recorded state."""
        self.move(self.grid.times[-1], report)

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if "state" not in arrays:
            return arrays
        states, count = arrays.pop("state"), len(self.train_losses)
        # All runs of a length have one shape, so that those that diverge early need no new compilation.
        missing = max(len(self.grid.times) - count, 0)
        every = zip(*self.states, strict=True)
        padded = (jnp.asarray(np.stack([*each, *[each[-1]] * missing])) for each in every)
        rule = rule_of_test_loss(self.pair, sum(self.states[0][1].shape))
        every_state = OrderParameters(*padded)
        batch_size = min(STATES, len(every_state.Q))
        averages = np.asarray(on_the_population(self.pair, rule, every_state, batch_size))
        test_losses, alignment = averages[:, :count]
        arrays["test_loss"], arrays["kernel_alignment"] = test_losses[states], alignment[states]
        drop_times = drops(self.grid.times[:count], self.train_losses, test_losses)
        arrays |= {name: np.asarray(time) for name, time in drop_times.items()}
        if self.tangents is not None:
            reached = len(states)
            arrays["R_w"] = self.tangents.R_w[:reached, :, :reached]
            arrays["R_h"] = self.tangents.R_h[:reached, :, :reached]
            arrays["R_star"] = self.tangents.R_star[:reached]
        return arrays

    def change(self, problem: Problem):
        training = problem.training
        grid, now = self.grid.with_rates(training), self.state
        self.tau = np.concatenate([self.tau[:now], grid.tau[now:], [0.0]])
        self.tau_v = np.concatenate([self.tau_v[:now], grid.tau_v[now:], [0.0]])
        self.problem, self.decay = problem, float(training.weight_decay)

    def nearest(self, until: float) -> float:
        times = self.grid.times
        return times[np.argmin(np.abs(times - until))]

    def after(self) -> float:
        return self.grid.times[min(self.state + 1, len(self.grid.times) - 1)]

    def weights(self) -> dict[str, np.ndarray]:
        return {"W": self.W.copy(), "v": np.array(self.v), "W_star": self.W_star.copy()}

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The first examples of the dataset."""
        X, _, y = self.examples
        return {"x": X[:count].astype(float), "y": y[:count].copy()}


class FullBatch(TimeSteps, Simulator):
    """Gradient descent on a reused dataset, on all examples or a batch at every step, with the steps of `TimeSteps`.

    - `responses`: also measure the response functions R_w, R_h and R_star, by tangents along 2K directions (K hidden
      units) for every recorded time; record few times. False unless given.
    """

    libraries = ("numba",)

    responses: bool = field(boolean, default=False)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        K, M = problem.network.R.shape
        if size < K + M:
            allowed = f"must be at least {K + M} for {K} student and {M} teacher units"
            raise ProblemError("size", size, allowed)
        if self.responses and has_kink(problem.network.activation):
            allowed = (
                "must be False: the activation has a kink, and responses need its second derivative"
            )
            raise ProblemError("FullBatch.responses", True, allowed)
        D, P, B = size, example_count(problem, size), batch_count(problem, size)
        grid = time_grid(problem, self)
        recorded = record.nearest(grid.times)
        sizes = {"D": D, "P": P} | ({} if B == P else {"B": B})
        return Ensemble(
            lambda seed: ReusedNetwork(problem, size, grid, recorded, self.responses, seed),
            record.moved_to(grid.times[recorded]),
            memory(D, P, K, M, grid, len(recorded), self.responses),
            f"training networks of size {D} on {P} examples, recorded at {len(recorded)} times",
            "use a smaller size or record fewer times (save_at)",
            evidence={"sizes": sizes, "time_steps": len(grid.tau)},
        )
