"""The observables of a two-layer network, the same for the limit and for finite networks."""

import numpy as np

from learndyn.theory import Observable


def specialisation(Q, R, T, xp=np):
    """How specialised each student unit is: its largest |cosine| with a teacher unit minus the second largest.

    The cosine is R_in/√(Q_ii T_nn); 1 is a unit that has become one teacher unit of an orthogonal teacher, 0 a unit
    that treats two teacher units alike. With a single teacher unit it is the |cosine| itself. Q and R may have
    leading axes.
    """
    student = xp.diagonal(Q, axis1=-2, axis2=-1)[..., :, None]
    lengths = xp.sqrt(student * xp.diagonal(T))
    cosine = xp.abs(R) / xp.where(lengths > 0, lengths, 1.0)
    if R.shape[-1] == 1:
        return cosine[..., 0]
    ranked = xp.sort(cosine, axis=-1)
    return ranked[..., -1] - ranked[..., -2]


def observables(test_loss, Q, R, v, T) -> dict[str, Observable]:
    """Named arrays from overlaps at all times (the first axis)."""
    return {
        "test_loss": Observable(("time",), test_loss, "test loss ½⟨(y − ŷ)²⟩ on clean labels"),
        "Q": Observable(("time", "student", "student2"), Q, "student overlaps Q"),
        "R": Observable(("time", "student", "teacher"), R, "student–teacher overlaps R"),
        "v": Observable(("time", "student"), v, "readout v"),
        "specialisation": Observable(
            ("time", "student"),
            specialisation(Q, R, T),
            "specialisation of each student unit",
            judged=False,
        ),
    }
