"""The observables of wide networks, the same for the limit, its approximations and finite networks.

Points are numbered with the trained ones first.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from learndyn.core.curves import Convention, Quantity, Table
from learndyn.families.wide.loss import Loss

TRAINED = Convention(
    "as training has it: criterion (½ for squared), and mean or sum over points; given labels"
)
TWO = ("layer", "step", "point", "step2", "point2")

TABLE: Table = (
    Quantity("train_loss", ("step",), "loss of the trained points", convention=TRAINED),
    Quantity("test_loss", ("step",), "loss of the test points", convention=TRAINED),
    Quantity("prediction", ("step", "train_point", "output"), "outputs f of the trained points"),
    Quantity("test_prediction", ("step", "test_point", "output"), "outputs f of the test points"),
    Quantity(
        "kernel",
        ("step", "point", "output", "point2", "output2"),
        "neural tangent kernel Σ_ℓ G^{ℓ+1} Φ^ℓ at equal times",
    ),
    Quantity("Phi", TWO, "feature kernels Φ^ℓ(t, s) = ⟨φ(h(t))φ(h(s))⟩"),
    Quantity(
        "G",
        ("layer", "step", "point", "output", "step2", "point2", "output2"),
        "gradient kernels G^ℓ(t, s) = ⟨g(t)g(s)⟩",
    ),
    Quantity("A", (*TWO, "output2"), "responses A^ℓ of φ(h^ℓ(t)) to r^ℓ(s)"),
    Quantity(
        "B",
        ("layer", "step", "point", "output", "step2", "point2"),
        "responses of g^ℓ(t) to u^ℓ(s), the paper's B^{ℓ−1}",
    ),
    Quantity(
        "alignment",
        ("layer", "step"),
        "alignment of Φ^ℓ(t, t) with the targets, Tr(yᵀΦy)/(|Φ||yyᵀ|)",
    ),
    # The norm of a small movement is mostly noise, and single samples have no counterpart.
    Quantity(
        "movement",
        ("layer", "step"),
        "movement of Φ^ℓ: |Φ(t, t) − Φ(0, 0)|/|Φ(0, 0)|",
        judged=False,
    ),
    Quantity(
        "preactivation",
        ("layer", "step", "point", "sample"),
        "samples of the preactivations h^ℓ",
        judged=False,
    ),
)

INFINITE_TABLE: Table = tuple(
    quantity._replace(axes=tuple("tau" if axis == "layer" else axis for axis in quantity.axes))
    for quantity in TABLE
)
"""The same at infinite depth, where layers are numbered by the layer time τ = ℓ/L."""


def losses(
    loss: Loss, f: Float[np.ndarray, "steps points C"], test_targets: ArrayLike | None
) -> dict[str, np.ndarray]:
    """Predictions and losses from the outputs f of all points."""
    P = len(loss.targets)
    observables = {"prediction": f[:, :P], "train_loss": loss.value(f[:, :P])}
    if f.shape[1] > P:
        observables["test_prediction"] = f[:, P:]
        if test_targets is not None:
            y = np.asarray(test_targets).reshape(f.shape[1] - P, -1)
            observables["test_loss"] = loss.value(f[:, P:], y)
    return observables


def kernel_summaries(
    Phi: Float[np.ndarray, "L steps points points"], targets: Float[np.ndarray, "P C"]
) -> dict[str, np.ndarray]:
    """`alignment` and `movement` from the kernels Φ of all points at equal times."""
    P = len(targets)
    trained = Phi[..., :P, :P]
    square = targets @ targets.T
    size = np.linalg.norm(trained, axis=(-2, -1))
    moved = np.linalg.norm(trained - trained[:, :1], axis=(-2, -1))
    aligned = np.einsum("ltij,ij->lt", trained, square) / np.linalg.norm(square)
    return {"alignment": aligned / size, "movement": moved / size[:, :1]}
