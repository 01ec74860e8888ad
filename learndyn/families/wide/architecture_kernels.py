"""Kernels of wide networks with a convolution, another learning rule, skips or layer norm, from fields of samples.

Features φ^ℓ have the axes points × positions × samples, fields g^ℓ points × outputs × positions × samples, with one
position if there is no convolution. With Γ_ab = 1/S² ("gap") or δ_ab/S ("flat"), patches 𝒯M_ab = Σ_q M_{a+q,b+q}/k, and
the scale β_ℓ of the branches, one in the first layer,

    Φ^ℓ_μα = Σ_ab Γ_ab ⟨φ^ℓ_μa φ^ℓ_αb⟩,   G^ℓ_μα = ⟨Σ_a g^ℓ_μa Σ_b g^ℓ_αb⟩,
    K_μα = Φ^L_μα + Σ_ℓ β_ℓ² Σ_ab ⟨ḡ^{ℓ+1}_μa g^{ℓ+1}_αb⟩ (𝒯⟨φ^ℓ_μ φ^ℓ_α⟩_ab + bias),

where g are the fields of the learning rule, and ḡ those of the gradient. Φ^ℓ and G^ℓ are those of a fully connected
network if the inputs are the same at all positions. To first order in the rate, a step moves f by ηKE.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from learndyn.families.wide.network import Wide


def positions_behind(network: Wide, field: np.ndarray) -> np.ndarray:
    """The field with an axis of positions before that of samples."""
    return field if network.convolution is not None else field[..., None, :]


def pooled(network: Wide, phi: np.ndarray) -> Float[np.ndarray, "points m"]:
    """Vectors whose mean products are Φ: the mean over positions, or all positions side by side."""
    phi = positions_behind(network, phi)
    if network.convolution is not None and network.convolution.readout == "flat":
        return phi.reshape(len(phi), -1)
    return phi.mean(1)


def summed(network: Wide, g: np.ndarray) -> Float[np.ndarray, "points C samples"]:
    """Fields summed over positions."""
    return positions_behind(network, g).sum(2)


def tangent_kernel(
    network: Wide,
    inputs: np.ndarray,
    phi: Sequence[np.ndarray],
    g: Sequence[np.ndarray],
    true: Sequence[np.ndarray],
) -> Float[np.ndarray, "points C points C"]:
    """K of all points, from a root F of the inputs' kernel, features, fields of the rule and true fields."""
    C = g[0].shape[1]
    last = pooled(network, phi[-1]).astype(float)
    kernel = np.einsum("pq,cd->pcqd", last @ last.T / last.shape[1], np.eye(C))
    F = positions_behind(network, inputs)
    below, branch = np.einsum("pak,qbk->paqb", F, F), 1.0
    for ell, (pseudo, gradient) in enumerate(zip(g, true, strict=True)):
        left, right = (positions_behind(network, x).astype(float) for x in (gradient, pseudo))
        rows = [x.reshape(-1, x.shape[-1]) for x in (left, right)]
        G = (rows[0] @ rows[1].T / rows[0].shape[1]).reshape(*left.shape[:3], *right.shape[:3])
        kernel += branch**2 * np.einsum("pcaqdb,paqb->pcqd", G, below)
        if ell + 1 < len(g):
            below = _patches(network, positions_behind(network, phi[ell]).astype(float))
            branch = 1.0 if network.branch is None else network.branch
    return kernel


def _patches(network: Wide, phi: Float[np.ndarray, "p S n"]) -> Float[np.ndarray, "p S p S"]:
    """𝒯⟨φφ⟩, and one more with biases."""
    rows = phi.reshape(-1, phi.shape[-1])
    kernel = (rows @ rows.T / rows.shape[1]).reshape(*phi.shape[:2], *phi.shape[:2])
    if network.convolution is not None:
        offsets = range(network.convolution.kernel)
        kernel = np.mean([np.roll(kernel, (-q, -q), axis=(1, 3)) for q in offsets], axis=0)
    return kernel + float(network.bias)
