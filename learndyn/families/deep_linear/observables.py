"""The observables of a deep linear network, the same for every supply, for the limit and for finite networks."""

import numpy as np

from learndyn.core.curves import Quantity, Table
from learndyn.families.deep_linear.setting import Setting

NOISY = "squared error without the half, label noise included"
TWO = ("step", "output", "step2", "output2")

LOSSES: Table = (
    Quantity("test_loss", ("step",), "test loss ⟨(y − f)²⟩, noise included", convention=NOISY),
    Quantity("train_loss", ("step",), "training loss ⟨(y − f)²⟩", convention=NOISY),
)
DECOMPOSITION: Table = (
    Quantity("bias", ("step",), "bias of the test loss"),
    Quantity("width_variance", ("step",), "variance of the test loss from the finite width"),
    Quantity("data_variance", ("step",), "variance of the test loss from the finite data"),
    Quantity("alignment", ("step",), "cosine of network function and target"),
)
OVERLAPS: Table = (
    Quantity("overlap_same_data", ("step",), "error overlap of networks that share the data only"),
    Quantity(
        "overlap_same_weights",
        ("step",),
        "error overlap of networks that share the initial weights only",
    ),
)
CORRELATIONS: Table = (
    Quantity("C_v", TWO, "correlation C_v of the error vector v"),
    Quantity("C_Delta", TWO, "correlation C_Δ of the training errors Δ"),
    Quantity("C_h0", TWO, "correlation C_h⁰ of the gradient h⁰ with respect to the function"),
    Quantity("C_h", ("layer", *TWO), "correlations C_h of the forward fields h"),
    Quantity("C_g", ("layer", *TWO), "correlations C_g of the backward fields g"),
)
RESPONSES: Table = (
    Quantity("R_vu", TWO, "response R_vu of v to u⁰"),
    Quantity("R_Delta", TWO, "response R_Δ of Δ to its source"),
    Quantity("R_hr0", TWO, "response R_hr⁰ of h⁰ to r⁰"),
    Quantity("R_hr", ("layer", *TWO), "responses R_hr of h to r"),
    Quantity("R_gu", ("layer", *TWO), "responses R_gu of g to u"),
)
TABLE: Table = LOSSES + DECOMPOSITION + OVERLAPS + CORRELATIONS + RESPONSES
INFINITE_TABLE: Table = tuple(
    quantity._replace(axes=tuple("tau" if axis == "layer" else axis for axis in quantity.axes))
    for quantity in TABLE
)
"""The same at infinite depth, where layers are numbered by the layer time τ = ℓ/L."""


def told(problem, form: str, made: Setting, edge: int | None) -> dict:
    """The evidence that all methods give."""
    found = {"form": form, "modes": len(made.lam), "edge_of_stability": edge}
    if problem.task.spectrum is not None:
        found["exactness"] = "mean-field approximation at finite width and data"
    if edge is not None:
        text = (
            f"training is at the edge of stability from step {edge}: its gradients turn round and hardly shrink, and "
            "finite networks approach the limit slowly; a smaller learning rate avoids it"
        )
        found["warnings"] = [text]
    return found


def layers_of(made: Setting) -> dict[str, np.ndarray]:
    """The labels of the layers."""
    return {"layer": np.arange(1, made.depth + 1)}


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
