"""The weights of finite two-layer networks, drawn with given overlaps."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from learndyn.families.two_layer.student_teacher import OrderParameters
from learndyn.numerics.covariance import covariance_root


class TwoLayerWeights(NamedTuple):
    """A finite network and its teacher: student weights W (K×N), readout v, teacher weights W* (M×N)."""

    W: Float[Array, "K N"]
    v: Float[Array, " K"]
    W_star: Float[Array, "M N"]


def draw_weights(
    start: OrderParameters, T: Float[Array, "M M"], size: int, rng: np.random.Generator
) -> TwoLayerWeights:
    """Weights in `size` dimensions, uniform among those with exactly the overlaps of `start` and `T`."""
    K, M = start.R.shape
    C = np.block([[start.Q, start.R], [start.R.T, T]])
    frame, _ = np.linalg.qr(rng.standard_normal((size, K + M)))
    both = np.sqrt(size) * covariance_root(C) @ frame.T
    return TwoLayerWeights(jnp.asarray(both[:K]), start.v, jnp.asarray(both[K:]))


def overlaps(weights: TwoLayerWeights) -> OrderParameters:
    """Q = WWᵀ/N, R = WW*ᵀ/N, v."""
    N = weights.W.shape[1]
    W = weights.W
    return OrderParameters(W @ W.T / N, W @ weights.W_star.T / N, weights.v)
