"""The observables of a deep linear network, the same for every supply, for the limit and for finite networks."""

from typing import Any

import numpy as np
from jaxtyping import Float

from learndyn.core.curves import Convention, Quantity, Table
from learndyn.families.deep_linear.limit_numbers import LimitNumbers
from learndyn.problem.problem import Problem

WELL_KNOWN = 20
"""Examples for each input from which a spectrum is estimated without a warning."""
NOISY = Convention("squared error without the half, label noise included", half=False, noise=True)
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
MODES: Table = (
    Quantity(
        "kernel",
        ("step", "output", "output2"),
        "tangent kernel K(x, x)/|x|² of a random input x",
    ),
    Quantity("mode_loss", ("step", "mode"), "part of the test loss in mode k, ω_k λ_k ⟨v_k²⟩"),
    Quantity(
        "transfer",
        ("step", "mode"),
        "part of the target left to learn in mode k, H_k = ⟨w*_k v_k⟩/⟨w*_k²⟩",
    ),
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
TABLE: Table = LOSSES + DECOMPOSITION + MODES + OVERLAPS + CORRELATIONS + RESPONSES
LAYERED = tuple(quantity.name for quantity in TABLE if "layer" in quantity.axes)
"""Observables with an axis for the layers."""
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
    warnings = []
    if edge is not None:
        text = (
            f"training is at the edge of stability from step {edge}: its gradients change sign and hardly shrink, "
            "and finite networks approach the limit slowly; use a smaller learning rate to avoid it"
        )
        warnings.append(text)
    estimated = getattr(problem.task.spectrum, "examples", None)
    if estimated is not None and estimated < WELL_KNOWN * len(numbers.lam):
        spread = (len(numbers.lam) / estimated) ** 0.5
        warnings.append(
            f"the spectrum rests on {estimated} examples of {len(numbers.lam)} inputs, so its eigenvalues are spread "
            f"by about {100 * spread:.0f} %; more examples would make it sharper"
        )
    return evidence | ({"warnings": warnings} if warnings else {})


def axis_labels(numbers: LimitNumbers) -> dict[str, np.ndarray]:
    """The labels 1 … L of the layers, and the eigenvalues λ_k of the modes."""
    return {"layer": np.arange(1, numbers.depth + 1), "mode": numbers.lam}


def tangent_kernel(
    C_g: Float[np.ndarray, "layers steps outputs outputs"],
    d: Float[np.ndarray, " steps"],
    numbers: LimitNumbers,
) -> Float[np.ndarray, "steps outputs outputs"]:
    """K(x, x)/|x|² from C_g at equal steps and the decay d of an undriven weight.

    The matrices W^ℓ contribute ρ_0 ⋯ ρ_ℓ C_g^{ℓ+1} |h^ℓ|², with C_g^{L+1} = 1, where the fields h^ℓ of a random input
    have the size d^{2ℓ}; in a residual network β² C_g^{ℓ+1} |h^ℓ|² for 0 < ℓ < L, with the size d² (1 + β² d²)^{ℓ−1}.
    What is learnt has few directions, which a random input does not see.
    """
    square = 0.0 if numbers.branch is None else numbers.branch**2
    size, total = np.ones(len(d)), np.zeros(C_g.shape[1:])
    for ell, factor in enumerate(np.cumprod(numbers.rho)):
        if ell == 1 or (ell and numbers.branch is None):
            size = size * d**2
        elif ell:
            size = size * (1 + square * d**2)
        inner = 0 < ell < numbers.depth and numbers.branch is not None
        above = C_g[ell] if ell < numbers.depth else np.eye(numbers.outputs)
        total = total + (factor * (square if inner else 1.0) * size)[:, None, None] * above
    return total


def part_left(
    overlap: Float[np.ndarray, "*steps modes"], target: Float[np.ndarray, " modes"]
) -> Float[np.ndarray, "*steps modes"]:
    """H_k from ⟨w*_k v_k⟩ and ⟨w*_k²⟩; 0 in modes without a target."""
    known = target > 0
    return np.where(known, overlap / np.where(known, target, 1.0), 0.0)


def alignment(
    overlap: Float[np.ndarray, "*steps"],
    C_vv: Float[np.ndarray, "*steps"],
    target: Float[np.ndarray, "*steps"] | np.floating | float,
) -> Float[np.ndarray, "*steps"]:
    """Cosine between the function w* − v and the target w*, from ⟨w*·v⟩, ⟨v·v⟩ and ⟨w*·w*⟩; 0 for the zero function."""
    function = target - 2 * overlap + C_vv
    # A difference of numbers this large is known to their rounding only.
    small = function <= 32 * np.finfo(float).eps * (target + C_vv)
    return np.where(
        small, 0.0, (target - overlap) / np.sqrt(np.where(small, 1.0, function) * target)
    )
