"""Inputs revealed as far as they are asked: the training loop as a Gaussian program, for any activation.

X is known through its products with orthonormal directions of weights and of forces (`learndyn.programs`). Nothing is
differentiated twice, so that kinks need no care, and the cost grows with the directions instead of the cube of the
steps. The forced part of h is read off: with the directions V_j of the forces and the coordinates c_ij(t) of w_i(t) in
the normals that were drawn with V_j, it is Σ_j V_j c_ij(t)/√γ. The response functions are not: they would be the
solution of Σ_s τ_s R_w(t, s) ⟨g(s) V_j⟩ = √γ c_j(t), whose matrix is singular to any precision for small steps.

Averages with normals stand in for derivatives, ⟨g ε⟩ for ⟨∂g/∂ε⟩. So the noise is larger than with traced inputs, and
the bias of order 1/samples too.
"""

import numpy as np

from learndyn.families.two_layer.reused.equations import (
    Inputs,
    ReusedSetting,
    ReusedTraining,
    State,
)
from learndyn.programs import Net, einsum
from learndyn.programs.affine import Affine
from learndyn.programs.values import Value

INPUTS = "inputs"
"""The dimension of the weights. In the limit its vectors are linear in normal ones."""


class RevealedInputs(Inputs):
    """X as a matrix of a program; as a network it has D rows of weights and P examples."""

    def __init__(self, net: Net, setting: ReusedSetting):
        self.net, self.setting = net, setting
        self.D, self.P = net.dim(INPUTS), net.dim("examples", setting.ratio)
        self.X = net.matrix(self.P, self.D, trained=False)
        self.scale = self.D.site.scale

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        w_star, w = self.setting.coordinates()
        xi = self.net.normal(self.D, w.shape[1], trained=False)
        unwrapped = self.D.site.unwrapped
        w_star, w = (unwrapped(einsum("km,m->k", x, xi).data) for x in (w_star, w))
        return w_star, w, self.fields(w_star), self.net.normal(self.P, trained=False).data

    def fields(self, w: np.ndarray) -> np.ndarray:
        vectors = Affine(w) if self.D.site.grows else w
        return (self.X @ Value(self.net, vectors, self.D)).data

    def force(self, w: np.ndarray, state: State) -> np.ndarray:
        self.net.record(train_loss=np.mean(state.Delta**2) / 2)
        if self.net.last:
            return np.zeros_like(w)
        products = self.X.T @ Value(self.net, state.g, self.P)
        return self.D.site.unwrapped(products.data) / self.setting.ratio

    def chosen(self, fraction: float) -> np.ndarray:
        return self.net.mask(self.P, fraction).data

    def forced(self, w: np.ndarray) -> np.ndarray | None:
        if not self.D.site.grows:
            return None
        V, setting = self.X.gaussian.V, self.setting
        # Behind the constant and the normals of the start, every direction V_j has brought one normal.
        c = w[:, 1 + setting.teachers + setting.hidden :]
        return c @ V.rows[: c.shape[1]] / np.sqrt(setting.ratio)


def trained(net: Net, training: ReusedTraining) -> None:
    """The training loop as a program."""
    setting = training.setting
    training.follow(RevealedInputs(net, setting), net.steps(len(setting.grid.tau)))
