"""Finite wide networks, trained for real; the update rules are in `Wide`'s docstring, and the size is the width N.

With φ^0 = x, r_0 = √D, otherwise r_ℓ = √N, and outputs f_c = w_c·φ^L/(γ_0 N), the backward fields of an output are
g^L = φ'(h^L) w_c and g^ℓ = φ'(h^ℓ) W^{ℓ⊤}g^{ℓ+1}/r_ℓ, so that ∂f_c/∂h^ℓ = g^ℓ_c/(γ_0 N). The forces −γ_0²N ∇𝓛 are, with
E = −∂𝓛/∂f and δ_α = Σ_c E_αc g_αc,

    on W^ℓ: (γ_0/r_ℓ) Σ_α δ^{ℓ+1}_α φ^ℓ_α^⊤,    on b^ℓ: γ_0 Σ_α δ^{ℓ+1}_α,    on w_c: γ_0 Σ_α E_αc φ^L_α.

They have the rank of the trained points, and the N×N matrix of a force is never formed. A step costs 6LN²P operations.
Points are rows in the code.
Gradient flow dθ/dt = η(t)(force − λθ) is integrated by the Runge–Kutta rule of fourth order, whose states are kept as
weights plus forces, in steps that adapt to their error.

Only trained points are carried in training; at the recorded states all points are sent through the network. So neither
the recorded steps nor the test points change a seed's curve (but recorded times change the steps of gradient flow).
Weights, biases and noise have random generators of their own.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Products, Report, Trainee
from learndyn.core.record import Record
from learndyn.errors import LearndynError, ProblemError
from learndyn.families.wide import finite_architectures, finite_responses
from learndyn.families.wide.finite_architectures import DescendingArchitecture
from learndyn.families.wide.finite_responses import WideTangents
from learndyn.families.wide.kernel_observables import tangent_kernel, with_summaries
from learndyn.families.wide.observables import losses
from learndyn.families.wide.problem_arrays import WideSetting, wide_setting
from learndyn.numerics.delayed import rows_times
from learndyn.numerics.gram import gram
from learndyn.problem.activations.values import with_slope
from learndyn.problem.checks import boolean, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import as_schedule
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import PerStepRule
from learndyn.sampling.rules import refuse_in_flow

(_gemm,) = get_blas_funcs(("gemm",), dtype=np.float64)
FLOW_STEP = 0.5
"""The first step of gradient flow, times the largest eigenvalue of the dynamics."""
MOST_FLOW_STEPS = 10**6
"""The largest number of steps of gradient flow; with more, training would not end."""
TOLERANCE = 1e-5
"""The error of the outputs in a step of gradient flow."""
SHORT, SHORTEST = 1 / 32, 1e-4
"""In units of the first step: shorter steps than `SHORT` may have a hundred times that error, because of kinks of φ,
and those of `SHORTEST` any error."""


class LayerFields(NamedTuple):
    """Fields of a network on its points: h^ℓ and φ'(h^ℓ), ℓ = 1 … L, φ^ℓ, ℓ = 0 … L (points × N), f (points × C)."""

    h: list[np.ndarray]
    slope: list[np.ndarray]
    phi: list[np.ndarray]
    f: Float[np.ndarray, "points C"]


class Force(NamedTuple):
    """The force on all weights: δ^1 … δ^L and φ^0 … φ^L of the trained points, and E."""

    delta: list[np.ndarray]
    phi: list[np.ndarray]
    E: Float[np.ndarray, "P C"]


Terms = list[tuple[float, Force]]
"""A sum of forces, each with its factor."""
Shift = tuple[np.ndarray, np.ndarray] | None
"""Two matrices whose product, of low rank, is added to a weight matrix."""


