"""The limit of a deep linear network, trained in the orthonormal basis of the directions it has visited.

A Gaussian matrix that is applied to a vector never seen before gives a direction never seen before; so the infinitely
large network *is* a small one whose spaces grow. Inner products are divided by the dimension of the space: D for the
input space V, P for the data, N_ℓ for layer ℓ. Every operator (𝒵 = Z/√D from V to the data, where X = ZΛ^½;
𝒲⁰ = W⁰/√D from V to layer 1; 𝒲^ℓ = W^ℓ/√N_ℓ from layer ℓ to ℓ+1) is an array A, empty at first, and

- A x, with q the unit vector along the part of x orthogonal to all earlier inputs: first append the ROW q to A (a new
  direction of the output space);
- A^⊤y, with p the same for outputs: first append the COLUMN c p to A (a new direction of the input space), where c² is
  the ratio of the dimensions of input and output space: 1/α for 𝒵, 1/ν_1 for 𝒲⁰, 1/ρ_ℓ for 𝒲^ℓ.

Vectors of V have a coordinate for each direction and mode k of the inputs, scaled by √ω_k. With w*_c, the label noise
ε_c and the initial readouts w_c as the first directions of their spaces, the states t = 0 … T are

    g^L = w,  g^ℓ = ρ_ℓ 𝒲^ℓ⊤ g^{ℓ+1},  θ = (ρ_0/γ_0) 𝒲⁰⊤ g¹,  v = w* − θ (+ θ(0) if centred),
    Δ = 𝒵 Λ^½ v + σε,  h⁰ = Λ^½ 𝒵^⊤ Δ    (stream: Λv + Λ^½ ξ with new ξ ~ N(0, (C_v(t,t) + σ²)/α_B); population: Λv),
    h^{ℓ+1} = 𝒲^ℓ h^ℓ,    𝒲^ℓ: force γ_0 Σ_c g^{ℓ+1}_c h^{ℓ⊤}_c,    w_c: force γ_0 h^L_c,

and a force acts as B ← βB + η force, W ← (1 − ηλ) W + B. What is appended at time t is a part of W(0) and has decayed
by d(t) = Π (1 − ηλ).

Exact up to `tolerance`: the part of a vector orthogonal to its predecessors is dropped below this fraction of its
length. For spaces of n dimensions, O(L T n²) time and O(L n²) memory; n ≤ 2(T + 1) + 1 for each output and, in V, mode,
and much less where training is smooth.
"""

import numpy as np

from learndyn.core.divergence import diverged
from learndyn.core.memory import require_memory
from learndyn.core.progressing import Diverged, Progressing, Report
from learndyn.families.deep_linear.observables import alignment, edge_of_stability, layers_of, told
from learndyn.families.deep_linear.setting import DATASET, POPULATION, RULE, STREAM, Setting
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.gram import gram, stacked
from learndyn.numerics.growing import Operator, Space, padded
from learndyn.problem.weight_response import PerStepRule

REPORT_EVERY = 16
TARGET, WIDTH, DATA = range(3)


