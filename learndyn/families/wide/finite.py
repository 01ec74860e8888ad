"""Finite wide networks, trained for real; the update rules are in `Wide`'s docstring, and the size is the width N.

With φ^0 = x, r_0 = √D, otherwise r_ℓ = √N, and outputs f_c = w_c·φ^L/(γ_0 N), the backward fields of an output are
g^L = φ'(h^L) w_c and g^ℓ = φ'(h^ℓ) W^{ℓ⊤}g^{ℓ+1}/r_ℓ, so that ∂f_c/∂h^ℓ = g^ℓ_c/(γ_0 N). The forces −γ_0²N ∇𝓛 are, with
E = −∂𝓛/∂f and δ_α = Σ_c E_αc g_αc,

    on W^ℓ: (γ_0/r_ℓ) Σ_α δ^{ℓ+1}_α φ^ℓ_α^⊤,    on b^ℓ: γ_0 Σ_α δ^{ℓ+1}_α,    on w_c: γ_0 Σ_α E_αc φ^L_α.

They have the rank of the trained points, and the N×N matrix of a force is never made. A step costs 6LN²P operations.
Points are rows in the code.
Gradient flow dθ/dt = η(t)(force − λθ) is integrated by the Runge–Kutta rule of fourth order, whose states are kept as
weights plus forces, in steps that adapt to their error.

Only trained points are carried in training; at the recorded states all points are sent through the network. So neither
the recorded steps nor the test points change a seed's curve (but recorded times change the steps of gradient flow).
Weights, biases and noise have random generators of their own.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_blas_funcs

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Products, Trainee
from learndyn.errors import LearndynError, ProblemError
from learndyn.families.wide import finite_responses
from learndyn.families.wide.finite_responses import Tangents
from learndyn.families.wide.kernels import tangent_kernel, with_summaries
from learndyn.families.wide.observables import losses
from learndyn.families.wide.setting import Setting, refuse_in_flow, setting
from learndyn.numerics.delayed import rows_times
from learndyn.numerics.gram import gram
from learndyn.problem.activations.values import with_slope
from learndyn.problem.checks import boolean, whole
from learndyn.problem.part import field
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import PerStepRule

(_gemm,) = get_blas_funcs(("gemm",), dtype=np.float64)
FLOW_STEP = 0.5
"""The first step of gradient flow, times the largest eigenvalue of the dynamics."""
TOLERANCE = 1e-5
"""The error of the outputs in a step of gradient flow."""
SHORT, SHORTEST = 1 / 32, 1e-4
"""Steps that short, in units of the first, may have a hundred times that error, as kinks of φ make; or any."""


class Fields(NamedTuple):
    """What a network makes of some points: h^ℓ and φ'(h^ℓ), ℓ = 1 … L, φ^ℓ, ℓ = 0 … L (points × N), f (points × C)."""

    h: list
    slope: list
    phi: list
    f: np.ndarray


class Force(NamedTuple):
    """The force on all weights: δ^1 … δ^L and φ^0 … φ^L of the trained points, and E."""

    delta: list
    phi: list
    E: np.ndarray


