"""The observables of a training in panels, at any times: between nodes by the polynomial of the panel."""

import numpy as np
from jaxtyping import Float

from learndyn.families.deep_linear.limit_numbers import DATASET
from learndyn.families.deep_linear.observables import alignment, part_left, tangent_kernel
from learndyn.families.deep_linear.panel_training import PanelTraining


def read(state: PanelTraining, times: Float[np.ndarray, " k"]) -> dict[str, np.ndarray]:
    """Losses, their decomposition and all correlations at `times`."""
    numbers, Nc = state.numbers, state.numbers.outputs
    E = state.interpolation(times)
    rows = slice(0, state.limit.rows)
    of_input = {
        name: getattr(state.limit.input, name)[rows, rows]
        for name in ("C_v", "C_b", "C_Delta", "C_h0")
    }

    def trace(values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " k"]:
        return E @ values.reshape(-1, Nc).sum(axis=1)

    def two_times(C: Float[np.ndarray, "rows rows"]) -> Float[np.ndarray, "k c k c"]:
        n = len(state.times)
        return np.einsum("kt,tcsd,ls->kcld", E, C.reshape(n, Nc, n, Nc), E, optimize=True)

    errors = np.diagonal(of_input["C_v"])
    along, power = state.limit.input.along[:, rows], numbers.omega * numbers.lam
    bias = power @ ((along @ numbers.gram) * along).sum(axis=2)
    zero = np.arange(state.limit.rows) % Nc
    overlap = (along * numbers.gram[:, zero]).sum(axis=2)
    target = np.einsum("kcc->k", numbers.gram)
    arrays = {
        "test_loss": trace(errors) + Nc * numbers.noise**2,
        "bias": trace(bias),
        "width_variance": trace(np.diagonal(of_input["C_b"]) - bias),
        "data_variance": trace(errors - np.diagonal(of_input["C_b"])),
        "alignment": alignment(trace(power @ overlap), trace(errors), float(power @ target)),
        "kernel": _kernel(state, E),
        "C_v": two_times(of_input["C_v"]),
        "C_h0": two_times(of_input["C_h0"]),
    }
    if numbers.data == DATASET:
        arrays["train_loss"] = trace(np.diagonal(of_input["C_Delta"]))
        arrays["C_Delta"] = two_times(of_input["C_Delta"])
    if numbers.shows_modes:
        losses = state.limit.input.mode_losses(state.limit.rows)
        arrays["mode_loss"] = np.stack([*map(trace, losses)], axis=1)
        arrays["transfer"] = part_left(np.stack([*map(trace, overlap)], axis=1), target)
    layers = state.limit.layers
    arrays["C_h"] = np.stack([two_times(layer.C_h[rows, rows]) for layer in layers])
    arrays["C_g"] = np.stack([two_times(layer.C_g[rows, rows]) for layer in layers])
    return arrays


def read_with_responses(
    state: PanelTraining, times: Float[np.ndarray, " k"]
) -> dict[str, np.ndarray]:
    """The same with all responses: each of the `times` has a node whose force acts in one step only."""
    numbers, n, Nc = state.numbers, len(state.times), state.numbers.outputs
    rows, nodes = slice(0, n * Nc), np.searchsorted(state.times, times, side="right") - 1

    def between(X: Float[np.ndarray, "rows rows"]) -> Float[np.ndarray, "k c k c"]:
        return X[rows, rows].reshape(n, Nc, n, Nc)[nodes][:, :, nodes]

    of_input, layers = state.limit.input, state.limit.layers
    # The response to the decayed d r⁰, as in the rows.
    R_hr0 = -of_input.RH[rows, rows]
    if numbers.centered:
        R_hr0[:, :Nc] += of_input.RH[rows, rows].reshape(n * Nc, n, Nc).sum(axis=1)
    R_vu = -of_input.mean_H[rows, rows] @ of_input.A[rows, rows]
    arrays = read(state, times) | {"R_vu": between(R_vu), "R_hr0": between(R_hr0)}
    if numbers.data == DATASET:
        arrays["R_Delta"] = between(of_input.R)
    arrays["R_hr"] = np.stack([between(layer.H_r) for layer in layers])
    arrays["R_gu"] = np.stack([between(layer.G_u) for layer in layers])
    return arrays


def _kernel(
    state: PanelTraining, E: Float[np.ndarray, "k nodes"]
) -> Float[np.ndarray, "k outputs outputs"]:
    """The tangent kernel."""
    n, Nc = len(state.times), state.numbers.outputs
    same, rows = np.arange(n), slice(0, n * Nc)
    C_g = np.stack(
        [layer.C_g[rows, rows].reshape(n, Nc, n, Nc)[same, :, same] for layer in state.limit.layers]
    )
    return np.einsum("kt,tcd->kcd", E, tangent_kernel(C_g, state.d, state.numbers))
