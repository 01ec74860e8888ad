"""What is told of the figure of convolutional networks."""

from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "wide-5": FigureFacts(
        "wide-5",
        "Convolutional networks of different width at the same richness",
        "Three layers of 3×3 convolutions with relu and N channels, averaged over pixels, on 32 images of 8×8 pixels: "
        "stripes across or along with random phases (amplitude √2) in noise of deviation 0.5, and 128 test images. "
        "η = 0.2, 60 steps, three networks each (mean, and a band of one standard deviation), initial functions "
        "subtracted, single precision. The paper trains five layers of 250 and 500 channels on two classes of "
        "CIFAR-10; data, widths, depth, γ₀ and η are chosen here, for a picture that takes minutes. The richness "
        "decides, the width hardly: curves of one colour lie together, the more so the wider.",
        "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution in wide neural networks, "
        "NeurIPS 2022",
        4.0,
    )
}
"""By the name of the picture."""
