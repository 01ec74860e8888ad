"""The observables of a deep linear network, the same for the limit and for finite networks.

Functions of two steps have the axes (step, output, step2, output2), with "layer" (the layer time "tau" at
infinite depth) in front where there is one for each hidden layer; the output axes are dropped for a single output.
"""

import numpy as np

from learndyn.theory import Observable

DECOMPOSITION = {
    "bias": "bias of the test loss",
    "width_variance": "variance of the test loss from the finite width",
    "data_variance": "variance of the test loss from the finite data",
    "alignment": "cosine of network function and target",
}
LOSSES = {
    "test_loss": "test loss ⟨(y − f)²⟩, noise included",
    "train_loss": "training loss ⟨(y − f)²⟩",
    **DECOMPOSITION,
    "overlap_same_data": "error overlap of networks that share the data only",
    "overlap_same_weights": "error overlap of networks that share the initial weights only",
}
CORRELATIONS = {
    "C_v": "correlation C_v of the error vector v",
    "C_Delta": "correlation C_Δ of the training errors Δ",
    "C_h0": "correlation C_h⁰ of the gradient h⁰ with respect to the function",
    "C_h": "correlations C_h of the forward fields h",
    "C_g": "correlations C_g of the backward fields g",
}
RESPONSES = {
    "R_vu": "response R_vu of v to u⁰",
    "R_Delta": "response R_Δ of Δ to its source",
    "R_hr0": "response R_hr⁰ of h⁰ to r⁰",
    "R_hr": "responses R_hr of h to r",
    "R_gu": "responses R_gu of g to u",
}


def alignment(overlap, C_vv, target):
    """Cosine between the function w* − v and the target w*, from ⟨w*·v⟩, ⟨v·v⟩ and ⟨w*·w*⟩; 0 for the zero function."""
    function = target - 2 * overlap + C_vv
    small = function <= 1e-24 * target
    return np.where(
        small, 0.0, (target - overlap) / np.sqrt(np.where(small, 1.0, function) * target)
    )


def edge_of_stability(power, successive) -> int | None:
    """The first step at which training oscillates and the oscillation hardly decays, or None.

    `power` is |h⁰(t)|² for all steps and `successive` h⁰(t)·h⁰(t−1), from t = 1: the gradient must have turned round
    (cosine below −½) and kept nine tenths of its length. Finite networks approach the limit slowly there.
    """
    # Once training has converged, what is left is rounding.
    power = np.maximum(power, 1e-13 * np.max(power))
    successive = np.asarray(successive)
    turned = successive < -0.5 * np.sqrt(power[1:] * power[:-1])
    kept = (power[1:] > 0.81 * power[:-1]) & (power[1:] > 1e-12 * power.max())
    found = np.flatnonzero(turned & kept)
    return int(found[0]) + 1 if found.size else None


def observables(arrays: dict, layer_axis: str = "layer") -> dict[str, Observable]:
    """Named and labelled observables; `arrays` maps the names above to values at the recorded steps."""
    known = LOSSES | CORRELATIONS | RESPONSES
    found = {}
    for name, words in known.items():
        if name not in arrays:
            continue
        values = np.asarray(arrays[name])
        if name in LOSSES:
            found[name] = Observable(("step",), values, words)
            continue
        layers = (layer_axis,) * (values.ndim == 5)
        dims = (*layers, "step", "output", "step2", "output2")
        if values.shape[-1] == 1:
            values, dims = values[..., 0, :, 0], (*layers, "step", "step2")
        found[name] = Observable(dims, values, words)
    return found
