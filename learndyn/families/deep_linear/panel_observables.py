"""The observables of a training in panels, at any times: between nodes by the polynomial of the panel."""

import numpy as np
from jaxtyping import Float

from learndyn.families.deep_linear.limit_numbers import DATASET
from learndyn.families.deep_linear.observables import alignment
from learndyn.families.deep_linear.panel_training import PanelTraining


def read(state: PanelTraining, times: Float[np.ndarray, " k"]) -> dict[str, np.ndarray]:
    """Losses, their decomposition and all correlations at `times`."""
    numbers, Nc = state.numbers, state.numbers.outputs
    E = state.interpolation(times)
    rows = slice(0, state.limit.rows)
    of_input = {
        name: getattr(state.limit.input, name)[rows, rows]
        for name in ("C_v", "C_b", "C_Delta", "C_h0", "H")
    }

    def trace(values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " k"]:
        return E @ values.reshape(-1, Nc).sum(axis=1)

    def two_times(C: Float[np.ndarray, "rows rows"]) -> Float[np.ndarray, "k c k c"]:
        n = len(state.times)
        return np.einsum("kt,tcsd,ls->kcld", E, C.reshape(n, Nc, n, Nc), E, optimize=True)

    errors = np.diagonal(of_input["C_v"])
    along = of_input["H"] @ np.kron(np.ones((len(state.times), 1)), np.eye(Nc))
    gram = numbers.gram[0]
    bias = ((along @ gram) * along).sum(axis=1)
    zero = np.arange(state.limit.rows) % Nc
    overlap = (along * gram[zero]).sum(axis=1)
    arrays = {
        "test_loss": trace(errors) + Nc * numbers.noise**2,
        "bias": trace(bias),
        "width_variance": trace(np.diagonal(of_input["C_b"]) - bias),
        "data_variance": trace(errors - np.diagonal(of_input["C_b"])),
        "alignment": alignment(trace(overlap), trace(errors), float(np.trace(gram))),
        "C_v": two_times(of_input["C_v"]),
        "C_h0": two_times(of_input["C_h0"]),
    }
    if numbers.data == DATASET:
        arrays["train_loss"] = trace(np.diagonal(of_input["C_Delta"]))
        arrays["C_Delta"] = two_times(of_input["C_Delta"])
    layers = state.limit.layers
    arrays["C_h"] = np.stack([two_times(layer.C_h[rows, rows]) for layer in layers])
    arrays["C_g"] = np.stack([two_times(layer.C_g[rows, rows]) for layer in layers])
    return arrays
