"""Finite deep linear networks, trained for real; the update rules are in `DeepLinear`'s docstring.

With r_0 = √D for isotropic data and 1 for a spectrum, and r_ℓ = √N_ℓ, the two kinds of data read the same:

    v = w* − (r_0/(N_L γ_0)) W^{0⊤}g^1,  Δ = Xv/r_0 + σε,  h^0 = (r_0/P) X^⊤Δ,  h^{ℓ+1} = W^ℓ h^ℓ/r_ℓ,
    g^ℓ = W^{ℓ⊤} g^{ℓ+1}/r_ℓ,  force on W^ℓ: (γ_0/r_ℓ) Σ_c g^{ℓ+1}_c h^{ℓ⊤}_c,  force on w_c: γ_0 h^L_c;

in a residual network h^{ℓ+1} = h^ℓ + β W^ℓ h^ℓ/r_ℓ and so on for ℓ ≥ 1, and the force on W^ℓ has a factor β.

Vectors are rows here, one for each output. The target, the weights and the data of a seed are drawn from generators of
their own, and batches in blocks of a fixed number of steps; so neither the choice of recorded steps nor the companions
change a seed's curve.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Products, Report, StepByStep, Trainee
from learndyn.core.record import Record
from learndyn.errors import ProblemError
from learndyn.families.deep_linear.limit_numbers import MOST_MODES, RULE
from learndyn.families.deep_linear.network import Sizes, label_noise, sizes
from learndyn.families.deep_linear.observables import alignment, part_left
from learndyn.numerics.delayed import DelayedMatrix, rows_times
from learndyn.numerics.precision import float64
from learndyn.problem.checks import boolean
from learndyn.problem.examples import Examples
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.schedules import as_schedule
from learndyn.problem.supplies import Dataset, Population
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import PerStepRule, Step

InputsAndNoise = tuple[np.ndarray, np.ndarray]
"""Inputs X (examples × D) and label noise σε (outputs × examples)."""

FLOW = 1e-8
"""The error of a step of gradient flow, relative and absolute, in the weights."""
BLOCK_NUMBERS = 2**18
"""Random numbers per block of a stream, unless one batch needs more."""


class FiniteSpec(NamedTuple):
    """The dimensions and numbers that all networks of a problem share.

    - `sizes`: D, N_1 … N_L and the number of examples
    - `data`: the type of the supply
    - `outputs`: the number of outputs c
    - `gamma`: γ_0
    - `centered`: whether the initial function is subtracted
    - `r`: r_0 … r_{L−1}
    - `lam`: the eigenvalues λ of the inputs, or 1
    - `coefficients`: w* if the data have a spectrum; None if w* is drawn
    - `sigma`: σ, the standard deviation of the label noise
    - `buffered`: whether weights have a momentum buffer
    - `decay`: λ of the training rule at the start
    - `branch`: β of the residual branches, or None
    - `given`: the examples of the user, if networks are trained on these: inputs along the eigenvectors (n × D), and
      what the map w* leaves of their targets (outputs × n)
    """

    sizes: Sizes
    data: type
    outputs: int
    gamma: float
    centered: bool
    r: tuple[float, ...]
    lam: np.ndarray
    coefficients: np.ndarray | None
    sigma: float
    buffered: bool
    decay: float
    branch: float | None
    given: InputsAndNoise | None

    @property
    def eigenvalues(self) -> Float[np.ndarray, " modes"]:
        """The different positive eigenvalues, the largest first."""
        return np.unique(self.lam[self.lam > 0])[::-1]

    @property
    def groups(self) -> Int[np.ndarray, " D"] | None:
        """The number of every input's eigenvalue, or None if modes are not observables."""
        distinct = self.eigenvalues
        if self.coefficients is None or not 1 < len(distinct) <= MOST_MODES:
            return None
        # Inputs without variance come last, and are left out.
        return np.where(
            self.lam > 0,
            len(distinct) - np.searchsorted(distinct[::-1], self.lam) - 1,
            len(distinct),
        )

    def overlap(
        self, a: Float[np.ndarray, "outputs D"], b: Float[np.ndarray, "outputs D"]
    ) -> np.floating:
        """Σ_c a_c·Λb_c/r_0² over the last two axes (output, input)."""
        return np.sum(a * self.lam * b, axis=(-2, -1)) / self.r[0] ** 2

    @property
    def block(self) -> int:
        """Steps per block of random numbers."""
        D, _, examples = self.sizes
        return 1 if self.data in (Dataset, Population) else max(1, BLOCK_NUMBERS // (examples * D))


def finite_spec(problem: Problem, size: int) -> FiniteSpec:
    """The dimensions and numbers of a problem's networks with `size` inputs."""
    network, training = problem.network, problem.training
    data: Any = problem.data
    dimensions = sizes(problem, size)
    structured = problem.task.spectrum is not None
    lam, coefficients = problem.task.spectrum.arrays() if structured else (np.ones(1), None)
    first = 1.0 if structured else math.sqrt(size)
    given = _given(problem, dimensions.examples) if isinstance(data, Dataset) else None
    return FiniteSpec(
        sizes=dimensions,
        data=type(data),
        outputs=network.outputs,
        gamma=float(network.gamma),
        centered=network.centered,
        r=(first, *(math.sqrt(n) for n in dimensions.N[:-1])),
        lam=lam,
        coefficients=coefficients,
        sigma=float(data.noise) if given else label_noise(problem),
        buffered=training.momentum != 0 or training.momentum_rule == "coupled",
        decay=float(training.weight_decay),
        branch=network.branch,
        given=given,
    )


def _given(problem: Problem, examples: int) -> InputsAndNoise | None:
    """The examples of the user, or None if the inputs are Gaussian; some must be left to test on."""
    spectrum = problem.task.spectrum
    if not isinstance(spectrum, Examples):
        return None
    rows = spectrum.rows
    if examples >= len(rows[0]):
        allowed = f"must be less than {len(rows[0])}, the number of given examples: the others are for testing"
        raise ProblemError("data.examples", examples, allowed)
    return rows


class DeepLinearFields(NamedTuple):
    """The fields of a step: v, Δ (None on the population), h^0 … h^L and g^1 … g^L."""

    v: Float[np.ndarray, "outputs D"]
    Delta: Float[np.ndarray, "outputs examples"] | None
    h: list[np.ndarray]
    g: list[np.ndarray]


class FiniteDeepLinear:
    """A finite network, from its initial `weights` W^0 … W^{L−1}, w and its `target` w*."""

    def __init__(
        self,
        spec: FiniteSpec,
        weights: list[np.ndarray],
        target: Float[np.ndarray, "outputs D"],
    ):
        self.spec = spec
        self.decay = spec.decay
        self.matrices = [DelayedMatrix(W, spec.buffered, spec.outputs) for W in weights[:-1]]
        self.w = weights[-1].copy()
        self.buffer = np.zeros_like(self.w)
        self.target = target
        if spec.centered:
            self.target = target + self._function(self._backward())

    def _backward(self) -> list[np.ndarray]:
        """g^1 … g^L."""
        g = [self.w]
        for W, r in zip(self.matrices[:0:-1], self.spec.r[:0:-1], strict=True):
            g.insert(0, self._through(g[0], W.transpose_times(g[0]) / r))
        return g

    def _through(self, field: np.ndarray, image: np.ndarray) -> np.ndarray:
        """The field after an inner layer: its image, or the field itself plus a residual branch."""
        branch = self.spec.branch
        return image if branch is None else field + branch * image

    def _function(self, g: list[np.ndarray]) -> Float[np.ndarray, "outputs D"]:
        """The network's own linear function, (r_0/(N_L γ_0)) W^{0⊤}g^1."""
        spec = self.spec
        scale = spec.r[0] / (spec.sizes.N[-1] * spec.gamma)
        return scale * self.matrices[0].transpose_times(g[0])

    def fields(self, examples: InputsAndNoise | None) -> DeepLinearFields:
        """The fields of the network on the `examples`, or on the population (None)."""
        spec, Delta = self.spec, None
        g = self._backward()
        v = self.target - self._function(g)
        h = [spec.lam * v]
        if examples is not None:
            X, noise = examples
            Delta = rows_times(v, X.T) / spec.r[0] + noise
            h = [spec.r[0] / len(X) * rows_times(Delta, X)]
        h.append(self.matrices[0].times(h[0]) / spec.r[0])
        for W, r in zip(self.matrices[1:], spec.r[1:], strict=True):
            h.append(self._through(h[-1], W.times(h[-1]) / r))
        return DeepLinearFields(v, Delta, h, g)

    def tangent_kernel(
        self, g: list[np.ndarray], x: Float[np.ndarray, "1 D"]
    ) -> Float[np.ndarray, "outputs outputs"]:
        """K(x, x) of an input of length 1: Σ_ℓ (r_0²/(N_L r_ℓ²)) |h^ℓ|² g^{ℓ+1}_c·g^{ℓ+1}_c', with β² in inner layers.

        h^ℓ are the fields of h⁰ = x; the readout has (r_0²/N_L) |h^L|².
        """
        spec, h, total = self.spec, x, np.zeros((len(self.w), len(self.w)))
        inner = 1.0 if spec.branch is None else spec.branch**2
        for ell, (W, r, above) in enumerate(zip(self.matrices, spec.r, g, strict=True)):
            total += (inner if ell else 1.0) * np.sum(h**2) / r**2 * (above @ above.T)
            image = W.times(h) / r
            h = self._through(h, image) if ell else image
        total += np.sum(h**2) * np.eye(len(self.w))
        return spec.r[0] ** 2 / spec.sizes.N[-1] * total

    def step(self, fields: DeepLinearFields, step: Step) -> None:
        """Train all weights for one step under the forces of `fields`."""
        pairs = zip(self.matrices, self._force_scales(), fields.g, fields.h[:-1], strict=True)
        for W, scale, g, h in pairs:
            W.move(scale * g, h, step)
        force = step.inner * self.spec.gamma * fields.h[-1]
        self.w, self.buffer = step.moved(self.w, self.buffer, force)

    def flat_weights(self) -> Float[np.ndarray, " weights"]:
        """All weights in one vector."""
        return np.concatenate([*(W.value().ravel() for W in self.matrices), self.w.ravel()])

    def set_weights(self, flat: Float[np.ndarray, " weights"]) -> None:
        """Replace all weights."""
        place = 0
        for W in self.matrices:
            W.W = flat[place : place + W.W.size].reshape(W.W.shape)
            place += W.W.size
        self.w = flat[place:].reshape(self.w.shape)

    def flat_forces(self, fields: DeepLinearFields) -> Float[np.ndarray, " weights"]:
        """The forces on all weights, less the decay, in one vector."""
        spec = self.spec
        pairs = zip(self.matrices, self._force_scales(), fields.g, fields.h[:-1], strict=True)
        forces = [(scale * g.T @ h - self.decay * W.W).ravel() for W, scale, g, h in pairs]
        readout = spec.gamma * fields.h[-1] - self.decay * self.w
        return np.concatenate([*forces, readout.ravel()])

    def _force_scales(self) -> list[float]:
        """The factors of Σ_c g_c h_c^⊤ in the forces on the matrices."""
        spec = self.spec
        inner = 1.0 if spec.branch is None else spec.branch
        return [(1.0 if ell == 0 else inner) * spec.gamma / r for ell, r in enumerate(spec.r)]

    def retrain(self, training: GradientDescent) -> None:
        """Continue with another training."""
        self.decay = float(training.weight_decay)
        for W in self.matrices:
            W.settle()
            if training.momentum:
                W.remember()


class ExampleSource:
    """The examples of every step: always the same ones, new ones every time, or None on the population.

    `held_out` are the given examples that are not trained on; None if the inputs are Gaussian.
    """

    held_out: InputsAndNoise | None = None

    def __init__(self, spec: FiniteSpec, rng: np.random.Generator):
        self.spec, self.rng = spec, rng
        self.block = spec.block
        self.drawn: float = 0

    def at(self, step: int) -> InputsAndNoise | None:
        """The examples of a step; steps must be asked for in increasing order."""
        if self.spec.data is Population:
            return None
        if step >= self.drawn:
            self.X, self.noise = self._draw()
            self.drawn = math.inf if self.spec.data is Dataset else self.drawn + self.block
        return self.X[step % self.block], self.noise[step % self.block]

    def _draw(self) -> InputsAndNoise:
        """The examples of a whole block of steps, with an axis for the steps in front."""
        spec, (D, _, examples) = self.spec, self.spec.sizes
        if spec.given is not None:
            X, rest = spec.given
            order = self.rng.permutation(len(X))
            chosen, others = order[:examples], order[examples:]
            self.held_out = X[others], rest[:, others] + self._label_noise(len(others))
            return X[None, chosen], rest[None, :, chosen] + self._label_noise(examples)
        X = self.rng.standard_normal((self.block, examples, D))
        X *= np.sqrt(spec.lam)
        return X, self._label_noise(self.block, examples)

    def _label_noise(self, *shape: int) -> np.ndarray:
        """σε, outputs × examples."""
        *blocks, examples = shape
        return self.spec.sigma * self.rng.standard_normal((*blocks, self.spec.outputs, examples))


def _generators(seed: int) -> list[np.random.Generator]:
    """Those of the target, of two initial states, of two datasets, and of an input for the tangent kernel."""
    sequences = np.random.SeedSequence(seed).spawn(6)
    return [np.random.Generator(np.random.SFC64(sequence)) for sequence in sequences]


def random_input(spec: FiniteSpec, seed: int) -> Float[np.ndarray, "1 D"]:
    """A random input of length 1."""
    x = _generators(seed)[5].standard_normal((1, spec.sizes.D))
    return x / np.linalg.norm(x)


def draw(
    spec: FiniteSpec, seed: int, partners: bool
) -> tuple[list[ExampleSource], list[list[FiniteDeepLinear]], Float[np.ndarray, "outputs D"]]:
    """The sources of data, the networks that learn from each of them, and the target w* of a seed.

    Network [i][j] has data i and initial weights j; without `partners` there is only [0][0].
    """
    rngs = _generators(seed)
    D, N, _ = spec.sizes
    target = spec.coefficients
    if target is None:
        target = rngs[0].standard_normal((spec.outputs, D))
    shapes = [*zip(N, (D, *N[:-1]), strict=True), (spec.outputs, N[-1])]
    copies = 2 if partners else 1
    weights = [[rng.standard_normal(shape) for shape in shapes] for rng in rngs[1 : 1 + copies]]
    if spec.data is Population:
        copies = 1
    sources = [ExampleSource(spec, rng) for rng in rngs[3 : 3 + copies]]
    networks = [[FiniteDeepLinear(spec, start, target) for start in weights] for _ in sources]
    return sources, networks, target


class DeepLinearNetworks(Trainee):
    """Base: the network of a seed in training, with its companions if there are any.

    - `problem`, `spec`: the problem, with its dimensions and numbers
    - `seed`: the seed of the target, the weights and the data
    - `partners`: whether three companions are trained too; network [i][j] has data i and initial weights j
    - `expected`: the number of steps that will be recorded
    """

    def __init__(
        self, problem: Problem, spec: FiniteSpec, seed: int, partners: bool, expected: int
    ):
        super().__init__(expected)
        self.problem, self.spec = problem, spec
        self.sources, self.networks, self.target = draw(spec, seed, partners)
        self.probe = random_input(spec, seed)
        self.goal = spec.overlap(self.target, self.target)
        self.per_input = np.sqrt(spec.lam) / spec.r[0]
        self.noise = spec.outputs * spec.sigma**2
        self.groups, self.power = spec.groups, np.zeros(0)
        if self.groups is not None:
            power = (spec.lam * self.target**2).sum(axis=0)
            self.power = np.bincount(self.groups, power)[: len(spec.eigenvalues)]
        self.scale: float | None = None

    def begin(self) -> None:
        self._compute_fields(0)

    def _compute_fields(self, step: int) -> None:
        """Compute the fields at the beginning of a step; raises `Diverged`."""
        examples = [source.at(step) for source in self.sources]
        self.fields = [
            [network.fields(batch) for network in row]
            for batch, row in zip(examples, self.networks, strict=True)
        ]
        spec = self.spec
        self.errors = [[spec.overlap(fields.v, fields.v) for fields in row] for row in self.fields]
        loss = float(np.max(self.errors)) + self.noise
        if self.scale is None:
            self.scale = loss
        if diverged(loss, self.scale):
            raise Diverged

    def measure(self) -> dict[str, Any]:
        """The observables of the present step; `finish` makes `alignment` of ⟨w*·v⟩ and the error."""
        spec, own = self.spec, self.fields[0][0]
        measured: dict[str, Any] = {
            "error": self.errors[0][0],
            "test_loss": self.errors[0][0] + self.noise,
            "alignment": spec.overlap(self.target, own.v),
            "C_v": Products(own.v * self.per_input, mean=False),
            "C_h0": Products(own.h[0] / spec.r[0], mean=False),
            "C_h": Products(own.h[1:]),
            "C_g": Products(own.g),
        }
        if (held_out := self.sources[0].held_out) is not None:
            X, rest = held_out
            measured["test_loss"] = np.sum((own.v @ X.T + rest) ** 2) / len(X)
        measured["kernel"] = self.networks[0][0].tangent_kernel(own.g, self.probe)
        if self.groups is not None:
            power = spec.lam * own.v**2
            overlap = (spec.lam * self.target * own.v).sum(axis=0)
            measured["mode_loss"] = np.bincount(self.groups, power.sum(axis=0))[: len(self.power)]
            part = np.bincount(self.groups, overlap)[: len(self.power)]
            measured["transfer"] = part_left(part, self.power)
        if own.Delta is not None:
            measured["train_loss"] = np.sum(own.Delta**2) / own.Delta.shape[1]
            if spec.data is Dataset:
                measured["C_Delta"] = Products(own.Delta)
        if len(self.networks[0]) == 2:
            # On the population both rows of the grid would be the same network.
            (aa, ab), (ba, bb) = (
                [fields.v for fields in row] for row in (self.fields[0], self.fields[-1])
            )
            pairs = {
                "overlap_same_data": ((aa, ab), (ba, bb)),
                "overlap_same_weights": ((aa, ba), (ab, bb)),
                "bias": ((aa, bb), (ab, ba)),
            }
            for name, network_pairs in pairs.items():
                measured[name] = sum(spec.overlap(a, b) for a, b in network_pairs) / 2
        return measured

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not arrays:
            return arrays
        arrays = dict(arrays)
        aligned = alignment(arrays["alignment"], arrays.pop("error"), self.goal)
        return arrays | {"alignment": aligned}

    def weights(self) -> dict[str, np.ndarray]:
        """The matrices W0, W1, … of the layers and the readout w."""
        network = self.networks[0][0]
        matrices = {f"W{ell}": W.value() for ell, W in enumerate(network.matrices)}
        return matrices | {"w": network.w.copy()}

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The first `count` examples of the dataset or of the present batch; fresh ones on the population."""
        spec, examples = self.spec, self.sources[0].at(self.now)
        if examples is None:
            rng = np.random.Generator(np.random.SFC64([self.now]))
            X = rng.standard_normal((count, spec.sizes.D)) * np.sqrt(spec.lam)
            examples = X, spec.sigma * rng.standard_normal((spec.outputs, count))
        X, noise = examples
        y = self.target @ X.T / spec.r[0] + noise
        return {"x": X[:count].copy(), "y": y.T[:count].copy()}


class DeepLinearTraining(DeepLinearNetworks, StepByStep):
    """Training step by step."""

    changeable = RULE

    def begin(self) -> None:
        self.rule = PerStepRule.of(self.problem.training)
        super().begin()

    def step(self) -> None:
        step = self.rule.at(self.now)
        for row, fields in zip(self.networks, self.fields, strict=True):
            for network, forces in zip(row, fields, strict=True):
                network.step(forces, step)
        self._compute_fields(self.now + 1)

    def change(self, problem: Problem) -> None:
        training = problem.training
        self.rule, self.problem = self.rule.until(self.now, training), problem
        for network in itertools.chain(*self.networks):
            network.retrain(training)


class DeepLinearFlow(DeepLinearNetworks):
    """Gradient flow dW/dt = η(t)(force − λW), by an explicit Runge–Kutta rule of eighth order in adaptive steps."""

    now: float = 0.0

    def move(self, until: float, report: Report) -> None:
        training = self.problem.training
        kinks = [t for t in training.breakpoints(until) if self.now < t < until]
        for start, stop in itertools.pairwise([self.now, *kinks, until]):
            for source, row in zip(self.sources, self.networks, strict=True):
                for network in row:
                    self._integrate(network, source.at(0), start, stop)
            report(stop)
        self._compute_fields(0)

    def _integrate(
        self, network: FiniteDeepLinear, examples: InputsAndNoise | None, start: float, stop: float
    ) -> None:
        """Move the weights of a network from one time to another."""
        if stop <= start:
            return
        schedule = as_schedule(self.problem.training.learning_rate)
        last = np.nextafter(stop, start)

        def derivative(t: float, weights: np.ndarray) -> np.ndarray:
            network.set_weights(weights)
            with float64():
                rate = float(schedule(min(t, last)))
            return rate * network.flat_forces(network.fields(examples))

        # Slow to import, and only gradient flow needs it.
        from scipy.integrate import solve_ivp

        flow = solve_ivp(
            derivative,
            (start, stop),
            network.flat_weights(),
            "DOP853",
            t_eval=[stop],  # Otherwise it keeps the weights of all its steps.
            rtol=FLOW,
            atol=FLOW,
        )
        if not flow.success or not np.all(np.isfinite(flow.y[:, -1])):
            raise Diverged
        network.set_weights(flow.y[:, -1])


def memory(spec: FiniteSpec, count: int, partners: bool) -> float:
    """Bytes for a seed recorded at `count` steps: weights, examples, recorded vectors and their correlations."""
    D, N, examples = spec.sizes
    copies = 2 if partners else 1
    weights = sum(n * m for n, m in zip(N, (D, *N[:-1]), strict=True))
    weights *= copies + copies**2 * (2 if spec.buffered else 1)
    # A block of a stream is drawn while the previous block is still in memory.
    inputs = copies * spec.block * examples * D * (1 if spec.data is Dataset else 2)
    vectors = count * spec.outputs * (D * (copies**2 + 2) + 2 * sum(N) + examples)
    correlations = (2 * len(N) + 3) * (count * spec.outputs) ** 2
    return 8.0 * (weights + inputs + vectors + 2 * correlations)


class Descent(Simulator):
    """(Stochastic) gradient descent on the weights of finite networks; gradient flow if training has a time.

    - `partners`: whether every seed also trains three companions, which share with its network only the data, only the
      initial weights, or nothing but the target w*. Default: False.

    The companions measure overlap_same_data, overlap_same_weights and bias: Σ_c v_c·v'_c/D (Σ_c Σ_k λ_k v_ck v'_ck for
    a spectrum), averaged over the two pairs among the four networks that share just this. Same data means the same
    batches and label noise on a `Stream`. On the `Population` only the weights can be shared, so that overlap_same_data
    is the bias.
    """

    partners: bool = field(boolean, default=False)

    def ensemble(self, problem: Problem, size: int, record: Record) -> Ensemble:
        spec = finite_spec(problem, size)
        D, N, examples = spec.sizes
        evidence: dict[str, Any] = {"sizes": {"D": D, "N": list(N), "examples": examples}}
        if spec.coefficients is not None:
            # The dimension-free theory is the limit of many units and examples, whatever D.
            evidence["limiting_size"] = min(n for n in (*N, examples) if n)
        trainee = DeepLinearTraining if record.axis == "step" else DeepLinearFlow
        return Ensemble(
            lambda seed: trainee(problem, spec, seed, self.partners, len(record)),
            record,
            memory(spec, len(record), self.partners),
            f"training deep linear networks of size {size}, recorded at {len(record)} steps",
            "use a smaller size or record fewer steps (save_at)",
            labels={"layer": np.arange(1, len(N) + 1), "mode": spec.eigenvalues},
            evidence=evidence,
        )
