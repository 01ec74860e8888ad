"""What is told of the figures of delayed feature learning."""

from learndyn.papers.figure_facts import FigureFacts

REFERENCE = "Asymptotic dynamics for delayed feature learning in a toy model, HiLD workshop 2024"
_shared = (
    "y = ρ²/2, φ(h) = h + (ε/2)h², K = 2 hidden units with the readout α/K, Q₀ = 1, learning rate K/α, which makes "
    "time the paper's; no noise, no decay."
)
_PICTURES = (
    (
        "grokking-1",
        "The test loss drops long after the train loss",
        f"{_shared} α = 0.5, ε = 0.05 (the paper's), γ = P/D = 2.7, A₀ = ±0.3. Losses drop where they pass 10 % of "
        "their first value (dotted); the arrow spans the two drops of the theory. Black: theory of gradient flow in "
        "implicit steps with a tolerance of 2 %, 4 × 4096 samples, in a band of two standard errors; blue: networks "
        "with D = 400, one line for each of 4 datasets, in steps of up to 0.8 of the stable one, whose mean drops and "
        "standard errors are printed; their mean is later than the limit (no other size was trained). The paper does "
        "not print γ, K, A₀ or the size, and its time is in epochs of an unknown rate; these were chosen, with the "
        "result in view, for a long delay: about 3 and 5 at γ = 3.5 and 3, and 17 in networks at γ = 2.5.",
        4.0,
    ),
    (
        "grokking-2",
        "Less data and a larger output scale separate train and test loss",
        f"{_shared} ε = 0.3, A₀ = ±0.3; (a) α = 0.5, γ = 1.5, 3, 6 and the online limit, in which train and test loss "
        "are one; (b) γ = 3, α = 0.1, 0.5, 2. Solid and filled: test loss; dashed and open: train loss. Lines: theory, "
        "4 × 512 samples, in a band of two standard errors; points: networks with D = 3500, mean and standard "
        "deviation of 10 datasets, trained with the steps of the theory. The paper prints K, D and the number of "
        "datasets only; the rest was chosen with the result in view (at γ = 5 the curves of (b) lie closer together). "
        "Losses pass 10 % of their first value at t = 9.4 (train) and 16 (test) for γ = 6, at 10 and 60 for γ = 3 "
        "(networks: 10 and 56 ± 1), and the test loss does not for γ = 1.5. In (b) the train loss leaves the test loss "
        "at once for α = 2 and only after t = 1 for α = 0.1, as the paper says; but in the end the test loss is "
        "largest for α = 0.1.",
        6.0,
    ),
    (
        "grokking-3",
        "Reused data change the overlaps and give the responses a memory",
        f"{_shared} α = 0.5, ε = 0.3, A₀ = (0.4, −0.2), different for the two units so that their curves can be told "
        "apart; steps of 0.25, 4 × 1024 samples. (a) C_11(t, s) for γ = 3 and online (γ = 10⁶); (b) the response of "
        "g_1(t) to the field u_1(s) in the paper's units, R^h = (K/α)·R_h/dt for s < t; the term with δ(t − s), which "
        "is all there is online, is left out, and grey is not causal. The colours are linear below 1 % of the largest "
        "value and logarithmic above. (c, d) A_i and C_ii: lines for γ = 3, dashed online; points: networks with "
        "γ = 3, D = 3500, mean and standard deviation of 10 datasets, smaller than the points in (c). The paper prints "
        "none of the parameters. |R^h| off the diagonal is at most 0.13 for γ = 3 and 4·10⁻⁷ online.",
        1.2,
    ),
    (
        "grokking-map",
        "The delay of the test loss over output scale and activation",
        f"{_shared} Theory, 2 × 256 samples, γ = 3, A₀ = ±0.3, time 25/ε (alignments grow as exp(3εt/2) at first). "
        "Numbers: time at which the test loss drops over that of the train loss. (a) Below 10 % of the first loss; (b) "
        "below 10 % of ½⟨y²⟩ = 0.375, the same level for all cells. Hatched: the test loss does not drop within the "
        "time. Sampling errors are about 10 %: four cells changed by 3 to 18 % with another draw of the samples, and "
        "by up to 12 % with 8 times as many. The paper has no such map, and says that the delay grows with α. In (a) "
        "it does above α = 0.5; but there the first loss grows as well, from 0.35 to 1.5, by the initial output of the "
        "network, and the train loss passes a tenth of it early. At a fixed level, (b), the delay changes little "
        "there, and below α = 0.3 it grows as α falls. Networks at α = 0.1, 0.5, 2 and ε = 0.3 are in grokking-2.",
        3.0,
    ),
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
