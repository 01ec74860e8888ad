"""What is told of figures 1, 2, 3, 6, 7 and 8 of the paper on deep linear networks."""

from learndyn.papers.figure_facts import FigureFacts

REFERENCE = (
    "Bordelon & Pehlevan, Deep linear network training dynamics from random initialization, 2025"
)
_points = "mean and standard error of"
_PICTURES = (
    (
        "deep-linear-1",
        "Width, parameterisation and depth",
        "Population, centred, richness 1, η = 0.01; (a, b) L = 4, ν = 0.25, 1, 4 and ν = ∞, where the NTK "
        "parameterisation is the kernel method (1 − (L + 1)η)^(2t); (c) ν = 1, L = 1, 2, 4, 8. Points: D = 400, "
        f"{_points} 8 seeds; late losses are skewed over the seeds, and few of them set the mean. The paper prints L "
        "= 4 only; η was lowered from 0.02 until all curves were stable.",
        0.6,
    ),
    (
        "deep-linear-2",
        "Learning-rate transfer in μP, and its failure in the NTK parameterisation",
        "Test loss after 12 steps of online SGD, α_B = 1, no label noise, L = 2, centred, richness 4, ν = 0.5, 2, "
        "8. From narrow to wide the best η rises from 0.053 to 0.127 in the NTK parameterisation and falls from "
        f"0.071 to 0.058 in μP. Points: D = 300, {_points} 8 seeds. A line ends where the loss exceeds ten times its "
        "minimum: further on training is unstable and the loss erratic. Just before, networks of this size scatter "
        "and lie far above the limit. The paper does not print the parameters; of several tried, these have a "
        "smooth minimum (on the population it lies at the edge of stability).",
        0.8,
    ),
    (
        "deep-linear-3",
        "Reused data against online SGD",
        "L = 4, centred, richness 1. (a) Full batch, ν = 1, σ = 0.5, η = 0.02: test loss (noise included) and "
        "training loss; (b) the same at fixed times against α: after long training the test loss peaks near α = 1. "
        "(c) Online, no label noise, η = 0.01, ν = 0.5; (d) online, η = 0.015, α_B = 0.1: narrow networks first get "
        f"worse. Points: D = 300, {_points} 8 seeds, with the same targets for all curves, so that deviations go "
        "together. At ν = 0.25 there are 75 units, and the networks lie above the limit; at D = 800 they do not. "
        "The paper prints L = 4 and, in (c), ν = 0.5; the rest was chosen among a few values to show the peak and "
        "the transient.",
        1.6,
    ),
    (
        "deep-linear-6",
        "Power-law data: batch size, width, and easy and hard tasks",
        "λ_k = k^(−1.5), w*_k² λ_k = k^(−1.5β − 1), 1000 modes, L = 4, centred; richness 1 in (a, b). (a) β = 1.2, "
        "N = 128, η = 0.03; (b) β = 1.5, population, η = 0.02; (c) β = 0.5, population, N = 512, η = 0.02. Points: "
        f"{_points} 16 seeds. With a spectrum the theory is an approximation. The networks lie above it, most where "
        "the loss drops: by up to 60 % at B = 1, 40 % at B = 4 and at N = 16, 20 % at B = 16, 10 % at N = 64 and "
        "256 (standard errors are a third of these numbers and more), 2 % in (c). The slopes are guides: t^(−β) of "
        "a lazy network, t^(−2β/(1+β)) of the paper and t^(−(L+1)β/(1+Lβ)) of balanced layers; at these times, "
        "width and number of modes the rich curve lies between the last two and decides nothing. The paper prints L "
        "= 4 only; of the values tried, a richness of 3 in (c) reached the edge of stability, and larger batches in "
        "(a) gave curves too close to tell apart.",
        1.2,
    ),
    (
        "deep-linear-7",
        "Largest stable learning rate",
        f"Population, centred, 30 steps, L = 1, 2. Points: networks with D = 200 inputs, {_points} the edges of 4 "
        "seeds, each bisected to 5 %. Stable means that the loss at the end is finite and "
        "at most the initial one, so that a network that recovers from an unstable phase counts as stable; hence "
        "the kinks in (b). (a) Lazy: both parameterisations coincide and tend to the 2/(L+1) of a kernel method. "
        "(b) Rich: constant in μP; in the NTK parameterisation the slope is ν^(L/(L+1)), not the printed ν^(1−1/L), "
        "which would be constant for L = 1. The paper does not print the parameters; at the richness 0.01, tried "
        "first in (a), wide networks recover from rates beyond 2/(L+1) by leaving the lazy regime.",
        0.4,
    ),
    (
        "deep-linear-8",
        "Scaling laws of hard tasks",
        "Gradient flow on the population with λ_k = k^(−1.5), w*_k² λ_k = k^(−1.5β − 1) up to the rank 10¹⁴ (eight "
        "groups a decade from the tenth mode on), N = ∞, centred, richness 3. Points, at β = 0.55: two networks of "
        "256 units a layer on 1000 modes. Below, the local exponents over six decades, with two predictions: "
        "2β/(1+β), which the paper states for every depth (dashed), and (L+1)β/(1+Lβ) for balanced layers (dotted); "
        "they coincide for L = 1. The exponents tend to the second: at t = 10⁶ they are within 0.01 of it for L = 2 "
        "and within 0.02 for L = 4, still rising. The paper does not print the parameters; a large richness was chosen "
        "to leave the lazy regime early.",
        5.0,
    ),
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