class WideWeights:
    """W^0 … W^{L−1}, biases b^0 … b^{L−1} (an empty list without) and w (C × N).

    A state `shifted` by forces shares the matrices, multiplied by `keep`, and adds products of low rank, `shifts`.
    """

    def __init__(
        self,
        setting: WideSetting,
        W: list[np.ndarray],
        b: list[np.ndarray],
        w: np.ndarray,
        keep: float = 1.0,
        shifts: Sequence[Shift] | None = None,
    ):
        self.setting, self.W, self.b, self.w = setting, W, b, w
        self.keep, self.shifts = keep, shifts or [None] * len(W)

    def zeros(self) -> "WideWeights":
        """Weights of the same shapes that are all zero."""
        W, b = ([np.zeros_like(array) for array in arrays] for arrays in (self.W, self.b))
        return WideWeights(self.setting, W, b, np.zeros_like(self.w))

    def _ahead(
        self, ell: int, phi: Float[np.ndarray, "points below"]
    ) -> Float[np.ndarray, "points N"]:
        """W^ℓ φ/r_ℓ + b^ℓ for every row φ."""
        W, shift = self.W[ell], self.shifts[ell]
        h = rows_times(phi, W.T) * (self.keep / math.sqrt(W.shape[1]))
        if shift is not None:
            h += (phi @ shift[1].T) @ shift[0] / math.sqrt(W.shape[1])
        return h + self.b[ell] if self.b else h

    def _back(self, ell: int, g: Float[np.ndarray, "rows N"]) -> Float[np.ndarray, "rows below"]:
        """W^{ℓ⊤} g/r_ℓ for every row g."""
        W, shift = self.W[ell], self.shifts[ell]
        z = rows_times(g, W) * (self.keep / math.sqrt(W.shape[1]))
        if shift is not None:
            z += (g @ shift[0].T) @ shift[1] / math.sqrt(W.shape[1])
        return z

    def forward(self, x: Float[np.ndarray, "points D"]) -> LayerFields:
        """The fields of all points x."""
        h, slope, phi = [], [], [x]
        for ell in range(len(self.W)):
            h.append(self._ahead(ell, phi[-1]))
            features, slopes = map(np.asarray, with_slope(self.setting.activation, h[-1]))
            phi.append(features)
            slope.append(slopes)
        return LayerFields(
            h, slope, phi, phi[-1] @ self.w.T / (self.setting.gamma * self.w.shape[1])
        )

    def backward(
        self, fields: LayerFields, z: Float[np.ndarray, "points outputs N"]
    ) -> list[np.ndarray]:
        """g^1 … g^L (points × outputs × N) for z^L = z, for all outputs of z."""
        gradients: list[np.ndarray] = []
        for ell in reversed(range(len(self.W))):
            g = fields.slope[ell][:, None] * z
            gradients.insert(0, g)
            if ell:
                z = self._back(ell, g.reshape(-1, g.shape[-1])).reshape(g.shape)
        return gradients

    def gradients(self, fields: LayerFields) -> list[np.ndarray]:
        """g^1 … g^L for all outputs, z^L = w."""
        return self.backward(fields, np.broadcast_to(self.w, (len(fields.f), *self.w.shape)))

    def force(self, fields: LayerFields, E: Float[np.ndarray, "P C"]) -> Force:
        """The force −γ_0²N ∇𝓛 at the fields of the trained points."""
        delta = [g[:, 0] for g in self.backward(fields, (E @ self.w)[:, None])]
        return Force(delta, fields.phi, E)

    def _terms(self, ell: int, terms: Terms) -> tuple[np.ndarray, np.ndarray]:
        """Two matrices whose product is the sum of the `terms` on W^ℓ."""
        scale = self.setting.gamma / math.sqrt(self.W[ell].shape[1])
        left = np.concatenate([a * scale * F.delta[ell] for a, F in terms])
        return left, np.concatenate([F.phi[ell] for _, F in terms])

    def _vectors(self, keep: float, terms: Terms) -> tuple[list[np.ndarray], np.ndarray]:
        """The biases and w, multiplied by `keep`, plus the `terms`."""
        gamma = self.setting.gamma
        b = [
            keep * bias + sum(a * gamma * F.delta[ell].sum(0) for a, F in terms)
            for ell, bias in enumerate(self.b)
        ]
        return b, keep * self.w + sum(a * gamma * F.E.T @ F.phi[-1] for a, F in terms)

    def shifted(self, keep: float, terms: Terms) -> "WideWeights":
        """keep·θ + Σ a·force over the `terms` (a, force); it shares its matrices with θ."""
        shifts = [self._terms(ell, terms) for ell in range(len(self.W))] if terms else None
        return WideWeights(self.setting, self.W, *self._vectors(keep, terms), keep, shifts)

    def move(self, keep: float, terms: Terms) -> None:
        """θ ← keep·θ + Σ a·force, in place."""
        for ell, W in enumerate(self.W):
            left, right = self._terms(ell, terms)
            _gemm(1.0, right.T, left.T, beta=keep, c=W.T, trans_b=True, overwrite_c=True)
        self.b, self.w = self._vectors(keep, terms)

    def add(self, keep: float, other: "WideWeights", factor: float = 1.0) -> None:
        """θ ← keep·θ + factor·other."""
        for mine, theirs in zip(
            (*self.W, *self.b, self.w), (*other.W, *other.b, other.w), strict=True
        ):
            if keep != 1:
                mine *= keep
            mine += theirs if factor == 1 else factor * theirs

    def shake(self, size: float, rng: np.random.Generator) -> None:
        """θ ← θ + size·ζ."""
        for array in (*self.W, *self.b, self.w):
            array += size * rng.standard_normal(array.shape)


