"""What is told of the figure of overlaps and responses of reused data."""

from learndyn.papers.captions.delayed_features import REFERENCE, SHARED
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "grokking-3": FigureFacts(
        "grokking-3",
        "Reused data change the overlaps and give the responses a memory",
        f"{SHARED} α = 0.5, ε = 0.3, A₀ = (0.4, −0.2), different for the two units so that their curves can be told "
        "apart; steps of 0.25, 4 × 1024 samples. (a, b) C_11(t, s) for γ = 3 and online (γ = 10⁶), with the same "
        "colours. (c) The response of g_1(t) to the field u_1(s) in the paper's units, R^h = (K/α)·R_h/dt for s < t, "
        "in logarithmic colours, of which negative values (down to −7·10⁻⁴, for s near 0) have the lowest; the term "
        "with δ(t − s) is left out, and grey is not causal. (d) The same against t − s: at most 0.13 for γ = 3; online "
        "it is zero (4·10⁻⁷ at γ = 10⁶), and only δ(t − s) is left, so that it has no map. (e, f) A_i and C_ii: lines "
        "for γ = 3, in bands of two standard errors, dashed online; circles: networks with γ = 3, D = 2000, mean and "
        "standard error of 6 datasets, of which C_11 is two standard errors too small. The paper prints none of the "
        "parameters.",
        REFERENCE,
        0.3,
    )
}
"""By the name of the picture."""
