"""What is told of figures 1, 2, 3 and 7 of the paper on deep linear networks."""

from learndyn.papers.figure_facts import facts_of

REFERENCE = (
    "Bordelon & Pehlevan, Deep linear network training dynamics from random initialization, 2025"
)
_circles = "Circles: mean and standard error of"
_PICTURES = (
    (
        "deep-linear-1",
        "Width, parameterisation and depth",
        "Population, centred, richness 1, η = 0.01; (a, b) L = 4, ν = 0.25, 1, 4 and ν = ∞, where the NTK "
        "parameterisation is the kernel method (1 − (L + 1)η)^(2t); (c) ν = 1, L = 1, 2, 4, 8; (d), not in the "
        f"paper: the tangent kernel after 160 steps over that before, in the networks of (a) and (b). {_circles} "
        "networks with D = 400 inputs and 8 seeds; late losses are skewed over the seeds, and few of them set the "
        "mean. The paper prints L = 4 only; η was lowered from 0.02 until all curves were stable.",
        0.7,
    ),
    (
        "deep-linear-2",
        "Learning-rate transfer in μP, and its failure in the NTK parameterisation",
        "Test loss after 12 steps of online SGD, α_B = 1, no label noise, L = 2, centred, richness 4, ν = 1, 4, 16. "
        "From narrow to wide the best η (star) rises from 0.068 over 0.104 to 0.142 in the NTK parameterisation and "
        f"falls from 0.068 over 0.060 to 0.058 in μP. {_circles} networks with D = 200 inputs and 8 seeds, up to 1.6 "
        "times the best η. A line ends where the loss exceeds 0.1: further on training is unstable and the loss an "
        "erratic function of η. Just before, networks of this size scatter and lie above the limit. The paper does "
        "not print the parameters; of 84 settings tried (L = 2 and 4, richness 1 to 4, α_B = 0.5 and 1, σ = 0 to "
        "0.7, 12 to 30 steps, ν from 0.5 and from 1) this shows the effect best. With label noise the best η falls "
        "with the width in μP too, by up to 3.7 times; for L = 4 without it, it doubles from ν = 0.5 to 8 at "
        "richness 1.",
        0.7,
    ),
    (
        "deep-linear-3",
        "Reused data against online SGD",
        "L = 4, centred, richness 1. (a) Full batch, ν = 1, σ = 0.5, η = 0.02: test loss (noise included) and "
        "training loss; (b) the same at fixed times against α: after long training the test loss peaks near α = 1. "
        "(c) Online, no label noise, η = 0.01, ν = 0.5; (d) online, η = 0.02, α_B = 0.1: narrow networks first get "
        f"worse, from a loss of 1 at the start to 1.9 at ν = 0.25. {_circles} networks with D = 300 inputs, in (d) "
        "800, and 8 seeds, with the same targets for all curves, so that deviations go together. The paper prints L "
        "= 4 and, in (c), ν = 0.5; the rest was chosen among a few values to show the peak and the transient.",
        1.4,
    ),
    (
        "deep-linear-7",
        "Largest stable learning rate",
        f"Population, centred, 30 steps, L = 1, 2. {_circles} the edges of networks with D = 200 inputs and 4 seeds, "
        "each bisected to 5 %. Stable means that the loss at the end is finite and at most the initial one, so that "
        "a network that recovers from an unstable phase counts as stable; hence the kinks in (b). (a) Lazy: the NTK "
        "parameterisation is drawn, and μP is the same; both tend to the 2/(L+1) of a kernel method. (b) Rich: "
        "constant in μP; in the NTK parameterisation the slope is ν^(L/(L+1)) (dotted), not the printed ν^(1−1/L), "
        "which would be constant for L = 1. The paper does not print the parameters; at the richness 0.01, tried "
        "first in (a), wide networks recover from rates beyond 2/(L+1) by leaving the lazy regime.",
        0.3,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
