"""What is told of the figure of a tanh network that learns features."""

from learndyn.papers.captions.wide import REFERENCE, SHARED
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "wide-1": FigureFacts(
        "wide-1",
        "Features of a deep tanh network move as the theory says",
        f"{SHARED} tanh, L = 3, P = 10 images of handwritten digits, five of each of two classes (3 and 8, from the "
        "UCI repository by way of scikit-learn; D = 64 pixels, each image of mean 0 and |x|² = D, targets ±1), η = "
        "0.1, 100 steps. The paper has P = 10 images of CIFAR-10, N = 2500 and t = 100 as here, and does not print "
        "η. The theory has 8 × 4096 samples, with bands of two standard errors, thinner than the lines. (a) Loss, "
        "one network of N = 2500 with its initial function subtracted. Single networks differ: at γ₀ = 0.2 this one "
        "ends a quarter above the theory, where the standard deviation over networks is 8 % and the mean of ten "
        "others is right to 3 %. (b) Preactivations at the start on all points: of the theory, a mean of normal "
        "densities with the variances Φ^{ℓ−1}_μμ; points are a histogram of the network. (c)–(i) γ₀ = 2. (c) The "
        "same at the end, 8 × 512 neurons of the theory as steps. (d, g) Kernels at the end, theory and network, "
        "one class after the other; (e, h) their traces over the points at two times. (f, i) 1 − A over all points "
        "and 11 × 11 times, 10 networks for each width: it falls about as 1/N, and is largest in the first layers "
        "for G, as the paper says; but for Φ, too, it is smallest in the last layer, whose kernel is mostly the "
        "part yyᵀ.",
        REFERENCE,
        3.0,
    )
}
"""By the name of the picture."""
