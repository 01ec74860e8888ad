"""Convolutional networks in the parameterisation of wide ones."""

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.papers.convolutional import figure_5
from learndyn.papers.convolutional_network import outputs, stripes, train_convolutional

TRAIN, TEST = stripes(12, seed=0), stripes(8, seed=1)
SETTING = {"depth": 2, "rate": 0.2, "seed": 0}


def test_stripes_have_both_kinds_and_their_direction():
    images, y = stripes(40, noise=0.0, seed=3)
    assert images.shape == (40, 8, 8, 1)
    assert y.sum() == 0
    across, along = images[y > 0, :, :, 0], images[y < 0, :, :, 0]
    assert np.all(across.std(axis=2) < 1e-12)
    assert np.all(along.std(axis=1) < 1e-12)


def test_output_of_one_pixel_is_that_of_a_dense_network():
    """On images of one pixel only the centre of a 3×3 filter acts: h = W x/√(9n_0), f = w·relu(h)/(γ_0 N)."""
    rng = np.random.default_rng(0)
    W, w = rng.standard_normal((3, 3, 2, 5)), rng.standard_normal(5)
    V = rng.standard_normal((3, 3, 5, 5))
    x = rng.standard_normal((4, 1, 1, 2))
    f, kernel = outputs([jnp.asarray(a, jnp.float32) for a in (W, V, w)], jnp.asarray(x), 0.7)
    h = np.maximum(x[:, 0, 0] @ W[1, 1] / np.sqrt(18), 0) @ V[1, 1] / np.sqrt(45)
    a = np.maximum(h, 0)
    np.testing.assert_allclose(f, a @ w / (0.7 * 5), rtol=1e-4, atol=1e-6)  # single precision
    np.testing.assert_allclose(kernel, a @ a.T / 5, rtol=1e-4, atol=1e-6)


def test_lazy_networks_follow_their_tangent_kernel():
    """As γ_0 → 0 a step moves f by η K (y − f)/P with K = γ_0² N ∇f·∇f, up to O(γ_0) and single precision."""
    gamma, N, eta = 1e-2, 8, 0.2
    options = SETTING | {"channels": N, "richness": gamma}
    run = train_convolutional(*TRAIN, *TEST, steps=1, **options)
    rng = np.random.default_rng(0)
    shapes = [(3, 3, 1, N), (3, 3, N, N), (N,)]
    weights = [jnp.asarray(rng.standard_normal(s), jnp.float32) for s in shapes]
    x, y = jnp.asarray(TRAIN[0], jnp.float32), TRAIN[1]
    slopes = jax.jacobian(lambda w: outputs(w, x, gamma)[0])(weights)
    J = np.concatenate([np.asarray(s).reshape(len(y), -1) for s in slopes], axis=1)
    f = eta / len(y) * gamma**2 * N * J @ J.T @ y
    expected = 0.5 * np.mean((y - f) ** 2)
    assert abs(float(run["train_loss"][0]) - 0.5) < 1e-6
    assert abs(float(run["train_loss"][1]) - expected) < 0.02 * (0.5 - expected)


def test_curves_depend_on_richness_more_than_on_width():
    """Differences between widths are those of chance, about 1/√N; between richnesses they are of order one."""
    losses = {}
    for gamma in (0.5, 2.0):
        for width in (32, 64):
            runs = [
                train_convolutional(
                    *TRAIN,
                    *TEST,
                    steps=30,
                    every=30,
                    channels=width,
                    richness=gamma,
                    depth=2,
                    rate=0.2,
                    seed=seed,
                )
                for seed in range(4)
            ]
            losses[gamma, width] = np.mean([float(run["train_loss"][-1]) for run in runs])
    between_widths = max(abs(losses[g, 32] - losses[g, 64]) for g in (0.5, 2.0))
    between_richnesses = min(abs(losses[0.5, n] - losses[2.0, n]) for n in (32, 64))
    assert between_richnesses > 2 * between_widths


def test_the_figure_has_a_curve_for_each_width_and_richness():
    figure = figure_5(lambda done: None, (4, 8), (0.5, 1.0), seeds=2, steps=4, points=6)
    assert len(figure.axes) == 3
    for panel in figure.axes:
        assert len(panel.lines) == 4
        assert panel.get_xlabel()
        assert panel.get_ylabel()
