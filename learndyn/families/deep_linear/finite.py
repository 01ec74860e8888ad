"""Finite deep linear networks, trained for real; the update rules are in `DeepLinear`'s docstring.

With r_0 = √D for isotropic data and 1 for a spectrum, and r_ℓ = √N_ℓ, the two kinds of data read the same:

    v = w* − (r_0/(N_L γ_0)) W^{0⊤}g^1,  Δ = Xv/r_0 + σε,  h^0 = (r_0/P) X^⊤Δ,  h^{ℓ+1} = W^ℓ h^ℓ/r_ℓ,
    g^ℓ = W^{ℓ⊤} g^{ℓ+1}/r_ℓ,  force on W^ℓ: (γ_0/r_ℓ) Σ_c g^{ℓ+1}_c h^{ℓ⊤}_c,  force on w_c: γ_0 h^L_c;

in a residual network h^{ℓ+1} = h^ℓ + β W^ℓ h^ℓ/r_ℓ and so on for ℓ ≥ 1, and the force on W^ℓ has a factor β.

Vectors are rows here, one for each output. The target, the weights and the data of a seed are drawn from generators of
their own, and batches in blocks of a fixed number of steps; so neither the recorded steps nor the companions change a
seed's curve.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.core.method import Ensemble, Simulator
from learndyn.core.progressing import Diverged, Products, StepByStep
from learndyn.families.deep_linear.network import Sizes, sizes
from learndyn.families.deep_linear.observables import alignment
from learndyn.families.deep_linear.setting import RULE
from learndyn.numerics.delayed import DelayedMatrix, rows_times
from learndyn.problem.checks import boolean
from learndyn.problem.part import field
from learndyn.problem.supplies import Dataset, Population
from learndyn.problem.weight_response import PerStepRule

BLOCK_NUMBERS = 2**18
"""Random numbers per block of a stream, unless one batch needs more."""


class Spec(NamedTuple):
    """What is the same for all networks of a problem; `r` holds r_0 … r_{L−1}, `lam` λ or 1."""

    sizes: Sizes
    data: type
    outputs: int
    gamma: float
    centered: bool
    r: tuple[float, ...]
    lam: np.ndarray
    coefficients: np.ndarray | None
    sigma: float
    momentum: float
    decay: float
    branch: float | None

    def overlap(self, a, b):
        """Σ_c a_c·Λb_c/r_0² over the last two axes (output, input)."""
        return np.sum(a * self.lam * b, axis=(-2, -1)) / self.r[0] ** 2

    @property
    def block(self) -> int:
        """Steps per block of random numbers."""
        D, _, examples = self.sizes
        return 1 if self.data in (Dataset, Population) else max(1, BLOCK_NUMBERS // (examples * D))


def spec(problem, size: int) -> Spec:
    """The dimensions and numbers of a problem at `size` inputs."""
    network, data, training = problem.network, problem.data, problem.training
    dimensions = sizes(problem, size)
    structured = problem.task.spectrum is not None
    lam, coefficients = problem.task.spectrum.arrays() if structured else (np.ones(1), None)
    first = 1.0 if structured else math.sqrt(size)
    return Spec(
        sizes=dimensions,
        data=type(data),
        outputs=network.outputs,
        gamma=float(network.gamma),
        centered=network.centered,
        r=(first, *(math.sqrt(n) for n in dimensions.N[:-1])),
        lam=lam,
        coefficients=coefficients,
        sigma=float(data.noise),
        momentum=float(training.momentum),
        decay=float(training.weight_decay),
        branch=network.branch,
    )


class Fields(NamedTuple):
    """Everything a step computes: v, Δ (None on the population), h^0 … h^L and g^1 … g^L."""

    v: np.ndarray
    Delta: np.ndarray | None
    h: list
    g: list


class Network:
    """One network."""

    def __init__(self, made: Spec, weights, target):
        self.made = made
        self.momentum, self.decay = made.momentum, made.decay
        self.matrices = [
            DelayedMatrix(W, made.momentum, made.decay, made.outputs) for W in weights[:-1]
        ]
        self.w = weights[-1].copy()
        self.buffer = np.zeros_like(self.w)
        self.target = target
        if made.centered:
            self.target = target + self._function(self._backward())

    def _backward(self):
        """g^1 … g^L."""
        g = [self.w]
        for W, r in zip(self.matrices[:0:-1], self.made.r[:0:-1], strict=True):
            g.insert(0, self._through(g[0], W.transpose_times(g[0]) / r))
        return g

    def _through(self, field, image):
        """What an inner layer makes of a field: its image, or the field itself plus a residual branch."""
        branch = self.made.branch
        return image if branch is None else field + branch * image

    def _function(self, g):
        """The network's own linear function, (r_0/(N_L γ_0)) W^{0⊤}g^1."""
        made = self.made
        scale = made.r[0] / (made.sizes.N[-1] * made.gamma)
        return scale * self.matrices[0].transpose_times(g[0])

    def fields(self, examples) -> Fields:
        """What the network makes of `examples`, an (X, σε), or of the population, None."""
        made, Delta = self.made, None
        g = self._backward()
        v = self.target - self._function(g)
        h = [made.lam * v]
        if examples is not None:
            X, noise = examples
            Delta = rows_times(v, X.T) / made.r[0] + noise
            h = [made.r[0] / len(X) * rows_times(Delta, X)]
        h.append(self.matrices[0].times(h[0]) / made.r[0])
        for W, r in zip(self.matrices[1:], made.r[1:], strict=True):
            h.append(self._through(h[-1], W.times(h[-1]) / r))
        return Fields(v, Delta, h, g)

    def step(self, fields: Fields, eta: float) -> None:
        """Move all weights under the forces of `fields`."""
        made = self.made
        inner = 1.0 if made.branch is None else made.branch
        scales = (1.0, *(inner for _ in made.r[1:]))
        for W, r, scale, g, h in zip(
            self.matrices, made.r, scales, fields.g, fields.h[:-1], strict=True
        ):
            W.move(scale * made.gamma / r * g, h, eta)
        self.buffer = self.momentum * self.buffer + eta * made.gamma * fields.h[-1]
        self.w = (1 - eta * self.decay) * self.w + self.buffer

    def retrain(self, training) -> None:
        """Go on with another momentum and decay."""
        self.momentum, self.decay = float(training.momentum), float(training.weight_decay)
        for W in self.matrices:
            W.retrain(self.momentum, self.decay)


