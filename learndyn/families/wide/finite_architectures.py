"""Finite wide networks with the options of `Wide` beyond plain layers, trained with gradients by JAX.

One forward pass has all options; without any it is the plain network of `wide/finite.py`, from the same weights. Points
carry S positions (one without a convolution), and a weight matrix W^ℓ acts on patches, the k positions that a unit sees
side by side. Learning rules are gradients of a function with the true value and other derivatives: a product that goes
forward through W and back through B, or features through which no gradient goes.
With the fields g^ℓ = γ_0 N ∂f/∂h^ℓ of the rule and ḡ^ℓ of the true function, Γ_ab = 1/S² ("gap") or δ_ab/S ("flat"),
β_ℓ one in the first layer and the branch scale above, and patches a^ℓ of the features φ^ℓ, the observables are

    Φ^ℓ_μα = Σ_ab Γ_ab ⟨φ^ℓ_μa φ^ℓ_αb⟩,   G^ℓ_μα = ⟨Σ_a g^ℓ_μa Σ_b g^ℓ_αb⟩,
    K_μα = Φ^L_μα + Σ_ℓ β_ℓ² Σ_ab ⟨ḡ^{ℓ+1}_μa g^{ℓ+1}_αb⟩ (⟨a^ℓ_μa a^ℓ_αb⟩ + bias) .

To first order in the rate a step moves f by ηKE, for every rule.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from learndyn.core.divergence import diverged
from learndyn.core.progressing import Diverged, Products, StepByStep
from learndyn.families.wide.network import FEEDBACK, NORM, Wide
from learndyn.families.wide.observables import kernel_summaries, losses
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import PerStepRule

Weights = dict[str, Any]
"""W: matrices by layer, b: biases by layer or empty, w: the readout, C × N, or C × S × N if it is flat."""


class Architecture(NamedTuple):
    """What the forward pass needs to know of a network: fields of `Wide`, the size N, and the numbers S and k."""

    activation: Any
    gamma: Any
    size: Any
    branch: Any
    positions: int
    kernel: int
    flat: bool
    normalised: bool
    rule: str

    @classmethod
    def of(cls, network: Wide, size: int) -> "Architecture":
        """The architecture of a network of a size."""
        convolution = network.convolution
        S, k = (convolution.positions, convolution.kernel) if convolution else (1, 1)
        return cls(
            network.activation,
            jnp.asarray(float(network.richness)),
            jnp.asarray(float(size)),
            None if network.branch is None else jnp.asarray(float(network.branch)),
            S,
            k,
            convolution is not None and convolution.readout == "flat",
            network.normalization == "layer",
            network.learning_rule,
        )


@jax.custom_vjp
def _through(a: Array, W: Array, B: Array) -> Array:
    """a W^⊤, with a gradient that goes back to a through B."""
    return a @ W.T


def _through_forward(a: Array, W: Array, B: Array) -> tuple[Array, tuple[Array, Array]]:
    return a @ W.T, (a, B)


def _through_backward(kept: tuple[Array, Array], y: Array) -> tuple[Array, Array, Array]:
    a, B = kept
    return y @ B, jnp.einsum("pan,pam->nm", y, a), jnp.zeros_like(B)


_through.defvjp(_through_forward, _through_backward)


class _Passed(NamedTuple):
    """Outputs f (points × C), and by layer the patches that its weights see and its features, points × S × units."""

    f: Array
    patches: list[Array]
    features: list[Array]


def _passed(
    net: Architecture, rule: str, theta: Weights, fixed: Weights, x: Array, shifts: list[Array]
) -> _Passed:
    """The forward pass, with `shifts` added to the preactivations h^ℓ, whose gradients are the fields g^ℓ."""
    W, biases, backward = theta["W"], theta["b"], fixed["W"] if rule in FEEDBACK else theta["W"]
    a, h, patches, features, direct = x, jnp.zeros(()), [], [], jnp.zeros(())
    for ell, matrix in enumerate(W):
        patches.append(
            jnp.concatenate([jnp.roll(a, -q, axis=1) for q in range(net.kernel)], axis=-1)
        )
        drive = _through(patches[-1], matrix, backward[ell]) / math.sqrt(matrix.shape[1])
        drive = drive + biases[ell] if biases else drive
        h = drive if net.branch is None or not ell else h + net.branch * drive
        h = h + shifts[ell]
        if rule == "gated_linear":
            a = h * (x @ fixed["gates"][ell].T > 0)
        else:
            a = net.activation(_normalised(h) if net.normalised else h)
        features.append(a)
        if rule == "direct_feedback_alignment" and ell < len(W) - 1:
            # This has no value, but the gradient of the layer; the next layer has none for it.
            direct = direct + _read_out(net, fixed["direct"][ell], a - lax.stop_gradient(a))
            a = lax.stop_gradient(a)
    w = theta["w"]
    f = _read_out(net, w, a)
    if rule in FEEDBACK:
        f = _read_out(net, w, lax.stop_gradient(a))
        f = f + _read_out(net, fixed["w"], a - lax.stop_gradient(a))
    return _Passed(f + direct, patches, features)


def _normalised(h: Array) -> Array:
    """The layer norm of h over units."""
    centred = h - jnp.mean(h, axis=-1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + NORM)


def _read_out(net: Architecture, w: Array, a: Array) -> Array:
    """w·a/(γ_0 √(N N_L)), with the positions averaged over or with weights of their own."""
    scale = net.gamma * jnp.sqrt(net.size * a.shape[-1])
    if net.flat:
        return jnp.einsum("csn,psn->pc", w, a) / (math.sqrt(net.positions) * scale)
    return jnp.einsum("cn,pn->pc", w, jnp.mean(a, axis=1)) / scale


class _State(NamedTuple):
    """What is measured: outputs, the parts of Φ and G that are multiplied, and the tangent kernel."""

    f: Array
    features: list[Array]
    fields: list[Array]
    kernel: Array


@eqx.filter_jit
def outputs(net: Architecture, theta: Weights, fixed: Weights, x: Array) -> Array:
    """f of the points x."""
    return _passed(net, net.rule, theta, fixed, x, [jnp.zeros(())] * len(theta["W"])).f


def _fields(
    net: Architecture, rule: str, theta: Weights, fixed: Weights, x: Array
) -> tuple[_Passed, list[Array]]:
    """The forward pass, and by layer the fields γ_0 √(N N_ℓ) ∂f_c/∂h of a rule: points × C × S × N_ℓ."""
    zeros = [jnp.zeros((*x.shape[:2], len(W))) for W in theta["W"]]

    def summed(shifts: list[Array]) -> tuple[Array, _Passed]:
        passed = _passed(net, rule, theta, fixed, x, shifts)
        # Points do not see each other, so that the gradients of a sum over points are those of each.
        return jnp.sum(passed.f, axis=0), passed

    slopes, passed = jax.jacrev(summed, has_aux=True)(zeros)
    return passed, [
        net.gamma * jnp.sqrt(net.size * slope.shape[-1]) * jnp.moveaxis(slope, 0, 1)
        for slope in slopes
    ]


@eqx.filter_jit
def measured(net: Architecture, theta: Weights, fixed: Weights, x: Array) -> _State:
    """All that is measured at the points x."""
    passed, fields = _fields(net, net.rule, theta, fixed, x)
    true = fields
    if net.rule in FEEDBACK:
        true = _fields(net, "backprop", theta, fixed, x)[1]
    pooled = [_pooled(net, a) for a in passed.features]
    C = fields[0].shape[1]
    kernel = jnp.einsum("pn,qn,cd->pcqd", pooled[-1], pooled[-1], jnp.eye(C)) / pooled[-1].shape[-1]
    for ell, patches in enumerate(passed.patches):
        below = jnp.einsum("pan,qbn->paqb", patches, patches) / patches.shape[-1]
        below = below + 1.0 if theta["b"] else below
        G = jnp.einsum("pcan,qdbn->pcaqdb", true[ell], fields[ell]) / fields[ell].shape[-1]
        branch = 1.0 if net.branch is None or not ell else net.branch
        kernel = kernel + branch**2 * jnp.einsum("pcaqdb,paqb->pcqd", G, below)
    return _State(passed.f, pooled, [jnp.sum(g, axis=2) for g in fields], kernel)


def _pooled(net: Architecture, a: Float[Array, "p S n"]) -> Float[Array, "p m"]:
    """Vectors whose mean products are Φ: the mean over positions, or all positions side by side."""
    return a.reshape(len(a), -1) if net.flat else jnp.mean(a, axis=1)


@eqx.filter_jit
def pulled_back(net: Architecture, theta: Weights, fixed: Weights, x: Array, E: Array) -> Weights:
    """The force γ_0²N Σ_μc E_μc ∂f_μc/∂θ on every weight, with the derivatives of the learning rule."""
    shifts = [jnp.zeros(())] * len(theta["W"])
    _, pull = jax.vjp(lambda w: _passed(net, net.rule, w, fixed, x, shifts).f, theta)
    scale = net.gamma**2 * net.size
    return jax.tree.map(lambda slope: scale * slope, pull(E)[0])


def draw(
    network: Wide, inputs: int, outputs: int, width: int, seed: int
) -> tuple[Weights, Weights]:
    """The initial weights of a seed, those of `wide/finite.py` if the network is plain, and the fixed weights."""
    net, rule, rho = (
        Architecture.of(network, width),
        network.learning_rule,
        network.feedback_overlap,
    )
    sequences = np.random.SeedSequence(seed).spawn(4)
    weights, biases, _, others = (
        np.random.Generator(np.random.SFC64(sequence)) for sequence in sequences
    )
    widths, sigma = [round(nu * width) for nu in network.relative_widths], network.initial_scales
    sizes = zip((inputs // net.positions, *widths), widths, strict=False)
    W = [
        scale * weights.standard_normal((above, net.kernel * below))
        for scale, (below, above) in zip(sigma, sizes, strict=False)
    ]
    last = widths[-1]
    shape = (outputs, net.positions, last) if net.flat else (outputs, last)
    w = sigma[-1] * weights.standard_normal(shape)
    b = [biases.standard_normal(n) for n in widths] if network.bias else []

    def correlated(array: np.ndarray) -> np.ndarray:
        return rho * array + math.sqrt(1 - rho**2) * others.standard_normal(array.shape)

    fixed: Weights = {}
    if rule in FEEDBACK:
        fixed = {"W": [correlated(matrix) for matrix in W], "w": correlated(w)}
    if rule == "direct_feedback_alignment":
        fixed["direct"] = [others.standard_normal(shape) for _ in W[1:]]
    if rule == "gated_linear":
        fixed["gates"] = [others.standard_normal((width, inputs)) for _ in W]
    return {"W": W, "b": b, "w": w}, fixed


class DescendingArchitecture(StepByStep):
    """One network in training on the first P points of x: B ← βB + η·force, θ ← (1 − ηλ)θ + B."""

    changeable = (
        "training.learning_rate",
        "training.momentum",
        "training.weight_decay",
        "training.steps",
    )

    def __init__(
        self,
        problem: Problem,
        setting: WideSetting,
        x: Float[np.ndarray, "points D"],
        size: int,
        count: int,
        seed: int,
    ):
        super().__init__(count)
        network = problem.network
        self.problem, self.loss, self.rule = problem, setting.loss, PerStepRule.of(problem.training)
        self.net = Architecture.of(network, size)
        self.x = jnp.asarray(x.reshape(len(x), self.net.positions, -1))
        theta, fixed = draw(network, x.shape[1], setting.outputs, size, seed)
        self.theta, self.fixed = jax.tree.map(jnp.asarray, (theta, fixed))
        self.buffer = None
        self.origin = np.zeros((setting.points, setting.outputs))

    def begin(self) -> None:
        if self.problem.network.centered:
            self.origin = np.asarray(outputs(self.net, self.theta, self.fixed, self.x))
        self.scale = float(self.loss.value(self._trained())) + 1

    def _trained(self) -> Float[np.ndarray, "P C"]:
        """The outputs of the trained points, less the initial ones if they are subtracted."""
        P = len(self.loss.targets)
        f = outputs(self.net, self.theta, self.fixed, self.x[:P])
        return np.asarray(f) - self.origin[:P]

    def step(self) -> None:
        E = self.loss.force(self._trained())
        P = len(E)
        force = pulled_back(self.net, self.theta, self.fixed, self.x[:P], jnp.asarray(E))
        step = self.rule.at(self.now)
        buffer = self.buffer or jax.tree.map(jnp.zeros_like, force)
        leaves, shape = jax.tree.flatten(self.theta)
        others = (jax.tree.leaves(part) for part in (buffer, force))
        moved = [step.moved(w, B, step.inner * F) for w, B, F in zip(leaves, *others, strict=True)]
        self.theta, B = (jax.tree.unflatten(shape, part) for part in zip(*moved, strict=True))
        self.buffer = B if step.buffered else None
        if diverged(self.loss.value(self._trained()), self.scale):
            raise Diverged

    def measure(self) -> dict[str, Any]:
        state = measured(self.net, self.theta, self.fixed, self.x)
        return {
            "f": np.asarray(state.f) - self.origin,
            "kernel": np.asarray(state.kernel),
            "Phi": Products([np.asarray(a) for a in state.features]),
            "G": Products([np.asarray(g) for g in state.fields]),
        }

    def finish(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        observables = losses(self.loss, arrays["f"], self.problem.data.test_targets)
        Phi, now = arrays["Phi"], np.arange(len(arrays["f"]))
        observables |= {name: arrays[name] for name in ("kernel", "Phi", "G")}
        at_equal_times = Phi[:, now, :, now].transpose(1, 0, 2, 3)
        return observables | kernel_summaries(at_equal_times, self.loss.targets)

    def observe(self) -> dict[str, np.ndarray]:
        """The present observables without the movement, which needs the first recorded state."""
        return {name: x for name, x in super().observe().items() if name != "movement"}

    def change(self, problem: Problem) -> None:
        self.problem, self.rule = problem, self.rule.until(self.now, problem.training)

    def weights(self) -> dict[str, np.ndarray]:
        """W0 …, biases b0 … if there are any, and the readout w."""
        matrices = {f"W{ell}": np.array(W) for ell, W in enumerate(self.theta["W"])}
        biases = {f"b{ell}": np.array(b) for ell, b in enumerate(self.theta["b"])}
        return matrices | biases | {"w": np.array(self.theta["w"])}

    def sample(self, count: int) -> dict[str, np.ndarray]:
        """The first of the trained points."""
        P = len(self.loss.targets)
        x = np.asarray(self.x[:P][:count])
        return {"x": x.reshape(len(x), -1), "y": self.loss.targets[:count].copy()}


def memory(problem: Problem, setting: WideSetting, inputs: int, width: int, count: int) -> float:
    """Bytes that one network needs if `count` states are recorded: weights, forces, fields, kernels."""
    net, L = Architecture.of(problem.network, width), setting.depth
    width = math.ceil(width * max(problem.network.relative_widths))
    p, C, S = setting.points, setting.outputs, net.positions
    matrices = width * net.kernel * (inputs // S + (L - 1) * width)
    fixed = 2 if net.rule in FEEDBACK else 1
    momentum = 2 if problem.training.momentum else 1
    vectors = p * width * L * (8 * S * (net.kernel + C) + count * (S * net.flat + 1 + C))
    kernels = 2 * L * (count * p) ** 2 * (1 + C * C) + 3 * (p * S * C) ** 2
    return 8.0 * ((2 + fixed + momentum) * matrices + vectors + kernels)