def draw(
    setting: WideSetting, inputs: int, width: int, seed: int
) -> tuple[WideWeights, np.random.Generator]:
    """The initial weights of a seed, and its generator of noise."""
    sequences = np.random.SeedSequence(seed).spawn(3)
    weights, biases, noise = (
        np.random.Generator(np.random.SFC64(sequence)) for sequence in sequences
    )
    W = [weights.standard_normal((width, n)) for n in (inputs, *[width] * (setting.depth - 1))]
    w = weights.standard_normal((setting.outputs, width))
    b = [biases.standard_normal(width) for _ in W] if setting.bias else []
    return WideWeights(setting, W, b, w), noise


class FiniteWide(Trainee):
    """One network in training on the first P points of x."""

    def __init__(
        self,
        problem: Problem,
        setting: WideSetting,
        x: Float[np.ndarray, "points D"],
        size: int,
        method: "WideDescent",
        recorded: np.ndarray,
        seed: int,
    ):
        super().__init__(len(recorded))
        self.problem, self.setting, self.x, self.training = problem, setting, x, problem.training
        self.theta, self.noise = draw(setting, x.shape[1], size, seed)
        self.samples, self.recorded, self.method, self.seed = method.samples, recorded, method, seed
        self.origin = np.zeros((setting.points, setting.outputs))
        buffered = self.training.momentum or self.training.momentum_rule == "coupled"
        self.buffer = self.theta.zeros() if buffered else None
        self.tangents, self.followed = None, -1

    def begin(self):
        if self.problem.network.centered:
            self.origin = np.concatenate([fields.f for fields in self._all_fields()])
        if self.method.responses:
            self.tangents = WideTangents(
                self.setting,
                self.training,
                self,
                self.recorded,
                self.method.probes,
                self.seed,
            )
        self.scale = self._loss() + 1

    def _all_fields(self, trained: LayerFields | None = None) -> list[LayerFields]:
        """The fields of the trained points, computed unless given, and of the test points, if there are any."""
        P, x = self.setting.trained, self.x
        fields = [trained or self.theta.forward(x[:P])]
        return [*fields, self.theta.forward(x[P:])] if len(x) > P else fields

    def look(self, weights: WideWeights) -> tuple[LayerFields, np.ndarray]:
        """The fields of the trained points, and their outputs less the subtracted initial ones."""
        P = self.setting.trained
        fields = weights.forward(self.x[:P])
        return fields, fields.f - self.origin[:P]

    def force(self, weights: WideWeights) -> Force:
        """The force at `weights`."""
        fields, f = self.look(weights)
        return weights.force(fields, self.setting.loss.force(f))

    def _loss(self) -> float:
        """𝓛 of the trained points."""
        return float(self.setting.loss.value(self.look(self.theta)[1]))

    def measure(self) -> dict[str, Any]:
        """Outputs of all points, and the vectors whose products are the kernels."""
        rows = [
            (fields, self.theta.gradients(fields))
            for fields in self._all_fields(self.trained_fields())
        ]
        L = self.setting.depth

        def layer(
            pick: Callable[[LayerFields, list[np.ndarray], int], np.ndarray],
        ) -> list[np.ndarray]:
            """A field of every layer, at all points."""
            return [np.concatenate([pick(*row, ell) for row in rows]) for ell in range(L)]

        f = np.concatenate([fields.f for fields, _ in rows]) - self.origin
        measured = {
            "now": self.now,
            "f": f,
            "Phi": Products(layer(lambda fields, g, ell: fields.phi[ell + 1])),
            "G": Products(layer(lambda fields, g, ell: g[ell])),
        }
        if self.samples:
            h = layer(lambda fields, g, ell: fields.h[ell][:, : self.samples])
            measured["preactivation"] = np.stack(h)
        return measured

    def trained_fields(self) -> LayerFields | None:
        """The fields of the trained points if they are already computed, else None."""
        return None

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        f, states = arrays.pop("f"), arrays.pop("now")
        observables = losses(self.setting.loss, f, self.problem.data.test_targets)
        observables |= with_summaries(self.setting, arrays.pop("Phi"), arrays.pop("G"))
        if "preactivation" in arrays:
            observables["preactivation"] = np.moveaxis(arrays["preactivation"], 0, 1)
        if self.tangents is not None:
            observables |= self.tangents.arrays(np.searchsorted(self.recorded, states))
        return observables

    def observe(self) -> dict[str, np.ndarray]:
        """The present observables without the movement, which needs the first recorded state."""
        return {name: x for name, x in super().observe().items() if name != "movement"}

    def change(self, problem: Problem):
        if self.tangents is not None:
            raise LearndynError("training cannot change while responses are measured")
        self.problem, self.training = problem, problem.training

    def weights(self) -> dict[str, np.ndarray]:
        """W0 …, biases b0 … if there are any, and the readout w."""
        theta = self.theta
        matrices = {f"W{ell}": W.copy() for ell, W in enumerate(theta.W)}
        biases = {f"b{ell}": b.copy() for ell, b in enumerate(theta.b)}
        return matrices | biases | {"w": theta.w.copy()}

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The first of the trained points."""
        P = self.setting.trained
        return {"x": self.x[:P][:count].copy(), "y": self.setting.loss.targets[:count].copy()}


class Descending(FiniteWide):
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
        if diverged(self.setting.loss.value(self.f), self.scale):
            raise Diverged

    def trained_fields(self) -> LayerFields:
        return self.fields

    def move(self, until: float, report: Report):
        training, weights = self.training, self.theta
        while self.now < until:
            self._follow(None)
            step = self.rule.at(self.now)
            force = weights.force(self.fields, self.setting.loss.force(self.f))
            if self.buffer is None:
                weights.move(step.keep, [(step.inner, force)])
            else:
                self.buffer.move(step.momentum, [(step.inner, force)])
                if step.inner_decay:
                    self.buffer.add(1.0, weights, -step.inner * step.inner_decay)
                weights.add(step.keep, self.buffer, step.outer)
            if training.noise:
                rate = self.rule.eta[self.now]
                weights.shake(math.sqrt(2 * rate * training.noise), self.noise)
            self.now += 1
            self._look()
            report(self.now)

    def _follow(self, record: int | None) -> None:
        """Move the tangents past the present step, unless they are past it already."""
        if self.tangents is None or self.followed == self.now or self.now > self.recorded[-1]:
            return
        reached = int(np.count_nonzero(self.recorded <= self.now))
        self.tangents.step(self.now, self.theta, record, reached)
        self.followed = self.now

    def measure(self) -> dict[str, Any]:
        if self.tangents is not None:
            if self.now not in self.recorded:
                raise LearndynError(
                    f"responses are measured at {len(self.recorded)} equally spaced steps, and step {self.now} is not "
                    "one of them; use simulate with save_at"
                )
            self._follow(int(np.searchsorted(self.recorded, self.now)))
        return super().measure()

    def after(self) -> float:
        return self.now + 1

    def change(self, problem: Problem):
        super().change(problem)
        self.rule = self.rule.until(self.now, problem.training)
        if problem.training.momentum and self.buffer is None:
            self.buffer = self.theta.zeros()


class Flowing(FiniteWide):
    """Gradient flow: dθ/dt = η(t)(force − λθ); the step size adapts to the difference from two half steps."""

    now: float = 0.0
    changeable = ("training.learning_rate", "training.weight_decay", "training.time")

    def begin(self):
        super().begin()
        self._pace()

    def change(self, problem: Problem):
        super().change(problem)
        self._pace()

    def _pace(self) -> None:
        """Set the step sizes that the present training and weights call for."""
        self.rate, self.decay = as_schedule(self.training.learning_rate), self.training.weight_decay
        end = self.training.time
        largest = float(np.max(np.asarray(self.rate(np.linspace(0.0, end, 1001)))))
        fastest = largest * (self._fastest() + self.decay)
        if not math.isfinite(fastest):
            raise Diverged
        needed = end * fastest / FLOW_STEP
        if needed > MOST_FLOW_STEPS:
            allowed = (
                f"gives {needed:.3g} steps of gradient flow, and at most {MOST_FLOW_STEPS} are allowed; use less time, "
                "a smaller learning rate or smaller inputs"
            )
            raise ProblemError("training.time", end, allowed)
        self.dt = FLOW_STEP / fastest if fastest > 0 else math.inf
        self.short, self.shortest = SHORT * self.dt, SHORTEST * self.dt
        self.kinks = sorted(self.training.breakpoints(end))

    def _fastest(self) -> float:
        """The largest eigenvalue of the tangent kernel on the trained points, times the scale of the loss."""
        P, C = self.setting.trained, self.setting.outputs
        fields = self.theta.forward(self.x[:P])
        Phi = np.stack([gram(phi, mean=True) for phi in fields.phi[1:]])
        G = np.stack([gram(g, mean=True) for g in self.theta.gradients(fields)])
        part = self.setting._replace(K=self.setting.K[:P, :P])
        kernel = tangent_kernel(part, Phi[:, None], G[:, None]).reshape(P * C, P * C)
        if not np.all(np.isfinite(kernel)):
            return math.inf
        return self.setting.loss.scale * float(np.linalg.eigvalsh(kernel)[-1])

    def move(self, until: float, report: Report):
        for stop in [*(kink for kink in self.kinks if self.now < kink < until), until]:
            while self.now < stop:
                self._step_towards(stop)
                report(self.now)

    def _step_towards(self, stop: float) -> None:
        """Take one step if it is accurate enough, else shorten the next attempt."""
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
        # A step that was cut short by a recorded time is no reason to shorten the next ones.
        longer = better > step
        self.dt = max(self.dt, better) if longer else max(better, min(step, self.short))


def _attempt(
    trainee: FiniteWide, rate: Callable, decay: float, time: float, dt: float
) -> tuple[tuple[float, Terms], float]:
    """A move by two Runge–Kutta steps dt/2, and the error of its outputs, estimated from one step dt.

    States are combinations of θ and all forces so far: vectors with the coefficient of θ first.
    """
    forces: list[Force] = []
    unit = np.eye(12)

    def state(x: Float[np.ndarray, " 12"]) -> WideWeights:
        return trainee.theta.shifted(x[0], terms(x) if forces else [])

    def terms(x: Float[np.ndarray, " 12"]) -> Terms:
        return [(a, F) for a, F in zip(x[1:], forces, strict=False) if a] or [(0.0, forces[0])]

    def stepped(
        x: Float[np.ndarray, " 12"], start: float, dt: float, first: int | None = None
    ) -> Float[np.ndarray, " 12"]:
        # A jump of the rate at the end of the step belongs to the next one.
        eta = np.asarray(rate(start + np.array([0.0, 0.5, 0.5, 1 - 1e-9]) * dt), dtype=float)
        slopes = []
        for i, part in enumerate((0.0, 0.5, 0.5, 1.0)):
            here = x + part * dt * slopes[-1] if slopes else x
            computed = first is not None and i == 0
            if not computed:
                forces.append(trainee.force(state(here)))
            slopes.append(eta[i] * (unit[first if computed else len(forces)] - decay * here))
        return x + dt / 6 * (slopes[0] + 2 * slopes[1] + 2 * slopes[2] + slopes[3])

    whole = stepped(unit[0], time, dt)
    half = stepped(unit[0], time, dt / 2, first=1)
    end = stepped(half, time + dt / 2, dt / 2)
    f, g = (trainee.look(state(x))[1] for x in (end, whole))
    # The error of a step dt is sixteen times that of two steps dt/2, to leading order.
    error = np.max(np.abs(f - g)) / 15 / (1 + np.max(np.abs(f)))
    return (end[0], terms(end)), float(error) if np.isfinite(error) else math.inf


def memory(setting: WideSetting, inputs: int, width: int, count: int, copies: int) -> float:
    """Bytes that one network needs if `count` states are recorded: copies of the weights, fields, kernels."""
    p, C, L = setting.points, setting.outputs, setting.depth
    weights = copies * width * (inputs + (L - 1) * width + C + L)
    vectors = (count + 4) * p * width * L * (2 + C)
    # A layer's kernels are computed before they are stacked.
    kernels = 2 * L * (count * p) ** 2 * (1 + C * C)
    return 8.0 * (weights + vectors + kernels)


class WideDescent(Simulator):
    """Gradient descent on the weights, or gradient flow if training has a `time`.

    - `samples`: record the preactivations of this many neurons of every layer. 0 unless given.
    - `responses`: also measure A and B, by tangents of the run along random directions, for every recorded step, layer,
      point and output, and for every recorded step, layer and point; record few steps. False unless given.
    - `probes`: random directions for each of these. 1 unless given.
    """

    samples: int = field(whole(0), default=0)
    responses: bool = field(boolean, default=False)
    probes: int = field(whole(1), default=1)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        training, flowing = problem.training, record.axis == "time"
        if math.isinf(problem.network.depth):
            allowed = "only finite networks can be trained; take a large depth instead of inf"
            raise ProblemError("network.depth", problem.network.depth, allowed)
        if flowing:
            refuse_in_flow(training)
        if self.samples > size:
            allowed = f"must be at most {size}, the width"
            raise ProblemError("WideDescent.samples", self.samples, allowed)
        if self.responses:
            finite_responses.check(problem)
        setting = wide_setting(problem, 1, GradientDescent(1.0, steps=1))
        x = np.ascontiguousarray(problem.data.all_inputs(), dtype=float)
        buffered = training.momentum or training.momentum_rule == "coupled"
        copies = 2 if flowing or buffered or training.noise else 1
        if not problem.network.plain:
            return self._of_architectures(problem, setting, x, size, record)
        needed = memory(setting, x.shape[1], size, len(record), copies)
        purpose = f"training networks of width {size} on {setting.points} points"
        purpose = f"{purpose}, recorded at {len(record)} {record.axis}s"
        if self.responses:
            steps = int(record.last)
            needed += finite_responses.memory(setting, size, len(record), steps, self.probes)
            purpose = f"{purpose} with responses"
        network = Flowing if flowing else Descending
        return Ensemble(
            lambda seed: network(problem, setting, x, size, self, record.at, seed),
            record,
            needed,
            purpose,
            "use a smaller width or record fewer states (save_at)",
            labels={"layer": np.arange(1, setting.depth + 1)},
        )

    def _of_architectures(
        self,
        problem: Problem,
        setting: WideSetting,
        x: Float[np.ndarray, "points D"],
        size: int,
        record: Record,
    ) -> Ensemble:
        """Networks with options beyond plain layers."""
        if min(problem.network.relative_widths) * size < 0.5:
            allowed = "is too small: a layer would be empty after rounding"
            raise ProblemError("size", size, allowed)
        for name in ("samples", "responses"):
            if value := getattr(self, name):
                allowed = "is measured in plain networks only, without convolution, learning rule, skip or norm"
                raise ProblemError(f"WideDescent.{name}", value, allowed)
        return Ensemble(
            lambda seed: DescendingArchitecture(problem, setting, x, size, len(record), seed),
            record,
            finite_architectures.memory(problem, setting, x.shape[1], size, len(record)),
            f"training networks of width {size} on {setting.points} points",
            "use a smaller width or record fewer states (save_at)",
            labels={"layer": np.arange(1, setting.depth + 1)},
        )
