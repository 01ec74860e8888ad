"""What is told of the figures of residual networks."""

from learndyn.papers.captions.deep_linear import REFERENCE
from learndyn.papers.figure_facts import FigureFacts

_points = "mean and standard error of"
_PICTURES = (
    (
        "deep-linear-4",
        "Residual networks: richness, branch scale and depth",
        "β = β₀/√L, population, centred, ν = 1, η = 0.01. (a) L = 4, β₀ = 1, γ₀ = 0.3, 1, 2, 3: the first step is the "
        "same for all, because the networks are centred; (b) L = 4, γ₀ = 1, β₀ = 0, 0.5, 1, 1.5; (c) β₀ = 1.2, γ₀ = 1, "
        "L = 2, 4, 8, 16, and in black L = ∞, which L = 16 has not reached: its last loss is three times as large. No "
        f"curve reaches the edge of stability. Points: D = 300, {_points} 8 seeds. All are within 1.5 standard errors "
        "of the theory, but most late ones lie above it, as finite networks do: by 57 % at the end for L = 8, 36 % for "
        "β₀ = 1.5, at most 20 % elsewhere. All curves share the seeds, so that deviations go together. The paper "
        "prints β₀ = 1.2 in (c) only; γ₀ = 4 and β₀ = 2, tried too, fall out of the picture.",
        0.2,
    ),
    (
        "deep-linear-5",
        "Learning-rate transfer across depth with scaled residual branches",
        "Test loss after 30 steps, population, centred, ν = 1, γ₀ = 1, 40 rates a decade. (a) β = 1: from L = 2 to 16 "
        "the best η (star) falls from 0.10 to 4.2·10⁻⁷; (b) β = 1.25/√L: it falls from 0.112 (L = 2) over 0.050, 0.030 "
        "and 0.022 (L = 16) to 0.015 (L = ∞). It converges, but is not constant: the paper says that it does not shift "
        "significantly. A line ends where the loss exceeds ten times its minimum: the optimum lies at the edge of "
        "stability, and just above it the loss rises by orders of magnitude. Points, at L = 2 and 8: D = 200, "
        f"{_points} 6 seeds, up to twice the best η; none diverged. Below the optimum networks at L = 8 lie above the "
        "limit (three times at η = 0.027 in (b)); "
        "above it they are far below the theory, which is not drawn there (30 times at L = 8, η = 0.04 in (b)). The "
        "paper prints β = 1 and β₀ = 1.25 only.",
        0.7,
    ),
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
