"""The forward pass of a wide network as a Gaussian program.

In the scaling of `learndyn.programs` a matrix has entries N(0, 1/N), so that

    h^1 = F V,   h^{ℓ+1} = W^ℓ φ(h^ℓ) + b^ℓ,   f_c = ⟨w_c φ(h^L)⟩/γ_0,

with normal vectors V_k over the first layer and a root F of the inputs' kernel, F Fᵀ = K + 1 with biases and K without:
networks see their inputs only through K, and the bias of the first layer is one more input that is always 1. The
columns of F fall in size, because the first normals of a dimension are the most even ones.

The readout w is drawn when the features φ(h^L) of all points are known, and apart from them, so that the limit starts
from f = 0 exactly.

With a convolution, vectors have positions behind the points, K is that of patches, Σ_q x_{μ,a+q}·x_{α,b+q}/(kD), and
h^{ℓ+1}_a = Σ_q W^ℓ_q φ(h^ℓ_{a+q})/√k + b^ℓ. A learning rule other than backprop changes the gradient of f and not its
value: W fixed(x) + B (x − fixed(x)) goes forward through W and back through B.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learndyn.families.wide.network import FEEDBACK, NORM, Convolution, Wide
from learndyn.numerics.covariance import covariance_root
from learndyn.problem.problem import Problem
from learndyn.programs import Net, concatenate, einsum, fixed, mean
from learndyn.programs.dims import Dim
from learndyn.programs.matrices import Matrix
from learndyn.programs.values import Value
from learndyn.sampling.activations import activated


class ProgramFields(NamedTuple):
    """Fields of a network on its points: h^ℓ and φ(h^ℓ), ℓ = 1 … L, and the outputs f (points × outputs).

    The small axes of h and φ are points, and positions behind them if there is a convolution.
    """

    h: list[Value]
    phi: list[Value]
    f: Value


class Link:
    """The weights between two layers, a matrix for each offset, and the fixed ones of feedback alignment."""

    def __init__(self, net: Net, network: Wide, below: Dim, above: Dim, ell: int, **options: bool):
        self.kernel = network.convolution.kernel if network.convolution else 1
        offsets = [f" {q}" for q in range(self.kernel)] if self.kernel > 1 else [""]
        self.matrices = [net.matrix(above, below, name=f"W{ell}{q}", **options) for q in offsets]
        self.bias = net.normal(above) if network.bias else None
        self.overlap, self.fixed = network.feedback_overlap, []
        if network.learning_rule == "feedback_alignment":
            self.fixed = [
                (W.frozen(), net.matrix(above, below, trained=False, name=f"B{ell}{q}"))
                for W, q in zip(self.matrices, offsets, strict=True)
            ]

    def scale(self, sigma: float) -> None:
        """Multiply the weights by σ."""
        for W in self.matrices:
            W.state = sigma * W.state

    def __call__(self, x: Value, backprop: bool) -> Value:
        """Σ_q W_q x_{a+q}/√k + b; its gradient goes back through W, or through the fixed weights."""
        parts = []
        for q, W in enumerate(self.matrices):
            if self.fixed and not backprop:
                start, other = (B @ (x - fixed(x)) for B in self.fixed[q])
                through = W @ fixed(x) + correlated(start, other, self.overlap)
            else:
                through = W @ x
            # Position a sees position a + q.
            parts.append(concatenate([through[:, q:], through[:, :q]], 1) if q else through)
        h = sum(parts[1:], parts[0]) / math.sqrt(self.kernel)
        return h if self.bias is None else h + self.bias


def correlated(start: Value, other: Value, overlap: float) -> Value:
    """ρ start + √(1 − ρ²) other."""
    return overlap * start + math.sqrt(1 - overlap**2) * other


class ForwardPass:
    """The weights of a wide network, and its fields on points of its problem.

    With relative widths ν_ℓ, f = √ν_L ⟨wφ⟩/γ_0. Unless `tied`, the backward pass goes through weights of its own, to
    which training adds the same.
    """

    def __init__(self, net: Net, problem: Problem, tied: bool = True):
        self.network, self.net = problem.network, net
        network, C = self.network, problem.data.outputs
        self.gamma, self.rule = float(network.richness), network.learning_rule
        self.inputs = input_root(problem)
        self.scale = self.gamma / math.sqrt(network.relative_widths[-1])
        widths, scales = network.relative_widths, network.initial_scales
        if network.skip is None:
            self.dims = [net.dim(f"layer {ell}", nu) for ell, nu in enumerate(widths, 1)]
        else:  # layers that are added to each other have the same units
            self.dims = [net.dim("layers", widths[0])] * network.depth
        self.V = net.normal(self.dims[0], self.inputs.shape[-1])
        self.V.data = scales[0] * self.V.data
        options = {"tied": tied, "noisy": bool(problem.training.noise)}
        self.links = [
            Link(net, network, below, above, ell, **options)
            for ell, (below, above) in enumerate(pairwise(self.dims), 1)
        ]
        for link, sigma in zip(self.links, scales[1:], strict=False):
            link.scale(sigma)
        self.gates = self._gates(problem) if self.rule == "gated_linear" else []
        _, features = self.hidden(slice(None), True)
        S = [network.convolution.positions] if self._flat else []
        self.w = net.normal(self.dims[-1], C, *S, apart_from=features[-1])
        self.w.data = scales[-1] * self.w.data
        if self.rule in FEEDBACK:
            other = net.normal(self.dims[-1], C, *S, trained=False)
            self.fixed_w = correlated(fixed(self.w), other, network.feedback_overlap)
        if self.rule == "direct_feedback_alignment":
            self.direct = [net.normal(dim, C, trained=False) for dim in self.dims[:-1]]

    @property
    def matrices(self) -> list[Matrix]:
        """The weight matrices between hidden layers, of all offsets."""
        return [W for link in self.links for W in link.matrices]

    @property
    def _flat(self) -> bool:
        convolution = self.network.convolution
        return convolution is not None and convolution.readout == "flat"

    def _gates(self, problem: Problem) -> list[Value]:
        """m_μ = 1 where a normal vector with the covariance of the inputs is positive, for every layer."""
        F = covariance_root(problem.data.kernel(), rank=True)
        normals = [self.net.normal(dim, F.shape[1], trained=False) for dim in self.dims]
        return [einsum("pk,k->p", F, normal) > 0 for normal in normals]

    def hidden(self, points: slice, backprop: bool) -> tuple[list[Value], list[Value]]:
        """h and φ(h) of all layers."""
        F, branch = self.inputs[points], self.network.branch
        h = einsum("pk,k->p" if F.ndim == 2 else "pak,k->pa", F, self.V)
        preactivations, features = [h], [self._features(0, h, points)]
        direct = self.rule == "direct_feedback_alignment" and not backprop
        for ell, link in enumerate(self.links, 1):
            drive = link(fixed(features[-1]) if direct else features[-1], backprop)
            h = drive if branch is None else h + branch * drive
            preactivations.append(h)
            features.append(self._features(ell, h, points))
        return preactivations, features

    def _features(self, layer: int, h: Value, points: slice) -> Value:
        """φ(h), of normalised h with a layer norm, or h times its gates."""
        if self.gates:
            return h * self.gates[layer][points]
        if self.network.normalization == "layer":
            centred = h - mean(h)
            h = centred / np.sqrt(mean(centred**2) + NORM)
        return activated(self.network.activation, h)

    def _read_out(self, phi: Value, w: Value) -> Value:
        """√ν_L ⟨w φ⟩/γ_0, with positions averaged over or with weights of their own."""
        if self._flat:
            S = self.network.convolution.positions
            return mean(phi.reshape(len(phi), 1, S) * w).sum(2) / (math.sqrt(S) * self.scale)
        if phi.ndim == 2:
            phi = phi.sum(1) / phi.shape[1]
        return mean(phi.reshape(len(phi), 1) * w) / self.scale

    def __call__(self, points: slice, backprop: bool = False) -> ProgramFields:
        """The fields of some of the points, which are numbered with the trained ones first.

        The gradient of f is that of the learning rule, or the true one with `backprop`.
        """
        h, phi = self.hidden(points, backprop)
        if self.rule not in FEEDBACK or backprop:
            return ProgramFields(h, phi, self._read_out(phi[-1], self.w))
        f = self._read_out(fixed(phi[-1]), self.w)
        pairs = [(phi[-1], self.fixed_w)]
        if self.rule == "direct_feedback_alignment":
            pairs += zip(phi, self.direct, strict=False)
        for features, w in pairs:
            f = f + self._read_out(features - fixed(features), w)
        return ProgramFields(h, phi, f)


def input_root(problem: Problem) -> np.ndarray:
    """F (points × rank, or points × positions × rank), the largest column first."""
    network, data = problem.network, problem.data
    if network.convolution is None:
        return covariance_root(data.kernel() + float(network.bias), rank=True)[:, ::-1]
    patches = patches_of(data.all_inputs(), network.convolution)
    rows = patches.reshape(-1, patches.shape[-1])
    kernel = rows @ rows.T / rows.shape[1] + float(network.bias)
    F = covariance_root(kernel, rank=True)[:, ::-1]
    return F.reshape(*patches.shape[:2], -1)


def patches_of(inputs: np.ndarray, convolution: Convolution) -> np.ndarray:
    """The inputs that every position sees, side by side: points × positions × kernel·channels."""
    x = inputs.reshape(len(inputs), convolution.positions, -1)
    shifted = [np.roll(x, -q, axis=1) for q in range(convolution.kernel)]
    return np.concatenate(shifted, axis=-1)
