"""The forward pass of a wide network as a Gaussian program.

In the scaling of `learndyn.programs` a matrix has entries N(0, 1/N), so that

    h^1 = F V,   h^{ℓ+1} = W^ℓ φ(h^ℓ) + b^ℓ,   f_c = ⟨w_c φ(h^L)⟩/γ_0,

with normal vectors V_k over the first layer and a root F of the inputs' kernel, F Fᵀ = K + 1 with biases and K without:
networks see their inputs only through K, and the bias of the first layer is one more input that is always 1. The
columns of F fall in size, because the first normals of a dimension are the most even ones.

The readout w is drawn when the features φ(h^L) of all points are known, and apart from them, so that the limit starts
from f = 0 exactly.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learndyn.numerics.covariance import covariance_root
from learndyn.problem.problem import Problem
from learndyn.programs import Net, einsum, mean
from learndyn.programs.activations import activated
from learndyn.programs.values import Value


class ProgramFields(NamedTuple):
    """Fields of a network on its points: h^ℓ and φ(h^ℓ), ℓ = 1 … L (points), and the outputs f (points × outputs)."""

    h: list[Value]
    phi: list[Value]
    f: Value


class ForwardPass:
    """The weights of a wide network, and its fields on points of its problem."""

    def __init__(self, net: Net, problem: Problem):
        network, self.net = problem.network, net
        self.activation, self.gamma = network.activation, float(network.richness)
        self.inputs = input_root(problem)
        self.dims = [net.dim(f"layer {ell}") for ell in range(1, network.depth + 1)]
        self.V = net.normal(self.dims[0], self.inputs.shape[1])
        self.matrices = [
            net.matrix(above, below, name=f"W{ell}")
            for ell, (below, above) in enumerate(pairwise(self.dims), 1)
        ]
        self.biases = [net.normal(dim) for dim in self.dims[1:]] if network.bias else []
        _, features = self.hidden(slice(None))
        self.w = net.normal(self.dims[-1], problem.data.outputs, apart_from=features[-1])

    def hidden(self, points: slice) -> tuple[list[Value], list[Value]]:
        """h and φ(h) of all layers."""
        h = einsum("pk,k->p", self.inputs[points], self.V)
        preactivations, features = [h], [activated(self.activation, h)]
        for ell, W in enumerate(self.matrices):
            h = W @ features[-1]
            if self.biases:
                h = h + self.biases[ell]
            preactivations.append(h)
            features.append(activated(self.activation, h))
        return preactivations, features

    def __call__(self, points: slice) -> ProgramFields:
        """The fields of some of the points, which are numbered with the trained ones first."""
        h, phi = self.hidden(points)
        return ProgramFields(h, phi, mean(phi[-1][:, None] * self.w) / self.gamma)


def input_root(problem: Problem) -> np.ndarray:
    """F (points × rank), the largest column first."""
    return covariance_root(problem.data.kernel() + float(problem.network.bias), rank=True)[:, ::-1]
