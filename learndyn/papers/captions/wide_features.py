"""What is told of the figures of a tanh network that learns features."""

from learndyn.papers.captions.wide import REFERENCE, SHARED
from learndyn.papers.figure_facts import facts_of

_setting = (
    f"{SHARED} tanh, L = 3, P = 10 images of handwritten digits, five of each of two classes (3 and 8, from the UCI "
    "repository by way of scikit-learn; D = 64 pixels, each image of mean 0 and |x|² = D, targets ±1), η = 0.1, 100 "
    "steps. The paper has P = 10 images of CIFAR-10, N = 2500 and t = 100 as here, and does not print η."
)
_PICTURES = (
    (
        "wide-1",
        "Features of a deep tanh network move as the theory says",
        f"{_setting} The theory has 4 × 4096 samples, with bands of two standard errors, thinner than the lines. (a) "
        "Losses of 3 networks with their initial functions subtracted. (b) Preactivations at the start on all points: "
        "of the theory, a mean of normal densities with the variances Φ^{ℓ−1}_μμ; circles are a histogram of the 3 "
        "networks. (c, d) γ₀ = 2. (c) The same at the end, 8 × 512 neurons of the theory as steps. (d) 1 − A over all "
        "points and 11 × 11 times, 10 networks for each width: it falls about as 1/N, and is largest in the first "
        "layers for G, as the paper says; but for Φ, too, it is smallest in the last layer, whose kernel is mostly the "
        "part yyᵀ. The paper has A itself, with standard deviations.",
        2.2,
    ),
    (
        "wide-1-kernels",
        "Kernels of a deep tanh network, theory and network",
        f"{_setting} γ₀ = 2; panels d, e, g and h of the paper's figure 1. The theory has 4 × 4096 samples, the "
        "network N = 2500. (a, c) Feature and gradient kernels at the end, one class after the other; (b, d) their "
        "traces over the points at two times. Theory and network have the same colours.",
        0.3,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
