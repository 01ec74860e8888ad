"""What is told of figures 1, 2, 3 and 7 of the paper on deep linear networks."""

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
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
