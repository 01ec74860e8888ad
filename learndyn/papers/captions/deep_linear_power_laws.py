"""What is told of figures 6 and 8 of the paper on deep linear networks."""

from learndyn.papers.captions.deep_linear import REFERENCE
from learndyn.papers.figure_facts import facts_of

_circles = "Circles: mean and standard error of"
_PICTURES = (
    (
        "deep-linear-6",
        "Power-law data: batch size, width, and easy and hard tasks",
        "λ_k = k^(−1.5), w*_k² λ_k = k^(−1.5β − 1), 1000 modes, L = 4, centred; richness 1 in (a, b). (a) β = 1.2, "
        "N = 128, η = 0.03, B = 1, 4, 16, 64; (b) β = 1.5, population, η = 0.02, N = 4, 16, 64, 256, ∞; (c) β = "
        "0.5, population, N = 512, η = 0.02, γ₀ = 0.05, 0.7, 2; (d), not in the paper: the last losses of (a) and "
        f"(b) over those of the theory. {_circles} 12 seeds. With a spectrum the theory is an approximation. The "
        "networks lie above it, most where the loss drops: by up to 57 % at B = 1, 31 % at B = 4, 10 % at B = 16 "
        "and 64, 180 % at N = 4, 33 % at N = 16, 11 % at N = 64 and 256 (standard errors are a third of these "
        "numbers and more), 3 % in (c). The slopes are guides: t^(−β) of a lazy network, t^(−2β/(1+β)) of the paper "
        "and t^(−(L+1)β/(1+Lβ)) of balanced layers; at these times, width and number of modes the rich curve lies "
        "between the last two and decides nothing (deep-linear-8 does). The paper prints L = 4 only; of the values "
        "tried, a richness of 3 in (c) reached the edge of stability.",
        0.6,
    ),
    (
        "deep-linear-8",
        "Scaling laws of hard tasks",
        "Gradient flow on the population with λ_k = k^(−1.5), w*_k² λ_k = k^(−1.5β − 1) up to the rank 10¹⁴ (eight "
        "groups a decade from the tenth mode on), N = ∞, centred, richness 3. Circles, at β = 0.55: mean and "
        "standard error of two networks of 256 units a layer on 1000 modes. Right: the local exponents over six "
        "decades, with two predictions: 2β/(1+β), which the paper states for every depth (dashed), and "
        "(L+1)β/(1+Lβ) for balanced layers (dotted); they coincide for L = 1. The exponents tend to the second: at "
        "t = 10⁶ they are within 0.01 of it for L = 2 and within 0.02 for L = 4, still rising. The paper does not "
        "print the parameters; a large richness was chosen to leave the lazy regime early.",
        1.2,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
