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

and a force acts as B ← βB + η force, W ← (1 − ηλ) W + B. A row or column appended at time t is a part of W(0), and has
decayed by d(t) = Π (1 − ηλ).

Exact up to `tolerance`: the part of a vector orthogonal to its predecessors is dropped below this fraction of its
length, in a lazy network below γ_0 times this fraction. For spaces of n dimensions, O(L T n²) time and O(L n²) memory.

On a stream, n would grow by two for each step, output and, in V, mode. But later vectors see of the past only what the
present ones reach by the matrices: of the noise ξ(s) of all steps s before t, combinations that are smooth in s. So a
space that has doubled is reduced to the directions x, M x, M M'x, … that are longer than `tolerance`, with x the
vectors w*, v, θ(0), g^ℓ and with M the matrices 𝒲, their buffers B and what is still random of them, K, all scaled to
norm one (`numerics/growing.py`, `numerics/reachable.py`). Target, width and data keep directions of their own, and so
do modes. The error of losses is of order tolerance², that of products of vectors at different times of order tolerance.
n is then some hundred. On a dataset or the population n grows slowly by itself if training is smooth, and spaces are
not reduced.

**Responses.** At a recorded step s every field gets a source, ε times a new direction z of its space. Later fields of
the same layer have the component ε R(t, s) along z, with R = ∂h^ℓ(t)/∂r^ℓ(s) or ∂g^ℓ(t)/∂u^ℓ(s). Sources of different
fields, steps and outputs are orthogonal, so one solution has them all. They change it and the responses by O(ε²),
because z and −z are alike; what is dropped counts as tolerance/ε. A source in g^ℓ changes the function by ε/γ_0, so
in a lazy network, γ_0 < 1, it has the length εγ_0.
"""

from collections.abc import Callable

import numpy as np

from learndyn.families.deep_linear.limit_numbers import DATASET, STREAM, LimitNumbers
from learndyn.memory import require_memory
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.growing import Operator, Reduction, Space, padded
from learndyn.numerics.reachable import Map, ReachableSpace, reach
from learndyn.problem.weight_response import Step

TARGET, WIDTH, DATA = range(3)
"""Origins of a direction of the input space: the target w*, a weight matrix, or the data."""

LOST = 1e-13
"""Parts of the backward fields that are shorter than this are lost in rounding."""
POWERS = 8
"""Power iterations for the norm of a matrix; it need not be accurate."""


class GrowingDeepLinear:
    """The infinitely large network in growing coordinates; vectors are rows, one for each output c.

    `backward`, `errors` and `forward` compute g, v, Δ and h of the current step, in this order; `step` then trains.

    - `numbers`: the limit numbers
    - `tolerance`: the relative length below which a new direction is dropped; times γ_0 if γ_0 < 1
    - `strength`: ε, the length of the sources that fields get while `sourced` is true; 0 for none
    """

    def __init__(self, numbers: LimitNumbers, tolerance: float, strength: float = 0.0):
        self.numbers, outputs = numbers, numbers.outputs
        self.strength, self.sourced = strength, False
        self.sources: dict[str, np.ndarray] = {}
        modes = len(numbers.lam)
        self.root_lam, self.root_omega = np.sqrt(numbers.lam), np.sqrt(numbers.omega)
        self.inputs, self.examples = Space(modes), Space()
        self.layers = [Space() for _ in range(numbers.depth)]
        if numbers.branch is not None:
            # Skip connections put the fields of all hidden layers into one space.
            self.layers = [self.layers[0]] * numbers.depth
        self.spaces = list({id(x): x for x in (self.inputs, self.examples, *self.layers)}.values())
        # The function has what is dropped with a factor 1/γ_0.
        shortest = min(tolerance, max(tolerance * numbers.gamma, LOST))
        first = np.sqrt(numbers.inverse_width / numbers.rho[0]) * self.root_omega
        self.W = [Operator(self.inputs, self.layers[0], first, WIDTH, shortest)]
        for l in range(1, numbers.depth):
            fresh = np.array([1 / np.sqrt(numbers.rho[l])])
            source, target = self.layers[l - 1], self.layers[l]
            self.W.append(Operator(source, target, fresh, WIDTH, shortest))
        fresh = np.sqrt(numbers.inverse_data) * self.root_omega
        self.Z = Operator(self.inputs, self.examples, fresh, DATA, shortest)
        for space in (self.inputs, self.examples, self.layers[-1]):
            space.reserve(outputs)
            for _ in range(outputs):
                space.add(TARGET)
        self.w_star = np.zeros((outputs, self.inputs.capacity))
        roots = covariance_root(numbers.gram).transpose(1, 2, 0) * self.root_omega
        self.w_star[:, : self.inputs.dimension] = roots.reshape(outputs, -1)
        self.w = np.eye(outputs, self.layers[-1].capacity)
        self.w_buffer = np.zeros_like(self.w)
        self.theta_0 = None
        self.h: list[np.ndarray] = []
        self.g_0: list[np.ndarray] = []
        self.tolerance = tolerance

    @property
    def operators(self) -> list[Operator]:
        """The matrices that are queried."""
        return [*self.W, self.Z] if self.numbers.data == DATASET else self.W

    @property
    def grown(self) -> bool:
        """Whether a space has grown so much that it should be reduced.

        Without fresh noise spaces grow slowly, and hardly a direction could be given up.
        """
        return self.numbers.data == STREAM and any(space.grown for space in self.spaces)

    def reduce(self) -> dict[Space, Reduction]:
        """Keep the directions that later fields can have, and say how they are made of the old ones."""
        for operator in self.operators:
            operator.carry_out()
        reductions = self._reachable()
        for operator in self.operators:
            operator.reduce(reductions[operator.source], reductions[operator.target])
        last, inputs = reductions[self.layers[-1]], reductions[self.inputs]
        self.w, self.w_buffer = last.apply(self.w), last.apply(self.w_buffer)
        self.w_star = inputs.apply(self.w_star)
        if self.theta_0 is not None:
            self.theta_0 = inputs.apply(self.theta_0)
        self.h = [inputs.apply(x) for x in self.h[:1]]
        pairs = zip(self.g_0, self.layers, strict=True)
        self.g_0 = [reductions[layer].apply(x) for x, layer in pairs]
        for space, reduction in reductions.items():
            space.reduce(reduction)
        return reductions

    def _reachable(self) -> dict[Space, Reduction]:
        """Directions that the present vectors reach by the matrices, their buffers and what is still random of them.

        The vectors are w*, v, θ(0), ε, g^ℓ(0), and (g^ℓ − g^ℓ(0))/γ_0 if the network is lazy. In V they count with the
        length of Λ^½x, in units of the target.
        """
        numbers = self.numbers
        index = {space: number for number, space in enumerate(self.spaces)}
        place, D = index[self.inputs], self.inputs.dimension
        white = np.tile(self.root_lam / self.root_lam.max(), len(self.inputs.origins))
        lazy = min(1.0, numbers.gamma)
        maps: list[Map] = []
        for operator in self.operators:
            weight = white if operator is self.W[0] else np.ones(operator.source.dimension)
            maps += _maps(operator, index, weight, lazy)
        if len(self.root_lam) > 1:
            maps.append((place, place, lambda x: x * white**2))
        seeds: list[list[np.ndarray]] = [[] for _ in self.spaces]
        g = self._known_backward()
        for layer, start, now in zip(self.layers, self.g_0, g[1:], strict=True):
            start = padded(start, now.shape)
            change = now - (now @ np.linalg.pinv(start)) @ start
            size = np.linalg.norm(now)
            seeds[index[layer]] += [start / np.linalg.norm(start), change / (size * lazy)]
        buffer = self.w_buffer[:, : self.layers[-1].dimension]
        seeds[index[self.layers[-1]]].append(buffer / (np.linalg.norm(self.w) * lazy))
        target, v = self.w_star[:, :D] * white, g[0] * white
        unit = np.linalg.norm(target)
        seeds[place] += [target / unit, v / max(unit, np.linalg.norm(v))]
        if self.theta_0 is not None and self.theta_0.any():
            theta_0 = self.theta_0[:, :D] * white
            seeds[place].append(theta_0 / np.linalg.norm(theta_0))
        seeds[index[self.examples]].append(np.eye(numbers.outputs, self.examples.dimension))
        spaces = [ReachableSpace(_parts(x, x is self.inputs)) for x in self.spaces]
        reach(spaces, [np.vstack(x) for x in seeds], maps, max(self.tolerance, LOST / lazy))
        return {x: _reduction(x, spaces[i], x is self.inputs) for x, i in index.items()}

    def _known_backward(self) -> list[np.ndarray]:
        """v and g^ℓ, ℓ = 1 … L, as far as they are known without asking."""
        numbers = self.numbers
        g = [self.w[:, : self.layers[-1].dimension]]
        for l in range(numbers.depth - 1, 0, -1):
            g.insert(0, self._through(g[0], numbers.rho[l] * (g[0] @ self.W[l].known)))
        theta = numbers.rho[0] / numbers.gamma * (g[0] @ self.W[0].known)
        v = self.w_star[:, : theta.shape[1]] - theta
        return [v if self.theta_0 is None else v + self.theta_0[:, : theta.shape[1]], *g]

    def reserve(self) -> None:
        """Make room for one more step, in which every space gains at most two directions for each output.

        Sources of a recorded step are two more of every field.
        """
        outputs = self.numbers.outputs
        before = [space.capacity for space in self.spaces]
        for space in self.spaces:
            space.reserve((4 if self.strength else 2) * outputs * (1 + self.layers.count(space)))
        operators = self.operators
        if before != [space.capacity for space in self.spaces]:
            # While an array grows, its old copy still exists: an array and two bases for each operator.
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
        """The field after an inner layer: its image, or the field itself plus a residual branch."""
        branch = self.numbers.branch
        return image if branch is None else field + branch * image

    def _with_source(self, field: np.ndarray, name: str) -> np.ndarray:
        """The field, with a source for the response of this name if the step is recorded."""
        if not (self.strength and self.sourced):
            return field
        space, outputs = self.space_of(name), self.numbers.outputs
        modes = self.root_omega if space is self.inputs else 1.0
        z = np.zeros((outputs, space.capacity))
        for row in z:
            row[space.add(WIDTH)] = modes
        self.sources[name] = z
        return field + self.length_of_source(name) * z

    def length_of_source(self, name: str) -> float:
        """The length of the sources for the response of this name."""
        hidden = name.startswith("R_hr") and name != "R_hr0"
        return self.strength * (min(1.0, self.numbers.gamma) if hidden else 1.0)

    def backward(self) -> None:
        """g^ℓ (`g[ℓ − 1]`) and v."""
        numbers = self.numbers
        self.sources = {}
        self.g = [self._with_source(self.w, f"R_hr{numbers.depth}")]
        for l in range(numbers.depth - 1, 0, -1):
            image = numbers.rho[l] * _each(self.W[l].adjoint, self.g[0])
            self.g.insert(0, self._with_source(self._through(self.g[0], image), f"R_hr{l}"))
        theta = numbers.rho[0] / numbers.gamma * _each(self.W[0].adjoint, self.g[0])
        theta = self._with_source(theta, "R_hr0")
        self.v = self.w_star - theta
        if numbers.centered:
            if self.theta_0 is None:
                self.theta_0 = theta
            self.v += self.theta_0
        if not self.g_0:
            self.g_0 = list(self.g)

    def errors(self) -> None:
        """Λ^½v, its Gram matrix C_v(t,t) and, for a dataset, Δ."""
        self.whitened = self._per_mode(self.v, self.root_lam)
        self.C_v = self.whitened @ self.whitened.T
        if self.numbers.data == DATASET:
            self.Delta = _each(self.Z.forward, self.whitened)
            noise = range(self.numbers.outputs)
            self.Delta[noise, noise] += self.numbers.noise
            self.Delta = self._with_source(self.Delta, "R_Delta")

    def forward(self) -> None:
        """h^ℓ (`h[ℓ]`), ℓ = 0 … L."""
        dataset = self.numbers.data == DATASET
        gradient = _each(self.Z.adjoint, self.Delta) if dataset else self.whitened.copy()
        if self.numbers.data == STREAM and self.numbers.inverse_data:
            covariance = self.C_v + self.numbers.noise**2 * np.eye(self.numbers.outputs)
            for column in covariance_root(self.numbers.inverse_data * covariance).T:
                gradient[:, self.inputs.add(DATA)] += np.outer(column, self.root_omega)
        self.h = [self._with_source(self._per_mode(gradient, self.root_lam), "R_vu")]
        self.h.append(self._with_source(_each(self.W[0].forward, self.h[0]), "R_gu1"))
        for l, W in enumerate(self.W[1:], start=2):
            h = self._through(self.h[-1], _each(W.forward, self.h[-1]))
            self.h.append(self._with_source(h, f"R_gu{l}"))

    def step(self, step: Step) -> None:
        """Train with the fields of the current step."""
        rate = step.inner * self.numbers.gamma
        inner = 1.0 if self.numbers.branch is None else self.numbers.branch
        scales = [1.0] + [inner] * (len(self.W) - 1)
        for W, scale, g, h in zip(self.W, scales, self.g, self.h[:-1], strict=True):
            W.step(step, scale * rate * g, h)
        self.w, self.w_buffer = step.moved(self.w, self.w_buffer, rate * self.h[-1])

    def decomposition(self) -> np.ndarray:
        """Σ_c C_v(t,t)_cc by the origin of the directions of v: target, width, data."""
        power = np.sum(self.whitened[:, : self.inputs.dimension] ** 2, axis=0)
        power = power.reshape(-1, self.inputs.modes).sum(axis=1)
        return np.bincount(self.inputs.origins, weights=power, minlength=3)

    def target_overlaps(self) -> np.ndarray:
        """⟨w*·v⟩ and ⟨w*·w*⟩, weighted by λ and summed over outputs."""
        target = self._per_mode(self.w_star, self.root_lam)
        return np.array([np.sum(target * self.whitened), np.sum(target * target)])

    def by_modes(self) -> tuple[np.ndarray, np.ndarray]:
        """ω_k λ_k ⟨v_k²⟩ and ⟨w*_k v_k⟩ of every mode k, summed over outputs."""
        modes = (len(self.v), -1, self.inputs.modes)
        loss = np.sum(self.whitened.reshape(modes) ** 2, axis=(0, 1))
        overlap = np.sum((self.w_star * self.v).reshape(modes), axis=(0, 1))
        return loss, overlap / self.numbers.omega

    def fields(self) -> dict[str, np.ndarray]:
        """Copies of the vectors whose correlations are observables, without spare coordinates."""
        vectors = {"C_v": self.whitened[:, : self.inputs.dimension]}
        vectors["C_h0"] = self.h[0][:, : self.inputs.dimension]
        if self.numbers.data == DATASET:
            vectors["C_Delta"] = self.Delta[:, : self.examples.dimension]
        for l, layer in enumerate(self.layers):
            vectors[f"C_h{l + 1}"] = self.h[l + 1][:, : layer.dimension]
            vectors[f"C_g{l + 1}"] = self.g[l][:, : layer.dimension]
        return {name: x.copy() for name, x in vectors.items()}

    def responding(self) -> dict[str, np.ndarray]:
        """For every response, the fields that show it, and below them the directions z of the sources of this step."""
        vectors = {}
        for name, z in self.sources.items():
            space = self.space_of(name)
            if name == "R_vu":
                field = self._per_mode(self.v, self.numbers.lam)
            elif name == "R_Delta":
                field = self.Delta
            else:
                layer = int(name[4:])
                field = self.g[layer - 1] if name.startswith("R_gu") else self.h[layer]
            vectors[name] = np.vstack([x[:, : space.dimension] for x in (field, z)])
        return vectors

    def space_of(self, field: str) -> Space:
        """The space of the vectors that `fields` or `responding` call so."""
        if field.endswith("Delta"):
            return self.examples
        if field in ("C_v", "R_vu", "C_h0", "R_hr0"):
            return self.inputs
        return self.layers[int(field.lstrip("CR_hgru")) - 1]

    def _per_mode(self, x: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """x with the coordinates of every mode k times factors[k]."""
        return (x.reshape(len(x), -1, len(factors)) * factors).reshape(x.shape)


def _each(query: Callable[[np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """The answers to the query for one vector after the other."""
    return np.array([query(x) for x in vectors])


def _maps(
    operator: Operator, index: dict[Space, int], weight: np.ndarray, lazy: float
) -> list[Map]:
    """The maps of an operator of vectors x·weight: A and A^⊤ of norm one, the same of B/`lazy`, and both K."""
    source, target = index[operator.source], index[operator.target]
    A = operator.known * weight
    norm = _norm(A)
    matrices = [A / norm]
    if operator.B is not None:
        matrices.append(operator.B[: len(A), : len(weight)] * (weight / (norm * lazy)))
    maps: list[Map] = []
    for M in matrices:
        maps.append((source, target, lambda x, M=M: x @ M.T))
        maps.append((target, source, lambda x, M=M: x @ M))
    maps.append((source, source, lambda x: operator.asked.remaining(x * weight) * weight))
    if operator.fresh.any():
        maps.append((target, target, operator.answered.remaining))
    return maps


def _norm(A: np.ndarray) -> float:
    """About the largest singular value, by power iteration; at least 1e-300."""
    x = np.ones(A.shape[1])
    for _ in range(POWERS):
        x = A.T @ (A @ (x / max(np.linalg.norm(x), 1e-300)))
    return max(float(np.sqrt(np.linalg.norm(x))), 1e-300)


def _groups(space: Space, apart: bool) -> list[np.ndarray]:
    """The numbers of the directions, together or by their origin."""
    origins = np.asarray(space.origins)
    if not apart:
        return [np.arange(len(origins))]
    return [np.flatnonzero(origins == origin) for origin in np.unique(origins)]


def _parts(space: Space, apart: bool) -> list[np.ndarray]:
    """The coordinates of each group of directions and each mode."""
    modes = space.modes
    return [group * modes + k for group in _groups(space, apart) for k in range(modes)]


def _reduction(space: Space, found: ReachableSpace, apart: bool) -> Reduction:
    """The reduction to the directions found in the parts of a space."""
    modes, blocks, origins = space.modes, [], []
    for number, group in enumerate(_groups(space, apart)):
        directions = found.directions[number * modes : (number + 1) * modes]
        block = np.zeros((modes, len(space.origins), max(len(x) for x in directions)))
        for k, rows in enumerate(directions):
            block[k, group, : len(rows)] = rows.T
        blocks.append(block)
        origins += [space.origins[group[0]]] * block.shape[2]
    return Reduction(np.concatenate(blocks, axis=2), origins)
