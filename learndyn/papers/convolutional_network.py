"""Convolutional networks of finite width in the parameterisation of `Wide`.

With N channels in each of L layers of 3×3 convolutions, images of n_0 channels and φ = relu,

    h^1 = W^0 * x/√(9 n_0),   h^{ℓ+1} = W^ℓ * φ(h^ℓ)/√(9N),   f = w·a/(γ_0 N),   a = mean of φ(h^L) over pixels,

all weights N(0, 1) at the start and θ ← θ − ηγ_0²N ∇𝓛, 𝓛 = (1/2P) Σ_μ (y_μ − f_μ)². As for fully connected networks
the dynamics at fixed γ_0 does not depend on N, if N is large: there is no solver of the limit here, but networks show
it. All is in single precision, whose rounding is far below the scatter of networks.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float


def stripes(
    count: int, pixels: int = 8, noise: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Images of stripes across (y = 1) or along (y = −1), with random phases and noise, and their targets y."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.where(np.arange(count) % 2, 1.0, -1.0))
    phase = rng.uniform(0, 2 * np.pi, count)
    wave = np.sin(np.arange(pixels) * np.pi / 2 + phase[:, None])
    images = np.where(y[:, None, None] > 0, wave[:, :, None], wave[:, None, :])
    images = np.sqrt(2.0) * images + noise * rng.standard_normal((count, pixels, pixels))
    return images[..., None], y


def train_convolutional(
    images: Float[np.ndarray, "P height width channels"],
    targets: Float[np.ndarray, " P"],
    test_images: Float[np.ndarray, "test height width channels"],
    test_targets: Float[np.ndarray, " test"],
    *,
    channels: int,
    depth: int,
    richness: float,
    rate: float,
    steps: int,
    seed: int = 0,
    every: int = 1,
) -> xr.Dataset:
    """Train one network, and record its losses, test error and the alignment of the last kernel with the targets.

    The kernel is a_μ·a_α/N of the trained images, and the initial function is subtracted.

    - `images`, `targets`: trained images and their y = ±1; `test_images`, `test_targets`: those of the test.
    - `channels` (N): channels of every hidden layer.
    - `depth` (L): number of convolutions.
    - `richness` (γ_0): how much features move.
    - `rate` (η): learning rate.
    - `steps`: number of steps.
    - `seed`: seed of the initial weights. 0 unless given.
    - `every`: steps between recorded states. 1 unless given.
    """
    x, z = (jnp.asarray(v, jnp.float32) for v in (images, test_images))
    y, y_test = (jnp.asarray(v, jnp.float32) for v in (targets, test_targets))
    rng = np.random.default_rng(seed)
    shapes = [(3, 3, x.shape[-1], channels)] + [(3, 3, channels, channels)] * (depth - 1)
    weights = [jnp.asarray(rng.standard_normal(s), jnp.float32) for s in (*shapes, (channels,))]
    initial = {name: outputs(weights, v, richness)[0] for name, v in (("x", x), ("z", z))}
    rows = []
    square = np.outer(targets, targets)
    for step in range(steps + 1):
        if step % every == 0:
            f, kernel = outputs(weights, x, richness)
            f_test, _ = outputs(weights, z, richness)
            f, f_test = f - initial["x"], f_test - initial["z"]
            kernel = np.asarray(kernel)
            aligned = np.sum(kernel * square) / np.linalg.norm(kernel) / np.linalg.norm(square)
            # An output of zero, as at the start, counts as half an error.
            wrong = float(jnp.mean(0.5 * (1 - jnp.sign(f_test) * jnp.sign(y_test))))
            losses = [0.5 * float(jnp.mean((a - b) ** 2)) for a, b in ((y, f), (y_test, f_test))]
            rows.append([*losses, wrong, aligned])
        if step < steps:
            weights = _step(weights, x, y, initial["x"], richness, rate)
    names = ("train_loss", "test_loss", "test_error", "alignment")
    columns = np.array(rows).T
    return xr.Dataset(
        {name: ("step", column) for name, column in zip(names, columns, strict=True)},
        {"step": np.arange(0, steps + 1, every)},
    )


@jax.jit
def outputs(
    weights: list[Array], x: Float[Array, "P height width channels"], richness: float
) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
    """f (images) and the kernel a_μ·a_α/N of the pooled features."""
    *filters, w = weights
    h = x
    for index, W in enumerate(filters):
        h = jax.nn.relu(h) if index else h
        h = lax.conv_general_dilated(
            h, W, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        h = h / np.sqrt(9 * W.shape[2])
    a = jnp.mean(jax.nn.relu(h), axis=(1, 2))
    return a @ w / (richness * len(w)), a @ a.T / len(w)


@partial(jax.jit, donate_argnums=0)
def _step(
    weights: list[Array],
    x: Float[Array, "P height width channels"],
    y: Float[Array, " P"],
    initial: Float[Array, " P"],
    richness: float,
    rate: float,
) -> list[Array]:
    """θ − ηγ_0²N ∇𝓛, the weights after one step."""

    def loss(weights: list[Array]) -> Float[Array, ""]:
        f, _ = outputs(weights, x, richness)
        return 0.5 * jnp.mean((y - f + initial) ** 2)

    raw = rate * richness**2 * len(weights[-1])
    return jax.tree.map(lambda w, g: w - raw * g, weights, jax.grad(loss)(weights))