class Weights:
    """W^0 … W^{L−1}, biases b^0 … b^{L−1} (an empty list without) and w (C × N).

    A state `shifted` by forces has the same matrices, `keep` times, and products of low rank in `shifts`.
    """

    def __init__(self, made: Setting, W: list, b: list, w: np.ndarray, keep=1.0, shifts=None):
        self.made, self.W, self.b, self.w = made, W, b, w
        self.keep, self.shifts = keep, shifts or [None] * len(W)

    def zeros(self) -> "Weights":
        W, b = ([np.zeros_like(one) for one in some] for some in (self.W, self.b))
        return Weights(self.made, W, b, np.zeros_like(self.w))

    def _ahead(self, ell: int, phi):
        """W^ℓ φ/r_ℓ + b^ℓ for every row φ."""
        W, shift = self.W[ell], self.shifts[ell]
        h = rows_times(phi, W.T) * (self.keep / math.sqrt(W.shape[1]))
        if shift is not None:
            h += (phi @ shift[1].T) @ shift[0] / math.sqrt(W.shape[1])
        return h + self.b[ell] if self.b else h

    def _back(self, ell: int, g):
        """W^{ℓ⊤} g/r_ℓ for every row g."""
        W, shift = self.W[ell], self.shifts[ell]
        z = rows_times(g, W) * (self.keep / math.sqrt(W.shape[1]))
        if shift is not None:
            z += (g @ shift[0].T) @ shift[1] / math.sqrt(W.shape[1])
        return z

    def forward(self, x) -> Fields:
        h, slope, phi = [], [], [x]
        for ell in range(len(self.W)):
            h.append(self._ahead(ell, phi[-1]))
            values = map(np.asarray, with_slope(self.made.activation, h[-1]))
            for kept, value in zip((phi, slope), values, strict=True):
                kept.append(value)
        return Fields(h, slope, phi, phi[-1] @ self.w.T / (self.made.gamma * self.w.shape[1]))

    def backward(self, fields: Fields, z) -> list:
        """g^1 … g^L (points × outputs × N) for z^L = z; outputs are those of z."""
        found = []
        for ell in reversed(range(len(self.W))):
            found.insert(0, fields.slope[ell][:, None] * z)
            if ell:
                rows = found[0].reshape(-1, found[0].shape[-1])
                z = self._back(ell, rows).reshape(found[0].shape)
        return found

    def gradients(self, fields: Fields) -> list:
        """g^1 … g^L for all outputs, z^L = w."""
        return self.backward(fields, np.broadcast_to(self.w, (len(fields.f), *self.w.shape)))

    def force(self, fields: Fields, E) -> Force:
        """The force −γ_0²N ∇𝓛 at the fields of the trained points."""
        delta = [g[:, 0] for g in self.backward(fields, (E @ self.w)[:, None])]
        return Force(delta, fields.phi, E)

    def _terms(self, ell: int, terms):
        """Rows whose products are the sum of `terms`, pairs of a factor and a force, on W^ℓ."""
        scale = self.made.gamma / math.sqrt(self.W[ell].shape[1])
        left = np.concatenate([a * scale * F.delta[ell] for a, F in terms])
        return left, np.concatenate([F.phi[ell] for _, F in terms])

    def _vectors(self, keep: float, terms):
        """The biases and w, `keep` times, plus `terms`."""
        gamma = self.made.gamma
        b = [
            keep * one + sum(a * gamma * F.delta[ell].sum(0) for a, F in terms)
            for ell, one in enumerate(self.b)
        ]
        return b, keep * self.w + sum(a * gamma * F.E.T @ F.phi[-1] for a, F in terms)

    def shifted(self, keep: float, terms) -> "Weights":
        """keep·θ + Σ a·force over the `terms` (a, force), sharing the matrices with θ."""
        shifts = [self._terms(ell, terms) for ell in range(len(self.W))] if terms else None
        return Weights(self.made, self.W, *self._vectors(keep, terms), keep, shifts)

    def move(self, keep: float, terms) -> None:
        """θ ← keep·θ + Σ a·force, in place."""
        for ell, W in enumerate(self.W):
            left, right = self._terms(ell, terms)
            _gemm(1.0, right.T, left.T, beta=keep, c=W.T, trans_b=True, overwrite_c=True)
        self.b, self.w = self._vectors(keep, terms)

    def add(self, keep: float, other: "Weights") -> None:
        """θ ← keep·θ + other."""
        for mine, theirs in zip(
            (*self.W, *self.b, self.w), (*other.W, *other.b, other.w), strict=True
        ):
            if keep != 1:
                mine *= keep
            mine += theirs

    def shake(self, size: float, rng) -> None:
        """θ ← θ + size·ζ."""
        for one in (*self.W, *self.b, self.w):
            one += size * rng.standard_normal(one.shape)


def draw(made: Setting, inputs: int, width: int, seed: int) -> tuple[Weights, np.random.Generator]:
    """The initial weights of a seed, and its generator of noise."""
    sequences = np.random.SeedSequence(seed).spawn(3)
    weights, biases, noise = (np.random.Generator(np.random.SFC64(one)) for one in sequences)
    W = [weights.standard_normal((width, n)) for n in (inputs, *[width] * (made.depth - 1))]
    w = weights.standard_normal((made.outputs, width))
    b = [biases.standard_normal(width) for _ in W] if made.bias else []
    return Weights(made, W, b, w), noise