class Source:
    """The examples (X, σε) of every step: always the same, always new ones, or None on the population."""

    def __init__(self, made: Spec, rng):
        self.made, self.rng = made, rng
        self.block = made.block
        self.drawn = 0

    def at(self, step: int):
        """The examples of `step`; steps must be asked for in their order."""
        if self.made.data is Population:
            return None
        if step >= self.drawn:
            self.X, self.noise = self._draw()
            self.drawn = math.inf if self.made.data is Dataset else self.drawn + self.block
        return self.X[step % self.block], self.noise[step % self.block]

    def _draw(self):
        made, (D, _, examples) = self.made, self.made.sizes
        X = self.rng.standard_normal((self.block, examples, D))
        X *= np.sqrt(made.lam)
        return X, made.sigma * self.rng.standard_normal((self.block, made.outputs, examples))


def draw(made: Spec, seed: int, partners: bool):
    """The sources of data, the networks that learn from each of them, and the target w*, of one seed.

    Network [i][j] has data i and initial weights j; without `partners` there is only [0][0].
    """
    sequences = np.random.SeedSequence(seed).spawn(5)
    rngs = [np.random.Generator(np.random.SFC64(sequence)) for sequence in sequences]
    D, N, _ = made.sizes
    target = made.coefficients
    if target is None:
        target = rngs[0].standard_normal((made.outputs, D))
    shapes = [*zip(N, (D, *N[:-1]), strict=True), (made.outputs, N[-1])]
    copies = 2 if partners else 1
    weights = [[rng.standard_normal(shape) for shape in shapes] for rng in rngs[1 : 1 + copies]]
    if made.data is Population:
        copies = 1
    sources = [Source(made, rng) for rng in rngs[3 : 3 + copies]]
    networks = [[Network(made, start, target) for start in weights] for _ in sources]
    return sources, networks, target


