"""The observables of a two-layer network on a reused dataset, the same for the limit and for finite networks."""

from learndyn.grokking import LEVEL, drop_time
from learndyn.theory import Observable


def observables(arrays: dict, axis: str, errors: dict | None = None) -> dict[str, Observable]:
    """Named arrays from `arrays`; two-time ones have the axes (time, student, time2, student2).

    `axis` is "time" or "step"; `errors` holds standard errors under the same names.
    """
    one = (axis, "student", "teacher")
    two = (axis, "student", f"{axis}2", "student2")
    per_cent = f"{100 * LEVEL:g} % of its first value"
    known = {
        "train_loss": ((axis,), "train loss ⟨Δ²⟩ on the (noisy) labels of the dataset"),
        "test_loss": ((axis,), "test loss ⟨(y − ŷ)²⟩ on clean labels"),
        "leading_gap": (
            (axis,),
            "test minus train loss to first order in 1/γ: (2/γ) Σ_s τ_s Σ_ij R_w C_g",
        ),
        "Q": ((axis, "student", "student2"), "student overlaps Q_ij = w_i·w_j/D"),
        "A": (one, "student–teacher overlaps A_in = w_i·w*_n/D"),
        "C": (two, "two-time overlaps C_ij(t, s) = w_i(t)·w_j(s)/D"),
        "C_g": (two, "two-time force overlaps ⟨g_i(t) g_j(s)⟩, g_i = v_i g'(h_i) Δ"),
        "R_w": (two, "response of w_i(t) to a force on w_j at s"),
        "R_h": (two, "response of g_i(t) to the field u_j(s)"),
        "R_star": (one, "response of g_i(t) to the teacher's field ρ_n"),
        "train_drop": ((), f"{axis} at which the train loss falls below {per_cent}"),
        "test_drop": ((), f"{axis} at which the test loss falls below {per_cent}"),
        "grokking_delay": ((), "test_drop / train_drop"),
    }
    # Without a drop there is no number, and with one it has a kink as a function of the curve.
    unjudged = ("train_drop", "test_drop", "grokking_delay")
    errors = errors or {}
    return {
        name: Observable(
            dims, arrays[name], words, judged=name not in unjudged, error=errors.get(name)
        )
        for name, (dims, words) in known.items()
        if name in arrays
    }


def drops(times, train_loss, test_loss) -> dict[str, float]:
    """When the two losses drop, and the ratio of the two times."""
    train, test = drop_time(times, train_loss), drop_time(times, test_loss)
    return {"train_drop": train, "test_drop": test, "grokking_delay": test / train}