class Network(Trainee):
    """One network in training on the first P points of x."""

    def __init__(self, problem, made: Setting, x, size: int, method, recorded, seed: int):
        super().__init__(len(recorded))
        self.problem, self.made, self.x, self.training = problem, made, x, problem.training
        self.theta, self.noise = draw(made, x.shape[1], size, seed)
        self.samples, self.recorded, self.method, self.seed = method.samples, recorded, method, seed
        self.origin = np.zeros((made.points, made.outputs))
        self.buffer = self.theta.zeros() if self.training.momentum else None
        self.tangents, self.followed = None, -1

    def begin(self):
        if self.problem.network.centered:
            self.origin = np.concatenate([fields.f for fields in self._all_fields()])
        if self.method.responses:
            given = (self.recorded, self.method.probes, self.seed)
            self.tangents = Tangents(self.made, self.training, self, *given)
        self.scale = self._loss() + 1

    def _all_fields(self, trained: Fields | None = None) -> list[Fields]:
        """The fields of the trained points, unless they are given, and of the test points, if there are any."""
        P, x = self.made.trained, self.x
        found = [trained or self.theta.forward(x[:P])]
        return [*found, self.theta.forward(x[P:])] if len(x) > P else found

    def look(self, weights: Weights) -> tuple[Fields, np.ndarray]:
        """The fields of the trained points, and their outputs as they are counted."""
        P = self.made.trained
        fields = weights.forward(self.x[:P])
        return fields, fields.f - self.origin[:P]

    def force(self, weights: Weights) -> Force:
        """The force at `weights`."""
        fields, f = self.look(weights)
        return weights.force(fields, self.made.loss.force(f))

    def _loss(self) -> float:
        """𝓛 of the trained points."""
        return float(self.made.loss.value(self.look(self.theta)[1]))

    def measure(self):
        """Fields of all points: outputs, and the vectors of which kernels are the products."""
        rows = [
            (fields, self.theta.gradients(fields))
            for fields in self._all_fields(self.trained_fields())
        ]
        L = self.made.depth

        def layer(pick) -> list[np.ndarray]:
            return [np.concatenate([pick(*row, ell) for row in rows]) for ell in range(L)]

        f = np.concatenate([fields.f for fields, _ in rows]) - self.origin
        found = {
            "now": self.now,
            "f": f,
            "Phi": Products(layer(lambda fields, g, ell: fields.phi[ell + 1])),
            "G": Products(layer(lambda fields, g, ell: g[ell])),
        }
        if self.samples:
            h = layer(lambda fields, g, ell: fields.h[ell][:, : self.samples])
            found["preactivation"] = np.stack(h)
        return found

    def trained_fields(self) -> Fields | None:
        """The fields of the trained points, where they are known already."""
        return None

    def finish(self, arrays):
        f, states = arrays.pop("f"), arrays.pop("now")
        found = losses(self.made.loss, f, self.problem.data.test_targets)
        found |= with_summaries(self.made, arrays.pop("Phi"), arrays.pop("G"))
        if "preactivation" in arrays:
            found["preactivation"] = np.moveaxis(arrays["preactivation"], 0, 1)
        if self.tangents is not None:
            found |= self.tangents.arrays(np.searchsorted(self.recorded, states))
        return found

    def observe(self):
        """Movement is left out: it is that from the first state that was kept."""
        return {name: x for name, x in super().observe().items() if name != "movement"}

    def change(self, problem):
        if self.tangents is not None:
            raise LearndynError("training cannot change where responses are measured")
        self.problem, self.training = problem, problem.training

    def weights(self):
        """W0 …, biases b0 … if there are any, and the readout w."""
        theta = self.theta
        found = {f"W{ell}": W.copy() for ell, W in enumerate(theta.W)}
        return (
            found | {f"b{ell}": b.copy() for ell, b in enumerate(theta.b)} | {"w": theta.w.copy()}
        )

    def sample(self, count):
        """The first of the trained points."""
        P = self.made.trained
        return {"x": self.x[:P][:count].copy(), "y": self.made.loss.targets[:count].copy()}


