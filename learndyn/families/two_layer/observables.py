"""The observables of a two-layer network, the same for every supply, for the limit and for finite networks."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from learndyn.analyses.grokking import LEVEL, drop_time
from learndyn.core.curves import Convention, Quantity, Table

CLEAN = Convention("half of the squared error, on clean labels", half=True, noise=False)
NOISY = Convention("half of the squared error, label noise included", half=True, noise=True)
PAIR = ("step", "student", "step2", "student2")
PER_CENT = f"{100 * LEVEL:g} % of its first value"

TABLE: Table = (
    Quantity("test_loss", ("step",), "test loss ½⟨(y − ŷ)²⟩ on clean labels", convention=CLEAN),
    Quantity(
        "train_loss",
        ("step",),
        "train loss ½⟨(y − ŷ)²⟩ on the (noisy) labels of the dataset",
        convention=NOISY,
    ),
    Quantity(
        "leading_gap",
        ("step",),
        "test minus train loss to first order in 1/γ: (1/γ) Σ_s τ_s Σ_ij R_w C_g",
    ),
    Quantity(
        "kernel_alignment",
        ("step",),
        "alignment of the first layer's tangent kernel with the task, √N ⟨f*Kf*⟩/(⟨f*²⟩ √⟨K²⟩)",
    ),
    Quantity("Q", ("step", "student", "student2"), "student overlaps Q_ik = w_i·w_k/N"),
    Quantity("R", ("step", "student", "teacher"), "student–teacher overlaps R_in = w_i·w*_n/N"),
    Quantity("v", ("step", "student"), "readout v"),
    Quantity("C", PAIR, "two-time overlaps C_ij(t, s) = w_i(t)·w_j(s)/N"),
    Quantity("C_g", PAIR, "two-time force overlaps ⟨g_i(t) g_j(s)⟩, g_i = v_i g'(h_i) Δ"),
    Quantity("R_w", PAIR, "response of w_i(t) to a force on w_j at s"),
    Quantity("R_h", PAIR, "response of g_i(t) to the field u_j(s)"),
    Quantity(
        "R_star", ("step", "student", "teacher"), "response of g_i(t) to the teacher's field ρ_n"
    ),
    # These have a kink as a function of the curve, or are NaN if nothing drops.
    Quantity(
        "specialisation", ("step", "student"), "specialisation of each student unit", judged=False
    ),
    Quantity("train_drop", (), f"when the train loss falls below {PER_CENT}", judged=False),
    Quantity("test_drop", (), f"when the test loss falls below {PER_CENT}", judged=False),
    Quantity("grokking_delay", (), "test_drop / train_drop", judged=False),
)


def specialisation(
    Q: Float[Array, "*states K K"] | Float[np.ndarray, "*states K K"],
    R: Float[Array, "*states K M"] | Float[np.ndarray, "*states K M"],
    T: Float[Array, "M M"] | Float[np.ndarray, "M M"],
    xp: Any = np,
) -> Any:
    """How specialised each student unit is: its largest |cosine| with a teacher unit minus the second largest.

    The cosine is R_in/√(Q_ii T_nn); 1 is a unit that has become one teacher unit of an orthogonal teacher, 0 a unit
    that treats two teacher units alike. With a single teacher unit it is the |cosine| itself. Q and R may have
    leading axes; `xp` is NumPy or `jax.numpy`.
    """
    student = xp.diagonal(Q, axis1=-2, axis2=-1)[..., :, None]
    lengths = xp.sqrt(student * xp.diagonal(T))
    cosine = xp.abs(R) / xp.where(lengths > 0, lengths, 1.0)
    if R.shape[-1] == 1:
        return cosine[..., 0]
    ranked = xp.sort(cosine, axis=-1)
    return ranked[..., -1] - ranked[..., -2]


def drops(times: ArrayLike, train_loss: ArrayLike, test_loss: ArrayLike) -> dict[str, float]:
    """The times at which the train and the test loss drop, and their ratio, the grokking delay."""
    train, test = drop_time(times, train_loss), drop_time(times, test_loss)
    return {"train_drop": train, "test_drop": test, "grokking_delay": test / train}
