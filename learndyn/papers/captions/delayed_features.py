"""What is told of the figures of delayed feature learning."""

from learndyn.papers.figure_facts import facts_of

REFERENCE = "Asymptotic dynamics for delayed feature learning in a toy model, HiLD workshop 2024"
SHARED = (
    "y = ρ²/2, φ(h) = h + (ε/2)h², K = 2 hidden units with the readout α/K, Q₀ = 1, learning rate K/α, which makes "
    "time the paper's; no noise, no decay."
)
_PICTURES = (
    (
        "grokking-1",
        "The test loss drops long after the train loss",
        f"{SHARED} α = 0.5, ε = 0.05 (the paper's), γ = P/D = 2.25, A₀ = ±0.5. Losses drop where they pass 10 % of "
        "their first value (dotted); the arrow spans the two drops of the theory. Black: theory of gradient flow in "
        "implicit steps with a tolerance of 2 %, 4 × 8192 samples, in a band of two standard errors. Circles: networks "
        "of two sizes in steps of up to 0.8 of the stable one, means and standard errors over datasets; printed are "
        "medians and quartiles of their drops. By the end the test loss of one network in eight (D = 400), and of one "
        "in ten (D = 1200), has not dropped. The paper does not print γ, K, A₀ or the size, and its time is in epochs "
        "of an unknown rate; these were chosen, with the result in view, for a long delay: in the theory it is 25 ± 1 "
        "at γ = 2.3 and 55 ± 5 at γ = 2.2. Late values of the theory need many samples: with a tolerance of 1 %, the "
        "test loss had not dropped by the end in 3 of 12 batches of 1024 samples, 2 of 8 of 2048, none of 8 of 4096.",
        2.8,
    ),
    (
        "grokking-2",
        "Less data, a larger output scale and a small ε separate train and test loss",
        f"{SHARED} Lines: theory, 4 × 512 samples, in a band of two standard errors; solid: test loss, dashed: train "
        "loss; circles: networks with D = 2000, mean and standard error of 6 datasets, trained with the steps of the "
        "theory. (a) α = 0.5, ε = 0.3, A₀ = ±0.3 and γ = 1.5, 3, 6, and the online limit, in which train and test loss "
        "are one; (b) ε = 0.3, γ = 3, A₀ = ±0.3; (c, d) α = 0.5, γ = 3, A₀ = (0.5, −0.1). The paper prints K = 2, "
        "D = 3500 and 10 datasets only, and shows (a) and (b); the rest was chosen with the result in view (at γ = 5 "
        "the curves of (b) lie closer together). In (b) the train loss leaves the test loss at once for α = 2 and only "
        "after t = 1 for α = 0.1, as the paper says; but in the end the test loss is largest for α = 0.1. (d) The "
        "alignment falls at first for small ε, as the paper expects, if the mean of the A_i is not zero: online, "
        "dA_i/dt = (3ε/2)A_i − (α/K)ΣA_j + … . In (c, d) the networks of all ε have the same six datasets, which are "
        "two standard errors off the theory together.",
        2.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
