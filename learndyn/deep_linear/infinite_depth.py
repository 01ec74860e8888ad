"""The limit of infinite depth, β = β_0/√L with L → ∞: residual networks of finite depth, extrapolated.

With n residual blocks of the branch scale β² = exp(β_0²/n) − 1, which has the right initial norms at every n, the
observables have an expansion in 1/n. They are computed at a few n and extrapolated to 1/n = 0 by the polynomial
through all of them; the difference from the extrapolation without the smallest n is the stated accuracy. Layers
become the layer time τ = (ℓ − 1)/n, recorded where all the depths have a layer. Near instability the expansion fails;
a test loss that is uncertain by a tenth of itself counts as not converged.
"""

import dataclasses

import numpy as np

from learndyn.theory import Observable

BLOCKS = (8, 16, 32, 64)
"""Numbers of residual blocks that are extrapolated."""


def finite_depth(problem, blocks: int):
    """The problem with so many residual blocks, whose branch scale suits the limit of infinite depth."""
    beta = float(np.sqrt(np.expm1(problem.network.skip.beta0**2 / blocks)))
    network = dataclasses.replace(problem.network, depth=blocks + 1, skip=beta)
    return dataclasses.replace(problem, network=network)


def extrapolated(sequence: list[np.ndarray], sizes) -> tuple[np.ndarray, np.ndarray]:
    """The values at 1/size = 0 of the polynomials in 1/size through the sequence, and their estimated errors."""

    def at_zero(values, sizes):
        x = 1.0 / np.asarray(sizes, dtype=float)
        weights = [np.prod([b / (b - a) for b in x if b != a]) for a in x]
        return np.tensordot(weights, np.stack(values), axes=1)

    best, rough = at_zero(sequence, sizes), at_zero(sequence[1:], sizes[1:])
    return best, np.abs(best - rough)


def at_layer_times(observables: dict[str, Observable]) -> dict[str, Observable]:
    """The observables with the axis "layer" thinned out to the layer times that all depths have."""
    found = {}
    for name, observable in observables.items():
        if "layer" not in observable.dims:
            found[name] = observable
            continue
        values = np.asarray(observable.values)
        stride = (len(values) - 1) // BLOCKS[0]
        dims = tuple("tau" if dim == "layer" else dim for dim in observable.dims)
        found[name] = dataclasses.replace(observable, dims=dims, values=values[::stride])
    return found


def layer_times() -> np.ndarray:
    """τ of the recorded layers."""
    return np.linspace(0.0, 1.0, BLOCKS[0] + 1)