class Descending(Network):
    """Gradient descent: B ← βB + η·force, θ ← (1 − ηλ)θ + B + √(2ητ)ζ."""

    now: int = 0
    changeable = (
        "training.learning_rate",
        "training.momentum",
        "training.weight_decay",
        "training.noise",
        "training.steps",
    )

    def begin(self):
        super().begin()
        self.rule = PerStepRule.of(self.training)
        self._look()

    def _look(self) -> None:
        self.fields, self.f = self.look(self.theta)
        if diverged(self.made.loss.value(self.f), self.scale):
            raise Diverged

    def trained_fields(self):
        return self.fields

    def move(self, until, report):
        training, weights = self.training, self.theta
        while self.now < until:
            self._follow(None)
            rate, momentum, decay = (x[self.now] for x in self.rule)
            force = weights.force(self.fields, self.made.loss.force(self.f))
            keep = 1 - rate * decay
            if self.buffer is None:
                weights.move(keep, [(rate, force)])
            else:
                self.buffer.move(momentum, [(rate, force)])
                weights.add(keep, self.buffer)
            if training.noise:
                weights.shake(math.sqrt(2 * rate * training.noise), self.noise)
            self.now += 1
            self._look()
            report(self.now)

    def _follow(self, record: int | None) -> None:
        """Move the tangents past the present step, once."""
        if self.tangents is None or self.followed == self.now or self.now > self.recorded[-1]:
            return
        reached = int(np.count_nonzero(self.recorded <= self.now))
        self.tangents.step(self.now, self.theta, record, reached)
        self.followed = self.now

    def measure(self):
        if self.tangents is not None:
            if self.now not in self.recorded:
                raise LearndynError(
                    f"responses are measured at {len(self.recorded)} equally spaced steps, and {self.now} is none of "
                    "them; use simulate with save_at"
                )
            self._follow(int(np.searchsorted(self.recorded, self.now)))
        return super().measure()

    def after(self):
        return self.now + 1

    def change(self, problem):
        super().change(problem)
        self.rule = self.rule.until(self.now, problem.training)
        if problem.training.momentum and self.buffer is None:
            self.buffer = self.theta.zeros()


class Flowing(Network):
    """Gradient flow: dθ/dt = η(t)(force − λθ); a step adapts to what two halves of it give."""

    now: float = 0.0
    changeable = ("training.learning_rate", "training.weight_decay", "training.time")

    def begin(self):
        super().begin()
        self._pace()

    def change(self, problem):
        super().change(problem)
        self._pace()

    def _pace(self) -> None:
        """What the present training and weights say of steps."""
        self.rate, self.decay = as_schedule(self.training.learning_rate), self.training.weight_decay
        end = self.training.time
        largest = float(np.max(np.asarray(self.rate(np.linspace(0.0, end, 1001)))))
        fastest = largest * (self._fastest() + self.decay)
        self.dt = FLOW_STEP / fastest if fastest > 0 else math.inf
        self.short, self.shortest = SHORT * self.dt, SHORTEST * self.dt
        self.kinks = sorted(self.training.breakpoints(end))

    def _fastest(self) -> float:
        """The largest eigenvalue of the tangent kernel on the trained points, times the scale of the loss."""
        P, C = self.made.trained, self.made.outputs
        fields = self.theta.forward(self.x[:P])
        Phi = np.stack([gram(phi, mean=True) for phi in fields.phi[1:]])
        G = np.stack([gram(g, mean=True) for g in self.theta.gradients(fields)])
        part = self.made._replace(K=self.made.K[:P, :P])
        kernel = tangent_kernel(part, Phi[:, None], G[:, None]).reshape(P * C, P * C)
        if not np.all(np.isfinite(kernel)):
            return math.inf
        return self.made.loss.scale * float(np.linalg.eigvalsh(kernel)[-1])

    def move(self, until, report):
        for stop in [*(kink for kink in self.kinks if self.now < kink < until), until]:
            while self.now < stop:
                self._step_towards(stop)
                report(self.now)

    def _step_towards(self, stop: float) -> None:
        """One step that was accurate enough, or a shorter one to try next."""
        pieces = max(1, math.ceil((stop - self.now) / self.dt * (1 - 1e-12)))
        step = (stop - self.now) / pieces
        moved, error = _attempt(self, self.rate, self.decay, self.now, step)
        better = 0.9 * (TOLERANCE / error) ** 0.2 if error > 0 else math.inf
        better = step * min(max(better, 0.2), 4.0)
        allowed = TOLERANCE * (1 if step > self.short else 100)
        if error > allowed and step > self.shortest:
            self.dt = max(better, self.shortest)
            return
        self.theta.move(*moved)
        self.now = stop if pieces == 1 else self.now + step
        if diverged(self._loss(), self.scale):
            raise Diverged
        # A step that a recorded time cut short says little against the longer one.
        longer = better > step
        self.dt = max(self.dt, better) if longer else max(better, min(step, self.short))


