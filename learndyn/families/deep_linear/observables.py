"""The observables of a deep linear network, the same for every supply, for the limit and for finite networks."""

from typing import Any

import numpy as np
from jaxtyping import Float

from learndyn.core.curves import Quantity, Table
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.problem.problem import Problem

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


def common_evidence(
    problem: Problem, form: str, numbers: LimitNumbers, edge: int | None
) -> dict[str, Any]:
    """The evidence that all methods give: the form of the equations, the modes, and the edge of stability."""
    evidence: dict[str, Any] = {"form": form, "modes": len(numbers.lam), "edge_of_stability": edge}
    if problem.task.spectrum is not None:
        evidence["exactness"] = "mean-field approximation at finite width and data"
    if edge is not None:
        text = (
            f"training is at the edge of stability from step {edge}: its gradients change sign and hardly shrink, "
            "and finite networks approach the limit slowly; use a smaller learning rate to avoid it"
        )
        evidence["warnings"] = [text]
    return evidence


def layer_labels(numbers: LimitNumbers) -> dict[str, np.ndarray]:
    """The labels 1 … L of the layers."""
    return {"layer": np.arange(1, numbers.depth + 1)}


def alignment(
    overlap: Float[np.ndarray, "*steps"],
    C_vv: Float[np.ndarray, "*steps"],
    target: Float[np.ndarray, "*steps"] | np.floating | float,
) -> Float[np.ndarray, "*steps"]:
    """Cosine between the function w* − v and the target w*, from ⟨w*·v⟩, ⟨v·v⟩ and ⟨w*·w*⟩; 0 for the zero function."""
    function = target - 2 * overlap + C_vv
    small = function <= 1e-24 * target
    return np.where(
        small, 0.0, (target - overlap) / np.sqrt(np.where(small, 1.0, function) * target)
    )