class Networks(StepByStep):
    """The network of a seed in training, with its companions if there are any.

    Network [i][j] has data i and initial weights j.
    """

    changeable = RULE

    def __init__(self, problem, made: Spec, seed: int, partners: bool, expected: int):
        super().__init__(expected)
        self.problem, self.made = problem, made
        self.rule = PerStepRule.of(problem.training)
        self.sources, self.networks, self.target = draw(made, seed, partners)
        self.goal = made.overlap(self.target, self.target)
        self.per_input = np.sqrt(made.lam) / made.r[0]
        self.noise = made.outputs * made.sigma**2
        self.scale = None

    def begin(self):
        self._look(0)

    def _look(self, step: int) -> None:
        """The fields at the beginning of a step; raises `Diverged`."""
        examples = [source.at(step) for source in self.sources]
        self.fields = [
            [network.fields(given) for network in row]
            for given, row in zip(examples, self.networks, strict=True)
        ]
        made = self.made
        self.errors = [[made.overlap(one.v, one.v) for one in row] for row in self.fields]
        loss = np.max(self.errors) + self.noise
        if self.scale is None:
            self.scale = loss
        if diverged(loss, self.scale):
            raise Diverged

    def step(self):
        eta = self.rule.eta[self.now]
        for row, fields in zip(self.networks, self.fields, strict=True):
            for network, forces in zip(row, fields, strict=True):
                network.step(forces, eta)
        self._look(self.now + 1)

    def measure(self):
        """Of the test loss the error without noise, and of the alignment ⟨w*·v⟩: the rest is the same for all steps."""
        made, own = self.made, self.fields[0][0]
        found = {
            "test_loss": self.errors[0][0],
            "alignment": made.overlap(self.target, own.v),
            "C_v": Products(own.v * self.per_input, mean=False),
            "C_h0": Products(own.h[0] / made.r[0], mean=False),
            "C_h": Products(own.h[1:]),
            "C_g": Products(own.g),
        }
        if own.Delta is not None:
            found["train_loss"] = np.sum(own.Delta**2) / own.Delta.shape[1]
            if made.data is Dataset:
                found["C_Delta"] = Products(own.Delta)
        if len(self.networks[0]) == 2:
            # On the population both rows of the grid would be the same network.
            (aa, ab), (ba, bb) = (
                [one.v for one in row] for row in (self.fields[0], self.fields[-1])
            )
            pairs = {
                "overlap_same_data": ((aa, ab), (ba, bb)),
                "overlap_same_weights": ((aa, ba), (ab, bb)),
                "bias": ((aa, bb), (ab, ba)),
            }
            for name, two in pairs.items():
                found[name] = sum(made.overlap(a, b) for a, b in two) / 2
        return found

    def finish(self, arrays):
        if not arrays:
            return arrays
        error = arrays["test_loss"]
        aligned = alignment(arrays["alignment"], error, self.goal)
        return arrays | {"test_loss": error + self.noise, "alignment": aligned}

    def change(self, problem):
        self.rule, self.problem = self.rule.until(self.now, problem.training), problem
        for network in itertools.chain(*self.networks):
            network.retrain(problem.training)

    def weights(self):
        """W0 … (layer by layer) and the readout w."""
        network = self.networks[0][0]
        matrices = {f"W{ell}": W.value() for ell, W in enumerate(network.matrices)}
        return matrices | {"w": network.w.copy()}

    def sample(self, count):
        """The first examples of the dataset or of the present batch; fresh ones of a population."""
        made, examples = self.made, self.sources[0].at(self.now)
        if examples is None:
            rng = np.random.Generator(np.random.SFC64([self.now]))
            X = rng.standard_normal((count, made.sizes.D)) * np.sqrt(made.lam)
            examples = X, made.sigma * rng.standard_normal((made.outputs, count))
        X, noise = examples
        y = self.target @ X.T / made.r[0] + noise
        return {"x": X[:count].copy(), "y": y.T[:count].copy()}


def memory(made: Spec, count: int, partners: bool) -> float:
    """Bytes for one seed recorded at `count` steps: weights, examples, recorded vectors, their correlations."""
    D, N, examples = made.sizes
    copies = 2 if partners else 1
    weights = sum(n * m for n, m in zip(N, (D, *N[:-1]), strict=True))
    weights *= copies + copies**2 * (2 if made.momentum else 1)
    # A block of a stream is drawn while the one before it is still held.
    inputs = copies * made.block * examples * D * (1 if made.data is Dataset else 2)
    vectors = count * made.outputs * (D * (copies**2 + 2) + 2 * sum(N) + examples)
    correlations = (2 * len(N) + 3) * (count * made.outputs) ** 2
    return 8.0 * (weights + inputs + vectors + 2 * correlations)


class Descent(Simulator):
    """(Stochastic) gradient descent on the weights.

    With `partners`, every seed also trains three companions that share with its network the data only, the initial
    weights only, or nothing but the target w*. They measure overlap_same_data, overlap_same_weights and bias:
    Σ_c v_c·v'_c/D (Σ_c Σ_k λ_k v_ck v'_ck for a spectrum), averaged over the two pairs among the four networks that
    share just this. Same data means the same batches and label noise on a `Stream`; on the `Population` there are only
    the weights to share, so that overlap_same_data is the bias.
    """

    partners: bool = field(boolean, default=False)

    def ensemble(self, problem, size, record):
        made = spec(problem, size)
        D, N, examples = made.sizes
        evidence: dict = {"sizes": {"D": D, "N": list(N), "examples": examples}}
        if made.coefficients is not None:
            # The dimension-free theory is the limit of many units and examples, whatever D.
            evidence["limiting_size"] = min(n for n in (*N, examples) if n)
        return Ensemble(
            lambda seed: Networks(problem, made, seed, self.partners, len(record)),
            record,
            memory(made, len(record), self.partners),
            f"training deep linear networks of size {size}, recorded at {len(record)} steps",
            "use a smaller size or record fewer steps (save_at)",
            labels={"layer": np.arange(1, len(N) + 1)},
            evidence=evidence,
        )
