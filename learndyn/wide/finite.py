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

from learndyn.activations.values import with_slope
from learndyn.deep_linear.delayed import rows_times
from learndyn.divergence import diverged
from learndyn.errors import ProblemError
from learndyn.numerics.gram import gram
from learndyn.numerics.times import resolve_steps, resolve_times
from learndyn.part import Part, boolean, field, whole
from learndyn.theory import Curves, Trainer
from learndyn.training import GradientDescent, as_schedule, rates
from learndyn.wide import finite_responses
from learndyn.wide.evolution import tangent_kernel
from learndyn.wide.finite_responses import Tangents
from learndyn.wide.observables import kernel_summaries, losses, observables
from learndyn.wide.setting import Setting, setting

(_gemm,) = get_blas_funcs(("gemm",), dtype=np.float64)
FLOW_STEP = 0.5
"""The first step of gradient flow, times the largest eigenvalue of the dynamics."""
TOLERANCE = 1e-5
"""The error of the outputs in a step of gradient flow."""
SHORT, SHORTEST = 1 / 32, 1e-4
"""Steps that short, in units of the first, may have a hundred times that error, as kinks of φ make; or any."""


class WideDescent(Part):
    """Gradient descent on the weights, or gradient flow where training has a `time`.

    The preactivations of the first `samples` neurons of every layer are recorded. With `responses` it also measures A
    and B, by tangents of the run along `probes` random directions for every recorded step, layer, point and output, and
    for every step, layer and point; record few steps.
    """

    samples: int = field(whole(0), default=0)
    responses: bool = field(boolean, default=False)
    probes: int = field(whole(1), default=1)


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


class Trainee:
    """One network in training on the first P points of x, and what it recorded."""

    def __init__(self, made: Setting, weights: Weights, x, centered: bool, count: int, samples):
        self.made, self.weights, self.x = made, weights, x
        self.origin = np.zeros((made.points, made.outputs))
        if centered:
            self.origin = np.concatenate([fields.f for fields in self._all_fields()])
        L, p, N = made.depth, made.points, weights.w.shape[1]
        self.f = np.empty((count, p, made.outputs))
        self.phi = np.empty((L, count, p, N))
        self.g = np.empty((L, count, p, made.outputs, N))
        self.h = np.empty((L, count, p, samples))
        self.reached = 0
        self.scale = self.loss() + 1

    def _all_fields(self, trained: Fields | None = None) -> list[Fields]:
        """The fields of the trained points, unless they are given, and of the test points, if there are any."""
        P, x = self.made.trained, self.x
        found = [trained or self.weights.forward(x[:P])]
        return [*found, self.weights.forward(x[P:])] if len(x) > P else found

    def look(self, weights: Weights) -> tuple[Fields, np.ndarray]:
        """The fields of the trained points, and their outputs as they are counted."""
        P = self.made.trained
        fields = weights.forward(self.x[:P])
        return fields, fields.f - self.origin[:P]

    def force(self, weights: Weights) -> Force:
        """The force at `weights`."""
        fields, f = self.look(weights)
        return weights.force(fields, self.made.loss.force(f))

    def loss(self) -> float:
        """𝓛 of the trained points."""
        return float(self.made.loss.value(self.look(self.weights)[1]))

    def fastest(self) -> float:
        """The largest eigenvalue of the tangent kernel on the trained points, times the scale of the loss."""
        P, C = self.made.trained, self.made.outputs
        fields = self.weights.forward(self.x[:P])
        Phi = np.stack([gram(phi, mean=True) for phi in fields.phi[1:]])
        G = np.stack([gram(g, mean=True) for g in self.weights.gradients(fields)])
        part = self.made._replace(K=self.made.K[:P, :P])
        kernel = tangent_kernel(part, Phi[:, None], G[:, None]).reshape(P * C, P * C)
        if not np.all(np.isfinite(kernel)):
            return math.inf
        return self.made.loss.scale * float(np.linalg.eigvalsh(kernel)[-1])

    def record(self, trained: Fields | None = None) -> None:
        """Record the present state at all points; the fields of the trained ones may be given."""
        i, first = self.reached, 0
        for fields in self._all_fields(trained):
            rows = slice(first, first + len(fields.f))
            first = rows.stop
            self.f[i, rows] = fields.f - self.origin[rows]
            for ell, g in enumerate(self.weights.gradients(fields)):
                self.phi[ell, i, rows] = fields.phi[ell + 1]
                self.g[ell, i, rows] = g
                self.h[ell, i, rows] = fields.h[ell][:, : self.h.shape[-1]]
        self.reached += 1

    def arrays(self, test_targets) -> dict:
        """The observables of `learndyn.wide.observables`, at the states that were reached."""
        n = self.reached
        now = np.arange(n)
        Phi = np.stack([gram(phi[:n], mean=True) for phi in self.phi])
        G = np.stack([gram(g[:n], mean=True) for g in self.g])
        equal = Phi[:, now, :, now].transpose(1, 0, 2, 3)
        gradients = G[:, now, :, :, now].transpose(1, 0, 2, 3, 4, 5)
        found = losses(self.made.loss, self.f[:n], test_targets) | {
            "kernel": tangent_kernel(self.made, equal, gradients),
            "Phi": Phi,
            "G": G,
        }
        if self.h.shape[-1]:
            found["preactivation"] = self.h[:, :n]
        return found | kernel_summaries(equal, self.made.loss.targets)


