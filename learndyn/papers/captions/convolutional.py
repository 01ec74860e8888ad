"""What is told of the figure of convolutional networks."""

from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "wide-5": FigureFacts(
        "wide-5",
        "Convolutional networks of different width at the same richness, and their limit",
        "Two layers of convolutions over three of six positions on a circle, with softplus and N channels, "
        "averaged over positions, on six inputs: waves of one or two periods with random phases (amplitude √2) in "
        "noise of deviation 0.3, and six test inputs. η = 0.25, 60 steps. Lines: the limit of infinitely many "
        "channels, with a band of two standard errors (four batches of 4096 samples). Markers: six networks each, "
        "initial functions subtracted; means and standard errors. The paper trains five layers of two- "
        "dimensional convolutions with 250 and 500 channels on two classes of CIFAR-10, without a limit; data, "
        "widths, depth, γ₀ and η are chosen here, for a picture that takes minutes. The wider the networks, the "
        "closer they follow the limit of their richness.",
        "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution in wide neural networks, "
        "NeurIPS 2022",
        2.7,
    )
}
"""By the name of the picture."""
