"""Kernels of wide networks at equal times, from those at two times."""

import numpy as np

from learndyn.families.wide.observables import kernel_summaries
from learndyn.families.wide.setting import Setting
from learndyn.problem.activations import Linear, Polynomial


def is_linear(activation) -> bool:
    """Whether φ(h) = h."""
    if isinstance(activation, Polynomial):
        c = np.asarray(activation.coefficients)
        return len(c) >= 2 and c[1] == 1 and not np.any(np.delete(c, 1))
    return isinstance(activation, Linear)


def tangent_kernel(made: Setting, Phi, G) -> np.ndarray:
    """K_μc,αc' = Σ_{ℓ=0}^L G^{ℓ+1} Φ^ℓ from equal-time kernels Φ (L, n, p, p), G (L, n, p, C, p, C)."""
    n, p, C = Phi.shape[1], made.points, made.outputs
    inputs = np.broadcast_to(made.K, (1, n, p, p))
    below = np.concatenate([inputs, Phi[:-1]]) + made.bias
    kernel = np.einsum("ltmcad,ltma->tmcad", G, below)
    return kernel + Phi[-1][:, :, None, :, None] * np.eye(C)[None, None, :, None]


def with_summaries(made: Setting, Phi, G) -> dict[str, np.ndarray]:
    """Φ and G at two times, and what they are at equal times: the NTK, its alignment and its movement."""
    now = np.arange(Phi.shape[1])
    equal = Phi[:, now, :, now].transpose(1, 0, 2, 3)
    gradients = G[:, now, :, :, now].transpose(1, 0, 2, 3, 4, 5)
    kernel = tangent_kernel(made, equal, gradients)
    return {"Phi": Phi, "G": G, "kernel": kernel} | kernel_summaries(equal, made.loss.targets)


def of_linear_units(made: Setting, H, G) -> dict[str, np.ndarray]:
    """Kernels of linear units from H (L, n, p, n, p) and G (L, n, C, n, C), which does not depend on the points."""
    every = np.ones(made.points)
    return with_summaries(made, H, np.einsum("ltcsd,m,a->ltmcsad", G, every, every))
