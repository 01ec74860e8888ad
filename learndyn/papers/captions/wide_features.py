"""What is told of the figure of a tanh network that learns features."""

from learndyn.papers.captions.wide import REFERENCE, SHARED
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "wide-1": FigureFacts(
        "wide-1",
        "Features of a deep tanh network move as the theory says",
        f"{SHARED} tanh, L = 3, P = 10 images of the digits 3 and 8 (D = 64, of mean 0 and |x|² = D, targets ±1), η = "
        "0.5, N = 2500, γ₀, 100 steps; the paper",
        REFERENCE,
        4.0,
    )
}
"""By the name of the picture."""
