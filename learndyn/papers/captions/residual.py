"""What is told of the figures of residual networks."""

from learndyn.papers.captions.deep_linear import REFERENCE
from learndyn.papers.figure_facts import facts_of

_circles = "Circles: mean and standard error of"
_PICTURES = (
    (
        "deep-linear-4",
        "Residual networks: richness, branch scale and depth",
        "β = β₀/√L, population, centred, ν = 1, η = 0.01. (a) L = 4, β₀ = 1, γ₀ = 0.3, 1, 2, 3: the first step is "
        "the same for all, because the networks are centred; (b) L = 4, γ₀ = 1, β₀ = 0, 0.5, 1, 1.5; (c) β₀ = 1.2, "
        "γ₀ = 1, L = 2, 4, 8, 16, and in black L = ∞, which L = 16 has not reached: its last loss is three times as "
        "large; (d), not in the paper: the distance of the theory from infinite depth after 10 and 40 steps falls "
        f"as 1/L. No curve reaches the edge of stability. {_circles} networks with D = 300 inputs and 8 seeds. All "
        "are within 1.5 standard errors of the theory, but most late ones lie above it, as finite networks do: by "
        "57 % at the end for L = 8, 36 % for β₀ = 1.5, at most 20 % elsewhere. All curves share the seeds, so that "
        "deviations go together. The paper prints β₀ = 1.2 in (c) only; γ₀ = 4 and β₀ = 2, tried too, fall out of "
        "the picture.",
        0.3,
    ),
    (
        "deep-linear-5",
        "Learning-rate transfer across depth with scaled residual branches",
        "Test loss (noise included; the grey level is σ²) after 30 steps of online SGD, α_B = 1, σ = 0.5, centred, "
        "ν = 4, γ₀ = 3. (a) β = 1: from L = 2 over 4 and 8 to 16 the best η (star) falls from 0.012 over 3.1·10⁻³ "
        "and 2.1·10⁻⁴ to 6.3·10⁻⁷. (b) β = 1.25/√L: 0.0129, 0.0077, 0.0056, 0.0047, and 0.0039 for L = ∞. It "
        "converges, but is not constant; the paper says that it does not shift significantly. Keeping the best η of "
        "L = 2 at infinite depth gives a loss of 0.312 instead of 0.275. No setting was found in which it stays: of "
        "32 tried (γ₀ = 0.3, 1, 3, ν = 1, 4, α_B = 0.25 and 1, σ = 0 and 0.5, 12 and 30 steps) it falls from L = 2 "
        "to ∞ by 2.7 to 7 times, because the initial kernel grows by 3.9, from 4.3 to (2 + β₀²) exp β₀² = 17; from "
        "L = 8 on it falls by 1.4 to 2 times. On the population the optimum lies at the edge of stability; with the "
        "noise taken here it is smooth. A line ends at four times the best η, or where the loss exceeds 1.15. "
        f"{_circles} networks with D = 200 inputs and 6 seeds, up to twice the best η (there beyond the panel for L "
        "= 16 in (a)). The paper prints β = 1 and β₀ = 1.25 only.",
        1.2,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