def _attempt(trainee: Network, rate: Callable, decay: float, time: float, dt: float):
    """A move by two Runge–Kutta steps dt/2, and the error of its outputs, from one step dt.

    States are combinations of θ and all forces so far: vectors with the coefficient of θ first.
    """
    forces: list[Force] = []
    unit = np.eye(12)

    def state(x) -> Weights:
        return trainee.theta.shifted(x[0], terms(x) if forces else [])

    def terms(x) -> list[tuple[float, Force]]:
        return [(a, F) for a, F in zip(x[1:], forces, strict=False) if a] or [(0.0, forces[0])]

    def stepped(x, start: float, dt: float, first: int | None = None):
        # A jump of the rate at the end of the step belongs to the next one.
        eta = np.asarray(rate(start + np.array([0.0, 0.5, 0.5, 1 - 1e-9]) * dt), dtype=float)
        slopes = []
        for i, part in enumerate((0.0, 0.5, 0.5, 1.0)):
            here = x + part * dt * slopes[-1] if slopes else x
            known = first is not None and i == 0
            if not known:
                forces.append(trainee.force(state(here)))
            slopes.append(eta[i] * (unit[first if known else len(forces)] - decay * here))
        return x + dt / 6 * (slopes[0] + 2 * slopes[1] + 2 * slopes[2] + slopes[3])

    whole = stepped(unit[0], time, dt)
    half = stepped(unit[0], time, dt / 2, first=1)
    end = stepped(half, time + dt / 2, dt / 2)
    f, g = (trainee.look(state(x))[1] for x in (end, whole))
    # The error of a step dt is sixteen times that of two steps dt/2, to leading order.
    error = np.max(np.abs(f - g)) / 15 / (1 + np.max(np.abs(f)))
    return (end[0], terms(end)), float(error) if np.isfinite(error) else math.inf


def memory(made: Setting, inputs: int, width: int, count: int, copies: int) -> float:
    """Bytes for one network recorded at `count` states: copies of the weights, recorded fields, kernels."""
    p, C, L = made.points, made.outputs, made.depth
    weights = copies * width * (inputs + (L - 1) * width + C + L)
    vectors = (count + 4) * p * width * L * (2 + C)
    # A layer's kernels are made before they are stacked.
    kernels = 2 * L * (count * p) ** 2 * (1 + C * C)
    return 8.0 * (weights + vectors + kernels)


class WideDescent(Simulator):
    """Gradient descent on the weights, or gradient flow where training has a `time`.

    The preactivations of the first `samples` neurons of every layer are recorded. With `responses` it also measures A
    and B, by tangents of the run along `probes` random directions for every recorded step, layer, point and output, and
    for every step, layer and point; record few steps.
    """

    samples: int = field(whole(0), default=0)
    responses: bool = field(boolean, default=False)
    probes: int = field(whole(1), default=1)

    def ensemble(self, problem, size, record):
        training, flowing = problem.training, record.axis == "time"
        if flowing:
            refuse_in_flow(training)
        if self.samples > size:
            allowed = f"must be at most {size}, the width"
            raise ProblemError("WideDescent.samples", self.samples, allowed)
        if self.responses:
            finite_responses.check(problem)
        made = setting(problem, 1, GradientDescent(1.0, steps=1))
        x = np.ascontiguousarray(problem.data.all_inputs(), dtype=float)
        copies = 2 if flowing or training.momentum or training.noise else 1
        needed = memory(made, x.shape[1], size, len(record), copies)
        what = f"training networks of width {size} on {made.points} points"
        what = f"{what}, recorded at {len(record)} {record.axis}s"
        if self.responses:
            sizes = (size, len(record), int(record.last), self.probes)
            needed += finite_responses.memory(made, *sizes)
            what = f"{what} with responses"
        network = Flowing if flowing else Descending
        return Ensemble(
            lambda seed: network(problem, made, x, size, self, record.at, seed),
            record,
            needed,
            what,
            "use a smaller width or record fewer states (save_at)",
            labels={"layer": np.arange(1, made.depth + 1)},
        )