def descend(
    trainee: Trainee,
    training: GradientDescent,
    steps,
    noise,
    report,
    tangents: Tangents | None = None,
) -> None:
    """B ← βB + η·force, θ ← (1 − ηλ)θ + B + √(2ητ)ζ, recorded at `steps`."""
    weights, last = trainee.weights, int(steps[-1])
    eta = np.asarray(rates(training, last), dtype=float)
    buffer = weights.zeros() if training.momentum else None
    for step in range(last + 1):
        fields, f = trainee.look(weights)
        if diverged(trainee.made.loss.value(f), trainee.scale):
            return
        record = trainee.reached if step == steps[trainee.reached] else None
        if record is not None:
            trainee.record(fields)
        if tangents is not None:
            tangents.step(step, weights, record, trainee.reached)
        if step < last:
            rate, force = eta[step], weights.force(fields, trainee.made.loss.force(f))
            keep = 1 - rate * training.weight_decay
            if buffer is None:
                weights.move(keep, [(rate, force)])
            else:
                buffer.move(training.momentum, [(rate, force)])
                weights.add(keep, buffer)
            if training.noise:
                weights.shake(math.sqrt(2 * rate * training.noise), noise)
        report((step + 1) / (last + 1))


def flow(trainee: Trainee, training: GradientDescent, times, report) -> None:
    """dθ/dt = η(t)(force − λθ), recorded at `times`; a step adapts to what two halves of it give."""
    rate, decay = as_schedule(training.learning_rate), training.weight_decay
    largest = float(np.max(np.asarray(rate(np.linspace(0.0, times[-1], 1001)))))
    fastest = largest * (trainee.fastest() + decay)
    dt = FLOW_STEP / fastest if fastest > 0 else math.inf
    short, shortest = SHORT * dt, SHORTEST * dt
    time, wanted = 0.0, set(times.tolist())
    for stop in sorted({0.0} | wanted | set(training.breakpoints(times[-1]))):
        while time < stop:
            pieces = max(1, math.ceil((stop - time) / dt * (1 - 1e-12)))
            step = (stop - time) / pieces
            moved, error = _attempt(trainee, rate, decay, time, step)
            better = 0.9 * (TOLERANCE / error) ** 0.2 if error > 0 else math.inf
            better = step * min(max(better, 0.2), 4.0)
            allowed = TOLERANCE * (1 if step > short else 100)
            if error > allowed and step > shortest:
                dt = max(better, shortest)
                continue
            trainee.weights.move(*moved)
            time = stop if pieces == 1 else time + step
            if diverged(trainee.loss(), trainee.scale):
                return
            # A step that a recorded time cut short says little against the longer one.
            dt = max(dt, better) if better > step else max(better, min(step, short))
            report(time / times[-1])
        if stop in wanted:
            trainee.record()


def _attempt(trainee: Trainee, rate: Callable, decay: float, time: float, dt: float):
    """A move by two Runge–Kutta steps dt/2, and the error of its outputs, from one step dt.

    States are combinations of θ and all forces so far: vectors with the coefficient of θ first.
    """
    forces: list[Force] = []
    unit = np.eye(12)

    def state(x) -> Weights:
        return trainee.weights.shifted(x[0], terms(x) if forces else [])

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


def finite(problem, size: int, method: WideDescent, save_at) -> Trainer:
    """What trains one network: `run(seed, report) -> Curves`, and the memory for it."""
    training = problem.training
    flowing = training.time is not None
    if flowing:
        for name in ("momentum", "noise"):
            if value := getattr(training, name):
                allowed = "must be 0 in gradient flow; give training steps instead of a time"
                raise ProblemError(f"training.{name}", value, allowed)
    if method.samples > size:
        raise ProblemError(
            "WideDescent.samples", method.samples, f"must be at most {size}, the width"
        )
    if method.responses:
        finite_responses.check(problem)
    times = (
        resolve_times(save_at, training.time) if flowing else resolve_steps(save_at, training.steps)
    )
    made = setting(problem, 1, GradientDescent(1.0, steps=1))
    x = np.ascontiguousarray(problem.data.all_inputs(), dtype=float)
    copies = 2 if flowing or training.momentum or training.noise else 1
    needed = memory(made, x.shape[1], size, len(times), copies)
    axis = "time" if flowing else "step"
    what = f"training networks of width {size} on {made.points} points, recorded at {len(times)} {axis}s"
    if method.responses:
        sizes = (size, len(times), int(times[-1]), method.probes)
        needed += finite_responses.memory(made, *sizes)
        what = f"{what} with responses"

    def run(seed: int, report) -> Curves:
        weights, noise = draw(made, x.shape[1], size, seed)
        with np.errstate(over="ignore", invalid="ignore"):
            trainee = Trainee(
                made, weights, x, problem.network.centered, len(times), method.samples
            )
            tangents = None
            if method.responses:
                tangents = Tangents(made, training, trainee, times, method.probes, seed)
            if flowing:
                flow(trainee, training, times, report)
            else:
                descend(trainee, training, times, noise, report, tangents)
        reached = trainee.reached
        arrays = trainee.arrays(problem.data.test_targets)
        if tangents is not None:
            arrays |= tangents.arrays(reached)
        return Curves(
            observables(arrays, axis),
            times[:reached],
            axis=axis,
            axis_words="time t (gradient flow)" if flowing else None,
            diverged_at=float(times[reached]) if reached < len(times) else None,
            coordinates={"layer": np.arange(1, made.depth + 1), f"{axis}2": times[:reached]},
            evidence={"size_symbol": "N"},
        )

    advice = "use a smaller width or record fewer states (save_at)"
    return Trainer(run, needed, what, advice)
