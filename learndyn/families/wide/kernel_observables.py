"""Kernels of wide networks as observables: those at two times, and what follows from them at equal times."""

import numpy as np
from jaxtyping import Float

from learndyn.families.wide.observables import kernel_summaries
from learndyn.families.wide.problem_arrays import WideSetting
from learndyn.problem.activations import Activation, Linear, Polynomial


def is_linear(activation: Activation) -> bool:
    """Whether φ(h) = h."""
    if isinstance(activation, Polynomial):
        c = np.asarray(activation.coefficients)
        return len(c) >= 2 and c[1] == 1 and not np.any(np.delete(c, 1))
    return isinstance(activation, Linear)


def tangent_kernel(
    setting: WideSetting, Phi: Float[np.ndarray, "L n p p"], G: Float[np.ndarray, "L n p C p C"]
) -> Float[np.ndarray, "n p C p C"]:
    """K_μc,αc' = Σ_{ℓ=0}^L G^{ℓ+1} Φ^ℓ from the kernels Φ and G at equal times."""
    n, p, C = Phi.shape[1], setting.points, setting.outputs
    inputs = np.broadcast_to(setting.K, (1, n, p, p))
    below = np.concatenate([inputs, Phi[:-1]]) + setting.bias
    kernel = np.einsum("ltmcad,ltma->tmcad", G, below)
    return kernel + Phi[-1][:, :, None, :, None] * np.eye(C)[None, None, :, None]


def with_summaries(
    setting: WideSetting, Phi: Float[np.ndarray, "L n p n p"], G: Float[np.ndarray, "L n p C n p C"]
) -> dict[str, np.ndarray]:
    """Φ and G at two times, and from their values at equal times the NTK, the alignment and the movement of Φ."""
    now = np.arange(Phi.shape[1])
    Phi_now = Phi[:, now, :, now].transpose(1, 0, 2, 3)
    G_now = G[:, now, :, :, now].transpose(1, 0, 2, 3, 4, 5)
    kernel = tangent_kernel(setting, Phi_now, G_now)
    return {"Phi": Phi, "G": G, "kernel": kernel} | kernel_summaries(Phi_now, setting.loss.targets)


def of_linear_units(
    setting: WideSetting, H: Float[np.ndarray, "L n p n p"], G: Float[np.ndarray, "L n C n C"]
) -> dict[str, np.ndarray]:
    """Kernels of linear units from H and G; G is the same for all points."""
    ones = np.ones(setting.points)
    return with_summaries(setting, H, np.einsum("ltcsd,m,a->ltmcsad", G, ones, ones))