class GrowingNetwork:
    """The network at infinite size, in growing coordinates; vectors are rows, one for each output c.

    `backward`, `errors` and `forward` make g, v, Δ and h of the current step, in this order; `step` then trains.
    """

    def __init__(self, setting: Setting, tolerance: float):
        self.setting, outputs = setting, setting.outputs
        modes = len(setting.lam)
        self.root_lam, self.root_omega = np.sqrt(setting.lam), np.sqrt(setting.omega)
        self.inputs, self.examples = Space(modes), Space()
        self.layers = [Space() for _ in range(setting.depth)]
        if setting.branch is not None:
            # Skip connections put the fields of all hidden layers into one space.
            self.layers = [self.layers[0]] * setting.depth
        self.spaces = list({id(x): x for x in (self.inputs, self.examples, *self.layers)}.values())
        first = np.sqrt(setting.inverse_width / setting.rho[0]) * self.root_omega
        self.W = [Operator(self.inputs, self.layers[0], first, WIDTH, tolerance)]
        for l in range(1, setting.depth):
            fresh = np.array([1 / np.sqrt(setting.rho[l])])
            source, target = self.layers[l - 1], self.layers[l]
            self.W.append(Operator(source, target, fresh, WIDTH, tolerance))
        fresh = np.sqrt(setting.inverse_data) * self.root_omega
        self.Z = Operator(self.inputs, self.examples, fresh, DATA, tolerance)
        for space in (self.inputs, self.examples, self.layers[-1]):
            space.reserve(outputs)
            for _ in range(outputs):
                space.add(TARGET)
        self.w_star = np.zeros((outputs, self.inputs.capacity))
        roots = covariance_root(setting.gram).transpose(1, 2, 0) * self.root_omega
        self.w_star[:, : self.inputs.dimension] = roots.reshape(outputs, -1)
        self.w = np.eye(outputs, self.layers[-1].capacity)
        self.w_buffer = np.zeros_like(self.w)
        self.theta_0 = None

    def reserve(self) -> None:
        """Make room for one more step, in which every space gains at most two directions for each output."""
        outputs = self.setting.outputs
        before = [space.capacity for space in self.spaces]
        for space in self.spaces:
            space.reserve(2 * outputs * (1 + self.layers.count(space)))
        operators = [*self.W, self.Z] if self.setting.data == DATASET else self.W
        if before != [space.capacity for space in self.spaces]:
            # While an array grows, its old copy is still there: an array and two bases, for each operator.
            growing = max(op.target.capacity * op.source.capacity for op in operators)
            advice = "use fewer steps, a larger tolerance or fewer bins"
            require_memory(24.0 * growing, "the innovation basis", advice)
        for operator in operators:
            operator.reserve(outputs)
        self.w, self.w_buffer = (
            padded(x, (outputs, self.layers[-1].capacity)) for x in (self.w, self.w_buffer)
        )
        self.w_star = padded(self.w_star, (outputs, self.inputs.capacity))
        if self.theta_0 is not None:
            self.theta_0 = padded(self.theta_0, (outputs, self.inputs.capacity))

    def _through(self, field: np.ndarray, image: np.ndarray) -> np.ndarray:
        """What an inner layer makes of a field: its image, or the field itself plus a residual branch."""
        branch = self.setting.branch
        return image if branch is None else field + branch * image

    def backward(self) -> None:
        """g^ℓ (`g[ℓ − 1]`) and v."""
        setting = self.setting
        self.g = [self.w]
        for l in range(setting.depth - 1, 0, -1):
            self.g.insert(
                0, self._through(self.g[0], setting.rho[l] * _each(self.W[l].adjoint, self.g[0]))
            )
        theta = setting.rho[0] / setting.gamma * _each(self.W[0].adjoint, self.g[0])
        self.v = self.w_star - theta
        if setting.centered:
            if self.theta_0 is None:
                self.theta_0 = theta
            self.v += self.theta_0

    def errors(self) -> None:
        """Λ^½v, its Gram matrix C_v(t,t) and, for a dataset, Δ."""
        self.whitened = self._per_mode(self.v, self.root_lam)
        self.C_v = self.whitened @ self.whitened.T
        if self.setting.data == DATASET:
            self.Delta = _each(self.Z.forward, self.whitened)
            noise = range(self.setting.outputs)
            self.Delta[noise, noise] += self.setting.noise

    def forward(self) -> None:
        """h^ℓ (`h[ℓ]`), ℓ = 0 … L."""
        dataset = self.setting.data == DATASET
        gradient = _each(self.Z.adjoint, self.Delta) if dataset else self.whitened.copy()
        if self.setting.data == STREAM and self.setting.inverse_data:
            covariance = self.C_v + self.setting.noise**2 * np.eye(self.setting.outputs)
            for column in covariance_root(self.setting.inverse_data * covariance).T:
                gradient[:, self.inputs.add(DATA)] += np.outer(column, self.root_omega)
        self.h = [self._per_mode(gradient, self.root_lam)]
        self.h.append(_each(self.W[0].forward, self.h[0]))
        for W in self.W[1:]:
            self.h.append(self._through(self.h[-1], _each(W.forward, self.h[-1])))

    def step(self, eta: float, beta: float, decay: float) -> None:
        """Train with the fields of the current step."""
        rate, keep = eta * self.setting.gamma, 1 - eta * decay
        inner = 1.0 if self.setting.branch is None else self.setting.branch
        scales = [1.0] + [inner] * (len(self.W) - 1)
        for W, scale, g, h in zip(self.W, scales, self.g, self.h[:-1], strict=True):
            W.step(keep, beta, scale * rate * g, h)
        self.w_buffer = beta * self.w_buffer + rate * self.h[-1]
        self.w = keep * self.w + self.w_buffer

    def decomposition(self) -> np.ndarray:
        """Σ_c C_v(t,t)_cc by the origin of the directions of v: target, width, data."""
        power = np.sum(self.whitened[:, : self.inputs.dimension] ** 2, axis=0)
        power = power.reshape(-1, self.inputs.modes).sum(axis=1)
        return np.bincount(self.inputs.origins, weights=power, minlength=3)

    def target_overlaps(self) -> np.ndarray:
        """⟨w*·v⟩ and ⟨w*·w*⟩, weighted by λ and summed over outputs."""
        target = self._per_mode(self.w_star, self.root_lam)
        return np.array([np.sum(target * self.whitened), np.sum(target * target)])

    def fields(self) -> dict[str, np.ndarray]:
        """Copies of the vectors whose correlations are observables, without spare coordinates."""
        found = {"C_v": self.whitened[:, : self.inputs.dimension]}
        found["C_h0"] = self.h[0][:, : self.inputs.dimension]
        if self.setting.data == DATASET:
            found["C_Delta"] = self.Delta[:, : self.examples.dimension]
        for l, layer in enumerate(self.layers):
            found[f"C_h{l + 1}"] = self.h[l + 1][:, : layer.dimension]
            found[f"C_g{l + 1}"] = self.g[l][:, : layer.dimension]
        return {name: x.copy() for name, x in found.items()}

    def _per_mode(self, x: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return (x.reshape(len(x), -1, len(factors)) * factors).reshape(x.shape)


def _each(query, vectors: np.ndarray) -> np.ndarray:
    """The answers to one query after the other."""
    return np.array([query(x) for x in vectors])


class GrowingTraining(Progressing):
    """The growing network in training, and what was kept of it."""

    now: int = 0
    changeable = RULE

    def __init__(self, problem, setting: Setting, tolerance: float):
        self.problem, self.setting, self.tolerance = problem, setting, tolerance
        self.network = GrowingNetwork(setting, tolerance)
        self.rule = PerStepRule.of(problem.training)
        self.numbers: list[list] = []
        self.fields: list[dict[str, np.ndarray]] = []
        self.powers: list[float] = []
        self.successive: list[float] = []
        self.scale: float | None = None

    def _look(self) -> None:
        """The fields of the present step; raises `Diverged`."""
        network, setting = self.network, self.setting
        before = network.h[0] if self.now > 0 else None
        network.reserve()
        network.backward()
        network.errors()
        noise = setting.outputs * setting.noise**2
        self.test_loss = float(np.trace(network.C_v)) + noise
        dataset = setting.data == DATASET
        self.train_loss = float(np.sum(network.Delta**2)) if dataset else self.test_loss
        largest = max(self.test_loss, self.train_loss)
        if self.scale is None:
            self.scale = largest
        if diverged(largest, self.scale):
            raise Diverged
        network.forward()
        gradient = network.h[0]
        self.powers.append(float(np.sum(gradient**2)))
        if before is not None:
            self.successive.append(float(np.sum(before * gradient[:, : before.shape[1]])))

    def _observed(self) -> list:
        parts, overlaps = self.network.decomposition(), self.network.target_overlaps()
        return [self.test_loss, self.train_loss, *parts, *overlaps]

    def advance(self, states, report):
        with np.errstate(over="ignore", invalid="ignore"):
            for number, state in enumerate(states):
                try:
                    self._move(state, report)
                except Diverged:
                    return number
                self.numbers.append(self._observed())
                self.fields.append(self.network.fields())
        return len(states)

    def _move(self, until: float, report: Report) -> None:
        if self.scale is None:
            self._look()
            report(self.now)
        while self.now < until:
            eta, momentum, decay = (float(x[self.now]) for x in self.rule)
            self.network.step(eta, momentum, decay)
            self.now += 1
            self._look()
            if self.now % REPORT_EVERY == 0:
                report(self.now)

    def arrays(self):
        return self._arrays(self.numbers, self.fields)

    def observe(self):
        return self._arrays([self._observed()], [self.network.fields()])

    def _arrays(self, numbers: list, fields: list) -> dict[str, np.ndarray]:
        losses = _losses(np.reshape(numbers, (-1, 7)), self.setting)
        return losses | _correlations(fields, self.setting)

    def labels(self):
        return layers_of(self.setting)

    def evidence(self):
        """That of all methods, and the dimension of the largest space."""
        edge = edge_of_stability(self.powers, self.successive) if self.powers else None
        basis = max(space.dimension for space in self.network.spaces)
        found = told(self.problem, "innovation", self.setting, edge)
        return found | {"basis": basis, "tolerance": self.tolerance}

    def after(self):
        return self.now + 1

    def change(self, problem):
        self.rule = self.rule.until(self.now, problem.training)
        self.problem = problem


def _losses(numbers: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    """The functions of one time."""
    test_loss, train_loss, *parts, overlap, target = numbers.T
    found = dict(zip(("bias", "width_variance", "data_variance"), parts, strict=True))
    found |= {"test_loss": test_loss, "alignment": alignment(overlap, sum(parts), target)}
    return found if setting.data == POPULATION else found | {"train_loss": train_loss}


def _correlations(fields: list[dict[str, np.ndarray]], setting: Setting) -> dict[str, np.ndarray]:
    """The functions of two times: Gram matrices of the saved vectors."""

    def products(name):
        return gram(stacked([x[name] for x in fields], setting.outputs))

    single = ("C_v", "C_h0", "C_Delta") if setting.data == DATASET else ("C_v", "C_h0")
    found = {name: products(name) for name in single}
    for name in ("C_h", "C_g"):
        found[name] = np.array([products(f"{name}{l}") for l in range(1, setting.depth + 1)])
    return found
