"""The paper's algorithm: sample all layers from the present kernels, average, go part of the way there, and repeat.

Kernels at all pairs of times start from their values at the beginning of training. In an iteration every layer is
sampled as a whole trajectory from the kernels of its neighbours in the previous iteration; the outputs follow the
tangent kernel, f(t+1) = f(t) + ηK(t, t)E(t), because the direct readout overflows long before the iteration
converges. So the result differs from descent by O(η), and only plain gradient descent is possible.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from learndyn.core.progressing import Report
from learndyn.errors import NotConverged
from learndyn.families.wide.equations.sampled import (
    Adjoint,
    Layer,
    SampledSweep,
    Stein,
    backward,
    forward,
    tangent_step,
)
from learndyn.families.wide.problem_arrays import WideSetting


class Kernels(NamedTuple):
    """Φ, G, A and B of one layer at all pairs of times, as in `Layer`."""

    Phi: np.ndarray
    G: np.ndarray
    A: np.ndarray
    B: np.ndarray

    def toward(self, layer: Layer, step: float) -> "Kernels":
        """The kernels a fraction `step` of the way from these to those of a sampled layer."""
        pairs = zip(self, (layer.Phi, layer.G, layer.A, layer.B), strict=True)
        return Kernels(*(old + step * (new - old) for old, new in pairs))


def alternate(
    setting: WideSetting,
    samples: int,
    seed: np.random.SeedSequence,
    report: Report,
    stein: bool,
    damping: float,
    tolerance: float,
    iterations: int,
    precision: str,
) -> SampledSweep:
    """One batch, with the same normals in every iteration, until no output changes by more than `tolerance`."""
    L = setting.depth
    children = seed.spawn(L)
    entropy = [(child.entropy, child.spawn_key) for child in children]
    kernels = _initial(setting, samples, children)
    f, E = _outputs(setting, kernels)
    change = np.inf
    for iteration in range(iterations):
        layers = []
        for index in range(L):
            key, spawn_key = entropy[index]
            same_seed = np.random.SeedSequence(key, spawn_key=spawn_key)
            layers.append(
                _sampled_layer(setting, samples, same_seed, kernels, index, E, stein, precision)
            )
            report((iteration + (index + 1) / L) / iterations)
        kernels = [old.toward(new, damping) for old, new in zip(kernels, layers, strict=True)]
        f_new, E_new = _outputs(setting, kernels)
        if not np.all(np.isfinite(f_new)):
            raise NotConverged(
                f"iteration {iteration} of whole trajectories overflowed; use a smaller damping, or SampledLayers, "
                "which needs no iteration"
            )
        change, f, E = float(np.max(np.abs(f_new - f))), f_new, E_new
        if change <= tolerance:
            return SampledSweep(f, layers, setting.states)
    raise NotConverged(
        f"after {iterations} iterations an output still changes by {change:.2g}; use more iterations, or "
        "SampledLayers, which does not iterate"
    )


def _initial(
    setting: WideSetting, samples: int, seeds: Sequence[np.random.SeedSequence]
) -> list[Kernels]:
    """Kernels that keep their initial values at all times."""
    n, p, C = setting.states, setting.points, setting.outputs
    layers = [Layer(1, p, C, samples, seed) for seed in seeds]
    E = np.zeros((1, p, C))
    for index, layer in enumerate(layers):
        forward(setting, layer, layers[index - 1] if index else None, E, 0)
    for index in reversed(range(len(layers))):
        above = layers[index + 1] if index + 1 < len(layers) else None
        backward(setting, layers[index], above, E, 0)
    kernels = []
    for layer in layers:
        Phi = np.broadcast_to(layer.Phi, (n, p, n, p)).copy()
        G = np.broadcast_to(layer.G, (n, p, C, n, p, C)).copy()
        kernels.append(Kernels(Phi, G, np.zeros((n, p, n, p, C)), np.zeros((n, p, C, n, p))))
    return kernels


def _outputs(setting: WideSetting, kernels: list[Kernels]) -> tuple[np.ndarray, np.ndarray]:
    """f and E at all states, following the tangent kernel."""
    n, p, C = setting.states, setting.points, setting.outputs
    f, E = np.zeros((n, p, C)), np.zeros((n, p, C))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(n):
            E[t] = setting.loss.force(f[t])
            if t + 1 < n:
                f[t + 1] = f[t] + setting.k[t + 1, t] * tangent_step(setting, kernels, E[t], t)
    return f, E


def _sampled_layer(
    setting: WideSetting,
    samples: int,
    seed: np.random.SeedSequence,
    kernels: list[Kernels],
    index: int,
    E: Float[np.ndarray, "states points C"],
    stein: bool,
    precision: str,
) -> Layer:
    """One layer at all states, from the kernels of its neighbours."""
    n, p, C = setting.states, setting.points, setting.outputs
    layer = Layer(n, p, C, samples, seed, precision)
    response = Stein() if stein else Adjoint(n, p, C, samples, precision)
    below = kernels[index - 1] if index else None
    above = kernels[index + 1] if index + 1 < len(kernels) else None
    for t in range(n):
        forward(setting, layer, below, E, t)
        if above is not None and t:
            layer.A[t, :, :t] = response.of_features(layer, t)
        backward(setting, layer, above, E, t)
        if below is not None:
            layer.B[t, :, :, : t + 1] = response.of_gradients(layer, t)
    return layer
